"""wgmma_matmul: a matrix product on the matrix units of Hopper, by `wgmma`.

Four warps together multiply tiles straight out of shared memory, 64 rows by up to 256 columns, so
that no instruction is spent on loading fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from ...target import Target
from ..rv import BlockRV, LoopRV
from ._common import BlockLike, extent, loops_below, wrong
from .intrinsics import wgmma
from .mma_matmul import units_for
from .product import Operand, Product, as_matrices
from .product_tiles import (
    bind_rest,
    fetch_ahead,
    fetch_tile,
    pad_to_tiles,
    quickest_tile,
    typical_product,
)

if TYPE_CHECKING:
    from ..schedule import Schedule

_HOPPER = 90
_GROUP = 8  # rows of tiles whose blocks run side by side, so that they share what caches hold
_TOTALS = {"float32": "f32", "int32": "i32"}


@dataclass(frozen=True)
class WgmmaTile:
    """How a tile of the result is distributed over threads.

    Attributes:
        groups: of four warps, each of which makes 64 rows.
        columns: of the tile: 8, 16, 32, 64, 128 or 256.
        stages: tiles of the operands that shared memory holds; with 1 there are two, and the next
            one passes through registers.

    >>> WgmmaTile(groups=2, columns=128).rows, WgmmaTile(groups=2, columns=128).threads
    (128, (2, 128))
    """

    groups: int = 2
    columns: int = 256
    stages: int = 4

    @property
    def rows(self) -> int:
        """Rows of the tile."""
        return self.groups * wgmma.ROWS

    @property
    def threads(self) -> tuple[int, int]:
        """Threads along threadIdx.y, four warps for each, and threadIdx.x."""
        return self.groups, wgmma.THREADS


#: Tiles and the share of the peak that they reach, roughly, where there are enough of them.
_TILES = (
    (WgmmaTile(), 1.0),
    (WgmmaTile(2, 128), 0.8),
    (WgmmaTile(1, 128), 0.6),
    (WgmmaTile(1, 64), 0.4),
    (WgmmaTile(1, 16), 0.15),
)


def wgmma_matmul(
    sch: Schedule, block: BlockLike, target: Target, tile: WgmmaTile | None = None
) -> None:
    """Make a product of matrices on Hopper's matrix units, from tiles of 64 rows.

    Any sum of products of two buffers will do, of any extents, as for `mma_matmul`; the epilogue is
    computed before the result is stored. The sums are in float32 or int32.

    Args:
        block: the sum of products, whose loops are as they were made.
        target: a GPU of sm_90a.
        tile: how the result is distributed; by default chosen by the extents.

    Raises:
        ScheduleError: the block is no such sum, or the GPU has no such units.

    >>> from tileloom import Schedule, te
    >>> from tileloom.target import target
    >>> A, B = (te.placeholder((96, 96), "bfloat16", name=name) for name in "AB")
    >>> k = te.reduce_axis((0, 96), name="k")
    >>> C = te.compute((96, 96), lambda i, j: te.sum(
    ...     A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> wgmma_matmul(sch, "C", target("cuda -arch=sm_90a"))
    >>> str(sch.mod).count("T.ptx_wgmma(")
    4
    """
    product = as_matrices(sch, block)
    name = group_units_for(product.kind, product.total, target)
    if name is None or not product.plain:
        raise wrong(
            sch,
            f"{target} has no units on which four warps multiply {product.kind} into "
            f"{product.total}, as they are",
            hint="use schedule_gpu_product, which finds a tactic that fits",
        )
    chosen = tile or choose_tile(product)
    if chosen.columns not in wgmma.COLUMNS:
        raise wrong(sch, f"a tile has {wgmma.COLUMNS} columns, not {chosen.columns}")
    product = pad_to_tiles(sch, product, chosen.rows, chosen.columns, wgmma.depth_of(name))
    step, group = _bind(sch, product, chosen, name)
    _result(sch, product, group)
    _operands(sch, product, step, chosen, name)
    bind_rest(sch)


def group_units_for(kind: str, total: str, target: Target) -> str | None:
    """What units for four warps call elements of a type, if a GPU has some with such sums."""
    name = units_for(kind, total, target)
    found = target.arch == f"sm_{_HOPPER}a" and total in _TOTALS and name is not None
    return name if found else None


def choose_tile(product: Product) -> WgmmaTile:
    """The tile with which all multiprocessors are done first."""
    return quickest_tile(_TILES, typical_product(product))


def _bind(sch: Schedule, product: Product, tile: WgmmaTile, name: str) -> tuple[LoopRV, LoopRV]:
    """Distribute the loops; the loop over steps of the depth, and that over groups of warps."""
    *batch, i, j, k = sch.get_loops(product.block)
    i0, i1, ii = sch.split(i, [None, tile.groups, wgmma.ROWS])
    j0, ji = sch.split(j, [None, tile.columns])
    step, ki = sch.split(k, [None, wgmma.depth_of(name)])
    band, row = sch.split(i0, [None, gcd(extent(sch, i0) or 1, _GROUP)])
    sch.reorder(*batch, band, j0, row, i1, step, ii, ji, ki)
    grid = sch.fuse(band, j0, row)
    for loop, tag in zip((*batch, grid, i1), _TAGS[-2 - len(batch) :], strict=True):
        sch.bind(loop, tag)
    return step, i1


_TAGS = ("blockIdx.y", "blockIdx.x", "threadIdx.y")


def _result(sch: Schedule, product: Product, group: LoopRV) -> None:
    """Sum up in registers; each thread stores what becomes of its own part of that, in the end."""
    columns = sch.get(sch.get_loops(product.block)[-2]).extent.value
    copy = sch.cache_write(product.block, 0, "warp")
    sch.reverse_compute_at(copy, group)
    finish = sch.cache_read(copy, 0, "warp")

    def place(*index: object) -> tuple[object, ...]:
        *batch, i, j = index
        held = wgmma.wgmma_64xn_to_128_layout(i % wgmma.ROWS, j % columns)  # type: ignore[operator]
        return (*batch, i // wgmma.ROWS, j // columns, *held)  # type: ignore[operator]

    for block in (product.block, finish):
        sch.transform_layout(block, ("write", 0), place)
    name = f"wgmma_finish_{wgmma.ROWS}x{columns}_{_TOTALS[product.total]}"
    sch.tensorize(loops_below(sch, finish, group)[-2], name)
    for block in product.results:
        sch.reverse_compute_inline(block)
    _by_threads(sch, loops_below(sch, copy, group)[-2:], product.lanes > 1)


def _by_threads(sch: Schedule, loops: list[LoopRV], pairs: bool) -> None:
    """Run loops over 64 rows and columns along threads, each over what it holds."""
    i, j = loops
    i_warp, i_half, i_row = sch.split(i, [4, 2, 8])
    j_eight, j_pair, j_own = sch.split(j, [None, 4, 2])
    sch.reorder(i_warp, i_row, j_pair, i_half, j_eight, j_own)
    sch.bind(sch.fuse(i_warp, i_row, j_pair), "threadIdx.x")
    sch.unroll(i_half)
    sch.unroll(j_eight)
    if pairs:
        sch.vectorize(j_own)
    else:
        sch.unroll(j_own)


def _operands(sch: Schedule, product: Product, step: LoopRV, tile: WgmmaTile, name: str) -> None:
    """Fetch tiles ahead, and multiply them where they are."""
    transposed = tuple(_is_transposed(operand) for operand in product.operands)
    fetched = [_fetch(sch, product, operand, step, tile, name) for operand in product.operands]
    ii, _, _ = loops_below(sch, product.block, step)
    start = sch.decompose_reduction(product.block, step)
    _by_threads(sch, sch.get_loops(start)[-2:], pairs=False)
    total = _TOTALS[product.total]
    sch.tensorize(ii, wgmma.name_of(name, total, tile.columns, (transposed[0], transposed[1])))
    fetch_ahead(sch, product, fetched, step, tile.stages)


def _is_transposed(operand: Operand) -> bool:
    """Whether the depth lies across the cores of an operand, which only 16-bit elements may."""
    return not operand.deep and operand.bits == 16


def _fetch(
    sch: Schedule, product: Product, operand: Operand, step: LoopRV, tile: WgmmaTile, name: str
) -> BlockRV:
    """Fetch a tile of an operand as cores, those that are stored together in different banks."""
    copy = fetch_tile(sch, product, operand, step, tile.threads, scope="shared.dyn")
    wide, core = wgmma.core_of(name), wgmma.CORE
    if _is_transposed(operand):
        sch.transform_layout(
            copy,
            ("write", 0),
            lambda *at: (*at[:-2], at[-1] // core, at[-2] // wide, at[-1] % core, at[-2] % wide),
        )
    else:
        sch.transform_layout(
            copy,
            ("write", 0),
            lambda *at: (*at[:-2], at[-1] // wide, at[-2] // core, at[-2] % core, at[-1] % wide),
        )
    axis = -3 if _is_transposed(operand) else -4
    sch.storage_align(copy, 0, axis, core * wide, wide)
    return copy
