"""Reading at computed places.

PyTorch refuses an index out of range; compiled code reads the nearest element instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import broadcast_shapes
from ..call import Call
from ..registry import aten


@aten("gather.default")
def gather(call: Call, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i, j] = x[i, index[i, j]] for dimension 1."""
    if not index.type.size:
        return ops.zeros(call.shape, call.dtype)
    if x.ndim == 0 or index.ndim == 0:
        flat = ops.reshape(x, [x.type.size])
        return ops.reshape(ops.gather(flat, ops.reshape(index, [-1]), 0), call.shape)
    return ops.gather_elements(x, index, dim)


@aten("index_select.default")
def index_select(call: Call, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices at the indices along a dimension."""
    if x.ndim == 0:
        return ops.reshape(x, call.shape)
    return ops.gather(x, ops.reshape(index, [-1]) if index.type.size else index, dim)


@aten("embedding.default")
def embedding(call: Call, weight: Tensor, index: Tensor, *about: Any) -> Tensor:
    """The rows of the weight at the indices."""
    return ops.gather(weight, index, 0)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[indices], of integer tensors that stand next to each other, or of one."""
    given = [(k, t) for k, t in enumerate(indices) if t is not None]
    if any(t.dtype.is_bool or t.dtype == "uint8" for _, t in given):
        raise UnsupportedError("indexing by masks")
    axes = [k for k, _ in given]
    if len(given) == 1:
        return ops.gather(x, given[0][1], axes[0])
    shape = broadcast_shapes(*(t.shape for _, t in given))
    tuples = ops.stack(
        [ops.broadcast_to(ops.cast(t, "int64"), shape) for _, t in given], len(shape)
    )
    rest = [k for k in range(x.ndim) if k not in axes]
    picked = ops.gather_nd(ops.transpose(x, [*axes, *rest]), tuples)
    if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] == 0:
        return picked  # the index's dimensions come first
    order = [*range(len(shape), len(shape) + axes[0]), *range(len(shape))]
    return ops.transpose(picked, [*order, *range(len(order), picked.ndim)])
