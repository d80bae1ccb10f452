"""Sums over the lanes of many vectors at once, by shuffles of two vectors each."""

from __future__ import annotations

from collections.abc import Sequence

from .text import KernelText

_BLOCK = 16  # bytes within which shuffles move single elements cheaply


def sums_of_lanes(
    t: KernelText, rows: Sequence[str], dtype: str, item: int, both: str = "{} + {}"
) -> str:
    """A vector whose lane k is the sum over the lanes of vector k.

    Vectors are taken in pairs: of each the lanes of one half are added to those of the other, and
    the two halves that are left become one vector. So n vectors take n - 1 additions, and twice as
    many shuffles.

    Args:
        rows: as many vectors as each has lanes, a power of two.
        dtype, item: of the elements, and the bytes of one.
        both: the sum of two elements, or what else is wanted over all lanes.

    Returns:
        The expression; what it is made of is bound to variables.
    """
    lanes = len(rows)
    vectors = list(rows)
    sources = [[k] * lanes for k in range(lanes)]  # which row each lane belongs to
    while len(vectors) > 1:
        low, high = _halves(lanes, len(vectors), item)
        half = len(vectors) // 2
        for k in range(half):
            pair = f"[{vectors[k]}, {vectors[k + half]}]"
            name = f"fold{half}_{k}"
            total = both.format(f"T.Shuffle({pair}, {low})", f"T.Shuffle({pair}, {high})")
            t(f"{name}: T.{dtype}x{lanes} = {total}")
            joined = sources[k] + sources[k + half]
            vectors[k], sources[k] = name, [joined[pick] for pick in low]
        vectors = vectors[:half]
    order = [sources[0].index(k) for k in range(lanes)]
    if order == list(range(lanes)):
        return vectors[0]
    return f"T.Shuffle([{vectors[0]}], {order})"


def over_lanes(t: KernelText, vector: str, name: str, both: str, dtype: str, lanes: int) -> str:
    """A vector with the sum over all lanes of one in each lane, or what else `both` gives.

    Args:
        vector: the vector.
        name: begins the names of what the result is made of.
        both: the sum of two elements.
        dtype, lanes: of the vector.
    """
    step = lanes
    t(f"{name}{step}: T.{dtype}x{lanes} = {vector}")
    while step > 1:
        half, own = step // 2, f"{name}{step}"
        swapped = [lane ^ half for lane in range(lanes)]
        t(f"{name}{half}: T.{dtype}x{lanes} = {both.format(own, f'T.Shuffle([{own}], {swapped})')}")
        step = half
    return f"{name}1"


def _halves(lanes: int, count: int, item: int) -> tuple[list[int], list[int]]:
    """Which lanes of two vectors are added to which, where `count` vectors are left."""
    block = max(1, min(lanes, _BLOCK // item))
    blocks = lanes // block
    if count > block:  # whole blocks change places; the first time halves of the vectors
        step = blocks // 2 if count == lanes else 1
        picks = [
            v * lanes + b * block + lane
            for v in (0, 1)
            for b in range(blocks)
            if (b // step) % 2 == 0
            for lane in range(block)
        ]
        return picks, [pick + step * block for pick in picks]
    low, high = [], []
    for b in range(blocks):
        for lane in range(block // 2):
            for v in (0, 1):
                low.append(v * lanes + b * block + lane)
                high.append(v * lanes + b * block + block // 2 + lane)
    return low, high
