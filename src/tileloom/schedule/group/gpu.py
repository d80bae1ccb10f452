"""Groups on a GPU: every block of a cluster tiled alike, in one kernel.

Each block gets the loops [block, row thread, reduction thread, inner]; the outermost loops of all
blocks become one, so that a thread block makes a row, or a few, from beginning to end. All blocks
deal positions out to threads in the same way. So what a thread reads it has stored itself, and
intermediates stay in its registers; results of reductions reach every thread that shared in them.
"""

from __future__ import annotations

from ...base import Target
from ...expr.extents import is_number
from ...tir import IRModule, PrimFunc
from ..errors import ScheduleError
from ..library import auto_inline
from ..rv import LoopRV
from ..schedule import Schedule
from .broadcast import along_broadcasts, broadcast_tile
from .buckets import choose_open_tile
from .clusters import Cluster, settle
from .domain import GroupRefused, domain_of
from .grid import merged, parts_for, schedule_parts
from .launches import Launch, bind_launches
from .loops import checked_once, reduces
from .normal import normalise
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
from .share import ACROSS_ROWS, ALONG_ROWS, share_out, threads_of
from .stream import Rows, reduce_stream
from .tile import MANY, Tile, alternatives
from .transposed import ROWS, SIDE, tile_transposed, transposed_reads


def schedule_gpu(mod: IRModule | PrimFunc, target: Target) -> Schedule:
    """A group for a GPU: one kernel for each of its clusters, of which most groups have one.

    Args:
        mod: a function of blocks that are bound to nothing yet.
        target: a GPU.

    Returns:
        The schedule, whose trace holds the steps that were taken.

    Raises:
        GroupRefused: an extent is no number.

    >>> from tileloom import te
    >>> from tileloom.base import target
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
    clusters = settle(sch, target)
    launches: list[Launch] = []
    for cluster in clusters:
        sch, made = _schedule(sch, cluster, target, alone=len(clusters) == 1)
        launches += made
    return bind_launches(sch, launches)


def _schedule(
    sch: Schedule, cluster: Cluster, target: Target, alone: bool
) -> tuple[Schedule, list[Launch]]:
    """The kernels of a cluster, with the first of all tiles that fits."""
    parts = parts_for(sch, cluster, target)
    if parts > 1:
        trial = sch.copy()
        try:
            return trial, schedule_parts(trial, cluster.copy(), parts, _widest(sch, cluster))
        except ScheduleError:
            pass  # one kernel will do
    wide = along_broadcasts(sch, cluster)
    if wide is not None:
        trial = sch.copy()
        own = Cluster(list(cluster.names), wide, cluster.exported)
        try:
            return trial, [_apply(trial, own, broadcast_tile(wide, _widest(sch, cluster)))]
        except ScheduleError:
            pass  # flat positions will do
    domain = cluster.domain
    for tile in alternatives(_choose(sch, cluster, target, alone), domain.rows, domain.depth):
        trial = sch.copy()
        try:
            return trial, [_apply(trial, cluster.copy(), tile)]
        except ScheduleError as error:
            reason = error
    if len(cluster.names) == 1:
        raise GroupRefused(f"no tile fits block {cluster.names[0]!r}: {reason.message}")
    return _one_by_one(sch, cluster, target)


def _one_by_one(sch: Schedule, cluster: Cluster, target: Target) -> tuple[Schedule, list[Launch]]:
    """The blocks of a cluster as kernels of their own."""
    launches: list[Launch] = []
    made = {r.buffer for block in cluster.blocks(sch).values() for r in block.writes}
    for name, block in cluster.blocks(sch).items():
        only = Cluster([name], domain_of([block]), cluster.exported | made)
        sch, found = _schedule(sch, only, target, alone=False)
        launches += found
    return sch, launches


def _choose(sch: Schedule, cluster: Cluster, target: Target, alone: bool) -> Tile:
    blocks = cluster.blocks(sch).values()
    domain = cluster.domain
    if cluster.is_product(sch):
        rows = min(256, domain.rows) if is_number(domain.rows) else 256
        return Tile(rows, 1, 1, domain.depth if is_number(domain.depth) else MANY, "none")
    tile = choose_open_tile(
        domain.rows,
        domain.depth,
        reduces=any(map(reduces, blocks)),
        innermost=domain.reduces_innermost,
        bits=_widest(sch, cluster),
        target=target,
        length=domain.reduced[-1].extent if rows_of_inputs(sch, cluster) else 1,
    )
    # Kernels with equal blocks can be one.
    return tile if alone or tile.method != "none" or domain.reduced else tile.with_threads(256)


def _apply(sch: Schedule, cluster: Cluster, tile: Tile) -> Launch:
    domain = cluster.domain
    inline_the_rest(sch, cluster, tile)
    keep_results(sch, cluster, tile)
    vector = tile.vector if domain.reduced else 1
    streams: Rows = {}
    if vector > 1 and not tile.keeps_rows:
        streams = streams_of(sch, cluster)
    elif vector > 1 and any(map(reduces, cluster.blocks(sch).values())):
        read_by_vectors(sch, cluster)
    for name in cluster.names:
        flatten(sch, name, cluster, vector)
    if not domain.reduced and len(cluster.names) == 1:
        block = sch.get_block(cluster.names[0])
        across = transposed_reads(sch.get(block), domain)
        if across:
            return Launch(tile_transposed(sch, block, domain, across), (SIDE, ROWS))
    along = domain.reduces_innermost and tile.reduce_thread > 1
    tags = ALONG_ROWS if along else ACROSS_ROWS
    deep = {name: normalise(sch, name, domain, vector)[1] is not None for name in cluster.names}
    if not tile.keeps_rows:
        for _, later in reduce_in_one_pass(sch, cluster.names):
            deep[later] = False
    outermost: list[LoopRV] = []
    for name in cluster.names:
        if streams and deep[name] and reduces(sch.get(sch.get_block(name))):
            outermost += reduce_stream(sch, name, cluster, tile, tags, streams)
        else:
            outermost.append(_tile_block(sch, name, cluster, tile, tags, deep[name]))
    return Launch(merged(sch, outermost), threads_of(tile, tags))


def _widest(sch: Schedule, cluster: Cluster) -> int:
    """The bits of the widest element."""
    regions = [r for block in cluster.blocks(sch).values() for r in (*block.reads, *block.writes)]
    return max((region.buffer.dtype.bits for region in regions), default=32)


def _tile_block(
    sch: Schedule, name: str, cluster: Cluster, tile: Tile, tags: tuple[str, str], deep: bool
) -> LoopRV:
    """Tile a block and bind its threads; its outermost loop, which is not bound yet."""
    rv = sch.get_block(name)
    leaves = cluster.leaves(sch, sch.get(rv))
    rows, *depth = sch.get_loops(rv)
    if cluster.domain.reduced:
        return share_out(sch, rv, rows, depth if deep else (), tile, tags, leaves)
    block: LoopRV
    block, thread, inner = sch.split(rows, [None, tile.spatial_thread, tile.spatial_inner])
    sch.bind(thread, "threadIdx.x")
    if tile.vector > 1:
        sch.vectorize(inner)
    if not leaves:
        sch.set_scope(rv, 0, "local")
    return block
