"""Groups around one product of matrices: by the library's tactics, which tile products."""

from __future__ import annotations

from math import prod

from ...base.errors import UserError
from ...expr import REDUCE, free_vars
from ...expr.extents import known_extent
from ...schedule.library import find_factors, find_products, schedule_gpu_product
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import Block
from ..domain import blocks_by_name
from ..loops import factors, reduces

#: Rows, columns and depth below which tiles would be mostly empty.
LEAST = 16


def is_product(block: Block) -> bool:
    """Whether a block reduces products of what is read by different results each.

    >>> from tileloom import te
    >>> from tileloom.schedule import Schedule
    >>> A, B = (te.placeholder((8, 8), name=name) for name in "AB")
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> D = te.compute((8,), lambda i: te.sum(A[i, k] * B[i, k], axis=k), name="D")
    >>> sch = Schedule(te.create_prim_func([A, B, C, D]))
    >>> [is_product(sch.get(sch.get_block(name))) for name in "CD"]
    [True, False]
    """
    if not reduces(block):
        return False
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == REDUCE}
    placed = {axis.var for axis in block.iter_vars} - reduced
    used = [free_vars(load) & placed for load in factors(block) if free_vars(load) & reduced]
    return any(a - b and b - a for a in used for b in used)


def product_alone(sch: Schedule, target: Target) -> Schedule | None:
    """The schedule of a group that reduces nothing but one product of matrices; None for others.

    Also None where the tactics refuse it: any product can be reduced row by row.
    """
    if sum(map(reduces, blocks_by_name(sch).values())) != 1:
        return None
    found = find_products(sch)
    if len(found) != 1 or any(size < LEAST for size in _sizes(sch, found[0])):
        return None
    trial = sch.copy()
    try:
        schedule_gpu_product(trial, found[0], target)
    except UserError:
        return None
    return trial


def _sizes(sch: Schedule, rv: BlockRV) -> list[int]:
    """Rows, columns and depth."""
    factors = find_factors(sch, rv)
    if factors is None:
        return [0]
    numbers = [known_extent(axis.domain.extent) or 0 for axis in sch.get(rv).iter_vars]
    sides = (factors.rows, factors.columns, factors.depth)
    return [prod(numbers[k] for k in side) for side in sides]
