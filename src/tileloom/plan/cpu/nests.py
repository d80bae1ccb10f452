"""Loop nests of a fusion: every block cut alike, then merged into one nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.sums import SUM_RUN
from ...expr import Expr, IntImm
from ...expr.extents import known_extent, limits
from ...schedule.errors import ScheduleError
from ...schedule.library._common import fused
from ...schedule.rv import LoopRV
from ...tir import Block
from ..domain import GroupAxis, GroupRefused
from ..loops import factors
from .choices import PARTS, Plan, is_constant
from .fusion_groups import FusionGroup, materialized_blocks
from .transposed import dims_of

if TYPE_CHECKING:
    from ...schedule.schedule import Schedule

LANES, SUMS, TILE = "vector_lanes", "vector_parts", "vector_tile"
WORK = "worker_work"
#: Products that a strided reduction adds up before a sum is put aside. Each time its columns' sums
#: are gone over, which takes longer than rows do that are not many.
PRODUCT_RUN = 256
#: So many steps are enough to share them evenly.
ENOUGH = 64


@dataclass(frozen=True)
class ParallelLoop:
    """A loop that workers are to share, and the plan that says so."""

    loop: LoopRV
    plan: Plan


def make_nests(sch: Schedule, fusion: FusionGroup, plan: Plan) -> list[ParallelLoop]:
    """Cut the loops of every block of a fusion as planned, and merge them.

    Returns:
        The loops that workers are to share: one, if all could be merged.
    """
    if plan.method == "strided":
        for block in materialized_blocks(sch, fusion):
            _lay_out(sch, fusion, plan, block)
    depths = {name: _order(sch, fusion, plan, name) for name in fusion.names}
    for level in range(fusion.passes):
        together = [n for n in fusion.names if fusion.levels[n] == level and fusion.full(n)]
        if plan.method == "contiguous":  # an arg-maximum runs in vectors by itself
            together = [n for n in together if len(sch.get(sch.get_block(n)).writes) == 1]
        if len({depths[name] for name in together}) == 1 and all(depths[n] for n in together):
            _merge(sch, together, depths)
    depths = _cut_all(sch, fusion, plan, depths)
    _mark_vectors(sch, fusion, plan, depths)
    shared = len(plan.outer) + bool(plan.chunk)
    if not shared:
        return []
    _merge(sch, fusion.names, dict.fromkeys(fusion.names, shared))
    tops = {sch.get_sref(sch.get_loops(sch.get_block(n))[0]): n for n in fusion.names}
    return (
        [_parallel_loop(sch, name, plan, shared) for name in tops.values()] if plan.parallel else []
    )


def _lay_out(sch: Schedule, fusion: FusionGroup, plan: Plan, block: Block) -> None:
    """Let neighbours in the vectors of what is kept be neighbours in memory."""
    dims = dims_of(block, fusion.domain, block.writes[0].buffer)
    order = [axis for group in (*plan.outer, *plan.inner) for axis in group]
    rank = [order.index(axis) if axis is not None else -1 for axis in dims]
    places = sorted(range(len(dims)), key=lambda k: rank[k])
    if rank and rank[-1] != max(rank):
        layout = ("write", 0), lambda *index: [index[k] for k in places]
        sch.transform_layout(block.name_hint, *layout)


def axis_loops(
    sch: Schedule, fusion: FusionGroup, name: str
) -> tuple[dict[GroupAxis, LoopRV], list[LoopRV]]:
    """The loops of a block by their axes, and those of extent 1."""
    rv = sch.get_block(name)
    by_var = {sch.get(loop).loop_var: loop for loop in sch.get_loops(rv)}
    loops: dict[GroupAxis, LoopRV] = {}
    values = sch.state.realize(sch.get_sref(rv)).iter_values
    for axis, value in zip(fusion.domain.axes[name], values, strict=True):
        if axis is not None:
            if value not in by_var:
                raise GroupRefused(f"the loops of block {name!r} do not run its axes one by one")
            loops[axis] = by_var.pop(value)
    return loops, list(by_var.values())


def walked(sch: Schedule, loops: Mapping[GroupAxis, LoopRV], group: Sequence[GroupAxis]) -> LoopRV:
    """One loop over axes that are walked as one."""
    return fused(sch, [loops[axis] for axis in group])


def _order(sch: Schedule, fusion: FusionGroup, plan: Plan, name: str) -> int:
    """Order the loops of a block; how many there are, extents of 1 aside."""
    loops, units = axis_loops(sch, fusion, name)
    order = [loops[axis] for group in (*plan.outer, *plan.inner) for axis in group if axis in loops]
    if order != [*loops.values()] or units:
        sch.reorder(*order, *units)
    return len(order)


def _cut_all(
    sch: Schedule, fusion: FusionGroup, plan: Plan, depths: Mapping[str, int]
) -> dict[str, int]:
    """Cut each nest, once for all its blocks; how many loops are then around each block."""
    nests: dict[object, list[str]] = {}
    for name in fusion.names:
        loops = sch.get_loops(sch.get_block(name))[: depths[name]]
        nests.setdefault(sch.get_sref(loops[-1]) if loops else name, []).append(name)
    result: dict[str, int] = {}
    for names in nests.values():
        depth = _cut(sch, fusion, plan, names[0], depths[names[0]])
        result.update(dict.fromkeys(names, depth))
    return result


def _cut(sch: Schedule, fusion: FusionGroup, plan: Plan, name: str, depth: int) -> int:
    """Fuse and split the loops of a nest; how many there are then."""
    left = iter(sch.get_loops(sch.get_block(name))[:depth])
    own = fusion.domain.axes[name]
    outer, inner = (
        [fused(sch, [next(left) for _ in group]) for group in groups if group[0] in own]
        for groups in (plan.outer, plan.inner)
    )
    if plan.chunk:
        chunk, inner[plan.cut] = sch.split(inner[plan.cut], [None, plan.chunk])
        if len(inner) > 1:
            sch.reorder(chunk, *inner)
        outer.append(chunk)
    if plan.rows > 1 and plan.method == "contiguous":
        outer[-1], row = sch.split(outer[-1], [None, plan.rows])
        _write_out(sch, row, inner)
    elif plan.rows > 1 and any(axis in own for axis in fusion.domain.reduced):
        inner[-2], row = sch.split(inner[-2], [None, plan.rows])
        _write_out(sch, row, inner[-1:])
        operands = {load.buffer for load in factors(sch.get(sch.get_block(name)))}
        if len(operands) > 1 and all(map(is_constant, plan.inner[:-1])):
            sch.annotate(inner[-2], SUM_RUN, PRODUCT_RUN)
    return len(outer) + len(inner)


def _write_out(sch: Schedule, row: LoopRV, around: Sequence[LoopRV]) -> None:
    """Do several rows in each step of the loops that then are around them, if there are any."""
    if around:
        sch.reorder(*around, row)
        sch.unroll(row)


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


def _parallel_loop(sch: Schedule, name: str, plan: Plan, shared: int) -> ParallelLoop:
    """The outer loops of a nest as one, as far as that surely gives enough steps to share."""
    loops = sch.get_loops(sch.get_block(name))[:shared]
    count, steps = 1, 1
    while count < shared:
        outer, inner = (_least(sch.get(loop).extent) for loop in loops[count - 1 : count + 1])
        steps *= outer or ENOUGH
        if steps >= ENOUGH or not inner:  # what may be 0 is no base of a digit
            break
        count += 1
    return ParallelLoop(fused(sch, loops[:count]), plan)


def known_length(sch: Schedule, loop: LoopRV) -> int:
    """How many steps a loop has; 0 if that is open."""
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else 0


def _least(extent: Expr) -> int:
    """How many steps a loop has for sure; 0 if nothing is known."""
    known = known_extent(extent)
    return 0 if known is None else max(0, limits(known)[0])


def parallelize(sch: Schedule, found: Sequence[ParallelLoop]) -> None:
    """Let workers share loops; neighbours of the same length together, if that is possible."""
    runs: list[list[ParallelLoop]] = []
    for one in found:
        last = sch.get(runs[-1][-1].loop).extent if runs else None
        if last is sch.get(one.loop).extent:
            runs[-1].append(one)
        else:
            runs.append([one])
    for run in runs:
        loops = [one.loop for one in run]
        if len(run) > 1:
            with suppress(ScheduleError):
                loops = [sch.merge(*loops)]
        for loop, one in zip(loops, run):
            with suppress(ScheduleError):  # it runs, on one thread
                in_parallel(sch, loop, one.plan)


def in_parallel(sch: Schedule, loop: LoopRV, plan: Plan) -> None:
    """Let workers share a loop, as many as it turns out to be worth."""
    sch.parallel(loop)
    if plan.share:
        sch.annotate(loop, WORK, plan.share)


def _mark_vectors(sch: Schedule, fusion: FusionGroup, plan: Plan, depths: dict[str, int]) -> None:
    marked = set()
    for name in fusion.names:
        if plan.method == "contiguous" and not fusion.full(name):
            continue
        if depths[name] == 0:
            continue
        loops = sch.get_loops(sch.get_block(name))
        loop = loops[depths[name] - 1]
        if sch.get_sref(loop) not in marked:
            sch.annotate(loop, LANES, plan.lanes)
            if plan.method == "contiguous":
                sch.annotate(loop, SUMS, PARTS // plan.rows)
            if plan.transposed:
                sch.annotate(loops[depths[name] - 2], TILE, plan.side)
            marked.add(sch.get_sref(loop))
