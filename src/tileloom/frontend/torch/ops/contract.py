"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import aten
from .arithmetic import scaled


@aten("mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The matrix product."""
    return ops.matmul(a, b)


@aten("addmm.default", "baddbmm.default")
def addmm(
    call: Call, x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * x + alpha * (a b)."""
    result = scaled(ops.matmul(a, b), alpha)
    if beta == 0:
        return ops.broadcast_to(result, call.shape)
    return ops.add(result, scaled(call.cast(x), beta))


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
    strides, pads, dilations = (_spread(v, rank) for v in (stride, padding, dilation))
    if transposed:
        return ops.conv_transpose(
            x, weight, bias, strides, [*pads, *pads], dilations, groups,
            _spread(output_padding, rank),
        )  # fmt: skip
    return ops.conv(x, weight, bias, strides, [*pads, *pads], dilations, groups)
