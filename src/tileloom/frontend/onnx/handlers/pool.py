"""Pooling, and its inverse."""

from __future__ import annotations

from ....base.errors import ShapeError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ....graph.symbols import larger
from ..call import Call
from ..registry import handler
from .conv import windows


@handler("MaxPool")
def max_pool(call: Call) -> Tensor | tuple[Tensor, ...]:
    x, kernel = call.tensor(0), call.ints("kernel_shape")
    strides, pads, dilations = windows(call, x, kernel)
    ceil_mode = call.flag("ceil_mode")
    if not call.wants(1):
        return ops.max_pool(x, kernel, strides, pads, dilations, ceil_mode)
    values, indices = ops.max_pool_with_indices(x, kernel, strides, pads, dilations, ceil_mode)
    if call.flag("storage_order"):
        indices = _column_major(indices, x.shape[2:])
    return values, indices


def _column_major(indices: Tensor, extents: tuple[int, ...]) -> Tensor:
    """Flat row-major places turned into those of column-major storage, image by image."""
    size = product(extents)
    image = ops.mul(ops.floor_divide(indices, larger(1, size)), size)
    rest = ops.sub(indices, image)
    result, stride, below = image, 1, size
    for extent in extents:
        below //= larger(1, extent)
        position = ops.mod(ops.floor_divide(rest, larger(1, below)), extent)
        result = ops.add(result, ops.mul(position, stride))
        stride *= extent
    return result


@handler("AveragePool")
def average_pool(call: Call) -> Tensor:
    x, kernel = call.tensor(0), call.ints("kernel_shape")
    strides, pads, dilations = windows(call, x, kernel)
    return ops.avg_pool(
        x, kernel, strides, pads, dilations, call.flag("ceil_mode"),
        call.flag("count_include_pad"),
    )  # fmt: skip


@handler("LpPool")
def lp_pool(call: Call) -> Tensor:
    x, kernel = call.tensor(0), call.ints("kernel_shape")
    strides, pads, dilations = windows(call, x, kernel)
    p = float(call.integer("p", 2))
    return ops.lp_pool(x, kernel, strides, pads, dilations, call.flag("ceil_mode"), p)


@handler("MaxUnpool")
def max_unpool(call: Call) -> Tensor:
    x, indices = call.tensor(0), call.tensor(1)
    kernel = call.ints("kernel_shape")
    rank = len(kernel)
    strides, pads = call.ints("strides", [1] * rank), call.ints("pads", [0] * (2 * rank))
    if (
        x.ndim != rank + 2
        or x.shape != indices.shape
        or len(strides) != rank
        or len(pads) != 2 * rank
    ):
        raise ShapeError(f"a kernel of {kernel} does not fit {x.type} and {indices.type}")
    sizes = [
        (n - 1) * s - pads[k] - pads[k + rank] + w
        for k, (n, s, w) in enumerate(zip(x.shape[2:], strides, kernel))
    ]
    natural = [*x.shape[:2], *sizes]
    shape = call.extents(2) if call.has(2) else natural
    if len(shape) != x.ndim or any(extent < 0 for extent in shape):
        raise ShapeError(f"output shape {shape} does not fit {x.type}")
    # The indices count places in the unpadded result.
    flat = ops.zeros((product(natural),), x.dtype)
    count = (x.type.size,)
    result = ops.scatter_elements(flat, ops.reshape(indices, count), ops.reshape(x, count), 0)
    if list(shape) == natural:
        return ops.reshape(result, shape)
    base = ops.reshape(result, natural)
    return ops.pad(base, [(0, want - have) for want, have in zip(shape, natural)], "constant", 0)
