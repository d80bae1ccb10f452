"""What rules for reductions ask: which blocks are worth it, and their reduced loops as one."""

from __future__ import annotations

from math import prod

from ...expr import REDUCE, SPATIAL
from ...schedule.analysis.blocks import has_trivial_binding, loop_iter_type, reduction_fault
from ...schedule.analysis.tree import loops_above, only_child_chain, scope_root
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from .analysis import is_tiled, needs_multi_level_tiling


def needs_partial_results(state: ScheduleState, block: StmtSRef, most_parallel: int) -> bool:
    """Whether several workers should share the work on each result of a block.

    The block is a reduction under a plain nest of loops of known extents, which place results or
    reduce. Where tiling would have it reuse what it reads, it must have more to reduce than
    results, and too few results for all workers. (TVM: `NeedsRFactorOrCrossThreadReduction`.)

    Args:
        most_parallel: so many results are enough to keep all workers busy.

    >>> from tileloom import te
    >>> A = te.placeholder((4, 512), name="A"); k = te.reduce_axis((0, 512), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> needs_partial_results(sch.state, sch.get_sref(sch.get_block("B")), 64)
    True
    """
    extents = _spatial_and_reduced(state, block)
    if extents is None:
        return False
    spatial, reduced = extents
    if needs_multi_level_tiling(state, block):
        return spatial < reduced and spatial <= most_parallel
    return reduced > 1


def _spatial_and_reduced(state: ScheduleState, block: StmtSRef) -> tuple[int, int] | None:
    """How many results a reduction has, and of how many values each; None for other blocks."""
    if block.parent is None or is_tiled(block.block):
        return None
    if not has_trivial_binding(state, block):
        return None
    if reduction_fault(state, block, scope_root(block)) is not None:
        return None
    loops = loops_above(block)
    if not loops or not only_child_chain(loops[0], block):
        return None
    found: dict[int, list[int]] = {SPATIAL: [], REDUCE: []}
    for loop in loops:
        extent, kind = loop.loop.static_extent, loop_iter_type(state, loop)
        if extent is None or kind not in found:
            return None
        found[kind].append(extent)
    return prod(found[SPATIAL]), prod(found[REDUCE])


def fuse_reduced_loops(sch: Schedule, block: BlockRV) -> tuple[LoopRV, int]:
    """Make one loop, the innermost, of all loops that reduce.

    Returns:
        That loop, and how many loops around it place results.

    >>> from tileloom import te
    >>> A = te.placeholder((4, 8, 8), name="A")
    >>> j, k = (te.reduce_axis((0, 8), name) for name in "jk")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, j, k], axis=[j, k]), name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> loop, before = fuse_reduced_loops(sch, sch.get_block("B"))
    >>> sch.get(loop).loop_var.name, before
    ('j_k_fused', 1)
    """
    loops: list[LoopRV] = sch.get_loops(block)
    kinds = [loop_iter_type(sch.state, sch.get_sref(loop)) for loop in loops]
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == SPATIAL]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != SPATIAL]
    if [*spatial, *reduced] != loops:
        sch.reorder(*spatial, *reduced)
    fused = reduced[0] if len(reduced) == 1 else sch.fuse(*reduced)
    return fused, len(spatial)
