"""The index normal form: programs with every index expression in its simplest form.

Schedules of TVM and ours write equal indices in different ways (`i * 4 + j` and `j + 4 * i`), so
structures are compared after the same simplifier has gone over both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....expr import Analyzer, Expr, Range, Var, is_index
from ....tir import (
    Block,
    BufferRegion,
    For,
    IRModule,
    PrimFunc,
    Stmt,
    StmtRewriter,
    renewed,
)


def normal_form(value: Any) -> Any:
    """An expression, statement, function, module or container of them in index normal form.

    >>> x, y = Var("x"), Var("y")
    >>> normal_form(x + y * 4) is normal_form(y * 2 * 2 + x)
    True
    """
    match value:
        case Expr() | Range() | BufferRegion():
            return _Normal(Analyzer()).value(value)
        case Stmt():
            return _Normal(Analyzer()).visit(renewed(value))
        case PrimFunc():
            return value.replace(body=_Normal(Analyzer()).visit(renewed(value.body)))
        case IRModule():
            functions = {str(name): normal_form(f) for name, f in value.functions.items()}
            return IRModule(functions, dict(value.attrs or {}))
        case Mapping():
            return {key: normal_form(item) for key, item in value.items()}
        case list() | tuple():
            return tuple(normal_form(item) for item in value)
        case _:
            return value


class _Normal(StmtRewriter):
    """Simplifies integer and boolean expressions under the domains of loops and blocks."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def value(self, value: Any) -> Any:
        match value:
            case Expr():
                return self.visit_expr(value)
            case Range():
                return self.visit_range(value)
            case _:
                return self.visit_region(value)

    def visit_expr(self, expr: Expr) -> Expr:
        if is_index(expr.dtype.element) or expr.dtype.is_bool:
            return self.analyzer.simplify(expr)
        return expr.with_children([self.visit_expr(child) for child in expr.children])

    def _knowing(self, domains: Mapping[Var, Range]) -> _Normal:
        inner = self.analyzer.copy()
        for var, domain in domains.items():
            inner.bind(var, domain)
        return _Normal(inner)

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        body = self._knowing({stmt.loop_var: Range(low, extent)}).visit(stmt.body)
        return self.update(stmt, min=low, extent=extent, body=body)

    def visit_Block(self, stmt: Block) -> Block:
        axes = self.all(stmt.iter_vars, self.visit_iter_var)
        inner = self._knowing({axis.var: axis.domain for axis in axes})
        whole = super(_Normal, inner).visit_Block(stmt)
        return self.update(whole, iter_vars=axes)
