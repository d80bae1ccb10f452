"""cache_to_shared, vectorized_load: bring what a block reads closer, by threads or in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..rv import BlockRV, LoopRV
from ._common import BlockLike, block_of, extent, fused, loops_below, wrong

if TYPE_CHECKING:
    from ..schedule import Schedule

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def cache_to_shared(
    sch: Schedule,
    block: BlockLike,
    read_index: int | str,
    loop: LoopRV,
    threads: int | Sequence[int],
    lanes: int = 1,
    scope: str = "shared",
) -> BlockRV:
    """Let the threads of a block fetch together what each iteration of a loop reads.

    Args:
        block: the block that reads.
        read_index: which buffer it reads: an index, a name or the buffer.
        loop: at which to fetch.
        threads: how many threads there are along threadIdx.x; or along several axes, x last:
            `(4, 32)` are 4 along threadIdx.y and 32 along threadIdx.x.
        lanes: how many elements a thread fetches at once.
        scope: of the copy.

    Returns:
        The block that fetches.

    >>> from tileloom import Schedule, te
    >>> A = te.placeholder((64, 64), name="A")
    >>> B = te.compute((64, 64), lambda i, j: A[j, i] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops("B")
    >>> io, ii = sch.split(i, [None, 16]); sch.bind(io, "blockIdx.x"); sch.bind(j, "threadIdx.x")
    >>> fetch = cache_to_shared(sch, "B", "A", io, threads=64, lanes=4)
    >>> [(sch.get(one).kind, sch.get(one).extent.value) for one in sch.get_loops(fetch)[1:]]
    [('serial', 4), ('thread_binding', 64), ('vectorized', 4)]
    """
    counts = [threads] if isinstance(threads, int) else list(threads)
    if not 1 <= len(counts) <= len(_AXES) or any(count < 1 for count in counts):
        raise wrong(sch, f"threads are one to three positive numbers, got {threads!r}")
    copy, loops = _copy(sch, block, read_index, loop, scope)
    whole = fused(sch, loops)
    _check_divides(sch, whole, lanes)
    _, *axes = sch.split(whole, [None, *counts, *([lanes] if lanes > 1 else [])])
    if lanes > 1:
        sch.vectorize(axes.pop())
    for axis, name in zip(reversed(axes), _AXES):
        sch.bind(axis, name)
    return copy


def vectorized_load(
    sch: Schedule,
    block: BlockLike,
    read_index: int | str,
    loop: LoopRV,
    lanes: int,
    scope: str = "local",
) -> BlockRV:
    """Copy what each iteration of a loop reads into a local buffer, in vectors.

    Args:
        block: the block that reads.
        read_index: which buffer it reads: an index, a name or the buffer.
        loop: at which to copy.
        lanes: the length of vectors; it divides what is copied of a row.
        scope: of the copy.

    Returns:
        The block that copies.

    >>> from tileloom import Schedule, te
    >>> A = te.placeholder((8, 64), name="A")
    >>> B = te.compute((64, 8), lambda i, j: A[j, i] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops("B")
    >>> io, ii = sch.split(i, [None, 16])
    >>> load = vectorized_load(sch, "B", "A", io, lanes=8)
    >>> [(sch.get(one).kind, sch.get(one).extent.value) for one in sch.get_loops(load)[1:]]
    [('serial', 8), ('serial', 2), ('vectorized', 8)]
    """
    copy, loops = _copy(sch, block, read_index, loop, scope)
    _check_divides(sch, loops[-1], lanes)
    last = loops[-1]
    if extent(sch, last) != lanes:
        _, last = sch.split(last, [None, lanes])
    sch.vectorize(last)
    return copy


def _copy(
    sch: Schedule, block: BlockLike, read_index: int | str, loop: LoopRV, scope: str
) -> tuple[BlockRV, list[LoopRV]]:
    """A copy at a loop, and its own loops."""
    found = block_of(sch, block)
    copy: BlockRV = sch.cache_read(found, read_index, scope, [found])
    sch.compute_at(copy, loop, preserve_unit_loops=True)
    return copy, loops_below(sch, copy, loop)


def _check_divides(sch: Schedule, loop: LoopRV, lanes: int) -> None:
    size = extent(sch, loop)
    if lanes < 1 or (lanes > 1 and (size is None or size % lanes)):
        raise wrong(
            sch,
            f"{sch.get(loop).extent} elements are copied, which vectors of {lanes} do not divide",
            hint="choose a loop at which more is copied, or fewer lanes",
        )
