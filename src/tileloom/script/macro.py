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

    def bind(self, call: MacroCall) -> dict[str, Any]:
        """The arguments by name."""
        parameters = [arg.arg for arg in (*self.node.args.posonlyargs, *self.node.args.args)]
        if len(call.args) > len(parameters):
            raise TypeError(f"{self.node.name} takes {len(parameters)} arguments")
        names = {**dict(zip(parameters, call.args, strict=False)), **call.keywords}
        missing = [name for name in parameters if name not in names]
        unknown = [name for name in names if name not in parameters]
        if missing or unknown:
            what = f"lacks {missing[0]!r}" if missing else f"has no parameter {unknown[0]!r}"
            raise TypeError(f"the call of {self.node.name} {what}")
        return names


class MacroCall(Record):
    """A call of a macro, to be inlined."""

    macro: Macro
    args: tuple[Any, ...]
    keywords: dict[str, Any]
