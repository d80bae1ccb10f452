"""Indices take 64 bits where 32 would overflow."""

from __future__ import annotations

from operator import is_not

from ...base import dtype
from ...expr import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
    cast,
)
from ...expr.reach import UNKNOWN, Interval, Reach, beyond_int32
from ...tir import AttrStmt, BufferLoad, BufferStore, For, LetStmt, PrimFunc, Stmt, StmtRewriter
from ..common import IF_THEN_ELSE, THREAD_KEYS, on_body, rebuild

_INT32, _INT64 = dtype("int32"), dtype("int64")
_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


def widen_index_dtype(func: PrimFunc) -> PrimFunc:
    """int32 arithmetic over loops and threads becomes int64 where it reaches beyond 32 bits.

    An int32 expression of loop variables, thread indices and constants stands for its mathematical
    value. Where that, or that of a part, may not fit into 32 bits for the ranges of the loops
    around, it is computed in 64; so are loops, and names of values, that run so far. A data value
    of type int32 is cut to its type at the end. Of variables of the function and of elements of
    memory nothing is known, and what hangs on them alone is left as it was written.

    Needs: the loops stage or flat code.
    Ensures: no int32 sum or product of bounded variables overflows.
    """
    return on_body(func, _Widen().visit)


class _Widen(StmtRewriter):
    def __init__(self) -> None:
        self.reach = Reach()
        self.ranges: dict[Var, tuple[Interval, bool]] = {}
        self.wide_vars: dict[Var, Var] = {}
        self.needs_memo: dict[Expr, bool] = {}
        self.done: dict[Expr, Expr] = {}

    # ------------------------------------------------------------------ variables

    def bind(self, var: Var, interval: Interval, wide: bool = False) -> Var:
        """The variable that stands for `var` from now on, in this range."""
        before = self.ranges.get(var)
        if before is not None and before != (interval, wide):
            self.needs_memo.clear()
            self.done.clear()
        self.ranges[var] = interval, wide
        self.reach.bind(var, interval)
        return self.wide_vars.setdefault(var, Var(var.name, _INT64)) if wide else var

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.reach.of(stmt.min), self.reach.of(stmt.extent)
        interval = low[0], max(low[0], low[1] + extent[1] - 1)
        kind = stmt.loop_var.dtype
        last = interval[0], interval[1] + 1  # the end itself, which the loop compares with
        wide = kind is _INT32 and beyond_int32(last)
        begin, count = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        if wide:
            begin, count = self.wide(stmt.min), self.wide(stmt.extent)
        var = self.bind(stmt.loop_var, interval, wide)
        body = self.visit(stmt.body)
        return self.update(stmt, loop_var=var, min=begin, extent=count, body=body)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        interval = self.reach.of(stmt.value) if stmt.var.dtype.code == "int" else UNKNOWN
        if stmt.var.dtype is _INT32 and beyond_int32(interval):
            value = self.wide(stmt.value)
            var = self.bind(stmt.var, interval, wide=True)
        else:
            value = self.visit_expr(stmt.value)
            var = self.bind(stmt.var, interval)
        return self.update(stmt, var=var, value=value, body=self.visit(stmt.body))

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key in THREAD_KEYS:
            most = self.reach.of(stmt.value)[1]
            self.bind(stmt.node.var, (0, max(0, most - 1)))
        return super().visit_AttrStmt(stmt)

    # ------------------------------------------------------------------ expressions

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        predicate = None if stmt.predicate is None else self.visit_expr(stmt.predicate)
        value, indices = self.visit_expr(stmt.value), self.all(stmt.indices, self.index)
        return self.update(stmt, value=value, indices=indices, predicate=predicate)

    def needs(self, expr: Expr) -> bool:
        """Whether an int32 expression, or a part that it is computed from, goes beyond 32 bits."""
        if expr.dtype.element is not _INT32:
            return False
        known = self.needs_memo.get(expr)
        if known is None:
            known = self.needs_memo[expr] = self._needs(expr)
        return known

    def _needs(self, expr: Expr) -> bool:
        match expr:
            case Var():
                return self.ranges.get(expr, (UNKNOWN, False))[1]
            case Ramp(base, stride):
                return beyond_int32(self.reach.of(expr)) or self.needs(base) or self.needs(stride)
            case Broadcast(value):
                return self.needs(value)
            case Select(_, yes, no) | Call(op="tir.if_then_else", args=(_, yes, no)):
                return self.needs(yes) or self.needs(no)
            case _ if isinstance(expr, _ARITHMETIC) and expr.dtype.lanes == 1:
                a, b = expr.children
                return beyond_int32(self.reach.of(expr)) or self.needs(a) or self.needs(b)
            case _:
                return False

    def index(self, expr: Expr) -> Expr:
        """An expression whose type does not matter, only its value."""
        return self.wide(expr) if self.needs(expr) else self.visit_expr(expr)

    def wide(self, expr: Expr) -> Expr:
        """The exact value of an integer expression in int64."""
        if not self.needs(expr):
            return cast(_INT64, self.visit_expr(expr))
        match expr:
            case Var():
                return self.wide_vars[expr]
            case Ramp(base, stride, lanes):
                return Ramp(self.wide(base), self.wide(stride), lanes)
            case Broadcast(value, lanes):
                return Broadcast(self.wide(value), lanes)
            case Select(condition, yes, no):
                return Select(self.visit_expr(condition), self.wide(yes), self.wide(no))
            case Call(op="tir.if_then_else", args=(condition, yes, no)):
                sides = (self.visit_expr(condition), self.wide(yes), self.wide(no))
                return Call(_INT64, IF_THEN_ELSE, sides)
            case _:
                return rebuild(expr, tuple([self.wide(child) for child in expr.children]))

    def visit_expr(self, expr: Expr) -> Expr:
        known = self.done.get(expr)
        if known is None:
            known = self.done[expr] = self._expr(expr)
        return known

    def _expr(self, expr: Expr) -> Expr:
        if self.needs(expr):
            return cast(_INT32, self.wide(expr))
        children = expr.children
        if not children:
            return expr
        if isinstance(expr, Cast) and expr.dtype.element.is_int and self.needs(expr.value):
            return cast(expr.dtype, self.wide(expr.value))
        if isinstance(expr, CompareOp) and not isinstance(expr, And | Or):
            a, b = expr.a, expr.b
            if self.needs(a) or self.needs(b):
                return rebuild(expr, (self.wide(a), self.wide(b)))
        visit = self.index if isinstance(expr, BufferLoad) else self.visit_expr
        new = tuple([visit(child) for child in children])
        return rebuild(expr, new) if any(map(is_not, new, children)) else expr
