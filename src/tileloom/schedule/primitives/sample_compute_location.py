"""sample_compute_location: draw the loop under which a block is computed."""

from __future__ import annotations

from ...expr import SPATIAL
from ..analysis import scope
from ..analysis.blocks import loop_iter_type
from ..analysis.tree import loops_above, lowest_common_ancestor
from ..instruction import BlockRef, LoopRef, Sampled, can, primitive
from ..sref import INLINE_MARK, ROOT_MARK, StmtSRef
from ..state import ScheduleState

_INLINE, _ROOT = -2, -1


@primitive("SampleComputeLocation")
def sample_compute_location(
    state: ScheduleState, block: BlockRef, decision: int | None = None
) -> LoopRef:
    """A loop of the consumers under which `compute_at` may move a block.

    The decision is the index of the loop among those around the first consumer; -1 stands for
    leaving the block where it is and -2 for inlining it. A decision that is not possible here falls
    back to the nearest smaller one.
    """
    if decision is None:
        places = candidates(state, block)
        indices = list(places)
        chosen = indices[state.random.integer(0, len(indices))]
        return Sampled(places[chosen], chosen)  # type: ignore[return-value]
    wanted = int(decision)
    if wanted == _INLINE and can(state, "ComputeInline", block):
        return Sampled(INLINE_MARK, _INLINE)  # type: ignore[return-value]
    if wanted >= 0:
        for index, loop in reversed(_worth_trying(state, block)):
            if index <= wanted and _can_move(state, block, loop):
                return Sampled(loop, index)  # type: ignore[return-value]
    return Sampled(ROOT_MARK, _ROOT)  # type: ignore[return-value]


def candidates(state: ScheduleState, block: StmtSRef) -> dict[int, StmtSRef]:
    """The possible places by their decisions, in increasing order."""
    found: dict[int, StmtSRef] = {}
    if can(state, "ComputeInline", block):
        found[_INLINE] = INLINE_MARK
    found[_ROOT] = ROOT_MARK
    places = _worth_trying(state, block)
    return found | {index: loop for index, loop in places if _can_move(state, block, loop)}


def _can_move(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> bool:
    return can(state, "ComputeAt", block, loop, preserve_unit_loops=True)


def _worth_trying(state: ScheduleState, block: StmtSRef) -> list[tuple[int, StmtSRef]]:
    """Loops around all consumers with their decisions, outer ones first.

    Left out are unit loops, data-parallel loops below reducing ones, and the last reducing ones.
    """
    consumers = scope.consumers(state, block)
    if not consumers:
        return []
    boundary = consumers[0].parent if len(consumers) == 1 else lowest_common_ancestor(consumers)
    loops = loops_above(consumers[0])
    if boundary not in loops:
        return []
    loops = loops[: loops.index(boundary) + 1]
    spatial = [loop_iter_type(state, loop) == SPATIAL for loop in loops]
    last_spatial = max((i for i, yes in enumerate(spatial) if yes), default=-1)
    found: list[tuple[int, StmtSRef]] = []
    reducing = False
    for i, loop in enumerate(loops):
        if loop.loop.static_extent == 1:
            continue
        if spatial[i] and reducing:
            break
        reducing = reducing or not spatial[i]
        if reducing and i > last_spatial:
            break
        found.append((i, loop))
    return found
