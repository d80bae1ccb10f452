"""Elements at computed places. Reads out of range give 0, writes out of range are dropped."""

from __future__ import annotations

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import Operand
from ..call import Call, handler


@handler("OneHot")
def one_hot(call: Call) -> Tensor:
    """Inputs: indices, the value on, the value off."""
    indices = ops.cast(call.tensor(0), "int32")
    depth = call.integer("depth")
    axis = call.integer("axis", -1)
    kind = call.output.dtype
    rank = indices.ndim + 1
    if not -rank <= axis < rank:
        call.bad("axis")
    shape = [1] * rank
    shape[axis] = depth
    hit = ops.equal(ops.expand_dims(indices, axis % rank), ops.iota(shape, axis % rank, "int32"))
    on, off = (_scalar(ops.cast(call.tensor(k), kind)) for k in (1, 2))
    return ops.where(hit, on, off)


def _scalar(x: Tensor) -> Tensor:
    if x.type.size != 1:
        raise UserError(f"{x.type} must be one number")
    return ops.reshape(x, ())


@handler("Gather")
def gather(call: Call) -> Tensor:
    data, indices = call.tensor(0), call.tensor(1)
    axis = call.integer("axis", 0) % max(data.ndim, 1)
    inside = _inside(indices, data.shape[axis])
    shape = (*(1,) * axis, *indices.shape, *(1,) * (data.ndim - axis - 1))
    return _kept(ops.gather(data, indices, axis), ops.reshape(inside, shape))


@handler("GatherNd")
def gather_nd(call: Call) -> Tensor:
    data, indices = call.tensor(0), call.tensor(1)
    depth = _depth(data, indices)
    inside = _all_inside(data, indices)
    shape = (*indices.shape[:-1], *(1,) * (data.ndim - depth))
    return _kept(ops.gather_nd(data, indices), ops.reshape(inside, shape))


@handler("TensorScatterAdd")
def tensor_scatter_add(call: Call) -> Tensor:
    data, indices, updates = (call.tensor(k) for k in range(3))
    if indices.ndim < 2:
        indices = ops.reshape(indices, (indices.type.size, 1))
    inside = _all_inside(data, indices)
    shape = (*indices.shape[:-1], *(1,) * (updates.ndim - indices.ndim + 1))
    return ops.scatter_nd(data, indices, _kept(updates, ops.reshape(inside, shape)), "add")


@handler("UnsortedSegmentSum")
def unsorted_segment_sum(call: Call) -> Tensor:
    data, ids = call.tensor(0), call.tensor(1)
    count = call.integer("num_segments", call.output.shape[0] if call.output.shape else None)
    inside = ops.reshape(_inside(ids, count), (*ids.shape, *(1,) * (data.ndim - ids.ndim)))
    empty = ops.zeros((count, *data.shape[ids.ndim :]), data.dtype)
    return ops.scatter_nd(empty, ops.expand_dims(ids, ids.ndim), _kept(data, inside), "add")


def _inside(indices: Tensor, extent: Operand) -> Tensor:
    return ops.logical_and(ops.greater_equal(indices, 0), ops.less(indices, extent))


def _depth(data: Tensor, indices: Tensor) -> int:
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= data.ndim:
        raise UserError(f"indices {indices.type} do not fit data {data.type}")
    return depth


def _all_inside(data: Tensor, indices: Tensor) -> Tensor:
    """Whether all parts of an index are in range."""
    depth = _depth(data, indices)
    limits = ops.constant(list(data.shape[:depth]), indices.dtype)
    return ops.all(_inside(indices, limits), indices.ndim - 1)


def _kept(x: Tensor, condition: Tensor) -> Tensor:
    return ops.where(condition, x, ops.zeros((), x.dtype))
