"""align_loops: the loops of all blocks take the extents of the block that matters most."""

from __future__ import annotations

from math import prod

from ....expr import REDUCE, IntImm, Var, post_order
from ....schedule.analysis.blocks import leaf_store
from ....schedule.errors import ScheduleError
from ....schedule.schedule import Schedule
from ....tir import Block, BufferLoad
from ...loops import blocks_by_name, fused, reduces


def master_block(sch: Schedule) -> str:
    """The block whose loops the others follow: a reduction, else the one with the most work.

    Among reductions, and among elementwise blocks, the later one counts when both work alike.
    """
    blocks = blocks_by_name(sch)

    def rank(name: str) -> tuple[bool, int, int]:
        return reduces(blocks[name]), prod(_extents(sch, name)), -list(blocks).index(name)

    return max(blocks, key=rank)


def align_loops(sch: Schedule) -> list[str]:
    """Give every block the loops of the master block, or the first of them.

    Args:
        sch: a schedule of blocks whose loops are bound to nothing yet.

    Returns:
        What was done, a line a block.
    """
    master = master_block(sch)
    whole, rows = _order(sch, master)
    said = [f"{master}: the others follow its loops {whole}"]
    for name, block in blocks_by_name(sch).items():
        if name == master or reduces(block):
            continue
        said.append(f"{name}: {_align(sch, name, whole, rows)}")
    return said


def _align(sch: Schedule, name: str, whole: list[int], rows: list[int]) -> str:
    extents = _extents(sch, name)
    size = prod(extents)
    if size == prod(whole):
        wanted: list[int | None] = list(whole)
    elif size == prod(rows):
        wanted = list(rows)
    elif prod(rows) and size % prod(rows) == 0:
        wanted = [*rows, None]
    else:
        return f"its {size} iterations do not follow the master's {prod(whole)}"
    if [n for n in extents if n != 1] == wanted:
        return "its loops are the master's already"
    try:
        sch.split(fused(sch, sch.get_loops(name)), wanted)
    except ScheduleError as error:
        return error.message
    return f"loops {_extents(sch, name)}"


def _order(sch: Schedule, name: str) -> tuple[list[int], list[int]]:
    """The extents of the master's loops in the order in which its operand lies, and of its rows."""
    block = blocks_by_name(sch)[name]
    extents = dict(zip((axis.var for axis in block.iter_vars), _extents(sch, name), strict=True))
    kinds = {axis.var: axis.iter_type for axis in block.iter_vars}
    order = _operand_order(block) if reduces(block) else list(extents)
    live = [var for var in order if extents[var] != 1]
    return [extents[v] for v in live], [extents[v] for v in live if kinds[v] != REDUCE]


def _operand_order(block: Block) -> list[Var]:
    """The iteration variables of a reduction as they index what is reduced."""
    store = leaf_store(block)
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == REDUCE}
    for load in post_order(store.value) if store is not None else ():
        if isinstance(load, BufferLoad) and reduced & set(load.indices):
            return [index for index in load.indices if isinstance(index, Var)]
    return [axis.var for axis in block.iter_vars]


def _extents(sch: Schedule, name: str) -> list[int]:
    found = (sch.get(loop).extent for loop in sch.get_loops(name))
    return [n.value if isinstance(n, IntImm) else 1 for n in found]
