"""Gradients that arrive whole: those of convolution and pooling.

All are written as gathers: an element of the result sums what the windows over it hand back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ..call import Call, as_tensor, wide
from ..registry import aten
from ..sizes import need_numbers
from .pool import batched, check_images, spread

Amounts = Sequence[int]


# ---------------------------------------------------------------------------- convolution


@aten("convolution_backward.default")
def convolution_backward(
    call: Call, grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Amounts | None,
    stride: Amounts, padding: Amounts, dilation: Amounts, transposed: bool,
    output_padding: Amounts, groups: int, mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients by input, weight and bias, as far as they are wanted."""
    rank = x.ndim - 2
    about = [spread(list(v), rank) for v in (stride, padding, dilation)]
    if 0 in x.shape or 0 in weight.shape or 0 in grad.shape:
        raise UnsupportedError("convolutions of nothing")
    need_numbers([*x.shape[1:], *weight.shape], "convolutions are for images of one size")
    by_input = by_weight = by_bias = None
    if mask[0]:
        by_input = _input_gradient(grad, x, weight, about, transposed, groups)
    if mask[1]:
        pair = (grad, x) if transposed else (x, grad)
        by_weight = _weight_gradient(*pair, weight.shape[2:], about, groups)
    if mask[2]:
        by_bias = ops.sum(grad, [0, *range(2, x.ndim)])
    return by_input, by_weight, by_bias


def _input_gradient(
    grad: Tensor, x: Tensor, weight: Tensor, about: list[list[int]], transposed: bool, groups: int
) -> Tensor:
    strides, pads, dilations = about
    if transposed:
        return ops.conv(grad, weight, None, strides, [*pads, *pads], dilations, groups)
    rest = []
    for k, size in enumerate(x.shape[2:]):
        reach = dilations[k] * (weight.shape[2 + k] - 1)
        rest.append(size - ((grad.shape[2 + k] - 1) * strides[k] - 2 * pads[k] + reach + 1))
    return ops.conv_transpose(
        grad, weight, None, strides, [*pads, *pads], dilations, groups, rest
    )  # fmt: skip


def _weight_gradient(
    x: Tensor, grad: Tensor, kernel: Amounts, about: list[list[int]], groups: int
) -> Tensor:
    """The correlation of the input with the gradient, where batch and channels change places."""
    strides, pads, dilations = about
    batch, inner = x.shape[0], x.shape[2:]
    depth = x.shape[1] // groups
    space = list(range(3, 3 + len(inner)))
    parts = ops.transpose(ops.reshape(x, [batch, groups, depth, *inner]), [2, 1, 0, *space])
    source = ops.reshape(parts, [depth, groups * batch, *inner])
    result = ops.conv(
        source, ops.swapaxes(grad, 0, 1), None, dilations, [*pads, *pads], strides, groups
    )
    # Strides that leave a rest of the input give more elements than the kernel has.
    axes = list(range(2, 2 + len(kernel)))
    return ops.swapaxes(ops.strided_slice(result, [0] * len(axes), list(kernel), axes), 0, 1)


# ---------------------------------------------------------------------------- pooling


def _spread_out(x: Tensor, strides: Amounts, fill: Any) -> Tensor:
    """Fill values between the elements of the dimensions from 2 on."""
    for k, stride in enumerate(strides, 2):
        if stride == 1:
            continue
        extent = x.shape[k]
        apart = ops.reshape(x, [*x.shape[: k + 1], 1, *x.shape[k + 1 :]])
        pads = [(0, 0)] * apart.ndim
        pads[k + 1] = (0, stride - 1)
        joined = ops.reshape(
            ops.pad(apart, pads, value=fill), [*x.shape[:k], extent * stride, *x.shape[k + 1 :]]
        )
        x = ops.strided_slice(joined, [0], [(extent - 1) * stride + 1], [k])
    return x


def _margins(x: Tensor, sizes: Amounts, reach: Amounts, pads: Amounts, fill: Any) -> Tensor:
    """Placed so that element p + reach - offset belongs to the window that sees p at offset."""
    amounts = [(0, 0), (0, 0)]
    for k, size in enumerate(sizes):
        amounts.append((reach[k] - pads[k], size + pads[k] - x.shape[2 + k]))
    return ops.pad(x, amounts, value=fill)


