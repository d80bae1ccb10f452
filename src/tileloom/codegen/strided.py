"""Vectors of elements that lie a few apart: contiguous loads and shuffles instead of a gather.

A gather reads its elements one by one; for steps up to four it is quicker to read all the lines
that hold them and pick. The pieces end at the last element wanted, so nothing beyond is touched,
and under a mask nothing but the elements wanted is.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from .types import I1, I32

LONGEST_STEP = 4

#: Loads `lanes` elements from an offset (in elements) on, under a mask or without one.
Piece = Callable[[int, ir.Value | None], ir.Value]


def pays(step: int, lanes: int) -> bool:
    """Whether pieces beat a gather."""
    return 2 <= step <= LONGEST_STEP and lanes >= 4


def load_strided(
    builder: ir.IRBuilder, load: Piece, step: int, lanes: int, mask: ir.Value | None
) -> ir.Value:
    """Elements 0, step, 2 * step, ... as one vector."""
    span = (lanes - 1) * step + 1
    starts = [min(k * lanes, span - lanes) for k in range(step)]
    home = [next(k for k, s in enumerate(starts) if at < s + lanes) for at in _places(step, lanes)]
    result: ir.Value | None = None
    for k, start in enumerate(starts):
        inside = {at - start: n for n, at in enumerate(_places(step, lanes)) if home[n] == k}
        piece = load(start, _spread(builder, mask, inside, lanes))
        if result is None:
            result = builder.shuffle_vector(
                piece, piece, _picks([n * step if home[n] == 0 else 0 for n in range(lanes)])
            )
            continue
        chosen = [
            lanes + at - start if home[n] == k else n for n, at in enumerate(_places(step, lanes))
        ]
        result = builder.shuffle_vector(result, piece, _picks(chosen))
    return result


def _places(step: int, lanes: int) -> range:
    return range(0, lanes * step, step)


def _picks(lanes: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def _spread(
    builder: ir.IRBuilder, mask: ir.Value | None, inside: dict[int, int], lanes: int
) -> ir.Value | None:
    """The mask of a piece: that of the wanted lane at each place, false between them."""
    if mask is None:
        return None
    nothing = ir.Constant(ir.VectorType(I1, lanes), [0] * lanes)
    picks = [inside.get(place, lanes) for place in range(lanes)]
    return builder.shuffle_vector(mask, nothing, _picks(picks))
