"""Readable and unique names for what a program binds, freed where their scope ends."""

from __future__ import annotations

import keyword

from ..base.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Names that the text itself relies on; `I` is that of modules, outside of functions.
_RESERVED = frozenset({"T", "I", "range", "float", *keyword.kwlist})


def _identifier(text: str) -> str:
    base = "".join([letter if f"_{letter}".isidentifier() else "_" for letter in text])
    return base if base.isidentifier() else f"v{base}"


class Names:
    """The names in scope. Objects are told apart by identity; the first come keeps its name."""

    def __init__(self) -> None:
        self._text: dict[int, str] = {}
        self._used: set[str] = set()
        self._scopes: list[list[tuple[Any, str | None]]] = [[]]

    def push(self) -> None:
        """Open a scope."""
        self._scopes.append([])

    def pop(self) -> None:
        """Close the innermost scope: its names are free again."""
        for thing, name in self._scopes.pop():
            self._text.pop(id(thing), None)
            if name is not None:
                self._used.discard(name)

    def define(self, thing: Any, wanted: str, free: str = "") -> str:
        """A name for `thing`, as near to `wanted` as the scope allows; `free` may be taken."""
        base = wanted if wanted.isidentifier() else _identifier(wanted)
        name, number = base, 0
        while name in self._used or (name in _RESERVED and name != free):
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        # The scope keeps the object alive, so that its id is not given to another one.
        self._scopes[-1].append((thing, name))
        self._text[id(thing)] = name
        return name

    def alias(self, thing: Any, text: str) -> None:
        """Let `thing` be written as `text`, such as `A.data`, in the innermost scope."""
        self._scopes[-1].append((thing, None))
        self._text[id(thing)] = text

    def get(self, thing: Any) -> str | None:
        """How `thing` is written, or None if nothing in scope defines it."""
        return self._text.get(id(thing))

    def __contains__(self, thing: Any) -> bool:
        return id(thing) in self._text
