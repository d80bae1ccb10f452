"""schedule_gpu_product: a matrix product or a convolution on a GPU, by the tactic that fits."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...expr.extents import known_extent
from ...target import Target
from ...tir import Block
from ..rv import BlockRV
from ._common import BlockLike, block_of, wrong
from .mma_matmul import MmaTile, mma_matmul, units_for
from .product import Factors, find_factors
from .simt_matmul import simt_matmul
from .wgmma_matmul import WgmmaTile, group_units_for, wgmma_matmul

if TYPE_CHECKING:
    from ..schedule import Schedule

_ROWS = 64  # that four warps make together


def find_products(sch: Schedule) -> list[BlockRV]:
    """The blocks of a function that are products of matrices, in program order.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((8, 4), name="A"), te.placeholder((4, 6), name="B")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> C = te.compute((8, 6), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> D = te.compute((8, 6), lambda i, j: C[i, j] + 1.0, name="D")
    >>> sch = Schedule(te.create_prim_func([A, B, D]))
    >>> [sch.get(block).name_hint for block in find_products(sch)]
    ['C']
    """
    blocks: list[BlockRV] = sch.get_child_blocks(sch.get_block("root"))
    return [block for block in blocks if find_factors(sch, block) is not None]


def schedule_gpu_product(
    sch: Schedule, block: BlockLike, target: Target, tf32: bool = False
) -> str:
    """Schedule a product of matrices, and with it all that the function computes before and after.

    Prologue and epilogue become part of one kernel; elementwise ops that cannot (there are several
    results) become kernels of their own.

    Args:
        block: the sum of products, whose loops are as they were made: a matrix product, a batch of
            them, a convolution.
        target: the GPU.
        tf32: whether matrix units may round float32 to 19 bits.

    Returns:
        The name of the tactic: "wgmma_matmul", "mma_matmul" or "simt_matmul".

    Raises:
        ScheduleError: the block is no product of matrices, or the function reduces its result. The
            schedule may have been changed: try on a copy.

    >>> from tileloom import Schedule, te
    >>> from tileloom.target import target
    >>> A, B = te.placeholder((64, 48), name="A"), te.placeholder((48, 32), name="B")
    >>> k = te.reduce_axis((0, 48), name="k")
    >>> C = te.compute((64, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> schedule_gpu_product(sch, "C", target("cuda -arch=sm_80"))
    'simt_matmul'
    """
    rv = block_of(sch, block)
    found = find_factors(sch, rv)
    if found is None:
        raise wrong(sch, f"block {sch.get(rv).name_hint!r} is no product of matrices")
    kind, total = _types(sch.get(rv))
    exact = kind != "float32" or tf32
    if found.plain and exact and units_for(kind, total, target) is not None:
        return on_matrix_units(sch, rv, target)
    simt_matmul(sch, rv)
    return "simt_matmul"


def on_matrix_units(
    sch: Schedule, block: BlockRV, target: Target, tile: MmaTile | WgmmaTile | None = None
) -> str:
    """Schedule a product on the matrix units that a GPU has; the name of the tactic."""
    stmt: Block = sch.get(block)
    found = find_factors(sch, block)
    groups = group_units_for(*_types(stmt), target) is not None
    if isinstance(tile, WgmmaTile) or (tile is None and groups and _fills(stmt, found)):
        wgmma_matmul(sch, block, target, tile)
        return "wgmma_matmul"
    mma_matmul(sch, block, target, tile)
    return "mma_matmul"


def _types(stmt: Block) -> tuple[str, str]:
    """The type of the factors ("" if they differ), and that of the sum."""
    kinds = {str(region.buffer.dtype) for region in stmt.reads}
    return (kinds.pop() if len(kinds) == 1 else ""), str(stmt.writes[0].buffer.dtype)


def _fills(stmt: Block, found: Factors | None) -> bool:
    """Whether a product is large enough for tiles of four warps."""
    if found is None:
        return False
    sizes = [known_extent(axis.domain.extent) or 0 for axis in stmt.iter_vars]
    groups = (found.rows, found.columns, found.depth)
    return all(prod(sizes[p] for p in group) >= _ROWS for group in groups)
