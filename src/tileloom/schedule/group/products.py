"""Groups around one product of matrices: by the library's tactics, which tile products."""

from __future__ import annotations

from math import prod

from ...base import Target
from ...base.errors import UserError
from ...expr import IntImm
from ..library import find_factors, find_products, schedule_gpu_product
from ..rv import BlockRV
from ..schedule import Schedule
from .domain import blocks_by_name
from .loops import reduces

#: Rows, columns and depth below which tiles would be mostly empty.
LEAST = 16


def product_alone(sch: Schedule, target: Target) -> Schedule | None:
    """The schedule of a group that reduces nothing but one product of matrices; None for others.

    Also None where the tactics refuse it: any product can be reduced row by row.
    """
    if sum(map(reduces, blocks_by_name(sch).values())) != 1:
        return None
    found = find_products(sch)
    if len(found) != 1 or min(_sizes(sch, found[0])) < LEAST:
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
    extents = [axis.domain.extent for axis in sch.get(rv).iter_vars]
    if not all(isinstance(extent, IntImm) for extent in extents):
        return [0]
    numbers = [int(extent) for extent in extents]
    sides = (factors.rows, factors.columns, factors.depth)
    return [prod(numbers[k] for k in side) for side in sides]


__all__ = ["product_alone"]
