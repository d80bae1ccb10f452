"""mma_matmul: a matrix product on the matrix units of a GPU, by `mma.sync`.

After CUTLASS's kernels for Ampere: tiles of the operands stream into shared memory by asynchronous
copies, some steps ahead; warps load fragments of them by `ldmatrix` and multiply; the sums stay in
registers until the epilogue has been applied to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from ...target import Target
from ..rv import BlockRV, LoopRV
from ._common import BlockLike, extent, loops_below, wrong
from .intrinsics.mma import DEFINITIONS, FACTORS, Factor, shared_16x16_to_mma_32x8_layout
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

_SIDE, _WARP = 16, 32
_PADDING = 16  # bytes, of a row in shared memory
#: The first architectures with these instructions, and with those for 8-bit floats.
_FIRST, _FIRST_FP8 = 80, 89
_GROUP = 8  # rows of tiles whose blocks run side by side, so that they share what caches hold
#: What elements are called in the names of intrinsics.
_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "i8", "uint8": "u8",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_TOTALS = {"float16": "f16", "float32": "f32", "int32": "i32"}


@dataclass(frozen=True)
class MmaTile:
    """How a tile of the result is distributed over threads.

    Attributes:
        warps: by rows and by columns.
        squares: of 16 by 16 that a warp makes, by rows and by columns.
        depth: of a step, in bytes of a row of the operands.
        stages: tiles of the operands that shared memory holds; with 1 there are two, and the next
            one passes through registers.

    >>> tile = MmaTile(warps=(2, 4), squares=(4, 4))
    >>> tile.rows, tile.columns, tile.threads, tile.shared_bytes
    (128, 256, (8, 32), 122880)
    """

    warps: tuple[int, int] = (2, 2)
    squares: tuple[int, int] = (4, 4)
    depth: int = 64
    stages: int = 4

    @property
    def rows(self) -> int:
        """Rows of the tile."""
        return self.warps[0] * self.squares[0] * _SIDE

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.warps[1] * self.squares[1] * _SIDE

    @property
    def threads(self) -> tuple[int, int]:
        """Threads along threadIdx.y, a warp for each, and threadIdx.x."""
        return self.warps[0] * self.warps[1], _WARP

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block needs, at most."""
        return max(2, self.stages) * (self.rows + self.columns) * (self.depth + _PADDING)


#: Tiles and the share of the peak that they reach, roughly, where there are enough of them.
_TILES = (
    (MmaTile((2, 4), (4, 4)), 1.0),
    (MmaTile((2, 2), (4, 4)), 0.95),
    (MmaTile((2, 2), (2, 4)), 0.8),
    (MmaTile((2, 2), (2, 2)), 0.6),
    (MmaTile((2, 2), (1, 2)), 0.4),
    (MmaTile((1, 1), (1, 1)), 0.1),
)


