"""schedule_gpu_product: a matrix product or a convolution on a GPU, by the tactic that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base import Target
from ..analysis.blocks import leaf_store
from ..rv import BlockRV
from ._common import BlockLike, block_of, wrong
from .mma_matmul import mma_matmul, units_for
from .product import find_factors
from .simt_matmul import simt_matmul

if TYPE_CHECKING:
    from ..schedule import Schedule


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

    What prepares the operands and the formulas of the result become part of one kernel; formulas
    that cannot (there are several results) become kernels of their own.

    Args:
        block: the sum of products, whose loops are as they were made: a matrix product, a batch of
            them, a convolution.
        target: the GPU.
        tf32: whether matrix units may round float32 to 19 bits.

    Returns:
        The name of the tactic: "mma_matmul" or "simt_matmul".

    Raises:
        ScheduleError: the block is no product of matrices, or the function reduces its result.

    >>> from tileloom import Schedule, te
    >>> from tileloom.base import target
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
    kinds = {str(region.buffer.dtype) for region in sch.get(rv).reads}
    store = leaf_store(sch.get(rv))
    total = "" if store is None else str(store.value.dtype)
    (kind,) = kinds if len(kinds) == 1 else ("",)
    exact = kind != "float32" or tf32
    if found.plain and exact and units_for(kind, total, target) is not None:
        mma_matmul(sch, rv, target)
        return "mma_matmul"
    simt_matmul(sch, rv)
    return "simt_matmul"


__all__ = ["find_products", "schedule_gpu_product"]
