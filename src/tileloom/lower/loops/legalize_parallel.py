"""Parallel loops that can run in parallel, one level of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import Expr, Var, free_vars
from ...tir import (
    PARALLEL,
    SERIAL,
    Allocate,
    Buffer,
    BufferStore,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
    all_exprs,
    stmt_children,
)
from ..common import loaded_buffers, on_body


def legalize_parallel(func: PrimFunc) -> PrimFunc:
    """A parallel loop becomes serial inside another, and where its iterations would collide.

    They collide where they read memory that all of them write: an element whose index does not
    depend on the loop, of a buffer that is not allocated inside it (an accumulator, a workspace).

    Needs: the loops stage or flat code.
    Ensures: no parallel loop is inside another; none shares such an element.
    """
    return on_body(func, _Legalize().visit)


class _Legalize(StmtRewriter):
    inside = False

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != PARALLEL:
            return super().visit_For(stmt)
        if self.inside or _collides(stmt):
            return super().visit_For(stmt.replace(kind=SERIAL))
        self.inside = True
        result = super().visit_For(stmt)
        self.inside = False
        return result


def _collides(loop: For) -> bool:
    moving, own = {loop.loop_var}, set[Var]()
    shared = set(_shared_stores(loop.body, moving, own))
    return bool(shared) and any(
        not shared.isdisjoint(loaded_buffers(e)) for e in all_exprs(loop.body)
    )


def _shared_stores(stmt: Stmt, moving: set[Var], own: set[Var]) -> Iterator[Buffer]:
    """The buffers written at places that are the same in all iterations.

    `moving` are the variables that differ between iterations, `own` the pointers to memory that
    each iteration has to itself; both grow on the way down.
    """
    match stmt:
        case For() if _moves((stmt.min, stmt.extent), moving):
            moving.add(stmt.loop_var)
        case LetStmt():
            moving.add(stmt.var)
        case Allocate():
            own.add(stmt.buffer_var)
        case BufferStore() if stmt.buffer.data not in own and not _moves(stmt.indices, moving):
            yield stmt.buffer
        case _:
            pass
    for child in stmt_children(stmt):
        yield from _shared_stores(child, moving, own)


def _moves(exprs: tuple[Expr, ...], moving: set[Var]) -> bool:
    return any(not free_vars(expr).isdisjoint(moving) for expr in exprs)
