"""What programs use and where: buffers, undefined variables, common ancestors, orders of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..expr import SPATIAL, Expr, IterVar, Var, free_vars, post_order
from .analysis_regions import access_regions, allocated_buffers, infer_block_access, union_regions
from .nodes import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
)
from .walk import buffer_exprs, pre_order, stmt_children, stmt_exprs

# ---------------------------------------------------------------------------- names


def used_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that are loaded from or stored to, each once, in program order."""
    return tuple(dict.fromkeys(buffer for buffer, _ in buffer_accesses(stmt)))


def buffer_accesses(stmt: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """Every store and every load, with its indices, in program order."""
    for node in pre_order(stmt):
        if isinstance(node, BufferStore):
            yield node.buffer, node.indices
        for expr in stmt_exprs(node):
            for part in post_order(expr):
                if isinstance(part, BufferLoad):
                    yield part.buffer, part.indices


def undefined_vars(stmt: Stmt | PrimFunc) -> tuple[Var, ...]:
    """The variables used but not defined inside, in order of first use; pointers of buffers too."""
    if isinstance(stmt, PrimFunc):
        known = set(stmt.params)
        for buffer in stmt.buffers:
            known.add(buffer.data)
            known.update(*(free_vars(expr) for expr in buffer_exprs(buffer)))
        return tuple(var for var in undefined_vars(stmt.body) if var not in known)
    found: dict[Var, None] = {}
    _undefined(stmt, frozenset(), found)
    return tuple(found)


def _undefined(stmt: Stmt, known: frozenset[Var], found: dict[Var, None]) -> None:
    inner = known | _definitions(stmt)
    # Only a block's own expressions may use what it defines.
    usable = inner if isinstance(stmt, Block) else known
    for expr in stmt_exprs(stmt):
        _uses(expr, usable, found)
    if isinstance(stmt, BufferStore):
        _note((stmt.buffer.data,), usable, found)
    if isinstance(stmt, DeclBuffer):
        _note((stmt.buffer.data,), known, found)
        for expr in buffer_exprs(stmt.buffer):
            _uses(expr, known, found)
    for child in stmt_children(stmt):
        _undefined(child, inner, found)


def _definitions(stmt: Stmt) -> frozenset[Var]:
    match stmt:
        case For():
            extra = () if stmt.thread_binding is None else (stmt.thread_binding.var,)
            return frozenset((stmt.loop_var, *extra))
        case LetStmt():
            return frozenset((stmt.var,))
        case Allocate() | AllocateConst():
            return frozenset((stmt.buffer_var,))
        case AttrStmt(node=IterVar() as axis):
            return frozenset((axis.var,))
        case Block():
            result = {axis.var for axis in stmt.iter_vars}
            result.update(buffer.data for buffer in stmt.alloc_buffers)
            for match in stmt.match_buffers:
                result.add(match.buffer.data)
                result.update(*(free_vars(expr) for expr in buffer_exprs(match.buffer)))
            return frozenset(result)
    return frozenset()


def _uses(expr: Expr, known: frozenset[Var], found: dict[Var, None]) -> None:
    free = free_vars(expr)
    for part in post_order(expr):
        if isinstance(part, Var) and part in free:
            _note((part,), known, found)
        elif isinstance(part, BufferLoad):
            _note((part.buffer.data,), known, found)


def _note(variables: Iterable[Var], known: frozenset[Var], found: dict[Var, None]) -> None:
    for var in variables:
        if var not in known:
            found.setdefault(var)


# ---------------------------------------------------------------------------- ancestors


def detect_buffer_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """For each buffer the innermost loop, block or branch that holds all accesses to it.

    None stands for the function itself; parameters that nothing accesses are not listed. A buffer
    that a block reduces into belongs outside of the loops that carry the reduction.
    """
    found: dict[Buffer, tuple[Stmt, ...]] = {}
    aliases: dict[Buffer, Buffer] = {}

    def access(buffer: Buffer, scopes: tuple[Stmt, ...]) -> None:
        buffer = aliases.get(buffer, buffer)
        known = found.get(buffer)
        found[buffer] = scopes if known is None else _common(known, scopes)

    def visit(stmt: Stmt, scopes: tuple[Stmt, ...]) -> None:
        if isinstance(stmt, BufferStore):
            access(stmt.buffer, scopes)
        if isinstance(stmt, BlockRealize):
            outside = _outside_reductions(stmt, scopes)
            if len(outside) < len(scopes):
                for region in stmt.block.writes:
                    access(region.buffer, outside)
        if isinstance(stmt, Block):
            for match in stmt.match_buffers:
                aliases[match.buffer] = aliases.get(match.source.buffer, match.source.buffer)
                access(match.source.buffer, (*scopes, stmt))
        inner = (*scopes, stmt) if isinstance(stmt, (For, Block, While)) else scopes
        # A block's own expressions declare accesses and perform none.
        for expr in () if isinstance(stmt, Block) else stmt_exprs(stmt):
            for part in post_order(expr):
                if isinstance(part, BufferLoad):
                    access(part.buffer, inner if isinstance(stmt, While) else scopes)
        for child in stmt_children(stmt):
            visit(child, inner)

    visit(func.body, ())
    return {buffer: scopes[-1] if scopes else None for buffer, scopes in found.items()}


def _common(a: tuple[Stmt, ...], b: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    count = 0
    for x, y in zip(a, b):
        if x is not y:
            break
        count += 1
    return a[:count]


def _outside_reductions(stmt: BlockRealize, scopes: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The scopes above the outermost loop that a variable other than a spatial one runs with."""
    carried = stmt.loops_of(SPATIAL, others=True)
    for depth, scope in enumerate(scopes):
        if isinstance(scope, For) and scope.loop_var in carried:
            return scopes[:depth]
    return scopes


__all__ = [
    "access_regions", "allocated_buffers", "detect_buffer_lca", "infer_block_access",
    "undefined_vars", "union_regions", "used_buffers",
]  # fmt: skip
