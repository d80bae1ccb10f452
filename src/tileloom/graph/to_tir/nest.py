"""Loops and memory, as statements."""

from __future__ import annotations

from collections.abc import Callable

from ...expr import Expr, Select, Var, const
from ...tir import (
    PARALLEL,
    SERIAL,
    VECTORIZED,
    Allocate,
    Buffer,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    StmtRewriter,
)
from ..symbols import everywhere_at_least, wide_expr


def loop(name: str, extent: int, body: Callable[[Expr], Stmt], kind: str = SERIAL) -> Stmt:
    """A loop from 0; one of extent 1 is only its body."""
    if extent == 1:
        return body(const(0))
    return counted(name, const(extent), body, kind)


def counted(name: str, count: Expr, body: Callable[[Expr], Stmt], kind: str = SERIAL) -> Stmt:
    """A loop from 0 in the type of its extent: int32, or int64 where that does not fit."""
    var = Var(name, count.dtype)
    return For(var, const(0, var.dtype), count, kind, body(var))


def with_workers(stmt: Stmt, work: int, least: int) -> Stmt:
    """Parallel loops that run on one thread where there is less work than that."""
    if everywhere_at_least(work, least) is not None:
        return stmt
    enough = wide_expr(work) >= const(least, "int64")
    return _Limit(Select(enough, const(0, "int64"), const(1, "int64"))).visit(stmt)


class _Limit(StmtRewriter):
    def __init__(self, workers: Expr) -> None:
        self.workers = workers

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != PARALLEL:
            return super().visit_For(stmt)
        return stmt.replace(annotations={**stmt.annotations, "max_workers": self.workers})


def vector(lanes: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """A vector loop of exactly `lanes` lanes."""
    if lanes == 1:
        return body(const(0))
    lane = Var("lane")
    return For(lane, const(0), const(lanes), VECTORIZED, body(lane))


def guarded(condition: Expr | None, stmt: Stmt) -> Stmt:
    """`stmt`, where the condition holds."""
    return stmt if condition is None else IfThenElse(condition, stmt)


def allocate(buffer: Buffer, body: Stmt) -> Stmt:
    """`body` with memory for a buffer."""
    declared = DeclBuffer(buffer, body)
    return Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), declared)
