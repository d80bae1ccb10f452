"""What blocks cost, by the table of `target/cost.py`, and how wide their elements are."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Call, Div, Expr, FloorDiv, FloorMod, IntImm, Mod, post_order
from ..schedule.analysis.blocks import leaf_store
from ..target import cost
from ..tir import Block, BufferLoad, BufferStore, pre_order


def work(block: Block) -> int:
    """Simple operations in one iteration of a block; one at least.

    >>> from tileloom import te
    >>> from tileloom.schedule import Schedule
    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: A[i] / 2.0 + A[i], name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> work(sch.get(sch.get_block("B")))
    10
    """
    stores = (stmt for stmt in pre_order(block.body) if isinstance(stmt, BufferStore))
    return max(1, sum(_work(store.value) - _keeps(store) for store in stores))


def _keeps(store: BufferStore) -> bool:
    """Whether a store adds to what it stored before, which stays in a register."""
    loads = (part for part in post_order(store.value) if isinstance(part, BufferLoad))
    return any(load.buffer is store.buffer and load.indices == store.indices for load in loads)


def is_costly(block: Block) -> bool:
    """Whether an elementwise block costs more than to keep its value."""
    store = leaf_store(block)
    return store is None or cost.is_costly(_work(store.value), near=True)


def _work(expr: Expr) -> int:
    """Of each part once, however often it occurs; what indices take is left out."""
    known = expr.memo.get("work")
    if known is None:
        parts: dict[Expr, None] = {}
        waiting = [expr]
        while waiting:
            part = waiting.pop()
            if part not in parts:
                parts[part] = None
                waiting += () if isinstance(part, BufferLoad) else part.children
        known = expr.memo["work"] = sum(map(_own_work, parts))
    return int(known)


def _own_work(expr: Expr) -> int:
    match expr:
        case Call():
            return cost.work_of(expr.op.removeprefix("tir."))
        case Div() if expr.dtype.is_float:
            return cost.work_of("div")
        case Div() | FloorDiv() | Mod() | FloorMod() if not isinstance(expr.b, IntImm):
            return cost.work_of("trunc_div")
        case _:
            return int(bool(expr.children))


def widest_bits(blocks: Iterable[Block]) -> int:
    """The bits of the widest element that blocks read or write; 8 at least."""
    regions = [region for block in blocks for region in (*block.reads, *block.writes)]
    return max(8, *(region.buffer.dtype.bits for region in regions))
