"""Blocks as text: the axes, what is read and written, the buffers, `T.init`, and the body."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import OPAQUE, ORDERED, REDUCE, SPATIAL, Add, Expr, IntImm, IterVar, Range, Var, binary
from ..tir import Block, BlockRealize, For, PrimFunc, SparseIteration, pre_order
from .show_expr import ExprPrinter

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = {SPATIAL: "spatial", REDUCE: "reduce", ORDERED: "scan", OPAQUE: "opaque"}
_LETTERS = {SPATIAL: "S", REDUCE: "R"}


def implicit_root(func: PrimFunc) -> Block | None:
    """The root block, if it says nothing that reading the text would not add again."""
    match func.body:
        case BlockRealize(iter_values=(), predicate=IntImm(_, 1), block=root):
            pass
        case _:
            return None
    if root.iter_vars or root.reads or root.writes or root.init is not None:
        return None
    if root.annotations or root.match_buffers or root.name_hint != "root":
        return None
    if root.alloc_buffers:
        return root
    if isinstance(root.body, BlockRealize):
        return root if root.body.block.iter_vars else None
    nested = any(isinstance(node, BlockRealize | SparseIteration) for node in pre_order(root.body))
    return root if nested else None


def domain(dom: Range, expr: ExprPrinter) -> str:
    """The extent where the minimum is zero, else `(min, end)`."""
    if isinstance(dom.min, IntImm) and dom.min.value == 0:
        return expr(dom.extent)
    return f"({expr(dom.min)}, {expr(binary(Add, dom.min, dom.extent))})"


def axis_lines(
    realize: BlockRealize, loops: dict[Var, For], expr: ExprPrinter, sugar: bool
) -> list[str]:
    """The definitions of the iteration variables, with `T.axis.remap` for runs of plain ones."""
    lines: list[str] = []
    run: list[tuple[IterVar, Expr]] = []
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if sugar and _is_plain(axis, value, loops):
            run.append((axis, value))
            continue
        _flush(run, expr, lines)
        lines.append(_axis_line(axis, value, expr))
    _flush(run, expr, lines)
    return lines


def _is_plain(axis: IterVar, value: Expr, loops: dict[Var, For]) -> bool:
    if axis.iter_type not in _LETTERS or not isinstance(value, Var) or value not in loops:
        return False
    loop, dom = loops[value], axis.domain
    return loop.min is dom.min and loop.extent is dom.extent


def _flush(run: list[tuple[IterVar, Expr]], expr: ExprPrinter, lines: list[str]) -> None:
    if len(run) == 1:
        lines.append(_axis_line(*run[0], expr))
    elif run:
        kinds = "".join(_LETTERS[axis.iter_type] for axis, _ in run)
        values = expr.list([value for _, value in run])
        names = ", ".join([expr.names.define(axis.var, axis.var.name) for axis, _ in run])
        lines.append(f'{names} = T.axis.remap("{kinds}", [{values}])')
    run.clear()


def _axis_line(axis: IterVar, value: Expr | None, expr: ExprPrinter) -> str:
    bounds = domain(axis.domain, expr)
    text = bounds if value is None else f"{bounds}, {expr(value)}"
    name = expr.names.define(axis.var, axis.var.name)
    return f"{name} = T.axis.{_KINDS.get(axis.iter_type, 'spatial')}({text})"


def unbound_axis_lines(axes: Sequence[IterVar], expr: ExprPrinter) -> list[str]:
    """The axes of a block that is printed on its own, without values."""
    return [_axis_line(axis, None, expr) for axis in axes]
