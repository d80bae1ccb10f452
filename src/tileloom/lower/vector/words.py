"""Words whose parts are neighbours in memory, which can be loaded as they lie."""

from __future__ import annotations

from ...expr import Call, Expr, Ramp, Shuffle, const
from ...expr.dot_ops import WORD
from ...expr.intrin import reinterpret
from ...tir import Buffer, BufferLoad
from ..analysis.linear import constant_difference


def loaded_word(expr: Expr) -> BufferLoad | None:
    """The load of the first part of a word, if the others follow it in memory."""
    if not isinstance(expr, Call) or expr.op != WORD:
        return None
    first = expr.args[0]
    for k, part in enumerate(expr.args):
        if not isinstance(part, BufferLoad) or not isinstance(first, BufferLoad):
            return None
        same = part.buffer is first.buffer and part.predicate is None and len(part.indices) == 1
        if not same or constant_difference(part.indices[0], first.indices[0]) != k:
            return None
    return first if isinstance(first, BufferLoad) else None


def word_load(
    buffer: Buffer, place: Expr, parts: int, lanes: int, mask: Expr | None = None
) -> Expr:
    """Words that follow each other in memory from an element on; under a mask, zeros for others."""
    if mask is not None:
        mask = Shuffle([mask], [lane for lane in range(lanes) for _ in range(parts)])
    elements = BufferLoad(buffer, (Ramp(place, const(1, place.dtype), parts * lanes),), mask)
    return reinterpret(f"int32x{lanes}", elements)
