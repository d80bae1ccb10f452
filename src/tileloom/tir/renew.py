"""Fresh variables for everything that a statement defines, in program order."""

from __future__ import annotations

from ..expr import Expr, IterVar, Var, substitute
from .nodes import For, LetStmt, Stmt
from .walk import StmtRewriter


def renewed(stmt: Stmt) -> Stmt:
    """The same statement over variables of its own, which are created in the order they appear in.

    Sums are ordered by the age of their variables, so two programs whose variables came to be in
    different orders simplify alike only after this.
    """
    return _Renewer().visit(stmt)


class _Renewer(StmtRewriter):
    def __init__(self) -> None:
        self.values: dict[Var, Expr] = {}

    def _fresh(self, var: Var) -> Var:
        new = Var(var.name, var.dtype)
        self.values[var] = new
        return new

    def visit_expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.values)

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        var = self._fresh(stmt.loop_var)
        return stmt.replace(loop_var=var, min=low, extent=extent, body=self.visit(stmt.body))

    def visit_iter_var(self, axis: IterVar) -> IterVar:
        dom = None if axis.dom is None else self.visit_range(axis.dom)
        return IterVar(dom, self._fresh(axis.var), axis.iter_type, axis.thread_tag)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        value = self.visit_expr(stmt.value)
        var = self._fresh(stmt.var)
        return stmt.replace(var=var, value=value, body=self.visit(stmt.body))