def mma_matmul(
    sch: Schedule, block: BlockLike, target: Target, tile: MmaTile | None = None
) -> None:
    """Make a product of matrices on matrix units, from tiles of 16 by 16.

    Any sum of products of two buffers will do (transposed operands, batches, convolutions), of any
    extents; the epilogue is computed before the result is stored. The operands are float16,
    bfloat16, float32 (of which the units see 19 bits: tf32), 8-bit floats or 8-bit integers, summed
    up in float32, float16 or int32.

    Args:
        block: the sum of products, whose loops are as they were made.
        target: a GPU with such units, sm_80 or later.
        tile: how the result is distributed; by default chosen by the extents.

    Raises:
        ScheduleError: the block is no such sum.

    >>> from tileloom import Schedule, te
    >>> from tileloom.target import target
    >>> A, B = (te.placeholder((96, 96), "bfloat16", name=name) for name in "AB")
    >>> k = te.reduce_axis((0, 96), name="k")
    >>> C = te.compute((96, 96), lambda i, j: te.sum(
    ...     A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> mma_matmul(sch, "C", target("cuda -arch=sm_80"))
    >>> str(sch.mod).count("T.ptx_mma("), str(sch.mod).count("T.ptx_ldmatrix(")
    (2, 2)
    """
    product = as_matrices(sch, block)
    names = _intrinsics(sch, product, target)
    chosen = tile or choose_tile(product, target)
    depth = max(1, chosen.depth * 8 // names.factor.bits // names.factor.depth)
    product = pad_to_tiles(sch, product, chosen.rows, chosen.columns, depth * names.factor.depth)
    step, warp = _bind(sch, product, chosen, names, depth)
    _result(sch, product, warp, names)
    _operands(sch, product, step, chosen, names)
    bind_rest(sch)


def choose_tile(product: Product, target: Target) -> MmaTile:
    """The tile with which all multiprocessors are done first."""
    # 8-bit floats become halves in registers, which have less room for sums.
    product = typical_product(product)
    usual = _TILES[2 * product.kind.startswith("float8") :]
    fitting = [entry for entry in usual if entry[0].shared_bytes <= target.shared_memory]
    return quickest_tile(fitting, product)


# ---------------------------------------------------------------------------- intrinsics


@dataclass(frozen=True)
class _Intrinsics:
    """The names of what a product is made of."""

    name: str
    total: str
    factor: Factor
    left: str  # "a" or "a_trans": stored by columns
    right: str  # "b" or "b_trans"

    @property
    def multiply(self) -> str:
        """The product of two tiles."""
        tail = "_trans_a" * (self.left == "a_trans") + "_trans_b" * (self.right == "b_trans")
        return f"mma_{self.name}{self.name}{self.total}{tail}"

    def load(self, operand: str) -> str:
        """A tile from shared memory."""
        return f"mma_ldmatrix_{self.name}_{operand}_dyn"


def units_for(kind: str, total: str, target: Target) -> str | None:
    """What matrix units call elements of a type, if a GPU has some that sum them up in another.

    >>> from tileloom.target import target
    >>> units_for("bfloat16", "float32", target("cuda -arch=sm_80"))
    'bf16'
    """
    name, sum_ = _NAMES.get(kind), _TOTALS.get(total)
    first = _FIRST_FP8 if kind.startswith("float8") else _FIRST
    known = f"mma_{name}{name}{sum_}" in DEFINITIONS
    return name if known and target.sm >= first else None


def _intrinsics(sch: Schedule, product: Product, target: Target) -> _Intrinsics:
    name = units_for(product.kind, product.total, target)
    if name is None or not product.plain:
        raise wrong(
            sch,
            f"{target} has no units that multiply {product.kind} into {product.total}"
            if product.plain
            else "matrix units multiply what they read, and here something is computed from it",
            hint="use simt_matmul",
        )
    total = _TOTALS[product.total]
    factor = FACTORS[name]
    left = "a" if product.left.deep or "a_trans" not in factor.layouts else "a_trans"
    right = "b_trans" if product.right.deep else "b"
    return _Intrinsics(name, total, factor, left, right)


# ---------------------------------------------------------------------------- loops


def _bind(
    sch: Schedule, product: Product, tile: MmaTile, names: _Intrinsics, depth: int
) -> tuple[LoopRV, LoopRV]:
    """Distribute the loops; the loop over steps of the depth, and that over warps."""
    *batch, i, j, k = sch.get_loops(product.block)
    i0, i1, i2, ii = sch.split(i, [None, tile.warps[0], tile.squares[0], _SIDE])
    j0, j1, j2, ji = sch.split(j, [None, tile.warps[1], tile.squares[1], _SIDE])
    step, deep, ki = sch.split(k, [None, depth, names.factor.depth])
    group, row = sch.split(i0, [None, gcd(extent(sch, i0) or 1, _GROUP)])
    sch.reorder(*batch, group, j0, row, i1, j1, step, deep, i2, j2, ii, ji, ki)
    grid, warp = sch.fuse(group, j0, row), sch.fuse(i1, j1)
    for loop, tag in zip((*batch, grid, warp), _TAGS[-2 - len(batch) :], strict=True):
        sch.bind(loop, tag)
    return step, warp


_TAGS = ("blockIdx.y", "blockIdx.x", "threadIdx.y")


def _squares(layout: Callable[[Any, Any], Any], rows: int, columns: int) -> Callable[..., Any]:
    """A matrix (or several) as tiles, each laid out for a warp."""

    def place(*index: Any) -> tuple[Any, ...]:
        *batch, i, j = index
        return (*batch, i // rows, j // columns, *layout(i % rows, j % columns))

    return place


def _result(sch: Schedule, product: Product, warp: LoopRV, names: _Intrinsics) -> None:
    """Sum up in registers; each thread stores what becomes of its own part of that.

    Of a square a thread has two neighbours in each of two rows, 8 apart, and the same 8 columns on.
    """
    copy = sch.cache_write(product.block, 0, "warp")
    sch.reverse_compute_at(copy, warp)
    layout = _squares(shared_16x16_to_mma_32x8_layout, _SIDE, _SIDE)
    sch.transform_layout(product.block, ("write", 0), layout)
    for block in product.results:
        sch.reverse_compute_inline(block)
    i, j = loops_below(sch, copy, warp)[-2:]
    i0, i_half, i_row = sch.split(i, [None, 2, 8])
    j0, j_half, j_pair, j_own = sch.split(j, [None, 2, 4, 2])
    sch.reorder(i_row, j_pair, i0, j0, i_half, j_half, j_own)
    sch.bind(sch.fuse(i_row, j_pair), "threadIdx.x")
    for loop in (i0, j0, i_half, j_half):
        sch.unroll(loop)
    if product.lanes > 1:
        sch.vectorize(j_own)
    else:
        sch.unroll(j_own)


# ---------------------------------------------------------------------------- operands


def _operands(
    sch: Schedule,
    product: Product,
    step: LoopRV,
    tile: MmaTile,
    names: _Intrinsics,
) -> None:
    """Fetch tiles ahead, load fragments of them, multiply."""
    pairs = tuple(zip(product.operands, (names.left, names.right), strict=True))
    fetched = [_fetch(sch, product, operand, step, tile, which) for operand, which in pairs]
    deep, *squares, ii, _, _ = loops_below(sch, product.block, step)
    for operand, which in pairs:
        _fragments(sch, product, operand, deep, names, which)
    start = sch.decompose_reduction(product.block, step)
    sch.tensorize(sch.get_loops(start)[-2], f"mma_fill_{_SIDE}x{_SIDE}_{names.total}")
    sch.tensorize(ii, names.multiply)
    for loop in (deep, *squares):
        sch.unroll(loop)
    fetch_ahead(sch, product, fetched, step, tile.stages)


def _fetch(
    sch: Schedule, product: Product, operand: Operand, step: LoopRV, tile: MmaTile, which: str
) -> BlockRV:
    """Fetch a tile of an operand, with rows that begin in other banks."""
    copy = fetch_tile(sch, product, operand, step, tile.threads, scope="shared.dyn")
    bits = sch.get(copy).writes[0].buffer.dtype.bits
    if which in ("a_trans", "b"):
        sch.transform_layout(copy, ("write", 0), lambda *at: (*at[:-2], at[-1], at[-2]))
    sch.storage_align(copy, 0, -2, 256 // bits, 128 // bits)
    return copy


def _fragments(
    sch: Schedule,
    product: Product,
    operand: Operand,
    deep: LoopRV,
    names: _Intrinsics,
    which: str,
) -> None:
    """Let a warp load fragments of an operand."""
    copy = sch.cache_read(product.block, operand.position, "warp")
    sch.compute_at(copy, deep)
    shape = names.factor.shape(which)
    loops = zip(loops_below(sch, copy, deep)[-2:], shape, strict=True)
    (i0, i1), (j0, j1) = (sch.split(loop, [None, size]) for loop, size in loops)
    sch.reorder(i0, j0, i1, j1)
    layout = _squares(names.factor.layouts[which], *shape)
    sch.transform_layout(copy, ("write", 0), layout)
    sch.tensorize(i1, names.load(which))
    sch.unroll(i0)
    sch.unroll(j0)
