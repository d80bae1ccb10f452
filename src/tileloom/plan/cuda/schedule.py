"""Groups on a GPU: every block of a fusion tiled alike, in one kernel.

Each block gets the loops [block, row thread, reduction thread, inner]; the outermost loops of all
blocks become one, so that a thread block makes a row, or a few, from beginning to end. All blocks
deal positions out to threads in the same way. So what a thread reads it has stored itself, and
intermediates stay in its registers; results of reductions reach every thread that shared in them.
"""

from __future__ import annotations

from ...expr.extents import is_number
from ...schedule.errors import ScheduleError
from ...schedule.library import auto_inline
from ...schedule.rv import LoopRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import IRModule, PrimFunc
from ..cost import widest_bits
from ..domain import GroupRefused, domain_of
from ..loops import checked_once, reduces
from .broadcast import along_broadcasts, broadcast_tile
from .buckets import choose_open_tile
from .canonical import normalise
from .fusion_groups import TiledGroup, settle
from .grid_reduction import merged, parts_for, schedule_parts
from .launches import GridLaunch, bind_launches
from .online import reduce_in_one_pass
from .products import product_alone
from .registers import (
    flatten,
    inline_the_rest,
    keep_results,
    read_by_vectors,
    rows_of_inputs,
    streams_of,
)
from .stream import Rows, reduce_stream
from .threads import ACROSS_ROWS, ALONG_ROWS, bind_threads, threads_of
from .tile import MANY, Tile, alternatives
from .transposed import ROWS, SIDE, tile_transposed, transposed_reads


def schedule_gpu(mod: IRModule | PrimFunc, target: Target) -> Schedule:
    """A group for a GPU: one kernel for each of its fusions, of which most groups have one.

    Args:
        mod: a function of blocks that are bound to nothing yet.
        target: a GPU.

    Returns:
        The schedule, whose trace holds the steps that were taken.

    Raises:
        GroupRefused: an extent is no number.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A, k = te.placeholder((64, 100), name="A"), te.reduce_axis((0, 100), name="k")
    >>> B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> C = te.compute((64, 100), lambda i, j: A[i, j] / B[i], name="C")
    >>> sch = schedule_gpu(te.create_prim_func([A, C]), target("cuda -arch=sm_80"))
    >>> block, row, thread, inner, vector = map(sch.get, sch.get_loops("C"))
    >>> block.thread_binding.thread_tag, thread.thread_binding.thread_tag, vector.kind
    ('blockIdx.x', 'threadIdx.x', 'vectorized')
    """
    sch = Schedule(mod)
    product = product_alone(sch, target)
    if product is not None:
        return product
    with checked_once(sch):
        for _ in range(2):  # the second time round, what had several readers may have one
            auto_inline(sch, into_producers=False)
    fusions = settle(sch, target)
    launches: list[GridLaunch] = []
    for fusion in fusions:
        sch, made = _schedule(sch, fusion, target, alone=len(fusions) == 1)
        launches += made
    return bind_launches(sch, launches)


def _schedule(
    sch: Schedule, fusion: TiledGroup, target: Target, alone: bool
) -> tuple[Schedule, list[GridLaunch]]:
    """The kernels of a fusion, with the first of all tiles that fits."""
    bits = widest_bits(fusion.blocks(sch).values())
    parts = parts_for(sch, fusion, target)
    if parts > 1:
        trial = sch.copy()
        try:
            return trial, schedule_parts(trial, fusion.copy(), parts, bits)
        except ScheduleError:
            pass  # one kernel will do
    wide = along_broadcasts(sch, fusion)
    if wide is not None:
        trial = sch.copy()
        own = TiledGroup(list(fusion.names), wide, fusion.exported)
        try:
            return trial, [_apply(trial, own, broadcast_tile(wide, bits))]
        except ScheduleError:
            pass  # flat positions will do
    domain = fusion.domain
    for tile in alternatives(_choose(sch, fusion, target, alone), domain.rows, domain.depth):
        trial = sch.copy()
        try:
            return trial, [_apply(trial, fusion.copy(), tile)]
        except ScheduleError as error:
            reason = error
    if len(fusion.names) == 1:
        raise GroupRefused(f"no tile fits block {fusion.names[0]!r}: {reason.message}")
    return _one_by_one(sch, fusion, target)


