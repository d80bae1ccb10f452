"""simt_matmul: a matrix product on the ordinary arithmetic units of a GPU.

After CUTLASS's "simt" kernels: a block of threads makes a tile of the result, each thread a few
small squares of it in registers; tiles of the operands pass through two buffers in shared memory,
fetched into registers one step ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base import dtype
from ...expr.extents import limits
from ..rv import BlockRV, LoopRV
from ._common import BlockLike, loops_below
from .product import Product, as_matrices
from .product_tiles import (
    MULTIPROCESSORS,
    Cut,
    bind_rest,
    cut_into_tiles,
    fetch_ahead,
    fetch_tile,
    pad_to_tiles,
    typical_product,
)

if TYPE_CHECKING:
    from ..schedule import Schedule

#: Threads of a warp by rows and by columns: what they read of either operand fits the banks.
_LANES = (4, 8)


@dataclass(frozen=True)
class SimtTile:
    """How a tile of the result is distributed over threads.

    `warps` by rows and by columns; each thread makes `squares` by rows and by columns of `side`
    neighbours each, which lie as far apart as all threads' squares are wide. `depth` is that of a
    step.

    >>> tile = SimtTile(warps=(4, 2), squares=(2, 2))
    >>> tile.rows.tile, tile.columns.tile, tile.rows.part, tile.threads
    (128, 128, 64, (8, 32))
    """

    warps: tuple[int, int]
    squares: tuple[int, int]
    side: int = 4
    depth: int = 8

    @property
    def rows(self) -> Cut:
        """The rows of a tile."""
        part = self.warps[0] * _LANES[0] * self.side
        return Cut(part * self.squares[0], part)

    @property
    def columns(self) -> Cut:
        """The columns of a tile."""
        part = self.warps[1] * _LANES[1] * self.side
        return Cut(part * self.squares[1], part)

    @property
    def threads(self) -> tuple[int, int]:
        """Threads along threadIdx.y, a warp for each, and threadIdx.x."""
        return self.warps[0] * self.warps[1], 32


#: Tiles and the share of the peak that they reach, roughly, where there are enough of them.
_TILES = (
    (SimtTile((4, 2), (2, 2)), 1.0),
    (SimtTile((2, 2), (2, 2)), 0.9),
    (SimtTile((4, 2), (1, 1)), 0.7),
    (SimtTile((2, 1), (1, 1)), 0.5),
)


def simt_matmul(sch: Schedule, block: BlockLike, tile: SimtTile | None = None) -> None:
    """Make a product of matrices from small squares in registers, in any type.

    Any sum of products of two buffers will do (transposed operands, batches, convolutions), of any
    extents; the epilogue is computed before the result is stored.

    Args:
        block: the sum of products, whose loops are as they were made.
        tile: how the result is distributed; by default chosen by the extents.

    Raises:
        ScheduleError: the block is no such sum.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((100, 70), name="A"), te.placeholder((70, 90), name="B")
    >>> k = te.reduce_axis((0, 70), name="k")
    >>> C = te.compute((100, 90), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> simt_matmul(sch, "C")
    >>> [sch.get(one).name_hint for one in sch.get_child_blocks(sch.get_block("root"))]
    ['C_init', 'A_reindex_pad_shared', 'B_reindex_pad_shared', 'A_reindex_pad_shared_local', \
'B_reindex_pad_shared_local', 'C_update', 'C_reindex_pad_local']
    """
    product = as_matrices(sch, block)
    chosen = tile or choose_tile(product)
    product = pad_to_tiles(sch, product, chosen.rows.tile, chosen.columns.tile, chosen.depth)
    steps, thread = _bind(sch, product, chosen)
    _result(sch, product, thread, chosen)
    _operands(sch, product, steps, chosen)
    bind_rest(sch)


def choose_tile(product: Product) -> SimtTile:
    """The tile with which all multiprocessors are done first."""
    wide = dtype(product.total).bits > 32
    typical = typical_product(product)
    least = limits(product.rows)[0], limits(product.columns)[0]

    def time(entry: tuple[SimtTile, float]) -> float:
        tile, efficiency = entry
        rows, columns = tile.rows.tile, tile.columns.tile
        blocks = -(-typical.rows // rows) * -(-typical.columns // columns) * typical.matrices
        return -(-blocks // MULTIPROCESSORS) * rows * columns / efficiency

    # The parts of a tile have to be filled, the last one at least in part.
    fitting = [
        (_narrow(tile) if wide else tile, efficiency)
        for tile, efficiency in _TILES
        if tile.rows.tile - tile.rows.part < least[0]
        and tile.columns.tile - tile.columns.part < least[1]
    ]
    return min(fitting, key=time)[0]


def _narrow(tile: SimtTile) -> SimtTile:
    """The tile for elements of 64 bits."""
    return SimtTile(tile.warps, tile.squares, side=2, depth=tile.depth)


def _bind(sch: Schedule, product: Product, tile: SimtTile) -> tuple[LoopRV, LoopRV]:
    """Distribute the loops; the loop over steps of the depth, and that over threads of a warp."""
    loops = cut_into_tiles(sch, product, tile.rows, tile.columns)
    *batch, i, i_square, i_in, j, j_square, j_in, k = loops
    i_warp, i_lane, i_own = sch.split(i_in, [tile.warps[0], _LANES[0], tile.side])
    j_warp, j_lane, j_own = sch.split(j_in, [tile.warps[1], _LANES[1], tile.side])
    step, deep = sch.split(k, [None, tile.depth])
    sch.reorder(
        *batch, i, j, i_warp, j_warp, i_lane, j_lane, step, deep, i_square, i_own, j_square, j_own
    )
    warp, lane = sch.fuse(i_warp, j_warp), sch.fuse(i_lane, j_lane)
    for loop, tag in zip((*batch, i, j, warp, lane), _TAGS[-4 - len(batch) :], strict=True):
        sch.bind(loop, tag)
    return step, lane


_TAGS = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")


def _result(sch: Schedule, product: Product, thread: LoopRV, tile: SimtTile) -> None:
    """Sum up in registers, and store what becomes of that."""
    copy = sch.cache_write(product.block, 0, "local")
    sch.reverse_compute_at(copy, thread)
    for block in product.results:
        sch.reverse_compute_inline(block)
    _by_vectors(sch, loops_below(sch, copy, thread), min(tile.side, product.lanes))


def _operands(sch: Schedule, product: Product, step: LoopRV, tile: SimtTile) -> None:
    """Fetch tiles one step ahead; multiply what threads take from them into registers."""
    fetched = [_fetch(sch, product, side, step, tile) for side in (0, 1)]
    deep, *own = loops_below(sch, product.block, step)
    for operand in product.operands:
        copy = sch.cache_read(product.block, operand.position, "local")
        sch.compute_at(copy, deep)
        _by_vectors(sch, loops_below(sch, copy, deep), tile.side)
    _by_vectors(sch, own, tile.side)
    sch.unroll(deep)
    sch.decompose_reduction(product.block, step)
    fetch_ahead(sch, product, fetched, step, stages=1)


def _fetch(sch: Schedule, product: Product, side: int, step: LoopRV, tile: SimtTile) -> BlockRV:
    """Fetch a tile of an operand, the depth outermost, with rows that begin in other banks."""
    copy = fetch_tile(sch, product, product.operands[side], step, tile.threads)
    buffer = sch.get(copy).writes[0].buffer
    sch.transform_layout(
        copy, ("write", 0), lambda *place: (*place[:-3], place[-1], place[-3], place[-2])
    )
    size = max(1, buffer.dtype.bits // 8)
    sch.storage_align(copy, 0, -3, max(1, 128 // size), max(1, 16 // size))
    return copy


def _by_vectors(sch: Schedule, loops: list[LoopRV], lanes: int) -> None:
    """Unroll all loops but the innermost, which becomes vectors."""
    *outer, last = loops
    if lanes < 2:
        outer = loops
    else:
        if sch.get(last).extent.value != lanes:
            more, last = sch.split(last, [None, lanes])
            outer.append(more)
        sch.vectorize(last)
    for loop in outer:
        sch.unroll(loop)
