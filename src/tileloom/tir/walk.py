"""Visiting and rewriting statements.

`StmtRewriter` is the base of most passes: override `visit_stmt`-style methods named after the node
(`visit_For`, `visit_BufferStore`, ...) and `visit_expr`; the rest is rebuilt only where
something below it changed.
"""

from __future__ import annotations

from operator import is_not

from ..base.late import TYPE_CHECKING
from ..expr import Expr, IterVar, Range, Var, post_order, rewrite, substitute
from .nodes import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
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
from .sparse import SparseIteration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")


# Tables rather than `match`, which tries one class after the other: every analysis asks for these.
_CHILDREN: dict[type[Stmt], Callable[[Any], tuple[Stmt, ...]]] = {
    SeqStmt: lambda s: s.seq,
    BlockRealize: lambda s: (s.block,),
    Block: lambda s: (s.body,) if s.init is None else (s.init, s.body),
    IfThenElse: lambda s: (s.then_case,) if s.else_case is None else (s.then_case, s.else_case),
    BufferStore: lambda s: (),
    Evaluate: lambda s: (),
    SparseIteration: lambda s: (s.body,) if s.init is None else (s.init, s.body),
}


def stmt_children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below."""
    children = _CHILDREN.get(type(stmt))
    return (stmt.body,) if children is None else children(stmt)  # type: ignore[attr-defined]


def _ranges(ranges: Iterable[Range]) -> Iterator[Expr]:
    for part in ranges:
        yield part.min
        yield part.extent


def _block_exprs(block: Block) -> Iterator[Expr]:
    yield from _ranges([axis.domain for axis in block.iter_vars])
    sources = [match.source for match in block.match_buffers]
    for region in (*block.reads, *block.writes, *sources):
        yield from _ranges(region.region)


_EXPRS: dict[type[Stmt], Callable[[Any], Iterable[Expr]]] = {
    For: lambda s: (s.min, s.extent),
    BlockRealize: lambda s: (*s.iter_values, s.predicate),
    Block: _block_exprs,
    BufferStore: lambda s: (
        (s.value, *s.indices) if s.predicate is None else (s.value, *s.indices, s.predicate)
    ),
    IfThenElse: lambda s: (s.condition,),
    While: lambda s: (s.condition,),
    AssertStmt: lambda s: (s.condition,),
    LetStmt: lambda s: (s.value,),
    AttrStmt: lambda s: (s.value,),
    Evaluate: lambda s: (s.value,),
    Allocate: lambda s: (*s.extents, s.condition),
}


def stmt_exprs(stmt: Stmt) -> Iterable[Expr]:
    """The expressions that the statement itself holds, without those of its sub-statements."""
    exprs = _EXPRS.get(type(stmt))
    return () if exprs is None else exprs(stmt)


def pre_order(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, parents before children, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack += stmt_children(node)[::-1]


def collect(stmt: Stmt, kind: type[T]) -> list[T]:
    """All statements of one class, in program order."""
    return [node for node in pre_order(stmt) if isinstance(node, kind)]


def all_exprs(stmt: Stmt) -> Iterator[Expr]:
    """The expressions that a statement and all below it hold, in program order."""
    return (expr for node in pre_order(stmt) for expr in stmt_exprs(node))


def collect_exprs(stmt: Stmt, kind: type[T]) -> Iterator[T]:
    """The expressions of one class in a statement and all below it, parts of others too."""
    for expr in all_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, kind):
                yield part


def buffer_exprs(buffer: Buffer) -> tuple[Expr, ...]:
    """The shape, the strides and the offset of a buffer."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


_METHODS: dict[type[Stmt], str] = {}


class StmtRewriter:
    """Rebuilds a statement bottom-up; subclasses override what they change."""

    def visit(self, stmt: Stmt) -> Stmt:
        """The rewritten statement."""
        kind = type(stmt)
        name = _METHODS.get(kind) or _METHODS.setdefault(kind, f"visit_{kind.__name__}")
        return getattr(self, name)(stmt)  # type: ignore[no-any-return]

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
        return new if any(map(is_not, new, items)) else items

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

    def visit_Block(self, stmt: Block) -> Block:
        return self.update(
            stmt,
            iter_vars=self.all(stmt.iter_vars, self.visit_iter_var),
            reads=self.all(stmt.reads, self.visit_region),
            writes=self.all(stmt.writes, self.visit_region),
            match_buffers=self.all(stmt.match_buffers, self.visit_match),
            init=None if stmt.init is None else self.visit(stmt.init),
            body=self.visit(stmt.body),
        )

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        init = None if stmt.init is None else self.visit(stmt.init)
        return self.update(stmt, init=init, body=self.visit(stmt.body))

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


class BufferRewriter(StmtRewriter):
    """Rebuilds a statement over other buffers; loads are a matter of `visit_expr`."""

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer in place of one that is declared or allocated."""
        return buffer

    def used_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer in place of one that is stored to, or whose region is named."""
        return self.visit_buffer(buffer)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        parts, buffer = self.all(region.region, self.visit_range), self.used_buffer(region.buffer)
        if parts is region.region and buffer is region.buffer:
            return region
        return BufferRegion(buffer, parts)

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        buffer, source = self.visit_buffer(match.buffer), self.visit_region(match.source)
        if buffer is match.buffer and source is match.source:
            return match
        return MatchBufferRegion(buffer, source)

    def visit_Block(self, stmt: Block) -> Block:
        allocated = self.all(stmt.alloc_buffers, self.visit_buffer)
        return self.update(super().visit_Block(stmt), alloc_buffers=allocated)

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        buffer = self.visit_buffer(stmt.buffer)
        return self.update(stmt, buffer=buffer, body=self.visit(stmt.body))

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        result = super().visit_BufferStore(stmt)
        return self.update(result, buffer=self.used_buffer(stmt.buffer))


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
