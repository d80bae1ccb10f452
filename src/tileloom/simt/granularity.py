"""The pieces in which memory is accessed: who touched what is kept for no smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from ..base import DType, dtype
from ..expr import Call, Expr, IntImm, Ramp, Var, free_vars, is_int, modular_set
from ..lower.analysis.pointers import ACCESS_PTR, CP_ASYNC, LDMATRIX, bare_pointers
from ..tir import BufferLoad, BufferStore, Stmt, pre_order, stmt_exprs

_ROW = 16  # bytes of a row that `ldmatrix` reads
_LARGEST = 16
#: The arguments that point to what engines move or read in pieces of 16 bytes.
_PIECES = {
    "tir.ptx_cp_async_bulk": (0, 2),
    "tir.ptx_cp_async_bulk_store": (0, 2),
    "tir.ptx_cp_async_bulk_tensor": (0,),
    "tir.ptx_cp_async_bulk_tensor_store": (1,),
    "tir.ptx_wgmma_descriptor": (0,),
}


def granularity(body: Stmt) -> dict[Var, int]:
    """For each pointer the bytes of which all accesses through it are multiples, and aligned.

    >>> from tileloom.expr import const
    >>> from tileloom.tir import make_buffer, seq
    >>> A, i = make_buffer((64,), "float16", "A"), Var("i")
    >>> load = BufferLoad(A, (Ramp(i * 8, const(1), 8),))
    >>> granularity(BufferStore(A, load, (Ramp(i * 4, const(1), 4),)))[A.data]
    8
    """
    found: dict[Var, int] = {}
    for stmt in pre_order(body):
        for data, bytes_ in _of_stmt(stmt):
            found[data] = gcd(found.get(data, _LARGEST), bytes_)
    return found


def _of_stmt(stmt: Stmt) -> Iterator[tuple[Var, int]]:
    if isinstance(stmt, BufferStore):
        whole = stmt.predicate is None
        yield stmt.buffer.data, _width(stmt.buffer.dtype, stmt.indices, whole)
    for expr in stmt_exprs(stmt):
        yield from _of_expr(expr)


def _of_expr(expr: Expr) -> Iterator[tuple[Var, int]]:
    if isinstance(expr, BufferLoad):
        whole = expr.predicate is None
        yield expr.buffer.data, _width(expr.buffer.dtype, expr.indices, whole)
    if isinstance(expr, Call) and expr.op == CP_ASYNC and isinstance(expr.args[4], IntImm):
        for data, index in ((0, 1), (2, 3)):
            yield from _pointed(expr.args[data], expr.args[index], expr.args[4].value)
        for arg in (expr.args[1], expr.args[3], *expr.args[5:]):
            yield from _of_expr(arg)
        return
    if isinstance(expr, Call) and expr.op == LDMATRIX:
        yield from _pointed(expr.args[5], expr.args[6], _ROW)
        yield from _pointed(expr.args[3], expr.args[4], 1)
        return
    if isinstance(expr, Call) and expr.op in _PIECES:
        for k, arg in enumerate(expr.args):
            if k in _PIECES[expr.op]:
                yield from _whole(arg)
            else:
                yield from _of_expr(arg)
        return
    if isinstance(expr, Call) and any(v.dtype.is_handle for v in free_vars(expr)):
        for var in (*bare_pointers(expr), *(a for a in expr.args if isinstance(a, Var))):
            if var.dtype.is_handle:
                yield var, _size(var.pointee[0]) if var.pointee else 1
        if expr.op == ACCESS_PTR and isinstance(expr.args[1], Var):
            yield expr.args[1], _size(expr.args[0].dtype)
    for child in expr.children:
        yield from _of_expr(child)


def _whole(pointer: Expr) -> Iterator[tuple[Var, int]]:
    """What an engine takes in whole pieces."""
    if isinstance(pointer, Call) and pointer.op == ACCESS_PTR:
        pointer = pointer.args[1]
    elif isinstance(pointer, Call) and isinstance(pointer.args[0], BufferLoad):
        pointer = pointer.args[0].buffer.data
    if isinstance(pointer, Var):
        yield pointer, _LARGEST


def _size(kind: DType) -> int:
    return int(kind.element.numpy.itemsize)


def _width(kind: DType, indices: tuple[Expr, ...], whole: bool) -> int:
    """The bytes that an access has to be a multiple of."""
    size = _size(kind) * kind.lanes
    index = indices[-1]
    if not whole or not isinstance(index, Ramp) or not is_int(index.stride, 1):
        return size
    return gcd(_known(index.base, size), index.lanes * size)


def _known(index: Expr, size: int) -> int:
    """The bytes that the place of an element is a multiple of."""
    return gcd(*modular_set(index)) * size or _LARGEST


def _pointed(pointer: Expr, index: Expr, bytes_: int) -> Iterator[tuple[Var, int]]:
    if isinstance(pointer, Var) and pointer.pointee is not None:
        size = _size(pointer.pointee[0])
        yield pointer, max(size, gcd(_known(index, size), bytes_))
    elif isinstance(pointer, Call) and pointer.op == ACCESS_PTR:
        kind, data, start = pointer.args[:3]
        if isinstance(data, Var):
            size = _size(dtype(kind.dtype))
            yield data, gcd(_known(start, size), _known(index, size), max(size, bytes_))
    else:
        yield from _of_expr(pointer)
