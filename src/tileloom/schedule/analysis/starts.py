"""Blocks that go on with what was there before them, and those that start their results."""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import REDUCE, Analyzer, Expr, Range, Var, const, post_order, substitute
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    stmt_children,
    stmt_exprs,
)
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .reductions import check_statements
from .regions import lower_bound
from .tree import is_one, loops_above, scope_root


def check_starts(state: ScheduleState, block: StmtSRef, buffer: Buffer, what: str) -> None:
    """Refuse a block that goes on with results begun outside of its scope, for what loses them."""
    stmt = block.block
    if stmt.init is None:
        if not any(region.buffer is buffer for region in stmt.reads) or _stores_first(stmt, buffer):
            return
        why = f"reads what it writes, {buffer.name!r}, and does not start it"
    else:
        check_statements(state, block)
        own = {outer.loop.loop_var for outer in loops_above(block)}
        outer = {s.loop.loop_var for s in block.ancestors() if s.is_loop} - own
        outer.update(a.var for s in block.ancestors() if s.is_block for a in s.block.iter_vars)
        if state.realize(block).loops_of(REDUCE).isdisjoint(outer):
            return
        why = f"reduces along loops outside of the block {scope_root(block).block.name_hint!r}"
    raise refuse(
        f"{name_of(block)} {why}, so {what} would lose what is there before",
        at=[block],
        hint="take this step before decompose_reduction and blockize, or use cache_inplace",
    )


def _stores_first(block: Block, buffer: Buffer) -> bool:
    """Whether a block surely stores all that it reads of a buffer before it reads any of that."""
    first = _first_use(block.body, buffer, {}, {})
    if first is None or any(match.source.buffer is buffer for match in block.match_buffers):
        return False
    indices, domains = first
    parts = [Range(index, const(1, index.dtype)) for index in indices]
    analyzer = Analyzer({axis.var: axis.domain for axis in block.iter_vars})
    stored = lower_bound(parts, domains, const(True), analyzer)
    return stored is not None and all(
        low is not None
        and high is not None
        and analyzer.can_prove_less_equal(low, part.min)
        and analyzer.can_prove_less_equal(part.min + part.extent - 1, high)
        for region in block.reads
        if region.buffer is buffer
        for (low, high), part in zip(stored, region.region, strict=True)
    )


Use = tuple[list[Expr], dict[Var, Range]]


def _first_use(
    stmt: Stmt, buffer: Buffer, values: Mapping[Var, Expr], domains: Mapping[Var, Range]
) -> Use | None:
    """The indices of a store that is the first use of a buffer, and the ranges of loops around it.

    None if the first use is another one, or may not come to pass.
    """
    if any(_reads(expr, buffer) for expr in stmt_exprs(stmt)):
        return None
    match stmt:
        case BufferStore() if stmt.buffer is buffer and stmt.predicate is None:
            return [substitute(index, values) for index in stmt.indices], dict(domains)
        case For():
            low, extent = substitute(stmt.min, values), substitute(stmt.extent, values)
            inside = {**domains, stmt.loop_var: Range(low, extent)}
            return _first_use(stmt.body, buffer, values, inside)
        case SeqStmt():
            user = next((part for part in stmt.seq if _uses(part, buffer)), None)
            return None if user is None else _first_use(user, buffer, values, domains)
        case BlockRealize() if is_one(stmt.predicate):
            return _first_in_block(stmt, buffer, values, domains)
        case _:
            return None


def _first_in_block(
    realize: BlockRealize,
    buffer: Buffer,
    values: Mapping[Var, Expr],
    domains: Mapping[Var, Range],
) -> Use | None:
    block = realize.block
    if any(match.source.buffer is buffer for match in block.match_buffers):
        return None
    pairs = zip(block.iter_vars, realize.iter_values, strict=True)
    inside = {**values, **{axis.var: substitute(value, values) for axis, value in pairs}}
    return _first_use(block.body if block.init is None else block.init, buffer, inside, domains)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    if isinstance(stmt, BufferStore) and stmt.buffer is buffer:
        return True
    if isinstance(stmt, Block) and any(m.source.buffer is buffer for m in stmt.match_buffers):
        return True
    if isinstance(stmt, BlockRealize) and _uses(stmt.block, buffer):
        return True
    return any(_reads(expr, buffer) for expr in stmt_exprs(stmt)) or any(
        _uses(child, buffer) for child in stmt_children(stmt)
    )


def _reads(expr: Expr, buffer: Buffer) -> bool:
    """Whether an expression reads a buffer, or has its pointer."""
    return any(
        node is buffer.data or (isinstance(node, BufferLoad) and node.buffer is buffer)
        for node in post_order(expr)
    )
