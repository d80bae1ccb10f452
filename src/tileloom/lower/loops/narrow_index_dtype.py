"""Indices take 32 bits where that is enough."""

from __future__ import annotations

from ...base import dtype
from ...expr import (
    Add,
    BinaryOp,
    Cast,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Range,
    Sub,
    Var,
    cast,
    const,
)
from ...expr.nodes import And, Or
from ...tir import AttrStmt, BufferLoad, BufferStore, For, PrimFunc, Stmt, StmtRewriter, pre_order
from ..analysis.known_ranges import analyzer_of
from ..common import THREAD_KEYS, on_body, rebuild

_INT32, _INT64 = dtype("int32"), dtype("int64")
_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


def narrow_index_dtype(func: PrimFunc) -> PrimFunc:
    """int64 loops, threads, indices and comparisons of indices become int32 where their values fit.

    A value fits if it, and all that it is computed from, stays within int32 for the constant ranges
    of the loops around; a loop variable that is used otherwise is cast back there.

    Needs: the loops stage or flat code.
    Ensures: the same values; what stays int64 may need it.
    """
    return on_body(func, lambda body: _Narrow(body).visit(body) if _has_wide(body) else body)


def _has_wide(stmt: Stmt) -> bool:
    for node in pre_order(stmt):
        match node:
            case For(loop_var=var) if var.dtype is _INT64:
                return True
            case BufferStore(indices=indices) if any(i.dtype is _INT64 for i in indices):
                return True
            case AttrStmt() if _is_thread(node) and node.node.var.dtype is _INT64:
                return True
    return False


def _is_thread(stmt: AttrStmt) -> bool:
    return stmt.attr_key in THREAD_KEYS


class _Narrow(StmtRewriter):
    def __init__(self, body: Stmt) -> None:
        self.analyzer = analyzer_of(body)
        self.narrow_vars: dict[Var, Var] = {}
        self.done: dict[Expr, Expr] = {}
        self.narrowed: dict[Expr, Expr | None] = {}

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.index(stmt.min), self.index(stmt.extent)
        if stmt.loop_var.dtype is not _INT64 or not _fits_int32(low, extent):
            low, extent = cast(stmt.loop_var.dtype, low), cast(stmt.loop_var.dtype, extent)
            return self.update(stmt, min=low, extent=extent, body=self.visit(stmt.body))
        var = Var(stmt.loop_var.name, _INT32)
        self.narrow_vars[stmt.loop_var] = var
        low, extent = cast(_INT32, low), cast(_INT32, extent)
        return stmt.replace(loop_var=var, min=low, extent=extent, body=self.visit(stmt.body))

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if not _is_thread(stmt):
            return super().visit_AttrStmt(stmt)
        value, axis = self.index(stmt.value), stmt.node
        if axis.var.dtype is not _INT64 or not _fits_int32(const(0, value.dtype), value):
            return self.update(stmt, value=value, body=self.visit(stmt.body))
        var = Var(axis.var.name, _INT32)
        self.narrow_vars[axis.var] = var
        value = cast(_INT32, value)
        new = IterVar(Range.from_extent(value), var, axis.iter_type, axis.thread_tag)
        return stmt.replace(node=new, value=value, body=self.visit(stmt.body))

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        predicate = None if stmt.predicate is None else self.visit_expr(stmt.predicate)
        value, indices = self.visit_expr(stmt.value), self.all(stmt.indices, self.index)
        return self.update(stmt, value=value, indices=indices, predicate=predicate)

    def index(self, expr: Expr) -> Expr:
        """An expression whose type does not matter, only its value."""
        narrow = self.narrow(expr) if expr.dtype is _INT64 else None
        return self.visit_expr(expr) if narrow is None else narrow

    def visit_expr(self, expr: Expr) -> Expr:
        known = self.done.get(expr)
        if known is None:
            known = self.done[expr] = self._expr(expr)
        return known

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            narrow_var = self.narrow_vars.get(expr)
            return expr if narrow_var is None else Cast(expr.dtype, narrow_var)
        if isinstance(expr, CompareOp) and not isinstance(expr, And | Or):
            a, b = expr.a, expr.b
            if a.dtype is _INT64:
                x, y = self.narrow(a), self.narrow(b)
                if x is not None and y is not None:
                    return rebuild(expr, (x, y))
        children = expr.children
        if isinstance(expr, BufferLoad):
            new = tuple([self.index(child) for child in children])
        else:
            new = tuple([self.visit_expr(child) for child in children])
        if all(a is b for a, b in zip(new, children, strict=True)):
            return expr
        return rebuild(expr, new)

    def narrow(self, expr: Expr) -> Expr | None:
        """The expression in int32, if it and its parts fit."""
        if expr not in self.narrowed:
            bound = self.analyzer.const_int_bound(expr)
            fits = bound.min_value >= -(1 << 31) and bound.max_value < 1 << 31
            self.narrowed[expr] = self._narrow(expr) if fits else None
        return self.narrowed[expr]

    def _narrow(self, expr: Expr) -> Expr | None:
        match expr:
            case IntImm():
                return const(expr.value, _INT32)
            case Var():
                return self.narrow_vars.get(expr)
            case Cast(value=value) if value.dtype is _INT32:
                return self.visit_expr(value)
            case BinaryOp(a, b) if isinstance(expr, _ARITHMETIC):
                x, y = self.narrow(a), self.narrow(b)
                return None if x is None or y is None else rebuild(expr, (x, y))
            case _:
                return None


def _fits_int32(low: Expr, extent: Expr) -> bool:
    if not isinstance(low, IntImm) or not isinstance(extent, IntImm):
        return False
    end = low.value + extent.value
    return low.value >= -(1 << 31) and end < 1 << 31
