"""What tactics for products on GPUs share: tiles of matrices, their copies, and the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...expr import Expr, IndexMap, Var
from ...expr.extents import is_number, usual
from ..analysis.tree import is_one
from ..instruction import can
from ..rv import BlockRV, LoopRV
from ._common import fused, loops_below, wrong
from .product import Operand, Product

if TYPE_CHECKING:
    from ..schedule import Schedule

#: Multiprocessors of the GPUs that tile sizes are chosen for; a few more or less do not matter.
MULTIPROCESSORS = 128


@dataclass(frozen=True)
class Cut:
    """How an axis of a matrix is cut into tiles, and a tile into parts of `part` neighbours."""

    tile: int
    part: int

    def indices(self, index: Expr) -> list[Expr]:
        """The tile, the part of it, and the place in that part."""
        return [index // self.tile, index % self.tile // self.part, index % self.part]


class _Tile(Protocol):
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...


T = TypeVar("T", bound=_Tile)


def quickest_tile(tiles: Iterable[tuple[T, float]], product: Product) -> T:
    """The tile, each given with its efficiency, with which all multiprocessors are done first."""

    def time(entry: tuple[T, float]) -> float:
        tile, efficiency = entry
        blocks = -(-product.rows // tile.rows) * -(-product.columns // tile.columns)
        waves = -(-blocks * product.matrices // MULTIPROCESSORS)
        return waves * tile.rows * tile.columns / efficiency

    return min(tiles, key=time)[0]


def typical_product(product: Product) -> Product:
    """The product with numbers for extents, by which a tile is chosen.

    Of extents that are not known yet it is decided in which range they are.
    """
    rows = _typical(product.rows, _RANGES)
    columns = _typical(product.columns, _RANGES if is_number(product.rows) else _RANGES[:1])
    batch = None if product.batch is None else usual(product.batch)
    return replace(product, batch=batch, rows=rows, columns=columns, depth=usual(product.depth))


def _typical(extent: int, ranges: Sequence[int]) -> int:
    if is_number(extent):
        return extent
    for most in ranges:
        if extent <= most:
            return most
    return _MANY


#: Rows, or columns, up to which a tile serves; what stands for more.
_RANGES, _MANY = (63, 511), 4096


def pad_to_tiles(sch: Schedule, product: Product, rows: int, columns: int, depth: int) -> Product:
    """The product of larger matrices, zeros around the operands, of whole tiles."""
    wanted = [*([1] if product.batch is not None else []), rows, columns, depth]
    extents = [product.rows % rows, product.columns % columns, product.depth % depth]
    if not any(extents):
        return product
    sch.pad_einsum(product.block, wanted)
    left, right = (_padded(sch, operand) for operand in product.operands)
    taker = product.results[0]
    producers = sch.get_producers(taker)
    if sch.get_sref(producers[-1]) is sch.get_sref(product.block):
        results = product.results
    else:
        sch.reverse_compute_inline(taker)
        results = (producers[-1],)
    return replace(
        product,
        left=left,
        right=right,
        results=results,
        rows=_up(product.rows, rows),
        columns=_up(product.columns, columns),
        depth=_up(product.depth, depth),
    )


def _up(extent: int, tile: int) -> int:
    return -(-extent // tile) * tile


def _padded(sch: Schedule, operand: Operand) -> Operand:
    """The operand whose copy is the one that pads, which takes up the first."""
    (consumer,) = sch.get_consumers(operand.copy)
    if not can(sch.state, "ComputeInline", sch.get_sref(consumer)):
        return operand
    sch.compute_inline(operand.copy)
    return replace(operand, copy=consumer)


def cut_into_tiles(sch: Schedule, product: Product, rows: Cut, columns: Cut) -> list[LoopRV]:
    """Give matrices axes for tiles, parts and places in parts; the loops of the product.

    What one thread or one warp has of such a matrix is a box, even if it consists of pieces that
    lie apart in the tile.
    """
    names = [*(["b"] if product.batch is not None else []), "i", "j", "k"]
    b, (i, j, k) = [Var(n, "int32") for n in names[:-3]], (Var(n, "int32") for n in names[-3:])
    m, n = rows.indices(i), columns.indices(j)
    sch.transform_block_layout(product.block, IndexMap([*b, i, j, k], [*b, *m, *n, k]))
    left, right = (("read", operand.position) for operand in product.operands)
    sch.transform_layout(product.block, left, IndexMap([*b, i, k], [*b, *m, k]))
    sch.transform_layout(product.block, right, IndexMap([*b, j, k], [*b, *n, k]))
    sch.transform_layout(product.block, ("write", 0), IndexMap([*b, i, j], [*b, *m, *n]))
    loops: list[LoopRV] = sch.get_loops(product.block)
    return loops


def fetch_tile(
    sch: Schedule,
    product: Product,
    operand: Operand,
    loop: LoopRV,
    threads: Sequence[int],
    scope: str = "shared",
) -> BlockRV:
    """Let all threads copy what an iteration of a loop reads of an operand into shared memory.

    Args:
        threads: how many there are along threadIdx.y and threadIdx.x.

    Returns:
        The block that copies, whose loops run along neighbours in global memory.
    """
    copy: BlockRV = sch.cache_read(product.block, operand.position, scope)
    sch.compute_at(copy, loop)
    sch.compute_inline(operand.copy)
    *own, deep = loops_below(sch, copy, loop)
    order = [*own, deep] if operand.deep else [deep, *own]
    if not operand.deep and own:
        sch.reorder(*order)
    flat = fused(sch, order)
    total = sch.get(flat).extent.value
    # A thread copies at most 16 bytes at once.
    lanes = min(operand.lanes, max(1, 128 // sch.get(copy).writes[0].buffer.dtype.bits))
    count = threads[0] * threads[1]
    while lanes > 1 and total % (lanes * count):
        lanes //= 2
    if total % count:
        raise wrong(sch, f"a tile of {total} elements cannot be distributed over {count} threads")
    turn, y, x, vector = sch.split(flat, [None, *threads, lanes])
    sch.unroll(turn)
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(vector)
    return copy


def fetch_ahead(
    sch: Schedule, product: Product, fetched: Sequence[BlockRV], step: LoopRV, stages: int
) -> None:
    """Fetch tiles for later steps while others are multiplied.

    Args:
        fetched: the blocks that fetch the operands, which come first in a step; the product is the
            rest of it.
        step: the loop over steps of the depth.
        stages: how many tiles of an operand shared memory holds. They are copied asynchronously
            where the hardware can do that. Otherwise, or with 1, there are two, and the next one
            is loaded into registers before the product, and stored after it.
    """
    if is_one(sch.get(step).extent):
        return
    if stages > 1 and all(_is_async(operand) for operand in product.operands):
        # The product first: threads have met before it, so copies may go where the one before was.
        sch.annotate(step, "software_pipeline_stage", [0, 0, stages - 1])
        sch.annotate(step, "software_pipeline_order", [1, 2, 0])
        sch.annotate(step, "software_pipeline_async_stages", [0])
        return
    for copy in fetched:
        sch.annotate(copy, "tir.manifest_shared_memory_local_stage", 1)
        sch.annotate(copy, "double_buffer_scope", 0)
    sch.annotate(step, "software_pipeline_stage", [0, 0, 0, 0, 1])
    sch.annotate(step, "software_pipeline_order", [0, 3, 1, 4, 2])


def _is_async(operand: Operand) -> bool:
    """Whether the hardware can copy neighbours on its own: at least four bytes, as they are."""
    return operand.moved and operand.lanes * operand.bits >= 32


def bind_rest(sch: Schedule, threads: int = 256) -> None:
    """Run the blocks that are bound to nothing yet as kernels of their own, element by element."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if not loops or any(sch.get(loop).kind == "thread_binding" for loop in loops):
            continue
        if any(axis.iter_type != 0 for axis in sch.get(block).iter_vars):
            name = sch.get(block).name_hint
            raise wrong(sch, f"block {name!r} reduces what the product has made")
        outer, inner = sch.split(fused(sch, loops), [None, threads])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
