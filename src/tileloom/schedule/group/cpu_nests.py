"""Loop nests of a cluster: every block cut alike, then merged into one nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...expr import IntImm
from ...tir import Block
from ..errors import ScheduleError
from ..library._common import fused
from ..rv import LoopRV
from .cpu_clusters import Cluster, kept_blocks
from .cpu_plan import PARTS, Plan
from .cpu_turned import dims_of
from .domain import GroupAxis, GroupRefused

if TYPE_CHECKING:
    from ..schedule import Schedule

LANES, SUMS, TILE = "vector_lanes", "vector_parts", "vector_tile"
STEPS = "worker_steps"
#: So many steps are enough to share them evenly.
ENOUGH = 64


@dataclass(frozen=True)
class Head:
    """A loop that workers are to share, and the plan that says so."""

    loop: LoopRV
    plan: Plan


def make_nests(sch: Schedule, cluster: Cluster, plan: Plan) -> list[Head]:
    """Cut the loops of every block of a cluster as planned, and merge them.

    Returns:
        The loops that workers are to share: one, if all could be merged.
    """
    if plan.method == "columns":
        for block in kept_blocks(sch, cluster):
            _lay_out(sch, cluster, plan, block)
    depths = {name: _order(sch, cluster, plan, name) for name in cluster.names}
    for level in range(cluster.passes):
        together = [n for n in cluster.names if cluster.levels[n] == level and cluster.full(n)]
        if len({depths[name] for name in together}) == 1 and all(depths[n] for n in together):
            _merge(sch, together, depths)
    depths = _cut_all(sch, cluster, plan, depths)
    _mark_vectors(sch, cluster, plan, depths)
    heads = len(plan.head) + bool(plan.chunk)
    if not heads:
        return []
    _merge(sch, cluster.names, dict.fromkeys(cluster.names, heads))
    tops = {sch.get_sref(sch.get_loops(sch.get_block(n))[0]): n for n in cluster.names}
    return [_head(sch, name, plan, heads) for name in tops.values()] if plan.parallel else []


def _lay_out(sch: Schedule, cluster: Cluster, plan: Plan, block: Block) -> None:
    """Let neighbours in the vectors of what is kept be neighbours in memory."""
    dims = dims_of(block, cluster.domain, block.writes[0].buffer)
    order = [axis for group in (*plan.head, *plan.body) for axis in group]
    rank = [order.index(axis) if axis is not None else -1 for axis in dims]
    places = sorted(range(len(dims)), key=lambda k: rank[k])
    if rank and rank[-1] != max(rank):
        layout = ("write", 0), lambda *index: [index[k] for k in places]
        sch.transform_layout(block.name_hint, *layout)


def axis_loops(
    sch: Schedule, cluster: Cluster, name: str
) -> tuple[dict[GroupAxis, LoopRV], list[LoopRV]]:
    """The loops of a block by their axes, and those of extent 1."""
    rv = sch.get_block(name)
    by_var = {sch.get(loop).loop_var: loop for loop in sch.get_loops(rv)}
    loops: dict[GroupAxis, LoopRV] = {}
    values = sch.state.realize(sch.get_sref(rv)).iter_values
    for axis, value in zip(cluster.domain.axes[name], values, strict=True):
        if axis is not None:
            if value not in by_var:
                raise GroupRefused(f"the loops of block {name!r} do not run its axes one by one")
            loops[axis] = by_var.pop(value)
    return loops, list(by_var.values())


def walked(sch: Schedule, loops: Mapping[GroupAxis, LoopRV], group: Sequence[GroupAxis]) -> LoopRV:
    """One loop over axes that are walked as one."""
    return fused(sch, [loops[axis] for axis in group])


def _order(sch: Schedule, cluster: Cluster, plan: Plan, name: str) -> int:
    """Order the loops of a block; how many there are, extents of 1 aside."""
    loops, units = axis_loops(sch, cluster, name)
    order = [loops[axis] for group in (*plan.head, *plan.body) for axis in group if axis in loops]
    if order != [*loops.values()] or units:
        sch.reorder(*order, *units)
    return len(order)


def _cut_all(
    sch: Schedule, cluster: Cluster, plan: Plan, depths: Mapping[str, int]
) -> dict[str, int]:
    """Cut each nest, once for all its blocks; how many loops are then around each block."""
    nests: dict[object, list[str]] = {}
    for name in cluster.names:
        loops = sch.get_loops(sch.get_block(name))[: depths[name]]
        nests.setdefault(sch.get_sref(loops[-1]) if loops else name, []).append(name)
    result: dict[str, int] = {}
    for names in nests.values():
        depth = _cut(sch, cluster, plan, names[0], depths[names[0]])
        result.update(dict.fromkeys(names, depth))
    return result


def _cut(sch: Schedule, cluster: Cluster, plan: Plan, name: str, depth: int) -> int:
    """Fuse and split the loops of a nest; how many there are then."""
    left = iter(sch.get_loops(sch.get_block(name))[:depth])
    own = cluster.domain.axes[name]
    head, body = (
        [fused(sch, [next(left) for _ in group]) for group in groups if group[0] in own]
        for groups in (plan.head, plan.body)
    )
    if plan.chunk:
        outer, body[plan.cut] = sch.split(body[plan.cut], [None, plan.chunk])
        if len(body) > 1:
            sch.reorder(outer, *body)
        head.append(outer)
    return len(head) + len(body)


def _merge(sch: Schedule, names: Sequence[str], depths: dict[str, int]) -> bool:
    """Merge the nests of some blocks down to a depth; whether that was possible."""
    loops: dict[object, LoopRV] = {}
    for name in names:
        rv = sch.get_loops(sch.get_block(name))[depths[name] - 1]
        loops.setdefault(sch.get_sref(rv), rv)
    if len(loops) < 2:
        return True
    try:
        sch.merge(*loops.values())
    except ScheduleError:
        return False
    return True


def _head(sch: Schedule, name: str, plan: Plan, heads: int) -> Head:
    """The outer loops of a nest as one, as far as that gives enough steps to share."""
    loops = sch.get_loops(sch.get_block(name))[:heads]
    count, steps = 1, 1
    while count < heads and steps < ENOUGH:
        extent = sch.get(loops[count - 1]).extent
        steps *= extent.value if isinstance(extent, IntImm) else ENOUGH
        count += steps < ENOUGH
    return Head(fused(sch, loops[:count]), plan)


def share_out(sch: Schedule, heads: Sequence[Head]) -> None:
    """Let workers share loops; neighbours of the same length together, if that is possible."""
    runs: list[list[Head]] = []
    for head in heads:
        last = sch.get(runs[-1][-1].loop).extent if runs else None
        if last is sch.get(head.loop).extent:
            runs[-1].append(head)
        else:
            runs.append([head])
    for run in runs:
        loops = [head.loop for head in run]
        if len(run) > 1:
            with suppress(ScheduleError):
                loops = [sch.merge(*loops)]
        for loop, head in zip(loops, run):
            in_parallel(sch, loop, head.plan)


def in_parallel(sch: Schedule, loop: LoopRV, plan: Plan) -> None:
    """Let workers share a loop, as many as it turns out to be worth."""
    sch.parallel(loop)
    if plan.share:
        sch.annotate(loop, STEPS, plan.share)


def _mark_vectors(sch: Schedule, cluster: Cluster, plan: Plan, depths: dict[str, int]) -> None:
    marked = set()
    for name in cluster.names:
        if plan.method == "rows" and not cluster.full(name):
            continue
        if depths[name] == 0:
            continue
        loops = sch.get_loops(sch.get_block(name))
        loop = loops[depths[name] - 1]
        if sch.get_sref(loop) not in marked:
            sch.annotate(loop, LANES, plan.lanes)
            if plan.method == "rows":
                sch.annotate(loop, SUMS, PARTS)
            if plan.turned:
                sch.annotate(loops[depths[name] - 2], TILE, plan.side)
            marked.add(sch.get_sref(loop))
