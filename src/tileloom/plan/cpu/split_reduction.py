"""Reductions with few results on a CPU: every worker reduces a part, pass by pass.

Rows that are too few for all workers are divided along their length instead. Each reduction is
factored: parts of it run in parallel, and what they give is reduced by one worker. Elementwise
blocks over the full domain are nests of their own; none is materialized from pass to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...base.sums import LEAST_PARTS, equal_parts, is_split, parts_of
from ...expr import IntImm
from ...schedule.errors import ScheduleError
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...target.cost import PARALLEL_WORK
from ..domain import GroupAxis
from ..loops import reduces
from ..sizes import Sizes
from .choices import CHUNK, PARTS, PASS_WORK, Plan, is_constant, plan_of, size
from .fusion_groups import FusionGroup, fusion_groups_of, recompute_materialized
from .nests import LANES, SUMS, ParallelLoop, axis_loops, make_nests, parallelize, walked


def in_parts(fusion: FusionGroup, plan: Plan, sizes: Sizes) -> bool:
    """Whether there are so few results that reductions are made in parts, and enough to do."""
    passes = 1 if fusion.passes == 1 else PASS_WORK
    known = all(isinstance(a.size, IntImm) for g in (*plan.outer, *plan.inner) for a in g)
    if plan.work < passes * PARALLEL_WORK and (known or passes > 1):
        return False
    if plan.method == "elementwise" or _divided(plan) is None:
        return False
    rows = prod(sizes.number(axis.size) for axis in fusion.domain.spatial if axis.size is not None)
    if plan.method == "strided":
        rows //= 4 * plan.lanes
    depth = prod(sizes.number(a.size) for g in _reduced(plan) for a in g if a.size is not None)
    if not is_split(rows, depth, fusion.passes):
        return False
    return known or passes == 1 or _elements(fusion, sizes) >= passes * PARALLEL_WORK // _each(plan)


def _elements(fusion: FusionGroup, sizes: Sizes) -> int:
    """How many positions the domain has, which may be open: a comparison may be a decision."""
    axes = (*fusion.domain.spatial, *fusion.domain.reduced)
    return prod(sizes.number(axis.size) for axis in axes if axis.size is not None)


def _each(plan: Plan) -> int:
    """Simple operations at a position of the domain, at least one."""
    return max(1, plan.work // prod(map(size, (*plan.outer, *plan.inner))))


def make_parts(
    sch: Schedule, fusion: FusionGroup, plan: Plan, target: Target, sizes: Sizes
) -> None:
    """Schedule a fusion pass by pass, its reductions in parts."""
    recompute_materialized(sch, fusion)
    for level in range(fusion.passes):
        names = [name for name in fusion.names if fusion.levels[name] == level]
        here = {name: sch.get(sch.get_block(name)) for name in names}
        plain = [b for n, b in here.items() if fusion.full(n) and not reduces(b)]
        made = [_factor(sch, fusion, plan, n) for n, b in here.items() if reduces(b)]
        loops: list[ParallelLoop] = []
        for own in fusion_groups_of(plain, sizes):
            loops += make_nests(sch, own, plan_of(sch, own, target, sizes))
        parallelize(sch, [*(ParallelLoop(loop, plan) for loop in _together(sch, made)), *loops])


def _divided(plan: Plan) -> int | None:
    """Which group of reduced axes is cut into parts: the first that is long enough."""
    groups = _reduced(plan)
    return next((k for k, group in enumerate(groups) if size(group) >= LEAST_PARTS), None)


def _reduced(plan: Plan) -> list[list[GroupAxis]]:
    return [group for group in plan.inner if group[0].reduced]


def _length(plan: Plan, at: int) -> int:
    """How much of the divided axes makes a part."""
    groups = _reduced(plan)
    group, inside = groups[at], prod(map(size, groups[at + 1 :]))
    if all(isinstance(axis.size, IntImm) for axis in group):
        wanted = parts_of(prod(map(size, (*plan.outer, *plan.inner))), size(group))
        equal = equal_parts(size(group), wanted)
        if equal is not None:
            return equal
        length = -(-size(group) // wanted)
        is_vector = plan.method == "contiguous" and at == len(groups) - 1
        step = PARTS * plan.lanes
        return -(-length // step) * step if is_vector and length > step else length
    if plan.method == "strided":
        inside *= size(plan.inner[-1])
    return max(1, CHUNK // inside)


def _factor(sch: Schedule, fusion: FusionGroup, plan: Plan, name: str) -> LoopRV:
    """Cut a reduction into parts; the loop over them, which is not parallel yet."""
    rv = sch.get_block(name)
    loops, units = axis_loops(sch, fusion, name)
    at = _divided(plan)
    spatial = [g for g in (*plan.outer, *plan.inner) if not g[0].reduced]
    reduced = _reduced(plan)
    order = [loops[axis] for group in (*spatial, *reduced) for axis in group]
    if len(order) + len(units) > 1:
        sch.reorder(*order, *units)
    places = [walked(sch, loops, group) for group in spatial]
    steps = [walked(sch, loops, group) for group in reduced]
    part, steps[at or 0] = sch.split(steps[at or 0], [None, _length(plan, at or 0)])
    strided = plan.method == "strided"
    if strided and plan.chunk and not is_constant(spatial[-1]):
        # So few columns that their sums stay near the core, however many there turn out to be.
        places[-1:] = sch.split(places[-1], [None, plan.chunk])
    inner = [*places[:-1], *steps, *places[-1:]] if strided else [*places, *steps]
    sch.reorder(part, *units, *inner)
    # What the parts gave is read in vectors as well: along the results, or along the parts.
    parts = sch.rfactor(part, 0 if strided else _rank(sch, rv))
    own = sch.get_loops(parts)
    _mark(sch, own[-1], plan, not strided)
    combined, *results = sch.get_loops(rv)
    if strided:
        if len(results) > 1:
            sch.reorder(*results[:-1], combined, results[-1])
        _mark(sch, results[-1], plan, False)
    else:
        if results:
            sch.reorder(*results, combined)
        _mark(sch, combined, plan, True)
    first: LoopRV = own[0]
    return first


def _rank(sch: Schedule, rv: BlockRV) -> int:
    """How many dimensions the result of a block has."""
    return len(sch.get(rv).writes[0].region)


def _mark(sch: Schedule, loop: LoopRV, plan: Plan, sums: bool) -> None:
    sch.annotate(loop, LANES, plan.lanes)
    if sums:
        sch.annotate(loop, SUMS, PARTS)


def _together(sch: Schedule, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """One loop for parts of several reductions, if that is possible."""
    if len(loops) < 2:
        return list(loops)
    try:
        return [sch.merge(*loops)]
    except ScheduleError:
        return list(loops)
