"""Reductions over threads, as what they become before features are read."""

from __future__ import annotations

from ...expr import REDUCE, Var
from ...lower.analysis.thread_reductions import recognise
from ...lower.gpu import lower_cross_thread_reduction
from ...tir import Block, BlockRealize, Buffer, For, PrimFunc, Stmt, StmtRewriter, pre_order, stores

# What parts are called, and what TVM calls them: by their names buffers are sorted.
_NAMES = {"_part": "in_thread_", "_all": "cross_thread_"}


def without_thread_reductions(func: PrimFunc) -> tuple[PrimFunc, dict[Buffer, str]]:
    """The function with every reduction over threads as a part in each thread, a combination of
    all, and a store of the result; and the names of the buffers in between."""
    threads = _threads(func)
    if not threads or not any(_reduces(stmt, threads) for stmt in pre_order(func.body)):
        return func, {}
    lowered = lower_cross_thread_reduction(func.with_body(_PlainInits(threads).visit(func.body)))
    own = _allocated(func)
    return lowered, {buffer: _name(buffer.name) for buffer in _allocated(lowered) - own}


def _threads(func: PrimFunc) -> set[Var]:
    loops = (stmt for stmt in pre_order(func.body) if isinstance(stmt, For))
    return {loop.loop_var for loop in loops if loop.thread_binding is not None}


def _reduces(stmt: Stmt, threads: set[Var]) -> bool:
    """Whether a block reduces over threads."""
    if not isinstance(stmt, BlockRealize) or stmt.block.init is None:
        return False
    return not threads.isdisjoint(stmt.loops_of(REDUCE))


def _allocated(func: PrimFunc) -> set[Buffer]:
    blocks = (stmt for stmt in pre_order(func.body) if isinstance(stmt, Block))
    return {buffer for block in blocks for buffer in block.alloc_buffers}


def _name(name: str) -> str:
    for suffix, prefix in _NAMES.items():
        if name.endswith(suffix):
            return prefix + name.removesuffix(suffix)
    return name


class _PlainInits(StmtRewriter):
    """Lets reductions over threads begin with the identity, so that nothing is left to combine."""

    def __init__(self, threads: set[Var]) -> None:
        self.threads = threads

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        if not _reduces(stmt, self.threads):
            return super().visit_BlockRealize(stmt)
        update = recognise(stmt.block)
        places = [store.indices for store in update.stores]
        init = stores(update.targets, update.combiner.identity, places)
        return stmt.replace(block=stmt.block.replace(init=init))
