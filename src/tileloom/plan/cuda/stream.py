"""Reductions of rows that threads cannot keep: read by vectors, each of which is reduced at once.

A thread reduces what it reads into registers of its own; then the threads of a row combine what
they have.
"""

from __future__ import annotations

from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...tir import Buffer
from ..domain import GroupAxis
from .canonical import normalise
from .fusion_groups import TiledGroup
from .registers import flatten
from .threads import bind_threads, several_at_once
from .tile import Tile

Rows = dict[Buffer, list[GroupAxis | None]]


def reduce_stream(
    sch: Schedule, name: str, fusion: TiledGroup, tile: Tile, tags: tuple[str, str], rows: Rows
) -> list[LoopRV]:
    """Tile a reduction with loops over rows, vectors and the elements of a vector.

    Args:
        rows: inputs that can be read by vectors, and the axes of their dimensions.

    Returns:
        The loops over blocks of what threads reduce, and of what they combine.
    """
    rv = sch.get_block(name)
    copies = copy_streams(sch, rv, fusion, tile.vector, rows)
    row, vectors, lane = sch.get_loops(rv)
    inner, thread = sch.split(vectors, [None, tile.reduce_thread])
    sch.reorder(row, thread, inner, lane)
    own = sch.rfactor(thread, -1)
    row, thread, inner, lane = sch.get_loops(own)
    block, row = sch.split(row, [None, tile.spatial_thread])
    in_registers(sch, own, copies, inner, lane)
    sch.bind(thread, tags[1])
    if tile.spatial_thread > 1:
        sch.bind(row, tags[0])
    row, thread = sch.get_loops(rv)
    leaves = fusion.leaves(sch, sch.get(rv))
    return [block, bind_threads(sch, rv, row, [thread], tile, tags, leaves)]


def in_registers(
    sch: Schedule, own: BlockRV, copies: list[BlockRV], inner: LoopRV, lane: LoopRV
) -> None:
    """Let a thread read vectors, and reduce their elements, into registers."""
    inner = several_at_once(sch, own, inner)
    for copy in copies:
        sch.compute_at(copy, inner)
        sch.vectorize(sch.get_loops(copy)[-1])
    sch.unroll(lane)
    for k in range(len(sch.get(own).writes)):
        sch.set_scope(own, k, "local")


def copy_streams(
    sch: Schedule, rv: BlockRV, fusion: TiledGroup, vector: int, rows: Rows
) -> list[BlockRV]:
    """Copies of what a block reads by vectors."""
    return [_copy(sch, rv, buffer, fusion, vector, rows) for buffer in _inputs(sch, rv, rows)]


def _inputs(sch: Schedule, rv: BlockRV, rows: Rows) -> list[Buffer]:
    return [region.buffer for region in sch.get(rv).reads if region.buffer in rows]


def _copy(
    sch: Schedule, rv: BlockRV, buffer: Buffer, fusion: TiledGroup, vector: int, rows: Rows
) -> BlockRV:
    """A copy of an input in registers, laid out by rows and vectors."""
    number = [region.buffer for region in sch.get(rv).reads].index(buffer)
    copy: BlockRV = sch.cache_read(rv, number, "local", consumer_blocks=[sch.get(rv).name_hint])
    name = sch.get(copy).name_hint
    fusion.domain.axes[name] = rows[buffer]
    flatten(sch, name, fusion, vector)
    normalise(sch, name, fusion.domain, vector)
    return copy
