"""Words: neighbours along the depth of a product in 32 bits, as dot products read them.

Two bfloat16 numbers or four bytes; the first lies in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import DType
from ...expr import Expr, Ramp, cast, const
from ...expr.build import bitwise
from ...expr.intrin import reinterpret
from ...tir import Buffer, BufferLoad

WORD_BITS = 32


def word_of(parts: Sequence[Expr]) -> Expr:
    """The word whose parts these scalars are."""
    bits = parts[0].dtype.bits
    total: Expr | None = None
    for k, part in enumerate(parts):
        own = cast("int32", reinterpret(f"uint{bits}", part))
        if k:
            own = bitwise("tir.shift_left", own, const(k * bits, "int32"))
        total = own if total is None else bitwise("tir.bitwise_or", total, own)
    if total is None:
        raise ValueError("a word has parts")
    return total


def load_words(buffer: Buffer, place: Expr, lanes: int) -> Expr:
    """Words of elements that lie in one piece from `place` on."""
    count = lanes * (WORD_BITS // buffer.dtype.bits)
    index = Ramp(place, const(1, place.dtype), count) if count > 1 else place
    kind = "int32" if lanes == 1 else f"int32x{lanes}"
    return reinterpret(kind, BufferLoad(buffer, [index]))


def parts_of_a_word(kind: DType) -> int:
    """How many elements a word holds."""
    return WORD_BITS // kind.bits
