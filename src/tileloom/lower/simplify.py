"""Expressions in simplest form, and the statements that this decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from ..expr import Expr, FloatImm, IntImm, Min, Range, Var, const, logical_not
from ..expr.analyzer import Analyzer
from ..tir import (
    AssertStmt,
    AttrStmt,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
    pre_order,
    seq,
)
from .common import (
    THREAD_KEYS,
    conjunction,
    conjuncts,
    has_load,
    on_body,
    replace_vars,
    true_value,
)

_HUGE = 1 << 31  # bounds of what nothing is known of


def simplify(func: PrimFunc) -> PrimFunc:
    """Every expression in its simplest form under the loops and conditions around it.

    Needs: the loops stage or flat code.
    Ensures: branches decided by constants are gone, so are loops of no iteration and, unless bound
    to a thread, of one; names of constants and of other names are replaced by them.
    """
    return on_body(func, lambda body: _Simplify(body).visit(body))


def analyzer_of(stmt: Stmt) -> Analyzer:
    """An analyzer that knows the constant ranges of all loops and threads of a function.

    Such a range says something of its own variable alone, so it may be known everywhere.
    """
    analyzer = Analyzer()
    ranges = list(_ranges(stmt))
    times = Counter([var for var, _, _ in ranges])
    # All constant ranges at once: with every new fact an analyzer forgets what it has found out.
    known = {
        var: (low.value, max(low.value, low.value + extent.value - 1))
        for var, low, extent in ranges
        if times[var] == 1 and isinstance(low, IntImm) and isinstance(extent, IntImm)
    }
    analyzer.bind_bounds(known)
    for var, low, extent in ranges:
        if times[var] == 1 and var not in known:
            ends = _constant_ends(analyzer, low, extent)
            if ends is not None:
                analyzer.bind_bounds({var: ends})
    return analyzer


def _ranges(stmt: Stmt) -> Iterator[tuple[Var, Expr, Expr]]:
    """The variables that run, with their starts and extents, outer ones first."""
    for node in pre_order(stmt):
        if isinstance(node, For):
            yield node.loop_var, node.min, node.extent
        elif isinstance(node, AttrStmt) and node.attr_key in THREAD_KEYS:
            yield node.node.var, const(0, node.value.dtype), node.value


def _constant_ends(analyzer: Analyzer, low: Expr, extent: Expr) -> tuple[int, int] | None:
    if not isinstance(extent, (Min, IntImm)):
        return None
    first, last = analyzer.const_int_bound(low), analyzer.const_int_bound(low + extent)
    if last.max_value >= _HUGE or first.min_value <= -_HUGE:
        return None
    return first.min_value, max(first.min_value, last.max_value - 1)


class _Simplify(StmtRewriter):
    def __init__(self, body: Stmt) -> None:
        self.analyzer = analyzer_of(body)

    def visit_expr(self, expr: Expr) -> Expr:
        return self.analyzer.simplify(expr)

    def where(self, condition: Expr) -> AbstractContextManager[None]:
        """A scope in which the condition holds, as far as it says nothing of memory."""
        known = [part for part in conjuncts(condition) if not has_load(part)]
        return self.analyzer.constraint(conjunction(known)) if known else nullcontext()

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        if isinstance(extent, IntImm) and stmt.thread_binding is None:
            if extent.value <= 0:
                return seq()
            if extent.value == 1:
                return self.visit(replace_vars(stmt.body, {stmt.loop_var: low}))
        with self._loop(stmt.loop_var, Range(low, extent)):
            body = self.visit(stmt.body)
        return self.update(stmt, min=low, extent=extent, body=body)

    def _loop(self, var: Var, domain: Range) -> AbstractContextManager[None]:
        # A minimum comes from a split loop, whose guards are gone: its constant ends will do.
        if isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm | Min):
            return nullcontext()
        end = domain.min + domain.extent
        return self.where(conjunction([var >= domain.min, var < end]))

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        condition = self.visit_expr(stmt.condition)
        known = true_value(condition)
        if known is not None:
            chosen = stmt.then_case if known else stmt.else_case
            return seq() if chosen is None else self.visit(chosen)
        with self.where(condition):
            yes = self.visit(stmt.then_case)
        no = stmt.else_case
        if no is not None:
            with self.where(logical_not(condition)):
                no = self.visit(no)
        return self.update(stmt, condition=condition, then_case=yes, else_case=no)

    def visit_AssertStmt(self, stmt: AssertStmt) -> Stmt:
        condition = self.visit_expr(stmt.condition)
        with self.where(condition):
            body = self.visit(stmt.body)
        if true_value(condition):
            return body
        return self.update(stmt, condition=condition, body=body)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        value = self.visit_expr(stmt.value)
        if isinstance(value, IntImm | FloatImm | Var):
            return self.visit(replace_vars(stmt.body, {stmt.var: value}))
        return self.update(stmt, value=value, body=self.visit(stmt.body))
