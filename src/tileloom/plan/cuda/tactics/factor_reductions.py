"""factor_reductions: threads share each reduction."""

from __future__ import annotations

from ....expr import IntImm
from ....schedule.rv import LoopRV
from ....schedule.schedule import Schedule
from ...loops import blocks_by_name, fused, reduces
from ..tile import divisor

MOST_THREADS = 1024


def factor_reductions(sch: Schedule, most: int = MOST_THREADS) -> list[str]:
    """Split every reduction among threads: each reduces a part, and the parts are combined.

    Where the length has a good divisor, the parts become a block of their own, `<name>_rf`. Else
    (a prime length, say) threads take turns along it, the last of them past its end for nothing.

    Args:
        most: the most threads that share a reduction.

    Returns:
        What was done, a line a block.
    """
    return [
        f"{name}: {_factor(sch, name, most)}"
        for name, block in blocks_by_name(sch).items()
        if reduces(block)
    ]


def _factor(sch: Schedule, name: str, most: int) -> str:
    loops = sch.get_loops(name)
    kinds = [axis.iter_type for axis in sch.get(sch.get_block(name)).iter_vars]
    if len(kinds) != len(loops):
        return "its loops are not those of its iteration variables"
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 0]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != 0]
    sch.reorder(*spatial, *reduced)
    depth = fused(sch, reduced)
    extent = sch.get(depth).extent
    if not isinstance(extent, IntImm):
        return "its length is not constant"
    threads = divisor(extent.value, most)
    if 2 * threads < min(most, extent.value):
        threads = min(most, 1 << (extent.value - 1).bit_length())
        inner, thread = sch.split(depth, [None, threads])
        sch.reorder(thread, inner)
        sch.bind(thread, "threadIdx.x")
        return f"{threads} threads take turns over {extent.value}"
    thread, _ = sch.split(depth, [threads, None])
    own = sch.rfactor(thread, 0)
    sch.set_scope(own, 0, "local")
    part_loop = _loop_of_first_axis(sch, sch.get(own).name_hint)
    sch.bind(part_loop, "threadIdx.x")
    sch.bind(sch.get_loops(name)[len(spatial)], "threadIdx.x")
    return f"{threads} threads, each {extent.value // threads} of {extent.value}"


def _loop_of_first_axis(sch: Schedule, name: str) -> LoopRV:
    """The loop over threads of a block of parts, whose first axis it is."""
    realize = sch.state.realize(sch.get_sref(sch.get_block(name)))
    wanted = realize.iter_values[0]
    found: LoopRV = next(loop for loop in sch.get_loops(name) if sch.get(loop).loop_var is wanted)
    return found
