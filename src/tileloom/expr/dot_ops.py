"""Dot products of short vectors that lie in 32-bit words, lane by lane: what CPUs multiply by.

`tir.dot_u8s8(sum, x, y)` adds four products of 8-bit integers to a 32-bit one, which wraps around;
`tir.dot_bf16(sum, x, y)` adds two products of bfloat16 numbers to a float32. `x` and `y` are int32
words that hold the factors, the first in the lowest bits. The letters say how the bytes of `x` and
of `y` are read: u8 as unsigned, s8 as signed; all four combinations are there. `o8` are bytes in
offset binary: of the kind of `y`, with their sign bits flipped, as `tir.dot_o8s8` takes them where
an instruction multiplies unsigned bytes by signed ones only.

`tir.word(a, b, ...)` is the word whose parts these are: four of 8 bits, or two of 16.

`tir.round_bf16(x)` is the bfloat16 next to a float32, as the same machines round sums: a subnormal
number becomes a zero of its sign, unlike in a cast.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base.dtype import dtype
from ..base.late import TYPE_CHECKING, package
from .nodes import Broadcast, Call, Expr, FloatImm, IntImm

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    np = package("numpy")

DOT_BF16 = "tir.dot_bf16"
#: By whether the bytes of the left and of the right factor are signed.
DOT_INT8 = {
    (left, right): f"tir.dot_{'us'[left]}8{'us'[right]}8"
    for left in (False, True)
    for right in (False, True)
}
#: The same for bytes of one kind, the left ones in offset binary, by whether they are signed.
DOT_OFFSET = {False: "tir.dot_o8u8", True: "tir.dot_o8s8"}
#: A word that flips the sign bits of four bytes; also four zeros in offset binary.
FLIP_SIGNS = -0x7F7F7F80
ROUND_BF16 = "tir.round_bf16"
WORD, WORD_BITS = "tir.word", 32

#: The least float32 that is not subnormal.
LEAST_NORMAL = 2.0**-126


def _parts(words: Any, kind: str) -> Any:
    """The factors in words, along a new last axis, as numbers wide enough for products."""
    array = np.asarray(words, np.int32)
    return np.ascontiguousarray(array).view(kind).reshape(*array.shape, -1)


def _dot_int8(signed: tuple[bool, bool]) -> Callable[[Any, Any, Any], Any]:
    """
    >>> int(_dot_int8((False, True))(np.int32(1), np.int32(0x010002FF), np.int32(0x05060708)))
    2060
    """
    kinds = ["int8" if s else "uint8" for s in signed]

    def dot(total: Any, x: Any, y: Any) -> Any:
        left, right = (_parts(v, k).astype(np.int64) for v, k in zip((x, y), kinds, strict=True))
        return (np.asarray(total, np.int64) + (left * right).sum(-1)).astype(np.int32)[()]

    return dot


def _dot_offset(signed: bool) -> Callable[[Any, Any, Any], Any]:
    """
    >>> int(_dot_offset(True)(np.int32(0), np.int32(FLIP_SIGNS + 3), np.int32(5)))
    15
    """
    dot = _dot_int8((signed, signed))
    return lambda total, x, y: dot(total, np.asarray(x, np.int32) ^ np.int32(FLIP_SIGNS), y)


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


def word(*parts: Any) -> Any:
    """
    >>> hex(word(np.int8(1), np.int8(2), np.int8(3), np.int8(4)))
    '0x4030201'
    """
    together = np.stack(np.broadcast_arrays(*map(np.asarray, parts)), -1)
    if together.dtype.itemsize > 2:  # wider floats, as which bfloat16 is computed with
        together = together.astype(dtype("bfloat16").numpy)
    return np.ascontiguousarray(together).view(np.int32)[..., 0][()]


#: What the dot products mean, by name.
DOT_MEANINGS: dict[str, Callable[..., Any]] = {
    **{name: _dot_int8(signed) for signed, name in DOT_INT8.items()},
    **{name: _dot_offset(signed) for signed, name in DOT_OFFSET.items()},
    DOT_BF16: _dot_bf16,
}


def is_bare_dot(expr: Expr) -> bool:
    """Whether it is a dot product that nothing is added to yet.

    >>> from tileloom.expr import Call, Var, const
    >>> x, y = Var("x", "int32"), Var("y", "int32")
    >>> is_bare_dot(Call("int32", "tir.dot_u8s8", (const(0, "int32"), x, y)))
    True
    >>> is_bare_dot(Call("int32", "tir.dot_u8s8", (x, x, y)))
    False
    """
    if not isinstance(expr, Call) or expr.op not in DOT_MEANINGS:
        return False
    total = expr.args[0]
    start = total.value if isinstance(total, Broadcast) else total
    return isinstance(start, IntImm | FloatImm) and start.value == 0