@aten("max_pool2d_with_indices_backward.default")
def max_pool_backward(
    call: Call, grad: Tensor, x: Tensor, kernel: Amounts, stride: Amounts, padding: Amounts,
    dilation: Amounts, ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """Each element sums the gradients of the windows whose maximum it was."""
    check_images(x, 2)
    window, strides = spread(kernel, 2), spread(stride or kernel, 2)
    pads, dilations = spread(padding, 2), spread(dilation, 2)
    height, width = x.shape[-2:]
    if not grad.type.size:
        return ops.zeros(call.shape, call.dtype)
    reach = [(n - 1) * d for n, d in zip(window, dilations, strict=True)]
    sizes = (height, width)
    values = _margins(_spread_out(batched(grad, 2), strides, 0.0), sizes, reach, pads, 0.0)
    chosen = ops.cast(batched(indices, 2), "int32")
    places = _margins(_spread_out(chosen, strides, -1), sizes, reach, pads, -1)
    here = ops.add(
        ops.mul(ops.iota((height, 1), 0, "int32"), width), ops.iota((1, width), 1, "int32")
    )
    result: Tensor | None = None
    for i, j in np.ndindex(*window):
        at = [reach[0] - i * dilations[0], reach[1] - j * dilations[1]]
        ends = [at[0] + height, at[1] + width]
        hit = ops.equal(ops.strided_slice(places, at, ends, [2, 3]), here)
        part = ops.where(hit, ops.strided_slice(values, at, ends, [2, 3]), 0.0)
        result = part if result is None else ops.add(result, part)
    return ops.reshape(x if result is None else result, call.shape)


def _counts(
    sizes: Amounts, outputs: Amounts, window: Amounts, strides: Amounts, pads: Amounts,
    include: bool,
) -> Any:  # fmt: skip
    """How many elements each window of an average counts."""
    result: Any = np.ones((1, 1))
    for k, size in enumerate(sizes):
        first = np.arange(outputs[k]) * strides[k] - pads[k]
        last = np.minimum(first + window[k], size + pads[k])
        if not include:
            first, last = np.maximum(first, 0), np.minimum(last, size)
        result = result[..., None] * (last - first)
    return result


@aten("avg_pool2d_backward.default")
def avg_pool_backward(
    call: Call, grad: Tensor, x: Tensor, kernel: Amounts, stride: Amounts, padding: Amounts,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """Each element sums the shares of the windows over it."""
    check_images(x, 2)
    window, strides, pads = spread(kernel, 2), spread(stride or kernel, 2), spread(padding, 2)
    if not grad.type.size:
        return ops.zeros(call.shape, call.dtype)
    sizes, source = x.shape[-2:], as_tensor(batched(grad, 2), wide(grad.dtype))
    if divisor_override is not None:
        share = ops.div(source, float(divisor_override))
    else:
        counts = _counts(sizes, source.shape[2:], window, strides, pads, count_include_pad)
        share = ops.div(source, ops.constant(counts, source.dtype))
    reach = [n - 1 for n in window]
    placed = _margins(_spread_out(share, strides, 0.0), sizes, reach, pads, 0.0)
    return call.cast(ops.reshape(ops.sum_pool(placed, window, 1), call.shape))


@aten("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool_backward(call: Call, grad: Tensor, x: Tensor) -> Tensor:
    """Each element gets its share of the one window over it."""
    rank = 2 if "2d" in call.name else 3
    check_images(x, rank)
    inner, outer = x.shape[-rank:], grad.shape[-rank:]
    if not grad.type.size or any(m % n for m, n in zip(inner, outer, strict=True)):
        raise UnsupportedError("adaptive pooling with windows of several sizes")
    result = as_tensor(grad, wide(grad.dtype))
    for axis in range(x.ndim - rank, x.ndim):
        result = ops.repeat(result, x.shape[axis] // grad.shape[axis], axis)
    return call.cast(ops.div(result, float(product(inner) // product(outer))))
