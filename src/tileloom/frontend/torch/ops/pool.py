"""Pooling over windows of the last dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ..call import Call, as_tensor, wide
from ..registry import aten
from ..sizes import need_numbers

Amounts = Sequence[int]


def spread(values: Amounts | int, rank: int) -> list[int]:
    """One value for each dimension."""
    given = [values] if isinstance(values, int) else list(values)
    return given * rank if len(given) == 1 else given


def check_images(x: Tensor, rank: int) -> None:
    """Windows over images of any size take too long to compile."""
    need_numbers(x.shape[-rank:], "pooling is for images of one size")


def batched(x: Tensor, rank: int) -> Tensor:
    """With a batch dimension, which PyTorch lets one leave out."""
    return x if x.ndim == rank + 2 else ops.expand_dims(x, 0)


def _max_pool(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def pool(
        call: Call, x: Tensor, kernel: Amounts, stride: Amounts = (), padding: Amounts = (0,),
        dilation: Amounts = (1,), ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        check_images(x, rank)
        window = spread(kernel, rank)
        pads = spread(padding, rank)
        source = batched(x, rank)
        about = (
            window, spread(stride or kernel, rank), [*pads, *pads], spread(dilation, rank),
            ceil_mode,
        )  # fmt: skip
        # Apart, as places cost much more than values, and only gradients want them.
        values = ops.max_pool(source, *about)
        _, places = ops.max_pool_with_indices(source, *about)
        # Here places count from the beginning of each channel.
        area = product(source.shape[2:])
        places = ops.mod(places, area) if area else places
        return ops.reshape(values, call.shape), ops.reshape(places, call.shape)

    return pool


aten("max_pool2d_with_indices.default")(_max_pool(2))
aten("max_pool3d_with_indices.default")(_max_pool(3))


def _avg_pool(rank: int) -> Callable[..., Tensor]:
    def pool(
        call: Call, x: Tensor, kernel: Amounts, stride: Amounts = (), padding: Amounts = (0,),
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        check_images(x, rank)
        window, pads = spread(kernel, rank), spread(padding, rank)
        strides, around = spread(stride or kernel, rank), [*pads, *pads]
        source = batched(as_tensor(x, wide(x.dtype)), rank)
        if divisor_override is None:
            result = ops.avg_pool(
                source, window, strides, around, None, ceil_mode, count_include_pad
            )
        else:
            result = ops.div(
                ops.sum_pool(source, window, strides, around, None, ceil_mode),
                float(divisor_override),
            )
        return call.cast(ops.reshape(result, call.shape))

    return pool


aten("avg_pool2d.default")(_avg_pool(2))
aten("avg_pool3d.default")(_avg_pool(3))


def _adaptive_avg_pool(rank: int) -> Callable[..., Tensor]:
    def pool(call: Call, x: Tensor, sizes: Sequence[int]) -> Tensor:
        if not product(call.shape):
            return ops.zeros(call.shape, call.dtype)
        check_images(x, rank)
        source = batched(as_tensor(x, wide(x.dtype)), rank)
        for axis, size in enumerate(call.shape[-rank:], 2):
            source = _average(source, axis, size)
        return call.cast(ops.reshape(source, call.shape))

    return pool


def _average(x: Tensor, axis: int, size: int) -> Tensor:
    """Means over `size` windows of nearly equal length along one axis."""
    extent = x.shape[axis]
    if extent == size:
        return x
    if extent % size == 0:
        shape = [*x.shape[:axis], size, extent // size, *x.shape[axis + 1 :]]
        return ops.mean(ops.reshape(x, shape), axis + 1)
    starts = np.arange(size) * extent // size
    ends = -(-(np.arange(size) + 1) * extent // size)
    result: Tensor | None = None
    column = [-1 if k == axis else 1 for k in range(x.ndim)]
    for step in range(int((ends - starts).max())):
        places = np.minimum(starts + step, extent - 1)
        weight = np.where(starts + step < ends, 1.0 / (ends - starts), 0.0).reshape(column)
        part = ops.mul(ops.gather(x, ops.constant(places), axis), ops.constant(weight, x.dtype))
        result = part if result is None else ops.add(result, part)
    return x if result is None else result


aten("_adaptive_avg_pool2d.default")(_adaptive_avg_pool(2))
aten("_adaptive_avg_pool3d.default")(_adaptive_avg_pool(3))


def _adaptive_max_pool(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def pool(call: Call, x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        inner = x.shape[-rank:]
        if not product(call.shape) or any(m % n for m, n in zip(inner, sizes, strict=True)):
            raise UnsupportedError("adaptive pooling with windows of several sizes")
        window = [m // n for m, n in zip(inner, sizes, strict=True)]
        return _max_pool(rank)(call, x, window)

    return pool


aten("adaptive_max_pool2d.default")(_adaptive_max_pool(2))
aten("adaptive_max_pool3d.default")(_adaptive_max_pool(3))
