"""How a sparse program runs on a CPU, by rule."""

from __future__ import annotations

from ..schedule import BlockRV, Schedule, ScheduleError
from ..tir import BufferStore, pre_order
from .loop_nests import is_contiguous, is_spatial, is_uneven, leaves_below, nests, tiled_columns

#: Vectors of a result that are summed at once, in registers.
TILE = 8
#: Vectors of partial results of one sum, which hide the latency of adding.
PARTS = 4


def schedule_cpu(sch: Schedule, func_name: str, vector_bits: int) -> None:
    """Schedule a function: rows in parallel, columns or elements in vectors, sums in registers.

    * The columns of a sum are taken eight vectors at a time, all elements of a row for these, so
      that they stay in registers.
    * The innermost loop runs in vectors where what it stores or combines is in a row.
    * The outermost loop of each nest runs in parallel, if that is legal: it is not where results
      are combined over it. Its iterations are handed out as workers become idle where rows have
      different lengths.

    Args:
        vector_bits: the size of the target's vectors.
    """
    for nest in nests(sch, func_name):
        for block in leaves_below(sch, nest):
            tiled_columns(sch, block, TILE * _lanes(sch, block, vector_bits))
            _vectorize(sch, block, vector_bits)
        _parallelize(sch, nest)


def _vectorize(sch: Schedule, block: BlockRV, vector_bits: int) -> None:
    loops = sch.get_loops(block)
    if not loops or not is_contiguous(sch, block, loops[-1]):
        return
    sch.annotate(loops[-1], "vector_lanes", _lanes(sch, block, vector_bits))
    if not is_spatial(sch, loops[-1]):
        sch.annotate(loops[-1], "vector_parts", PARTS)


def _lanes(sch: Schedule, block: BlockRV, vector_bits: int) -> int:
    """Elements of what is stored that a vector has."""
    stores = [part for part in pre_order(sch.get(block)) if isinstance(part, BufferStore)]
    widest = max((store.value.dtype.bits for store in stores), default=32)
    return max(1, vector_bits // max(8, widest))


def _parallelize(sch: Schedule, nest: BlockRV) -> None:
    loops = sch.get_loops(nest)
    if not loops:
        return
    try:
        sch.parallel(loops[0])
    except ScheduleError:
        return  # results are combined over it
    if is_uneven(sch.get(loops[0]).body):
        sch.annotate(loops[0], "schedule", "dynamic")
