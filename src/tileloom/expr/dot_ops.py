"""Dot products of short vectors that lie in 32-bit words, lane by lane: what CPUs multiply by.

`tir.dot_u8s8(sum, x, y)` adds four products of 8-bit integers to a 32-bit one, which wraps around;
`tir.dot_bf16(sum, x, y)` adds two products of bfloat16 numbers to a float32. `x` and `y` are int32
words that hold the factors, the first in the lowest bits. The letters say how the bytes of `x` and
of `y` are read: u8 as unsigned, s8 as signed.

`tir.round_bf16(x)` is the bfloat16 next to a float32, as the same machines round sums: a subnormal
number becomes a zero of its sign, unlike in a cast.
"""

from __future__ import annotations

from ..base.dtype import dtype
from ..base.late import TYPE_CHECKING, package

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    np = package("numpy")

DOT_INT8, DOT_BF16 = "tir.dot_u8s8", "tir.dot_bf16"
ROUND_BF16 = "tir.round_bf16"

#: The least float32 that is not subnormal.
LEAST_NORMAL = 2.0**-126


def _parts(words: Any, kind: str) -> Any:
    """The factors in words, along a new last axis, as numbers wide enough for products."""
    array = np.asarray(words, np.int32)
    return np.ascontiguousarray(array).view(kind).reshape(*array.shape, -1)


def _dot_int8(total: Any, x: Any, y: Any) -> Any:
    """
    >>> int(_dot_int8(np.int32(1), np.int32(0x010002FF), np.int32(0x05060708)))
    2060
    """
    left, right = _parts(x, "uint8").astype(np.int64), _parts(y, "int8").astype(np.int64)
    return (np.asarray(total, np.int64) + (left * right).sum(-1)).astype(np.int32)[()]


def _dot_bf16(total: Any, x: Any, y: Any) -> Any:
    """The products are exact; each sum is rounded once."""
    left, right = (
        (_parts(words, "uint16").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        for words in (x, y)
    )
    result = np.asarray(total, np.float32)
    with np.errstate(all="ignore"):
        for k in (1, 0):
            result = (result + left[..., k] * right[..., k]).astype(np.float32)
    return result[()]


def round_bf16(x: Any) -> Any:
    """
    >>> float(round_bf16(np.float32(1.003))), float(round_bf16(np.float32(-1e-39)))
    (1.0, -0.0)
    """
    value = np.asarray(x, np.float32)
    small = np.abs(value) < LEAST_NORMAL
    flushed = np.where(small, np.copysign(np.float32(0), value), value)
    return flushed.astype(dtype("bfloat16").numpy)[()]


#: What the dot products mean, by name.
DOT_MEANINGS = {DOT_INT8: _dot_int8, DOT_BF16: _dot_bf16}
