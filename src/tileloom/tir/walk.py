"""Visiting and rewriting statements.

`StmtRewriter` is the base of most passes: override `visit_stmt`-style methods named after the node
(`visit_For`, `visit_BufferStore`, ...) and `visit_expr`; the rest is rebuilt only where
something below it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..expr import Expr, IterVar, Range, Var, rewrite, substitute
from .nodes import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
    seq,
)

T = TypeVar("T")


def stmt_children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below."""
    match stmt:
        case SeqStmt():
            return stmt.seq
        case BlockRealize():
            return (stmt.block,)
        case Block():
            return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
        case IfThenElse():
            if stmt.else_case is None:
                return (stmt.then_case,)
            return (stmt.then_case, stmt.else_case)
        case BufferStore() | Evaluate():
            return ()
        case _:
            return (stmt.body,)  # type: ignore[attr-defined]


def _region_exprs(regions: tuple[BufferRegion, ...]) -> Iterator[Expr]:
    for region in regions:
        for part in region.region:
            yield part.min
            yield part.extent


def stmt_exprs(stmt: Stmt) -> Iterator[Expr]:
    """The expressions that the statement itself holds, without those of its sub-statements."""
    match stmt:
        case For():
            yield stmt.min
            yield stmt.extent
        case BlockRealize():
            yield from stmt.iter_values
            yield stmt.predicate
        case Block():
            for axis in stmt.iter_vars:
                yield axis.domain.min
                yield axis.domain.extent
            yield from _region_exprs(stmt.reads)
            yield from _region_exprs(stmt.writes)
            yield from _region_exprs(tuple(match.source for match in stmt.match_buffers))
        case BufferStore():
            yield stmt.value
            yield from stmt.indices
            if stmt.predicate is not None:
                yield stmt.predicate
        case IfThenElse() | While() | AssertStmt():
            yield stmt.condition
        case LetStmt() | AttrStmt() | Evaluate():
            yield stmt.value
        case Allocate():
            yield from stmt.extents
            yield stmt.condition
        case _:
            return


def pre_order(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, parents before children, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(stmt_children(node)))


def collect(stmt: Stmt, kind: type[T]) -> list[T]:
    """All statements of one class, in program order."""
    return [node for node in pre_order(stmt) if isinstance(node, kind)]


class StmtRewriter:
    """Rebuilds a statement bottom-up; subclasses override what they change."""

    def visit(self, stmt: Stmt) -> Stmt:
        """The rewritten statement."""
        method: Callable[[Any], Stmt] = getattr(self, f"visit_{type(stmt).__name__}")
        return method(stmt)

    def visit_expr(self, expr: Expr) -> Expr:
        """The rewritten expression; called on each whole expression a statement holds."""
        return expr

    def visit_range(self, part: Range) -> Range:
        """A rewritten range."""
        low, extent = self.visit_expr(part.min), self.visit_expr(part.extent)
        return part if low is part.min and extent is part.extent else Range(low, extent)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        """A rewritten region of the same buffer."""
        parts = self.all(region.region, self.visit_range)
        return region if parts is region.region else BufferRegion(region.buffer, parts)

    @staticmethod
    def all(items: tuple[T, ...], visit: Callable[[T], T]) -> tuple[T, ...]:
        """`visit` of each item; the very same tuple when nothing changed."""
        new = tuple([visit(item) for item in items])
        for a, b in zip(new, items, strict=True):
            if a is not b:
                return new
        return items

    @staticmethod
    def update(stmt: T, **fields: Any) -> T:
        """`stmt` with these fields, or `stmt` itself when none of them changed."""
        for name, new in fields.items():
            if getattr(stmt, name) is not new:
                return stmt.replace(**fields)  # type: ignore[attr-defined,no-any-return]
        return stmt

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        return self.update(stmt, min=low, extent=extent, body=self.visit(stmt.body))

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        values = self.all(stmt.iter_values, self.visit_expr)
        predicate = self.visit_expr(stmt.predicate)
        block = self.visit(stmt.block)
        return self.update(stmt, iter_values=values, predicate=predicate, block=block)

    def visit_iter_var(self, axis: IterVar) -> IterVar:
        """A rewritten iteration variable (its domain)."""
        if axis.dom is None:
            return axis
        dom = self.visit_range(axis.dom)
        return axis if dom is axis.dom else IterVar(dom, axis.var, axis.iter_type, axis.thread_tag)

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        """A rewritten alias declaration."""
        source = self.visit_region(match.source)
        return match if source is match.source else MatchBufferRegion(match.buffer, source)

    def visit_Block(self, stmt: Block) -> Stmt:
        return self.update(
            stmt,
            iter_vars=self.all(stmt.iter_vars, self.visit_iter_var),
            reads=self.all(stmt.reads, self.visit_region),
            writes=self.all(stmt.writes, self.visit_region),
            match_buffers=self.all(stmt.match_buffers, self.visit_match),
            init=None if stmt.init is None else self.visit(stmt.init),
            body=self.visit(stmt.body),
        )

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        predicate = None if stmt.predicate is None else self.visit_expr(stmt.predicate)
        value, indices = self.visit_expr(stmt.value), self.all(stmt.indices, self.visit_expr)
        return self.update(stmt, value=value, indices=indices, predicate=predicate)

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        parts = self.all(stmt.seq, self.visit)
        return stmt if parts is stmt.seq else seq(*parts)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        condition = self.visit_expr(stmt.condition)
        no = None if stmt.else_case is None else self.visit(stmt.else_case)
        yes = self.visit(stmt.then_case)
        return self.update(stmt, condition=condition, then_case=yes, else_case=no)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        return self.update(stmt, value=self.visit_expr(stmt.value), body=self.visit(stmt.body))

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        return self.update(stmt, value=self.visit_expr(stmt.value), body=self.visit(stmt.body))

    def visit_AssertStmt(self, stmt: AssertStmt) -> Stmt:
        condition = self.visit_expr(stmt.condition)
        return self.update(stmt, condition=condition, body=self.visit(stmt.body))

    def visit_While(self, stmt: While) -> Stmt:
        condition = self.visit_expr(stmt.condition)
        return self.update(stmt, condition=condition, body=self.visit(stmt.body))

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return self.update(stmt, value=self.visit_expr(stmt.value))

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        extents = self.all(stmt.extents, self.visit_expr)
        condition = self.visit_expr(stmt.condition)
        return self.update(stmt, extents=extents, condition=condition, body=self.visit(stmt.body))

    def visit_AllocateConst(self, stmt: AllocateConst) -> Stmt:
        return self.update(stmt, body=self.visit(stmt.body))

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        return self.update(stmt, body=self.visit(stmt.body))


class _MapExprs(StmtRewriter):
    def __init__(self, transform: Callable[[Expr], Expr]) -> None:
        self.visit_expr = transform  # type: ignore[method-assign,assignment]


def map_exprs(stmt: Stmt, transform: Callable[[Expr], Expr]) -> Stmt:
    """`stmt` with `transform` applied to each whole expression that a statement holds."""
    return _MapExprs(transform).visit(stmt)


def substitute_stmt(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with variables replaced."""
    return map_exprs(stmt, lambda expr: substitute(expr, values)) if values else stmt


def rewrite_stmt_exprs(stmt: Stmt, rule: Callable[[Expr], Expr | None]) -> Stmt:
    """`stmt` with `rule` applied bottom-up to every expression; None leaves a node."""
    return map_exprs(stmt, lambda expr: rewrite(expr, rule))
