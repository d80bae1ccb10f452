"""The few native helpers of the runtime, by name.

Their code is made by the code generator, which this room does not know: the driver connects the
two by giving a function that returns a helper's machine code, loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ..base.errors import InternalError


class Loaded(Protocol):
    """Machine code in memory."""

    def address(self, name: str) -> int:
        """The address of a function."""


Loader = Callable[[str, Mapping[str, int]], Loaded]

_loaders: list[Loader] = []
# Threads sleep in this code and Python holds pointers to it: it stays to the end of the process.
_immortal: list[Loaded] = []


def connect(loader: Loader) -> None:
    """Say where native helpers come from.

    Args:
        loader: given a helper's name ("parallel", "entry") and the addresses of the symbols it
            calls, the helper's code, loaded. Called at most once for each name.
    """
    _loaders[:] = [loader]


def is_connected() -> bool:
    """Whether native helpers can be had; without them, everything works on slower ways."""
    return bool(_loaders)


def load(name: str, symbols: Mapping[str, int]) -> Loaded:
    """A native helper's code."""
    if not _loaders:
        raise InternalError(f"native helper {name!r} asked for before the driver was loaded")
    code = _loaders[0](name, symbols)
    _immortal.append(code)
    return code
