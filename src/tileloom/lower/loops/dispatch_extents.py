"""Loops to unroll whose extent is small but not known: a copy of the code for each extent."""

from __future__ import annotations

from ...expr import EQ, Expr, IntImm, binary, free_vars, has_load
from ...expr.analyzer import Analyzer
from ...tir import (
    UNROLLED,
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    seq,
    stmt_children,
)
from ..common import defined_vars, fresh_copy, on_body

MOST = 16  # the largest extent that is asked for
GROWTH = 1024  # statements that the copies of one place may have, unrolled

_WRAPPERS = (Allocate, DeclBuffer, AttrStmt)


def dispatch_extents(func: PrimFunc) -> PrimFunc:
    """Unrolled loops whose extent varies within small bounds get a constant one in copies.

    What encloses all loops of the same extent, the rest of a tile for example, is copied for each
    value that the extent may have, and the value chooses among them. Where the copies would be too
    large, the loops run as serial ones.

    Needs: the loops stage or flat code, conditions simplified.
    Ensures: the same program.
    """
    return on_body(func, _Dispatch().visit)


class _Dispatch(StmtRewriter):
    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.found: dict[Stmt, dict[Expr, int]] = {}  # open extents below, and how many loops

    def below(self, stmt: Stmt) -> dict[Expr, int]:
        """The open extents of unrolled loops in a statement, and how many loops have them."""
        known = self.found.get(stmt)
        if known is None:
            known = {}
            for child in stmt_children(stmt):
                for extent, count in self.below(child).items():
                    known[extent] = known.get(extent, 0) + count
            if isinstance(stmt, For) and _is_open(stmt):
                known[stmt.extent] = known.get(stmt.extent, 0) + 1
            self.found[stmt] = known
        return known

    def visit(self, stmt: Stmt) -> Stmt:
        below = self.below(stmt)
        if not below:
            return stmt
        for extent, count in below.items():
            if self._is_place(stmt, extent, count):
                chosen = self._copies(stmt, extent)
                if chosen is not None:
                    return chosen
        return super().visit(stmt)

    def _is_place(self, stmt: Stmt, extent: Expr, count: int) -> bool:
        """Whether a statement has loops of an extent in several parts, or as its only contents.

        Each step of a loop that is unrolled is a part.
        """
        inner = stmt
        while isinstance(inner, _WRAPPERS):
            inner = inner.body
        if isinstance(inner, For) and inner.kind == UNROLLED:
            return inner.extent is extent or inner.loop_var not in free_vars(extent)
        return all(self.below(part).get(extent) != count for part in stmt_children(inner))

    def _copies(self, stmt: Stmt, extent: Expr) -> Stmt | None:
        """The statement for each value of an extent; None if that would be too much."""
        low, high = self._bounds(extent)
        if high > MOST or has_load(extent) or not free_vars(extent).isdisjoint(defined_vars(stmt)):
            return None
        values = [IntImm(extent.dtype, k) for k in range(max(low, 0), high + 1)]
        fixed = [_Fix(extent, value).visit(stmt) for value in values]
        if sum(map(_step_count, fixed)) > GROWTH:
            return None
        result: Stmt | None = None
        for value, copy in zip(values, fixed, strict=True):
            copy = fresh_copy(self.visit(copy), {})
            result = copy if result is None else IfThenElse(binary(EQ, extent, value), copy, result)
        return result

    def _bounds(self, extent: Expr) -> tuple[int, int]:
        bound = self.analyzer.const_int_bound(extent)
        return int(bound.min_value), int(bound.max_value)


class _Fix(StmtRewriter):
    """Gives the unrolled loops of an extent a constant one."""

    def __init__(self, extent: Expr, value: IntImm) -> None:
        self.extent, self.value = extent, value

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.extent is self.extent and _is_open(stmt):
            if self.value.value == 0:
                return seq()
            stmt = stmt.replace(extent=self.value)
        return super().visit_For(stmt)


def _step_count(stmt: Stmt) -> int:
    """The statements of unrolled code, where vectors count as one and other loops as one step."""
    children = stmt_children(stmt)
    steps = sum(map(_step_count, children)) if children else 1
    if isinstance(stmt, For) and stmt.kind == UNROLLED and isinstance(stmt.extent, IntImm):
        return steps * stmt.extent.value
    return steps


def _is_open(loop: For) -> bool:
    return loop.kind == UNROLLED and not isinstance(loop.extent, IntImm)
