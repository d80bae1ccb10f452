"""What automatic schedules of sparse programs have in common: nests, sums, what is in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from ..expr import SPATIAL, Expr, Var, const, free_vars, has_load, post_order, simplify, substitute
from ..schedule import BlockRV, LoopRV, Schedule, ScheduleError
from ..schedule.analysis.blocks import loop_iter_type
from ..tir import BufferLoad, BufferStore, For, Stmt, While, all_exprs, pre_order


def nests(sch: Schedule, func_name: str) -> list[BlockRV]:
    """The first block of each loop nest of a function."""
    root = sch.get_block("root", func_name)
    found: dict[Stmt, BlockRV] = {}
    for block in sch.get_child_blocks(root):
        loops = sch.get_loops(block)
        found.setdefault(sch.get(loops[0] if loops else block), block)
    return list(found.values())


def blocks_below(sch: Schedule, block: BlockRV) -> Iterator[BlockRV]:
    """The blocks of a nest, given one of its outermost blocks; outer ones first."""
    loops = sch.get_loops(block)
    for child in sch.get_child_blocks(loops[0]) if loops else [block]:
        yield child
        yield from _inside(sch, child)


def _inside(sch: Schedule, block: BlockRV) -> Iterator[BlockRV]:
    for child in sch.get_child_blocks(block):
        yield child
        yield from _inside(sch, child)


def leaves_below(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """The innermost blocks of a nest."""
    return [each for each in blocks_below(sch, block) if not sch.get_child_blocks(each)]


def tiled_columns(sch: Schedule, block: BlockRV, size: int) -> LoopRV | None:
    """Take columns of a sum some at a time: start them, add everything, then the next ones.

    Returns:
        The loop over the columns of a tile; None if the block is no sum with its columns innermost,
        or must not run in this order.
    """
    loops = sch.get_loops(block)
    if not loops or not is_spatial(sch, loops[-1]):
        return None
    *outer, columns = loops
    reductions = [*takewhile(lambda loop: not is_spatial(sch, loop), reversed(outer))][::-1]
    if not reductions:
        return None
    try:
        first, inner = sch.split(columns, [None, size])
        sch.reorder(first, *reductions, inner)
    except ScheduleError:
        return None
    return inner


def is_spatial(sch: Schedule, loop: LoopRV) -> bool:
    """Whether a loop only places results."""
    return loop_iter_type(sch.state, sch.get_sref(loop)) == SPATIAL


def is_uneven(stmt: Stmt) -> bool:
    """Whether how long a statement takes depends on index arrays."""
    return any(
        isinstance(part, While) or (isinstance(part, For) and has_load(part.extent))
        for part in pre_order(stmt)
    )


def is_contiguous(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Whether iterations of a loop around a block store, or read and combine, what is in a row.

    That is so where each element that is stored is the one after that of the iteration before, or
    the same for all while some are read in a row. There is no search and no walk in the block.
    """
    realize = sch.state.realize(sch.get_sref(block))
    body, var = realize.block.body, sch.get(loop).loop_var
    if any(isinstance(part, While | For) for part in pre_order(body)):
        return False
    at = realize.bindings
    stores = [part for part in pre_order(body) if isinstance(part, BufferStore)]
    steps = {_step(store.indices, at, var) for store in stores}
    if steps == {1}:
        return True
    loads = (node for expr in all_exprs(body) for node in post_order(expr))
    read = {_step(load.indices, at, var) for load in loads if isinstance(load, BufferLoad)}
    return steps == {0} and 1 in read


def _step(indices: Sequence[Expr], bindings: dict[Var, Expr], var: Var) -> int | None:
    """How far the element of the next iteration is away, if it is in the same row."""
    values = [substitute(index, bindings) for index in indices]
    moving = [var in free_vars(value) for value in values]
    if not any(moving):
        return 0
    last = values[-1]
    loads = [node for node in post_order(last) if isinstance(node, BufferLoad)]
    if any(moving[:-1]) or any(var in free_vars(load) for load in loads):
        return None
    gap = simplify(substitute(last, {var: var + const(1, var.dtype)}) - last)
    return 1 if gap is const(1, gap.dtype) else None
