"""bind_axes: what is not bound yet runs on blocks and threads."""

from __future__ import annotations

from ....schedule.errors import ScheduleError
from ....schedule.library._common import extent
from ....schedule.rv import LoopRV
from ....schedule.schedule import Schedule
from ....tir import SERIAL
from ...loops import blocks_by_name, fused, reduces

MOST_BLOCKS, MOST_THREADS = 256, 1024


def bind_axes(sch: Schedule) -> list[str]:
    """Bind the outer loops of every nest to blocks, and the loops below to threads.

    Beyond its source: loops of elementwise blocks below a bound loop are bound to threads as well,
    so that no thread does another's work again.

    Returns:
        What was done, a line a nest or a block.
    """
    said = []
    for name in blocks_by_name(sch):
        loops = sch.get_loops(name)
        if sch.get(loops[0]).thread_binding is None:
            said.append(f"nest of {name}: {_bind_nest(sch, loops)}")
    for name, block in blocks_by_name(sch).items():
        if not reduces(block):
            said.append(f"{name}: {_bind_rest(sch, name)}")
    return said


def _bind_nest(sch: Schedule, loops: list[LoopRV]) -> str:
    outer: list[LoopRV] = []
    for loop in loops:
        stmt = sch.get(loop)
        if stmt.thread_binding is not None or stmt.kind != SERIAL:
            break
        outer.append(loop)
        if len(sch.get_child_blocks(loop)) > 1:
            break  # this loop holds several blocks: what is below is each block's own
    block = fused(sch, outer)
    below = loops[len(outer) :]
    shares = bool(below) or len(sch.get_child_blocks(block)) > 1
    size = extent(sch, block)
    if shares or size is None:
        sch.bind(block, "blockIdx.x")
        return "blockIdx.x"
    if size <= MOST_THREADS:
        sch.bind(block, "threadIdx.x")
        return "threadIdx.x"
    if size <= MOST_BLOCKS * MOST_THREADS:
        first, thread = sch.split(block, [None, MOST_THREADS])
    else:
        inner, first, thread = sch.split(block, [None, MOST_BLOCKS, MOST_THREADS])
        sch.reorder(first, thread, inner)
    sch.bind(first, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return "blockIdx.x and threadIdx.x"


def _bind_rest(sch: Schedule, name: str) -> str:
    loops = sch.get_loops(name)
    if any(_tag(sch, loop).startswith("threadIdx") for loop in loops):
        return "its threads are bound"
    free = [loop for loop in loops if not _tag(sch, loop) and extent(sch, loop) != 1]
    if not free:
        return "nothing to bind"
    threads = _threads(sch)
    inner, thread = sch.split(fused(sch, free), [None, threads])
    sch.reorder(thread, inner)
    try:
        sch.bind(thread, "threadIdx.x")
    except ScheduleError as error:
        return error.message
    return f"threadIdx.x, {threads} threads"


def _threads(sch: Schedule) -> int:
    """The threads that some nest has already; 256 if none has."""
    for name in blocks_by_name(sch):
        for loop in sch.get_loops(name):
            if _tag(sch, loop) == "threadIdx.x":
                return extent(sch, loop) or 256
    return 256


def _tag(sch: Schedule, loop: LoopRV) -> str:
    binding = sch.get(loop).thread_binding
    return "" if binding is None else binding.thread_tag