def _one_by_one(
    sch: Schedule, fusion: TiledGroup, target: Target
) -> tuple[Schedule, list[GridLaunch]]:
    """The blocks of a fusion as kernels of their own."""
    launches: list[GridLaunch] = []
    made = {r.buffer for block in fusion.blocks(sch).values() for r in block.writes}
    for name, block in fusion.blocks(sch).items():
        only = TiledGroup([name], domain_of([block]), fusion.exported | made)
        sch, found = _schedule(sch, only, target, alone=False)
        launches += found
    return sch, launches


def _choose(sch: Schedule, fusion: TiledGroup, target: Target, alone: bool) -> Tile:
    blocks = fusion.blocks(sch).values()
    domain = fusion.domain
    if fusion.is_product(sch):
        rows = min(256, domain.rows) if is_number(domain.rows) else 256
        return Tile(rows, 1, 1, domain.depth if is_number(domain.depth) else MANY, "none")
    tile = choose_open_tile(
        domain.rows,
        domain.depth,
        reduces=any(map(reduces, blocks)),
        innermost=domain.reduces_innermost,
        bits=widest_bits(blocks),
        target=target,
        length=domain.reduced[-1].extent if rows_of_inputs(sch, fusion) else 1,
    )
    # Kernels with equal blocks can be one.
    return tile if alone or tile.method != "none" or domain.reduced else tile.with_threads(256)


def _apply(sch: Schedule, fusion: TiledGroup, tile: Tile) -> GridLaunch:
    domain = fusion.domain
    inline_the_rest(sch, fusion, tile)
    keep_results(sch, fusion, tile)
    vector = tile.vector if domain.reduced else 1
    streams: Rows = {}
    if vector > 1 and not tile.keeps_rows:
        streams = streams_of(sch, fusion)
    elif vector > 1 and any(map(reduces, fusion.blocks(sch).values())):
        read_by_vectors(sch, fusion)
    for name in fusion.names:
        flatten(sch, name, fusion, vector)
    if not domain.reduced and len(fusion.names) == 1:
        block = sch.get_block(fusion.names[0])
        across = transposed_reads(sch.get(block), domain)
        if across:
            return GridLaunch(tile_transposed(sch, block, domain, across), (SIDE, ROWS))
    along = domain.reduces_innermost and tile.reduce_thread > 1
    tags = ALONG_ROWS if along else ACROSS_ROWS
    deep = {name: normalise(sch, name, domain, vector)[1] is not None for name in fusion.names}
    if not tile.keeps_rows:
        for _, later in reduce_in_one_pass(sch, fusion.names):
            deep[later] = False
    outermost: list[LoopRV] = []
    for name in fusion.names:
        if streams and deep[name] and reduces(sch.get(sch.get_block(name))):
            outermost += reduce_stream(sch, name, fusion, tile, tags, streams)
        else:
            outermost.append(_tile_block(sch, name, fusion, tile, tags, deep[name]))
    return GridLaunch(merged(sch, outermost), threads_of(tile, tags))


def _tile_block(
    sch: Schedule, name: str, fusion: TiledGroup, tile: Tile, tags: tuple[str, str], deep: bool
) -> LoopRV:
    """Tile a block and bind its threads; its outermost loop, which is not bound yet."""
    rv = sch.get_block(name)
    leaves = fusion.leaves(sch, sch.get(rv))
    rows, *depth = sch.get_loops(rv)
    if fusion.domain.reduced:
        return bind_threads(sch, rv, rows, depth if deep else (), tile, tags, leaves)
    block: LoopRV
    block, thread, inner = sch.split(rows, [None, tile.spatial_thread, tile.spatial_inner])
    sch.bind(thread, "threadIdx.x")
    if tile.vector > 1:
        sch.vectorize(inner)
    if not leaves:
        sch.set_scope(rv, 0, "local")
    return block
