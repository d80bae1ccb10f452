"""Words: neighbours along the depth of a product in 32 bits, as dot products read them.

Two bfloat16 numbers or four bytes; the first lies in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import DType
from ...expr import Expr, Ramp, Shuffle, cast, const
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


def words_across(buffer: Buffer, places: Sequence[Expr], lanes: int) -> Expr:
    """Words whose first parts lie in one piece from the first place on, the second parts likewise.

    >>> from tileloom.expr import const
    >>> from tileloom.tir import make_buffer
    >>> b = make_buffer((8,), "bfloat16", "B")
    >>> words_across(b, [const(0), const(4)], 4).args[0].indices
    (0, 4, 1, 5, 2, 6, 3, 7)
    """
    vectors = [BufferLoad(buffer, [Ramp(p, const(1, p.dtype), lanes)]) for p in places]
    return reinterpret(f"int32x{lanes}", _woven(vectors))


def _woven(vectors: Sequence[Expr]) -> Expr:
    """The first lanes of a power of two of vectors, then the second ones, and so on."""
    if len(vectors) == 1:
        return vectors[0]
    halves = [_woven(vectors[0::2]), _woven(vectors[1::2])]
    lanes = halves[0].dtype.lanes
    return Shuffle(halves, [part * lanes + lane for lane in range(lanes) for part in (0, 1)])


def parts_of_a_word(kind: DType) -> int:
    """How many elements a word holds."""
    return WORD_BITS // kind.bits
