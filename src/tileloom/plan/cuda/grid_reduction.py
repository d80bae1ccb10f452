"""Reductions with few results: in parts by the whole grid, then the parts by few blocks.

A block for each result would leave most of a GPU idle. So every result gets many blocks, each of
which leaves one part in memory; a second kernel reduces the parts and computes what follows. The
order of adding is fixed, unlike with atomic additions.
"""

from __future__ import annotations

from ...expr.extents import is_number, limits
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...target import Target
from ..domain import Domain
from ..loops import reduces
from .canonical import normalise
from .choose import vector_of
from .fusion_groups import TiledGroup, blocks_alone, is_long
from .launches import GridLaunch
from .online import reduce_in_one_pass
from .registers import keep_results, streams_of
from .stream import Rows, copy_streams, in_registers
from .threads import ACROSS_ROWS, ALONG_ROWS, bind_threads, threads_of
from .tile import KEPT, Tile, busy_blocks, next_power, trim

#: Threads that reduce one part, and for columns how many columns and how many threads of each.
THREADS, COLUMNS, TOGETHER = 256, 32, 8
#: Rows of an unknown length are cut for that, where they are longer.
LONGER = 1 << 18


def parts_for(sch: Schedule, fusion: TiledGroup, target: Target) -> int:
    """Into how many parts reductions should be cut; 1 where one kernel does."""
    domain = fusion.domain
    if not is_long(domain, target) or not any(map(reduces, fusion.blocks(sch).values())):
        return 1
    for name, block in fusion.blocks(sch).items():
        before = (sch.get(rv) for rv in sch.get_producers(sch.get_block(name)))
        inside = [b for b in before if b.name_hint in fusion.names]
        if name in {later for _, later in fusion.pairs}:
            continue
        if domain.over_depth(name) and (not reduces(block) or any(map(reduces, inside))):
            return 1  # the data is passed over again, with what all parts make together
    step = _threads(domain)
    alone, depth = _numbers(domain)
    wanted = trim(2 * busy_blocks(target) // alone, 1, max(1, depth // (step * KEPT)))
    if not is_number(domain.depth):
        return int(wanted)
    length = -(-domain.depth // (wanted * step)) * step
    return int(-(-domain.depth // length))


def _numbers(domain: Domain) -> tuple[int, int]:
    """Blocks and the length of rows, by which parts are counted."""
    alone, depth = blocks_alone(domain), domain.depth
    if not is_number(alone):
        alone = 8 if alone < 16 else 64
    if not is_number(depth):
        depth = LONGER if depth >= LONGER else limits(depth)[0]
    return alone, depth


def _threads(domain: Domain) -> int:
    return THREADS if domain.reduces_innermost else TOGETHER


def schedule_parts(sch: Schedule, fusion: TiledGroup, parts: int, bits: int) -> list[GridLaunch]:
    """Two kernels: parts of all reductions, then what is made of them.

    Args:
        bits: of the widest element.
    """
    domain = fusion.domain
    along = domain.reduces_innermost
    rows = streams_of(sch, fusion) if along and is_number(domain.depth) else {}
    vector = vector_of(domain.reduced[-1].extent, KEPT, bits) if rows else 1
    step = _threads(domain) * vector
    length: int | None = None
    if is_number(domain.depth):
        length = -(-domain.depth // (parts * step))
        parts = -(-domain.depth // (length * step))  # none of them empty
    rows_number = domain.rows if is_number(domain.rows) else THREADS
    if along:
        whole, tags = Tile(1, 1, trim(next_power(parts), 1, 1024), 1, "block"), ALONG_ROWS
    else:
        whole, tags = Tile(min(THREADS, rows_number), 1, 1, parts, "none"), ACROSS_ROWS
    keep_results(sch, fusion, whole)
    deep = {name: normalise(sch, name, domain, vector)[1] is not None for name in fusion.names}
    if fusion.pairs:
        for _, later in reduce_in_one_pass(sch, fusion.names):
            deep[later] = False
    of_parts: list[LoopRV] = []
    of_wholes: list[LoopRV] = []
    for name in fusion.names:
        rv = sch.get_block(name)
        if deep[name] and vector > 1:
            of_parts += _stream_part(sch, rv, fusion, (parts, length, vector), rows)
        elif deep[name]:
            part = _into_parts(sch, sch.get_loops(rv)[1], parts, length, step)[0]
            of_parts.append(_tile_part(sch, sch.rfactor(part, 0), along, rows_number))
        row, *depth = sch.get_loops(rv)
        leaves = fusion.leaves(sch, sch.get(rv))
        of_wholes.append(
            bind_threads(sch, rv, row, depth[:1] if deep[name] else (), whole, tags, leaves)
        )
    threads = (THREADS, 1) if along else (min(COLUMNS, rows_number), TOGETHER)
    return [
        GridLaunch(merged(sch, of_parts), threads),
        GridLaunch(merged(sch, of_wholes), threads_of(whole, tags)),
    ]


def _stream_part(
    sch: Schedule, rv: BlockRV, fusion: TiledGroup, sizes: tuple[int, int | None, int], rows: Rows
) -> list[LoopRV]:
    """A block of threads for each part of a row, read by vectors; threads, then all of them."""
    parts, length, vector = sizes
    copies = copy_streams(sch, rv, fusion, vector, rows)
    row, vectors, lane = sch.get_loops(rv)
    part, inner, thread = _into_parts(sch, vectors, parts, length, THREADS)
    sch.reorder(row, part, thread, inner, lane)
    both = sch.rfactor(part, 0)
    _for_other_kernels(sch, both)
    own = sch.rfactor(sch.get_loops(both)[2], -1)
    row, part, thread, inner, lane = sch.get_loops(own)
    in_registers(sch, own, copies, inner, lane)
    blocks = []
    for block in (own, both):
        row, part, thread, *_ = sch.get_loops(block)
        blocks.append(sch.fuse(row, part))
        sch.bind(thread, "threadIdx.x")
    return blocks


def _into_parts(
    sch: Schedule, loop: LoopRV, parts: int, length: int | None, step: int
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Loops over parts, over the steps of one, and over threads.

    Parts of an unknown length take steps in turn, so that conditions stay linear.
    """
    part: LoopRV
    if length is not None:
        part, inner, thread = sch.split(loop, [parts, length, step])
    else:
        inner, part, thread = sch.split(loop, [None, parts, step])
        sch.reorder(part, inner)
    return part, inner, thread


def merged(sch: Schedule, nests: list[LoopRV]) -> LoopRV:
    """Nests over blocks as one."""
    loop: LoopRV = sch.merge(*nests) if len(nests) > 1 else nests[0]
    return loop


def _for_other_kernels(sch: Schedule, rv: BlockRV) -> None:
    for k in range(len(sch.get(rv).writes)):
        sch.set_scope(rv, k, "global")


def _tile_part(sch: Schedule, rv: BlockRV, along: bool, rows: int) -> LoopRV:
    """A block of threads for each part of a row, or of neighbouring columns."""
    _for_other_kernels(sch, rv)
    row, part, inner, thread = sch.get_loops(rv)
    block: LoopRV
    if along:
        sch.reorder(row, part, thread, inner)
        block = sch.fuse(row, part)
        sch.bind(thread, "threadIdx.x")
        return block
    columns, column = sch.split(row, [None, min(COLUMNS, rows)])
    sch.reorder(columns, part, column, thread, inner)
    block = sch.fuse(columns, part)
    sch.bind(column, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    return block
