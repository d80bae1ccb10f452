"""Elementwise blocks that read an input across its rows: through tiles in shared memory.

A warp that writes neighbours would read elements far apart. So a square tile of the input is read
row by row into shared memory, and from there column by column. Rows are stored one element longer
than they are, so that a column lies in different banks.
"""

from __future__ import annotations

from ...expr import IntImm, Var
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...tir import Block, Buffer
from ..domain import Domain, GroupAxis, accesses

#: Elements of a tile's side, and rows of threads that share it.
SIDE, ROWS = 32, 8


def transposed_reads(block: Block, domain: Domain) -> dict[Buffer, GroupAxis]:
    """Inputs that a block reads along another axis than it writes, with the axis that runs along
    their rows; none where tiles do not pay."""
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    written = block.writes[0].buffer
    along = _innermost(block, written, by_var)
    if along is None or along.extent < SIDE:
        return {}
    found: dict[Buffer, GroupAxis] = {}
    for region in block.reads:
        axis = _innermost(block, region.buffer, by_var)
        if axis is not None and axis is not along and axis.extent >= SIDE:
            indices = [i for b, i in accesses(block) if b is region.buffer]
            across = any(
                isinstance(index, Var) and by_var.get(index) is along for index in indices[0]
            )
            if len(set(indices)) == 1 and across:
                found[region.buffer] = axis
    return found if len(set(found.values())) == 1 else {}


def _innermost(
    block: Block, buffer: Buffer, by_var: dict[Var, GroupAxis | None]
) -> GroupAxis | None:
    """The axis along which neighbours in a buffer lie."""
    for accessed, indices in accesses(block):
        if accessed is buffer:
            for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
                if not (isinstance(extent, IntImm) and extent.value == 1):
                    return by_var.get(index) if isinstance(index, Var) else None
    return None


def tile_transposed(
    sch: Schedule, rv: BlockRV, domain: Domain, reads: dict[Buffer, GroupAxis]
) -> LoopRV:
    """Tile an elementwise block that reads these inputs across rows; the loop over tiles."""
    block = sch.get(rv)
    axes = domain.axes[block.name_hint]
    by_var = dict(zip((i.var for i in block.iter_vars), axes, strict=True))
    along, across = _innermost(block, block.writes[0].buffer, by_var), next(iter(reads.values()))
    loops = dict(zip(axes, sch.get_loops(rv), strict=True))
    units = [loop for axis, loop in zip(axes, sch.get_loops(rv), strict=True) if axis is None]
    rest = [loop for axis, loop in loops.items() if axis not in (None, along, across)]
    far, row = sch.split(loops[across], [None, SIDE])
    near, lane = sch.split(loops[along], [None, SIDE])
    sch.reorder(*rest, far, near, row, lane, *units)
    tiles: LoopRV = sch.fuse(*rest, far, near)
    _, thread = sch.split(row, [None, ROWS])
    sch.bind(lane, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    numbers = {region.buffer: k for k, region in enumerate(block.reads)}
    for buffer in reads:
        copy = sch.cache_read(rv, numbers[buffer], "shared")
        sch.compute_at(copy, tiles)
        _share_copy(sch, copy)
    return tiles


def _share_copy(sch: Schedule, copy: BlockRV) -> None:
    """Deal a tile's rows out to rows of threads, its columns to lanes."""
    *outer, column = sch.get_loops(copy)[1:]
    if len(outer) > 1:
        outer = [sch.fuse(*outer)]
    _, thread = sch.split(outer[0], [None, ROWS])
    sch.bind(column, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    sch.storage_align(copy, 0, axis=-2, factor=SIDE, offset=1)
