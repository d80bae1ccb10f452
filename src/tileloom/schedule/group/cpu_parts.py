"""Reductions with few results on a CPU: every worker reduces a part, pass by pass.

Rows that are too few to share are shared out by their length instead. Each reduction is factored:
parts of it run in parallel, and what they give is reduced by one worker. Formulas of all elements
are nests of their own; none is kept from pass to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...base import Target
from ...expr import IntImm
from ..errors import ScheduleError
from ..rv import LoopRV
from ..schedule import Schedule
from .cpu_clusters import Cluster, clusters_of, recompute_kept
from .cpu_nests import LANES, SUMS, Head, axis_loops, make_nests, share_out, walked
from .cpu_plan import CHUNK, PARALLEL_WORK, PARTS, PASS_WORK, Plan, plan_of, size
from .cpu_sizes import Sizes
from .domain import GroupAxis
from .loops import reduces

#: How many parts each worker gets, so that uneven speed evens out.
PER_WORKER = 2


def lacks_rows(cluster: Cluster, plan: Plan, target: Target) -> bool:
    """Whether there are too few results to share them among workers, and enough to do."""
    if not plan.parallel or plan.method == "formula":
        return False
    if cluster.passes > 1 and plan.work < PASS_WORK * PARALLEL_WORK:
        return False
    if _divided(plan, target) is None:
        return False
    rows = cluster.domain.rows
    if plan.method == "columns":
        rows //= 4 * plan.lanes
    return rows < 2 * target.cores


def make_parts(sch: Schedule, cluster: Cluster, plan: Plan, target: Target, sizes: Sizes) -> None:
    """Schedule a cluster pass by pass, its reductions in parts."""
    recompute_kept(sch, cluster)
    for level in range(cluster.passes):
        names = [name for name in cluster.names if cluster.levels[name] == level]
        here = {name: sch.get(sch.get_block(name)) for name in names}
        formulas = [b for n, b in here.items() if cluster.full(n) and not reduces(b)]
        made = [_factor(sch, cluster, plan, target, n) for n, b in here.items() if reduces(b)]
        heads: list[Head] = []
        for own in clusters_of(formulas, sizes):
            heads += make_nests(sch, own, plan_of(sch, own, target, sizes))
        few = replace(plan, share=min(plan.share, 1))
        share_out(sch, [*(Head(loop, few) for loop in _together(sch, made)), *heads])


def _divided(plan: Plan, target: Target) -> int | None:
    """Which group of reduced axes is cut into parts: the first that is long enough."""
    groups = _reduced(plan)
    for k, group in enumerate(groups):
        if size(group) >= PER_WORKER * target.cores:
            return k
    return None


def _reduced(plan: Plan) -> list[list[GroupAxis]]:
    return [group for group in plan.body if group[0].reduced]


def _length(plan: Plan, target: Target, at: int) -> int:
    """How much of the divided axes makes a part."""
    groups = _reduced(plan)
    group, inside = groups[at], prod(map(size, groups[at + 1 :]))
    if all(isinstance(axis.size, IntImm) for axis in group):
        wanted = PER_WORKER * target.cores
        equal = next((k for k in range(wanted, 4 * wanted) if size(group) % k == 0), 0)
        if equal:
            return size(group) // equal
        length = -(-size(group) // wanted)
        is_vector = plan.method == "rows" and at == len(groups) - 1
        step = PARTS * plan.lanes
        return -(-length // step) * step if is_vector and length > step else length
    return max(1, CHUNK // inside)


def _factor(sch: Schedule, cluster: Cluster, plan: Plan, target: Target, name: str) -> LoopRV:
    """Cut a reduction into parts; the loop over them, which is not parallel yet."""
    rv = sch.get_block(name)
    loops, units = axis_loops(sch, cluster, name)
    at = _divided(plan, target)
    spatial = [g for g in (*plan.head, *plan.body) if not g[0].reduced]
    reduced = _reduced(plan)
    order = [loops[axis] for group in (*spatial, *reduced) for axis in group]
    if len(order) + len(units) > 1:
        sch.reorder(*order, *units)
    places = [walked(sch, loops, group) for group in spatial]
    steps = [walked(sch, loops, group) for group in reduced]
    part, steps[at or 0] = sch.split(steps[at or 0], [None, _length(plan, target, at or 0)])
    inner = [*places[:-1], *steps, *places[-1:]] if plan.method == "columns" else [*places, *steps]
    sch.reorder(part, *inner, *units)
    parts = sch.rfactor(part, 0)
    own = sch.get_loops(parts)
    _mark(sch, own[len(inner)], plan, plan.method == "rows")
    if plan.method == "columns":
        _mark(sch, sch.get_loops(rv)[len(places)], plan, False)
    first: LoopRV = own[0]
    return first


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
