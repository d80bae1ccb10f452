"""Blocked layouts for a shape: the builder, the default, and those that keep an axis in threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from .encodings import BlockedEncoding, CTALayout, Ints
from .properties import elements_by_dimension, shape_per_cta


def blocked_encoding(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    order: Sequence[int],
    warps: int,
    threads: int = 32,
    cta: CTALayout | int | None = None,
) -> BlockedEncoding:
    """The blocked layout that spreads a shape over all threads, along the fastest dimensions first.

    Args:
        shape: of the tensor; a thread block has its part by `cta`.
        order: the dimensions, fastest first.
        warps: of a block.
        threads: of a warp.
        cta: how thread blocks of a cluster share the tensor, or the number of them.

    >>> print(blocked_encoding((64, 64), (1, 4), (1, 0), 4))
    #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], \
order = [1, 0]}>
    """
    if not isinstance(cta, CTALayout):
        cta = cta_split(shape, size_per_thread, order, cta or 1)
    return _blocked(*map(tuple, (shape, size_per_thread, order)), warps, threads, cta)


@cache
def _blocked(
    shape: Ints, size_per_thread: Ints, order: Ints, warps: int, threads: int, cta: CTALayout
) -> BlockedEncoding:
    rank = len(shape)
    extents = shape_per_cta(shape, cta)
    lanes, parts = [1] * rank, [1] * rank
    left, free_lanes, free_warps = threads * warps, threads, warps
    for d in order[:-1]:
        along = clamp(left, 1, max(1, extents[d] // size_per_thread[d]))
        lanes[d] = clamp(along, 1, free_lanes)
        parts[d] = clamp(along // lanes[d], 1, free_warps)
        free_warps //= parts[d]
        free_lanes //= lanes[d]
        left //= along
    # The slowest dimension gets what is left.
    slowest = order[-1]
    lanes[slowest] = threads // prod(lanes)
    parts[slowest] = warps // prod(parts)
    return BlockedEncoding(size_per_thread, lanes, parts, order, cta)


def clamp(value: int, low: int, high: int) -> int:
    """The value nearest to `value` from `low` to `high`."""
    return max(low, min(value, high))


def cta_split(
    shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], num_ctas: int
) -> CTALayout:
    """How `num_ctas` thread blocks share a tensor: they cut its slowest dimensions first."""
    rank = len(shape)
    per_cga, split = [1] * rank, [1] * rank
    left = num_ctas
    for d in reversed(order):
        split[d] = per_cga[d] = clamp(left, 1, max(1, shape[d] // size_per_thread[d]))
        left //= split[d]
    per_cga[rank - 1] *= left  # blocks that have the same elements
    return CTALayout(tuple(per_cga), tuple(split), tuple(order))


def default_blocked(
    shape: Sequence[int], warps: int, threads: int = 32, cta: CTALayout | int | None = None
) -> BlockedEncoding:
    """The layout of a tensor before passes choose one: an element to a thread, the last
    dimension fastest."""
    rank = len(shape)
    return blocked_encoding(shape, (1,) * rank, range(rank - 1, -1, -1), warps, threads, cta)


def thread_local_encoding(encoding: BlockedEncoding, axis: int) -> BlockedEncoding:
    """The layout with one dimension more, for what each thread holds along `axis`: a reduction
    over the new dimension stays in its thread."""
    cta, rank = encoding.cta, encoding.rank
    size = list(encoding.size_per_thread)
    size[axis] = 1
    return BlockedEncoding(
        (*size, encoding.size_per_thread[axis]),
        (*encoding.threads_per_warp, 1),
        (*encoding.warps_per_cta, 1),
        (rank, *encoding.order),
        CTALayout((*cta.per_cga, 1), (*cta.split, 1), (*cta.order, rank)),
    )


def thread_local_shape(shape: Sequence[int], encoding: BlockedEncoding, axis: int) -> Ints:
    """The shape for `thread_local_encoding`.

    >>> thread_local_shape((64, 128), blocked_encoding((64, 128), (1, 4), (1, 0), 4), 1)
    (64, 32, 4)
    """
    own = elements_by_dimension(shape, encoding)[axis]
    made = [*shape, own]
    made[axis] = max(1, made[axis] // own)
    return tuple(made)
