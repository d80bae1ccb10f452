"""sample_perfect_tile, sample_partitioned_tile: draw factors whose product is a loop's extent."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import refuse
from ..instruction import IntRef, LoopRef, Sampled, primitive
from ..state import ScheduleState


@primitive("SamplePerfectTile")
def sample_perfect_tile(
    state: ScheduleState,
    loop: LoopRef,
    n: int,
    max_innermost_factor: int = 16,
    decision: list[int] | None = None,
) -> list[IntRef]:
    """`n` factors of a loop's extent; for an unknown one the first is None and the others 1.

    Args:
        loop: the loop to be split.
        n: how many.
        max_innermost_factor: a limit for the last one; -1 is no limit.
        decision: the factors; where they do not divide the extent they are mended from the last.
    """
    _check_count(n, decision)
    if max_innermost_factor != -1 and max_innermost_factor < 1:
        raise refuse(f"max_innermost_factor is -1 or positive, got {max_innermost_factor}")
    extent = loop.loop.static_extent
    if extent is None or extent < 1:
        return _left_open(n)
    if decision is not None:
        tile = mended(extent, decision)
    else:
        tile = state.random.perfect_tile(extent, n, max_innermost_factor)
    return Sampled(tile, tile)  # type: ignore[return-value]


@primitive("SamplePartitionedTile")
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopRef,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: list[int] | None = None,
) -> list[IntRef]:
    """`n` factors of a loop's extent; a factor divides the product of those from a position on.

    Args:
        loop: the loop to be split.
        n: how many.
        partition_pos: where the inner part starts.
        innerpart_factor: what the product of the inner part is a multiple of. Where it does not
            divide the extent the first factor is None and the others are 1.
        decision: the factors; where they do not divide the extent they are mended from the last.
    """
    _check_count(n, decision)
    if not 0 <= partition_pos < n or innerpart_factor < 1:
        raise refuse(
            f"partition_pos is from 0 to {n - 1} and innerpart_factor positive, "
            f"got {partition_pos} and {innerpart_factor}"
        )
    extent = loop.loop.static_extent
    if extent is None or extent < 1 or extent % innerpart_factor:
        return _left_open(n)
    if decision is not None:
        tile = mended(extent, decision)
    else:
        tile = state.random.partitioned_tile(extent, n, partition_pos, innerpart_factor)
    return Sampled(tile, tile)  # type: ignore[return-value]


def _left_open(n: int) -> list[IntRef]:
    """Factors of which the first, None, is left for `split` to find; the decision says -1."""
    rest = [1] * (n - 1)
    return Sampled([None, *rest], [-1, *rest])  # type: ignore[return-value]


def _check_count(n: int, decision: Sequence[int] | None) -> None:
    if n < 1:
        raise refuse(f"at least one factor is needed, got n={n}")
    if decision is not None and len(decision) != n:
        raise refuse(f"the decision {list(decision)} has not n={n} factors")


def mended(extent: int, factors: Sequence[int]) -> list[int]:
    """Factors of the extent: from the last on, one that does not divide takes all that is left.

    >>> mended(24, [1, 4, 3]), mended(20, [5, 4, 3])
    ([2, 4, 3], [1, 1, 20])
    """
    result, left = [int(f) for f in factors], extent
    for i in range(len(result) - 1, 0, -1):
        if result[i] < 1 or left % result[i]:
            result[i] = left
        left //= result[i]
    result[0] = left
    return result
