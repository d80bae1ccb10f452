"""Loops: parallel ones over fused axes, vector ones with their tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...expr import Expr, Select, Var, const
from ...tir import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    StmtRewriter,
    seq,
)
from ..symbols import at_least, everywhere_at_least, is_symbolic, wide_expr
from .frame import Axis

#: Loops with less work than this (in simple operations on elements) run on one thread.
PARALLEL_WORK = 1 << 17

#: Body of a vector loop: the element's position, and the condition of it being there.
Body = Callable[[Expr, Expr | None], Stmt]


def loop(name: str, extent: int, body: Callable[[Expr], Stmt], kind: str = SERIAL) -> Stmt:
    """A loop from 0; one of extent 1 is only its body."""
    if extent == 1:
        return body(const(0))
    return counted(name, const(extent), body, kind)


def counted(name: str, count: Expr, body: Callable[[Expr], Stmt], kind: str = SERIAL) -> Stmt:
    """A loop from 0 in the type of its extent: int32, or int64 where that does not fit."""
    var = Var(name, count.dtype)
    return For(var, const(0, var.dtype), count, kind, body(var))


def nest(axes: Sequence[Axis], body: Callable[[list[Expr]], Stmt], kind: str = SERIAL) -> Stmt:
    """Serial loops over axes, the first of `kind`; `body` gets the positions."""

    def inner(k: int, at: list[Expr]) -> Stmt:
        if k == len(axes):
            return body(at)
        axis = axes[k]
        return loop(
            axis.name, axis.extent, lambda i: inner(k + 1, [*at, i]), kind if k == 0 else SERIAL
        )

    return inner(0, [])


def parallel_nest(axes: Sequence[Axis], body: Callable[[list[Expr]], Stmt], parallel: bool) -> Stmt:
    """Loops over axes; when parallel, as one loop so that every worker gets its share."""
    live = [axis for axis in axes if axis.extent != 1]
    if not parallel or len(live) <= 1:
        return nest(axes, body, PARALLEL if parallel else SERIAL)
    parts = tuple(Var(axis.name, const(axis.extent).dtype) for axis in axes)
    fused = Axis(parts, tuple(axis.extent for axis in axes))

    def one(number: Expr) -> Stmt:
        values = fused.values(number)
        stmt = body(list(parts))
        for part in reversed(parts):
            stmt = LetStmt(part, values[part], stmt)
        return stmt

    return counted("fused", const(fused.extent), one, PARALLEL)


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


def lanes_for(extent: int, lanes: int) -> int:
    """The narrowest power of two that holds `extent`, at most `lanes`; those if nobody knows."""
    if is_symbolic(extent):
        return lanes
    width = 1
    while width < min(extent, lanes):
        width *= 2
    return width


def vector(lanes: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """A vector loop of exactly `lanes` lanes."""
    if lanes == 1:
        return body(const(0))
    lane = Var("lane")
    return For(lane, const(0), const(lanes), VECTORIZED, body(lane))


def vector_loop(
    extent: int,
    lanes: int,
    body: Body,
    *,
    overlap: bool = False,
    kind: str = SERIAL,
    together: int = 1,
) -> Stmt:
    """`body` at every position below `extent`, in vectors.

    Args:
        overlap: the last vector may do again what the one before it did; otherwise it is narrow
            and, where no power of two fits, conditional.
        kind: of the loop over the vectors.
        together: vectors in one step where nobody knows the extent, and so LLVM unrolls nothing.
    """
    if is_symbolic(extent):
        return _open_vector_loop(extent, lanes, body, overlap, kind, together)
    width = lanes_for(extent, lanes)
    whole, rest = divmod(extent, width)
    main = None
    if whole:
        main = loop(
            "v", whole, lambda v: vector(width, lambda lane: body(v * width + lane, None)), kind
        )
    if not rest:
        return seq(main)
    if overlap and whole:
        return seq(main, vector(width, lambda lane: body(const(extent - width) + lane, None)))
    narrow = lanes_for(rest, lanes)

    def tail(lane: Expr) -> Stmt:
        here = lane < rest if narrow != rest else None
        return body(const(whole * width) + lane, here)

    return seq(main, vector(narrow, tail))


def _open_vector_loop(
    extent: int, lanes: int, body: Body, overlap: bool, kind: str, together: int
) -> Stmt:
    """Vectors, and where some positions are left one more vector that is conditional."""
    whole = extent // lanes

    def one(v: Expr) -> Stmt:
        return vector(lanes, lambda lane: body(v * lanes + lane, None))

    steps = whole // together
    main = loop("v", steps, lambda v: seq(*(one(v * together + u) for u in range(together))), kind)
    if together > 1:
        done = const(steps) * together
        main = seq(main, counted("v", const(whole) - done, lambda more: one(done + more)))
    first = const(whole) * lanes
    rest = const(extent) - first
    if overlap and at_least(extent, lanes):
        tail = vector(lanes, lambda lane: body(const(extent - lanes) + lane, None))
    else:
        tail = vector(lanes, lambda lane: body(first + lane, lane < rest))
    return seq(main, tail if lanes == 1 else IfThenElse(rest > 0, tail))


def guarded(condition: Expr | None, stmt: Stmt) -> Stmt:
    """`stmt`, where the condition holds."""
    return stmt if condition is None else IfThenElse(condition, stmt)


def unrolled(name: str, extent: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """A loop written out."""
    return loop(name, extent, body, UNROLLED)
