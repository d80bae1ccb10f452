"""Macros: pieces of script that a script inlines where it calls them."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..base.record import Record
from .source import Source

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping
    from typing import Any


class Macro(Record):
    """A function of a script's statements, made by `T.macro`.

    A hygienic one sees the names around its definition, else those where it is called.
    """

    node: ast.FunctionDef
    source: Source
    captured: Callable[[], Mapping[str, Any]]  # by then more may be known
    hygienic: bool = True

    def __call__(self, *args: Any, **keywords: Any) -> MacroCall:
        return MacroCall(self, args, keywords)

    def bind(self, call: MacroCall, value: Callable[[ast.expr], Any]) -> dict[str, Any]:
        """The arguments by name; `value` evaluates defaults, where the macro stands."""
        node = self.node.args
        plain = [arg.arg for arg in (*node.posonlyargs, *node.args)]
        parameters = [*plain, *(arg.arg for arg in node.kwonlyargs)]
        if len(call.args) > len(plain) and node.vararg is None:
            raise TypeError(f"{self.node.name} takes {len(plain)} arguments")
        names = dict(zip(plain, call.args, strict=False))
        twice = next((name for name in call.keywords if name in names), None)
        unknown = {name: v for name, v in call.keywords.items() if name not in parameters}
        if twice is not None:
            raise TypeError(f"the call of {self.node.name} gives {twice!r} twice")
        if unknown and node.kwarg is None:
            raise TypeError(
                f"the call of {self.node.name} has no parameter {next(iter(unknown))!r}"
            )
        names.update({name: v for name, v in call.keywords.items() if name in parameters})
        defaults = dict(zip(reversed(plain), reversed(node.defaults), strict=False))
        defaults.update(
            (arg.arg, default)
            for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)
            if default is not None
        )
        for name in parameters:
            if name not in names and name not in defaults:
                raise TypeError(f"the call of {self.node.name} lacks {name!r}")
            if name not in names:
                names[name] = value(defaults[name])
        if node.vararg is not None:
            names[node.vararg.arg] = call.args[len(plain) :]
        if node.kwarg is not None:
            names[node.kwarg.arg] = unknown
        return names


class MacroCall(Record):
    """A call of a macro, to be inlined."""

    macro: Macro
    args: tuple[Any, ...]
    keywords: dict[str, Any]
