"""Rebuilding a scope around statements that change, along the paths to them only."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from ...tir import Block, BlockRealize, For, SeqStmt, Stmt, seq
from ..rewrite import statements
from ..sref import StmtSRef
from ..state import copy_loop

#: New statements for old ones; None takes one away. A block stands for what runs it as well.
Changes = Mapping[Stmt, Stmt | None]


def rebuilt(stmt: Stmt, path: Container[Stmt], changes: Changes) -> Stmt | None:
    """A statement with changes inside; None if nothing is left of it.

    Args:
        stmt: a loop, a block, or what is in one.
        path: the loops and blocks that hold what changes; others are not looked into.
        changes: the new statements. A new block is run as the old one was; another statement in
            place of a block replaces what runs it.
    """
    if stmt in changes:
        return changes[stmt]
    match stmt:
        case BlockRealize():
            return _realize(stmt, path, changes)
        case For():
            if stmt not in path:
                return stmt
            body = rebuilt(stmt.body, path, changes)
            if body is None:
                return None
            return stmt if body is stmt.body else copy_loop(stmt, body)
        case SeqStmt():
            parts = [rebuilt(part, path, changes) for part in stmt.seq]
            if all(a is b for a, b in zip(parts, stmt.seq, strict=True)):
                return stmt
            left = [part for part in parts if part is not None]
            return seq(*left) if left else None
    inner = getattr(stmt, "body", None)
    if not isinstance(inner, Stmt):
        return stmt
    body = rebuilt(inner, path, changes)
    if body is None:
        return None
    return stmt if body is inner else stmt.replace(body=body)


def _realize(stmt: BlockRealize, path: Container[Stmt], changes: Changes) -> Stmt | None:
    block = stmt.block
    new = changes.get(block, block)
    if new is block:
        return stmt
    if isinstance(new, Block):
        return BlockRealize(stmt.iter_values, stmt.predicate, new, span=stmt.span)
    return new


def paths_to(srefs: Iterable[StmtSRef]) -> set[Stmt]:
    """The statements of some blocks and loops, and of all that is around them."""
    return {s.stmt for sref in srefs for s in (sref, *sref.ancestors()) if s.stmt is not None}


def index_in(place: StmtSRef, inner: StmtSRef) -> int:
    """Which statement of the body of a loop or scope holds a block."""
    child = inner
    while child.parent is not None and child.parent is not place:
        child = child.parent
    body = place.loop.body if place.is_loop else place.block.body
    for i, part in enumerate(statements(body)):
        if part is child.stmt or (isinstance(part, BlockRealize) and part.block is child.stmt):
            return i
    return 0
