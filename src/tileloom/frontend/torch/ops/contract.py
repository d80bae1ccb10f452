"""Matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import aten
from ..sizes import need_numbers
from .arithmetic import scaled


@aten("mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The matrix product."""
    return ops.matmul(a, b)


@aten("_int_mm.default")
def integer_matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The product of matrices of bytes in int32."""
    return ops.matmul(a, b, out_dtype="int32")


@aten("addmm.default", "baddbmm.default")
def addmm(call: Call, x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (a b)."""
    result = scaled(ops.matmul(a, b), alpha)
    if beta == 0:
        return ops.broadcast_to(result, call.shape)
    return ops.add(result, scaled(call.cast(x), beta))


@aten("addbmm.default")
def addbmm(call: Call, x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (the sum of the products of a batch)."""
    result = scaled(ops.sum(ops.matmul(a, b), 0), alpha)
    return result if beta == 0 else ops.add(result, scaled(call.cast(x), beta))


@aten("_trilinear.default")
def trilinear(
    call: Call, a: Tensor, b: Tensor, c: Tensor, expand_a: Sequence[int], expand_b: Sequence[int],
    expand_c: Sequence[int], sum_dims: Sequence[int], unroll: int = 1,
) -> Tensor:  # fmt: skip
    """The product of three tensors with new dimensions, summed over some."""
    pairs = ((a, expand_a), (b, expand_b), (c, expand_c))
    x, y, z = (ops.expand_dims(t, list(dims)) if dims else t for t, dims in pairs)
    return ops.sum(ops.mul(ops.mul(x, y), z), list(sum_dims))


@aten("_cdist_forward.default")
def cdist(call: Call, a: Tensor, b: Tensor, p: float, mode: int | None = None) -> Tensor:
    """Distances between the rows of two matrices, in the 1-, 2- or maximum norm."""
    if p not in (1.0, 2.0, math.inf) or not a.type.size or not b.type.size:
        raise UnsupportedError(f"distances in the {p}-norm")
    x, y = ops.expand_dims(a, a.ndim - 1), ops.expand_dims(b, b.ndim - 2)
    gap = ops.abs(ops.sub(x, y))
    if p == 2.0:
        return ops.sqrt(ops.sum(ops.square(gap), -1))
    return ops.sum(gap, -1) if p == 1.0 else ops.max(gap, -1)


# ---------------------------------------------------------------------------- convolution


def _spread(values: Sequence[int], rank: int) -> list[int]:
    return [int(v) for v in values] * (rank if len(values) == 1 else 1)


@aten("convolution.default")
def convolution(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """The correlation of x with a weight, or its transpose."""
    rank = x.ndim - 2
    if 0 in x.shape or 0 in weight.shape:
        raise UnsupportedError("convolutions of nothing")
    need_numbers([*x.shape[1:], *weight.shape], "convolutions are for images of one size")
    strides, pads, dilations = (_spread(v, rank) for v in (stride, padding, dilation))
    if transposed:
        return ops.conv_transpose(
            x, weight, bias, strides, [*pads, *pads], dilations, groups,
            _spread(output_padding, rank),
        )  # fmt: skip
    return ops.conv(x, weight, bias, strides, [*pads, *pads], dilations, groups)
