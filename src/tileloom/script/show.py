"""Tensor IR as TVMScript text, in the spelling of TVM v0.20."""

from __future__ import annotations

from ..base import UserError
from ..base.late import TYPE_CHECKING
from ..expr import Expr, IterVar, Range
from ..tir import Buffer, BufferRegion, IRModule, PrimFunc, Stmt
from .show_expr import ExprPrinter
from .show_func import FunctionPrinter

if TYPE_CHECKING:
    from typing import Any

HEADER_FUNC = "# from tileloom.script import tir as T\n\n"
HEADER_MODULE = "# from tileloom.script import ir as I, tir as T\n\n"


def show(node: Any, *, syntax_sugar: bool = True) -> str:
    """The text of a module, function, statement, expression, buffer or region.

    What is printed for a module or a function parses back to an equal one.

    Args:
        node: what to print.
        syntax_sugar: write `T.grid` and `T.axis.remap` where they fit.

    >>> from tileloom.expr import Var
    >>> show((Var("x") + 1) * 2)
    '(x + 1) * 2'
    """
    match node:
        case IRModule():
            return HEADER_MODULE + _module(node, syntax_sugar)
        case PrimFunc():
            printer = FunctionPrinter(syntax_sugar)
            printer.function(node, node.name)
            return HEADER_FUNC + "\n".join(printer.lines)
        case Stmt():
            printer = FunctionPrinter(syntax_sugar)
            printer.stmt(node, True)
            return "\n".join(printer.lines)
        case Expr():
            return ExprPrinter()(node)
        case BufferRegion():
            return ExprPrinter().region(node)
        case Buffer() | IterVar() | Range():
            return repr(node)
        case _:
            raise UserError(f"cannot print {node!r} ({type(node).__name__}) as a script")


def _module(module: IRModule, sugar: bool) -> str:
    lines = ["@I.ir_module", "class Module:"]
    printer = FunctionPrinter(sugar, indent=1)
    if module.attrs:
        printer.line(f"I.module_attrs({printer.expr.value(module.attrs)})")
    for name, func in module.functions.items():
        if printer.lines:
            printer.lines.append("")
        printer.function(func, name)
    if not printer.lines:
        printer.line("pass")
    return "\n".join([*lines, *printer.lines])
