"""Sparse axes, buffers and iterations as text."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import Var
from ..tir.sparse import (
    AttachedAxis,
    Axis,
    FusedAxis,
    IntersectionAxis,
    SparseBuffer,
    SparseIteration,
    UnionAxis,
)
from .show_expr import ExprPrinter, show_string

if TYPE_CHECKING:
    from collections.abc import Sequence


def axis_text(axis: Axis, expr: ExprPrinter) -> str:
    """An axis where it is used: its name, or what it is derived from."""
    match axis:
        case AttachedAxis(base=Axis() as base, parent=Axis() as parent):
            return f"T.attach({axis_text(base, expr)}, {axis_text(parent, expr)})"
        case UnionAxis():
            return f"T.union({_names(axis.parts, expr)})"
        case IntersectionAxis():
            return f"T.intersect({_names(axis.parts, expr)})"
        case _:
            return expr.names.get(axis) or axis.name


def _names(axes: Sequence[Axis], expr: ExprPrinter) -> str:
    return ", ".join([axis_text(axis, expr) for axis in axes])


def declaration_text(axis: Axis, name: str, expr: ExprPrinter) -> str:
    """`T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")`."""
    kind = f'"{axis.idtype}"'
    length = expr(axis.length)
    if axis.parent is None:
        return f"T.dense_fixed({length}, {kind})"
    parent = axis_text(axis.parent, expr)
    order = "" if axis.sorted else ", sorted=False"
    indptr = "" if axis.indptr is None else expr(axis.indptr)
    indices = "" if axis.indices is None else expr(axis.indices)
    if not axis.is_variable:
        width = "0" if axis.nnz_cols is None else expr(axis.nnz_cols)
        return f"T.sparse_fixed({parent}, ({length}, {width}), {indices}, {kind}{order})"
    if axis.is_sparse:
        nnz = expr(axis.nnz)
        data = f"({indptr}, {indices})"
        return f"T.sparse_variable({parent}, ({length}, {nnz}), {data}, {kind}{order})"
    if owns_nnz(axis) and axis.nnz not in expr.names:
        expr.names.alias(axis.nnz, f"{name}.nnz")
        return f"T.dense_variable({parent}, {length}, {indptr}, {kind})"
    return f"T.dense_variable({parent}, ({length}, {expr(axis.nnz)}), {indptr}, {kind})"


def owns_nnz(axis: Axis) -> bool:
    """Whether the number of positions may be a variable that the axis itself brings about."""
    ragged = axis.is_variable and not axis.is_sparse
    return ragged and isinstance(axis.nnz, Var) and axis.nnz.name == f"{axis.name}_nnz"


def buffer_text(buffer: SparseBuffer, param: str | None, expr: ExprPrinter) -> str:
    """The declaration of a sparse buffer, of a parameter or with its own memory."""
    parts = [] if param is None else [param]
    parts += [f"[{_names(buffer.axes, expr)}]", f'"{buffer.dtype}"']
    if param is None and buffer.scope != "global":
        parts.append(show_string(buffer.scope))
    if buffer.extra_storage is not None:
        parts.append(f"extra_storage={expr(buffer.extra_storage)}")
    if buffer.default_value is not None:
        parts.append(f"default_value={expr(buffer.default_value)}")
    function = "alloc_sparse_buffer" if param is None else "match_sparse_buffer"
    return f"T.{function}({', '.join(parts)})"


def iteration_text(stmt: SparseIteration, expr: ExprPrinter) -> str:
    """The head of an iteration; its variables get names."""
    axes: list[str] = []
    for part in stmt.sp_iter_vars:
        axis = part.axis
        if not isinstance(axis, FusedAxis):
            axes.append(axis_text(axis, expr))
        elif axis.index == 0:
            axes.append(f"T.fuse({_names(axis.group, expr)})")
    kinds = "".join("R" if part.is_reduction else "S" for part in stmt.sp_iter_vars)
    names = ", ".join([expr.names.define(p.var, p.var.name) for p in stmt.sp_iter_vars])
    listed = ", ".join(axes)
    return f'with T.sp_iter([{listed}], "{kinds}", {show_string(stmt.name)}) as [{names}]:'
