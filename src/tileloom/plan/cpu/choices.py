"""The one decision about a fusion on a CPU: what workers share, what lies in a cache, in vectors.

Vectors run along the axis whose neighbours lie together in memory. If that one is reduced, a
worker makes whole rows, and a vector of sums becomes one result at the end of a row. If it is kept,
a worker makes blocks of columns, whose sums stay in the nearest cache while it goes down the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from ...expr import Expr, IntImm, Var, free_vars
from ...schedule.schedule import Schedule
from ...target import Target
from ...target.cost import PARALLEL_WORK
from ...tir import Block, BufferLoad, BufferStore, pre_order
from ..cost import widest_bits, work
from ..domain import Domain, GroupAxis, accesses
from ..loops import reduces
from ..sizes import Sizes
from .fusion_groups import FusionGroup, materialized_bytes, recompute_materialized
from .transposed import as_written, dims_of, transposed_axes

Method = Literal["elementwise", "contiguous", "strided"]

#: Passes one after another, each parallel by itself, pay from so many times `PARALLEL_WORK`.
PASS_WORK = 8
#: Intermediates up to this many bytes are materialized; they stay in the cache.
SCRATCH_BYTES = 1 << 17
#: The widest block of columns, and the least: their sums stay in the nearest cache.
WIDEST, NARROWEST = 1024, 8
#: The widest one of which several rows are added at a time (see also `NEAR` in `lower`).
WIDEST_ONCE = 8192
#: So many chunks of columns are enough for the workers that there may be.
SHARES = 8
#: Vectors of partial results in one pass over a row, or over several rows.
PARTS = 4
#: Rows that a strided reduction adds at a time, unless so many vectors of sums are all there are.
ROWS, REGISTERS = 8, 8
#: So many steps for each worker are left to share where rows are read several at a time.
STEPS = 4
#: Elements that a worker takes at a time from one long row.
CHUNK = 1 << 14
#: Axes of which so many fit into a vector are narrow.
NARROW = 4
#: Simple operations that a vector of positions, of so many bits each, takes to be divided.
INDEX_WORK, INDEX_BITS = 16, 32
#: The longest side of a tile that is transposed, and how many a worker takes at a time.
LONGEST, TILES = 16, 4


@dataclass(frozen=True)
class Plan:
    """How a fusion is cut.

    Attributes:
        outer: axes that workers share, in groups that are walked as one.
        inner: axes that a worker walks, the last one in vectors.
        chunk: how much of the last spatial (or transposed) axis a worker takes at a time;
            0 for all of it.
        lanes: of a vector.
        parallel: whether several workers share in it.
        work: simple operations, roughly.
        transposed: whether the axes before the innermost ones are read along their own elements, so
            that both are walked in square tiles.
        share: so many runs of blocks are worth a worker; 0 where all are, for sure.
        rows: how many rows are read at a time, as memory serves several streams faster than one.
            A strided reduction then loads and stores the sums once for all of them; a contiguous
            one has a vector of sums for each.
        cut: which group of the inner axes is cut into chunks.
    """

    method: Method
    outer: list[list[GroupAxis]]
    inner: list[list[GroupAxis]]
    chunk: int
    lanes: int
    parallel: bool
    work: int
    transposed: bool = False
    share: int = 0
    rows: int = 1
    cut: int = -1

    @property
    def side(self) -> int:
        """Of a square tile."""
        return min(self.lanes, LONGEST)


def choose_plan(
    sch: Schedule, fusion: FusionGroup, target: Target, sizes: Sizes, together: bool = False
) -> Plan:
    """The plan of a fusion, whose intermediates have room then or are computed anew.

    Args:
        together: workers share this fusion with others, whatever there is to do in it.
    """
    scratch = materialized_bytes(sch, fusion, sizes, SCRATCH_BYTES)
    if scratch is None:
        recompute_materialized(sch, fusion)
        scratch = 0
    plan = plan_of(sch, fusion, target, sizes, together)
    if plan.method != "strided" or not scratch:
        return plan
    room = SCRATCH_BYTES // scratch // plan.lanes * plan.lanes
    if room >= plan.lanes:
        return replace(plan, chunk=min(room, plan.chunk or size(plan.inner[-1])))
    recompute_materialized(sch, fusion)
    return plan_of(sch, fusion, target, sizes, together)


def plan_of(
    sch: Schedule, fusion: FusionGroup, target: Target, sizes: Sizes, together: bool = False
) -> Plan:
    """The plan of a fusion as it is."""
    blocks = [sch.get(sch.get_block(name)) for name in fusion.names]
    domain = fusion.domain
    lanes = target.lanes(widest_bits(blocks))
    axes = domain.spatial if domain.reduced else as_written(domain, blocks)
    spatial = _chains(axes, blocks, domain, sizes)
    reduced = _chains(domain.reduced, blocks, domain, sizes)
    if not _runs_down(spatial, reduced):
        reduced = _as_vectors(reduced, blocks, domain, lanes, target)
    method = _method(spatial, reduced, lanes)
    if method == "contiguous":
        outer, inner = _read_once(spatial, blocks, domain), reduced
        # What is done once a row, with an index in int64 for example, is not done in vectors.
        lanes = target.lanes(widest_bits(b for b in blocks if fusion.full(b.name_hint)))
    else:
        outer, inner = spatial[:-1], [*reduced, *spatial[-1:]]
    side = min(lanes, LONGEST)
    across = transposed_axes(spatial, blocks, domain, side) if method == "elementwise" else None
    if across is not None:
        outer, inner = [g for g in outer if g is not across], [across, *inner]
    if method == "elementwise" and across is None:
        spatial = _as_vectors(spatial, blocks, domain, lanes, target)
        outer, inner = spatial[:-1], spatial[-1:]
    amount, share, parallel = _workers(blocks, fusion, target, sizes)
    parallel |= together
    plan = Plan(method, outer, inner, 0, lanes, parallel, amount, across is not None)
    full = [block for block in blocks if fusion.full(block.name_hint)]
    if method == "strided" and is_constant(reduced[-1]) and all(map(reduces, full)):
        in_registers = is_constant(inner[-1]) and size(inner[-1]) <= REGISTERS * lanes
        pays = size(reduced[-1]) >= 2 * ROWS and not in_registers
        plan = replace(plan, rows=ROWS if pays else 1)
    if method == "contiguous" and len({fusion.levels[block.name_hint] for block in full}) == 1:
        one_sum = all(reduces(block) and len(block.writes) == 1 for block in full)
        plan = replace(plan, rows=_rows_at_once(plan, target) if one_sum else 1)
    if method != "contiguous" and inner:
        plan = _with_chunks(plan, target, sizes)
    return replace(plan, share=share)


def _rows_at_once(plan: Plan, target: Target) -> int:
    """How many rows, neighbours on one axis, a contiguous reduction reads at a time, all alike."""
    if not plan.outer or not is_constant(plan.outer[-1]):
        return 1
    least = STEPS * target.cores if plan.parallel else 1
    steps = prod(map(size, plan.outer))
    count, rows = plan.outer[-1][-1].extent, (PARTS, PARTS // 2)
    return next((n for n in rows if count % n == 0 and steps >= n * least), 1)


def _as_vectors(
    groups: list[list[GroupAxis]],
    blocks: Sequence[Block],
    domain: Domain,
    lanes: int,
    target: Target,
) -> list[list[GroupAxis]]:
    """The groups with so many of the last ones walked as one that vectors are full.

    Positions are divided then, and what lacks an axis is gathered: that costs less than vectors
    of which most lanes are idle, unless there is next to nothing to compute.
    """
    each, indices = sum(map(work, blocks)), INDEX_WORK * lanes // target.lanes(INDEX_BITS)
    while len(groups) > 1 and all(map(is_constant, groups[-2:])):
        narrow = size(groups[-1])
        if narrow * NARROW > lanes or each * lanes // narrow <= each + indices:
            break
        outer, inner = groups[-2][-1], groups[-1][0]
        if size(groups[-2]) * narrow >= 1 << 31 or not all(
            _chained(outer, inner, block, domain, partly=True) for block in blocks
        ):
            break
        groups = [*groups[:-2], [*groups[-2], *groups[-1]]]
    return groups


def size(group: Sequence[GroupAxis]) -> int:
    """The positions along several axes."""
    return prod(axis.extent for axis in group)


def _method(
    spatial: Sequence[Sequence[GroupAxis]], reduced: Sequence[Sequence[GroupAxis]], lanes: int
) -> Method:
    if not reduced:
        return "elementwise"
    if not spatial:
        return "contiguous"
    if _runs_down(spatial, reduced):
        return "strided"
    enough = size(reduced[-1]) >= lanes or size(spatial[-1]) < lanes
    return "contiguous" if enough else "strided"


def _runs_down(
    spatial: Sequence[Sequence[GroupAxis]], reduced: Sequence[Sequence[GroupAxis]]
) -> bool:
    """Whether neighbours along the last reduced axis are further apart than those of results."""
    return bool(spatial and reduced) and reduced[-1][-1].weight > spatial[-1][-1].weight


def _read_once(
    groups: Sequence[list[GroupAxis]], blocks: Sequence[Block], domain: Domain
) -> list[list[GroupAxis]]:
    """The loops in an order in which the largest operand is read from memory once.

    Axes that it does not have are innermost: its rows are in the cache for all their steps.
    """
    largest, has = 0, set[GroupAxis]()
    for block in blocks:
        read = [region.buffer for region in block.reads] if reduces(block) else []
        for buffer in read:
            axes = {axis for axis in dims_of(block, domain, buffer) if axis is not None}
            amount = prod(axis.extent for axis in axes)
            if amount > largest:
                largest, has = amount, axes
    return sorted(groups, key=lambda group: has.isdisjoint(group))


def _chains(
    axes: Sequence[GroupAxis], blocks: Sequence[Block], domain: Domain, sizes: Sizes
) -> list[list[GroupAxis]]:
    """Neighbouring axes together that every access steps through as one."""
    found: list[list[GroupAxis]] = []
    for axis in axes:
        fits = bool(found) and _is_counted([*found[-1], axis], sizes)
        if fits and all(_chained(found[-1][-1], axis, block, domain) for block in blocks):
            found[-1].append(axis)
        else:
            found.append([axis])
    return found


def _is_counted(group: Sequence[GroupAxis], sizes: Sizes) -> bool:
    """Whether the positions along several axes are surely less than 2^31."""
    ends = [axis.extent if axis.size is None else sizes.most(axis.size) for axis in group]
    return None not in ends and prod(end for end in ends if end is not None) < 1 << 31


def _chained(
    outer: GroupAxis, inner: GroupAxis, block: Block, domain: Domain, partly: bool = False
) -> bool:
    """Whether accesses step through two axes as one; `partly`: those that have both."""
    row = domain.axes[block.name_hint]
    by_axis = {
        axis: iter_var.var for axis, iter_var in zip(row, block.iter_vars, strict=True) if axis
    }
    first, second = by_axis.get(outer), by_axis.get(inner)
    if first is None or second is None:
        return first is second
    if not isinstance(inner.size, IntImm) and not _are_whole_rows(block, first, second, inner.size):
        return False  # positions would be divided by what is not constant
    return all(_as_one(first, second, i, buffer.shape, partly) for buffer, i in accesses(block))


def _are_whole_rows(block: Block, row: Var, place: Var, length: Expr | None) -> bool:
    """Whether two variables are nothing but indices, the second one over all of a dimension."""
    for buffer, indices in accesses(block):
        for index, extent in zip(indices, buffer.shape, strict=True):
            if index is place and extent is not length:
                return False
    stores = (stmt for stmt in pre_order(block.body) if isinstance(stmt, BufferStore))
    return all(_parts_outside_indices(store.value).isdisjoint({row, place}) for store in stores)


def _parts_outside_indices(value: Expr) -> set[Expr]:
    """The parts of a value but for those that say where it is loaded from."""
    found, waiting = set[Expr](), [value]
    while waiting:
        part = waiting.pop()
        if part not in found:
            found.add(part)
            waiting += () if isinstance(part, BufferLoad) else part.children
    return found


def _as_one(
    first: Var, second: Var, indices: Sequence[Expr], shape: Sequence[Expr], partly: bool = False
) -> bool:
    """Whether an access has neither variable, or one right before the other; `partly`: or one."""
    live = [
        index
        for index, extent in zip(indices, shape, strict=True)
        if not (isinstance(extent, IntImm) and extent.value == 1)
    ]
    using = [k for k, index in enumerate(live) if not free_vars(index).isdisjoint({first, second})]
    if not using:
        return True
    if len(using) == 1:
        return partly and (live[using[0]] is first or live[using[0]] is second)
    at = using[0]
    return using == [at, at + 1] and live[at] is first and live[at + 1] is second


# ---------------------------------------------------------------------------- amounts


def _workers(
    blocks: Sequence[Block], fusion: FusionGroup, target: Target, sizes: Sizes
) -> tuple[int, int, bool]:
    """The work, the runs of blocks that are worth a worker, and whether several may pay."""
    expected, least, most, runs = 0, 0, 0, 0
    for block in blocks:
        axes = [axis for axis in fusion.domain.axes[block.name_hint] if axis is not None]
        each = work(block)
        times = prod(axis.extent for axis in axes)
        runs += times
        expected += each * times
        known = [axis.size for axis in axes if axis.size is not None]
        least += each * prod(map(sizes.least, known))
        ends = [sizes.most(extent) for extent in known]
        most += each * prod(PARALLEL_WORK if end is None else end for end in ends)
    parallel = target.cores > 1 and most >= PARALLEL_WORK
    if not parallel or least >= PARALLEL_WORK:
        return expected, 0, parallel
    return expected, max(1, PARALLEL_WORK // 2 * runs // max(1, expected)), parallel


def fixed_work(sch: Schedule, fusion: FusionGroup) -> int | None:
    """Simple operations of a fusion, roughly; None where sizes are open."""
    total = 0
    for name in fusion.names:
        axes = [axis for axis in fusion.domain.axes[name] if axis is not None]
        if not is_constant(axes):
            return None
        total += work(sch.get(sch.get_block(name))) * size(axes)
    return total


def _with_chunks(plan: Plan, target: Target, sizes: Sizes) -> Plan:
    """Cut the last spatial axis, for the sake of the cache or of the workers."""
    if plan.transposed:
        return _with_tiles(plan, target)
    extent = size(plan.inner[-1])
    rows = prod(map(size, plan.outer))
    workers = target.cores if plan.parallel else 1
    if plan.method == "elementwise":
        if workers == 1 or rows >= 4 * workers:
            return plan
        chunk = max(16 * plan.lanes, -(-extent // max(1, 4 * workers // rows)))
        chunk = CHUNK if not is_constant(plan.inner[-1]) else min(chunk, CHUNK)
    else:
        shares, widest = (workers, WIDEST_ONCE) if plan.rows > 1 else (SHARES, WIDEST)
        chunk = max(_narrowest(plan, sizes), min(widest, extent // -(-shares // rows)))
    if is_constant(plan.inner[-1]):
        if chunk >= extent:
            return plan
        chunk = -(-extent // _pieces(plan, -(-extent // chunk)))
    return replace(plan, chunk=_in_vectors(chunk, plan.lanes))


def _in_vectors(length: int, lanes: int) -> int:
    """A length rounded up to whole vectors."""
    return -(-length // lanes) * lanes


def _narrowest(plan: Plan, sizes: Sizes) -> int:
    """The least columns of a block: fewer where it is open how many blocks there are, but not few.

    The shares of workers differ by a block. Whether there are few columns may be decided here.
    """
    columns, least = plan.inner[-1], NARROWEST * plan.lanes
    if is_constant(columns) or plan.outer or not plan.parallel:
        return least
    count = prod(sizes.number(axis.size) for axis in columns if axis.size is not None)
    return least // 2 if count >= 2 * least else least


def _with_tiles(plan: Plan, target: Target) -> Plan:
    """Cut an axis of the tiles, unless there are rows enough for the workers."""
    rows, chunk, enough = prod(map(size, plan.outer)), TILES * plan.lanes, 4 * target.cores
    if not plan.parallel or (rows >= enough and all(map(is_constant, plan.outer))):
        return plan
    across, along = (rows * -(-size(group) // chunk) for group in plan.inner)
    is_short = is_constant(plan.inner[0]) and across < min(enough, along)
    return replace(plan, chunk=chunk, cut=-1 if is_short else 0)


def _pieces(plan: Plan, least: int) -> int:
    """Into how many even shares in whole vectors the last axes are cut, and not into fewer.

    Shares of whole rows, or that rows are a multiple of, leave the digits of a position as plain
    as they were, so that neighbours are still known to be neighbours. Other exact shares leave
    digits of which only parts are plain: reductions over such are not understood.
    """
    axes = plan.inner[-1]
    extent = size(axes)
    rows = [size(axes[k:]) for k in range(1, len(axes))]
    exact = [k for k in range(least, 4 * least + 1) if extent % (k * plan.lanes) == 0]
    shares = ((k, extent // k) for k in exact)
    plain = (k for k, share in shares if all(share % row == 0 or row % share == 0 for row in rows))
    if plan.method == "elementwise":
        return next(plain, exact[0] if exact and exact[0] <= 2 * least else least)
    chunks = ((k, _in_vectors(-(-extent // k), plan.lanes)) for k in range(least, 4 * least + 1))
    return next(plain, next((k for k, chunk in chunks if extent % chunk), least))


def is_constant(group: Sequence[GroupAxis]) -> bool:
    """Whether the extents of axes are numbers."""
    return all(isinstance(axis.size, IntImm) for axis in group)
