"""Compressed sparse rows: `row_idx` [rows + 1] says where rows begin, `col_idx` [entries]."""

from __future__ import annotations

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler


def rows_of(starts: Tensor, entries: int) -> Tensor:
    """The row of each entry: how many rows begin at it or before, less one."""
    inner = ops.strided_slice(starts, [1], [starts.shape[0] - 1])
    ones = ops.ones(inner.shape, "int32")
    # A row may begin past the last entry: it is empty.
    counts = ops.zeros((entries + 1,), "int32")
    begun = ops.scatter_nd(counts, ops.expand_dims(inner, 1), ones, "add")
    return ops.strided_slice(ops.cumsum(begun, 0), [0], [entries])


def _places(call: Call, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The row of each entry, and (row, column) of each."""
    columns = ops.cast(columns, "int32")
    rows = rows_of(ops.cast(call.tensor(0), "int32"), columns.type.size)
    return rows, ops.stack([rows, columns], 1)


def _dense_shape(call: Call) -> list[int]:
    shape = call.ints("dense_shape")
    if len(shape) < 2:
        raise UserError(f"dense_shape {shape} has no rows and columns")
    return shape


@handler("CSRGather")
def csr_gather(call: Call) -> Tensor:
    """The elements of a dense tensor at the entries."""
    return ops.gather_nd(call.tensor(2), _places(call, call.tensor(1))[1])


@handler("CSRMul", "CSRDiv")
def csr_scale(call: Call) -> Tensor:
    """Entries times (through) the elements of a dense tensor that is broadcast to the shape."""
    values, dense = call.tensor(2), call.tensor(3)
    shape = _dense_shape(call)
    at = _places(call, call.tensor(1))[1]
    other = ops.gather_nd(ops.broadcast_to(dense, shape), at)
    return ops.mul(values, other) if call.op == "CSRMul" else ops.div(values, other)


@handler("CSRReduceSum")
def csr_reduce_sum(call: Call) -> Tensor:
    shape, values = _dense_shape(call), call.tensor(2)
    if call.integer("axis") not in (1, 1 - len(shape)):
        call.bad("axis")
    rows = _places(call, call.tensor(1))[0]
    empty = ops.zeros((shape[0], *values.shape[1:]), values.dtype)
    return ops.scatter_nd(empty, ops.expand_dims(rows, 1), values, "add")


@handler("CSRMV", "CSRMM")
def csr_product(call: Call) -> Tensor:
    """A sparse matrix times a dense one."""
    columns, values, dense = (call.tensor(k) for k in (1, 2, 3))
    shape = _dense_shape(call)
    rows = _places(call, columns)[0]
    terms = ops.mul(ops.expand_dims(values, 1), ops.gather(dense, columns))
    empty = ops.zeros((shape[0], *dense.shape[1:]), values.dtype)
    return ops.scatter_nd(empty, ops.expand_dims(rows, 1), terms, "add")
