"""Reductions with few results: in parts by the whole grid, then the parts by one block a result.

A block for each result would leave most of a GPU idle. So every result gets many blocks, each of
which leaves one part in memory; a second kernel reduces the parts and computes what follows. The
order of adding is fixed, unlike with atomic additions.
"""

from __future__ import annotations

from ..rv import BlockRV, LoopRV
from ..schedule import Schedule
from .domain import Domain, GroupRefused
from .loops import blocks_by_name, fused, reduces, rows_and_depth, share_out
from .tile import BLOCKS, KEPT, Tile, divisor, trim

#: Positions of a row from which parts pay, and threads of a block that makes one.
WORTH, THREADS = 16_384, 256


def parts_for(domain: Domain, sch: Schedule) -> int:
    """Into how many parts reductions should be cut; 1 where one kernel does."""
    if domain.depth < WORTH or domain.rows >= BLOCKS // 2:
        return 1
    for name, block in blocks_by_name(sch).items():
        over_all = any(axis is not None and axis.reduced for axis in domain.axes[name])
        before = (sch.get(rv) for rv in sch.get_producers(sch.get_block(name)))
        if over_all and (not reduces(block) or any(map(reduces, before))):
            return 1  # the data is passed over again, with what all parts make together
    wanted = trim(2 * BLOCKS // domain.rows, 1, domain.depth // (THREADS * KEPT))
    return divisor(domain.depth, wanted)  # parts of different lengths would need a guard each


def schedule_parts(sch: Schedule, domain: Domain, parts: int) -> None:
    """Two kernels: parts of all reductions, then what is made of them."""
    of_parts: list[LoopRV] = []
    of_wholes: list[LoopRV] = []
    whole = Tile(1, 1, min(1024, 1 << (parts - 1).bit_length()), 1, "block")
    for name, block in blocks_by_name(sch).items():
        rv = sch.get_block(name)
        rows, depth = rows_and_depth(sch, rv, name, domain)
        if reduces(block):
            if depth is None:
                raise GroupRefused(f"block {name!r} reduces over nothing")
            part, _ = sch.split(depth, [parts, None])
            of_parts.append(_tile_part(sch, sch.rfactor(part, 0)))
            rows, depth, *_ = sch.get_loops(rv)
        of_wholes.append(share_out(sch, rv, rows, depth, whole))
    for nests in (of_parts, of_wholes):
        first = sch.merge(*nests) if len(nests) > 1 else nests[0]
        sch.bind(first, "blockIdx.x")


def _tile_part(sch: Schedule, rv: BlockRV) -> LoopRV:
    """A block of threads for each part."""
    row, part, rest, *_ = sch.get_loops(rv)
    block = fused(sch, [row, part])
    inner, thread = sch.split(rest, [None, THREADS])
    sch.reorder(thread, inner)
    sch.bind(thread, "threadIdx.x")
    return block
