"""Expressions in simplest form, and the statements that this decides."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ...expr import Expr, FloatImm, IntImm, Min, Range, Var, conjunction, has_load, logical_not
from ...tir import AssertStmt, For, IfThenElse, LetStmt, PrimFunc, Stmt, StmtRewriter, seq
from ..analysis.known_ranges import analyzer_of
from ..common import conjuncts, on_body, replace_vars, true_value


def simplify(func: PrimFunc) -> PrimFunc:
    """Every expression in its simplest form under the loops and conditions around it.

    Needs: the loops stage or flat code.
    Ensures: branches decided by constants are gone, so are loops of no iteration and, unless bound
    to a thread, of one; names of constants and of other names are replaced by them.
    """
    return on_body(func, lambda body: _Simplify(body).visit(body))


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
