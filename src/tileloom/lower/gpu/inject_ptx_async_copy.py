"""Copies into shared memory that run on their own, and the waits for them."""

from __future__ import annotations

from ...expr import And, Broadcast, Call, Cast, Expr, IntImm, Ramp, binary, const
from ...tir import AttrStmt, BufferLoad, BufferStore, Evaluate, PrimFunc, Stmt, StmtRewriter, seq
from ..analysis.pointers import COMMIT_GROUP, CP_ASYNC, WAIT_GROUP
from ..analysis.threads import storage_rank
from ..blocks import ASYNC_SCOPE, COMMIT, IN_FLIGHT, WAIT
from ..common import IF_THEN_ELSE, on_body

_SIZES = (4, 8, 16)  # bytes that one instruction copies


def inject_ptx_async_copy(func: PrimFunc) -> PrimFunc:
    """What a pipeline marked asynchronous becomes `cp.async` and its groups.

    In an `async_scope` a store of 4, 8 or 16 adjoining bytes from global into shared memory becomes
    `ptx_cp_async(to, index, from, index, bytes[, condition])`; a condition stands where the value
    is `if_then_else(condition, load, 0)`. Commits and waits become `ptx_commit_group` and
    `ptx_wait_group`. Other stores stay as they are, which is right but waits for the load.

    Needs: flat code, vectors made; barriers not yet inserted, as they belong after the waits.
    Ensures: no attribute of asynchronous code is left.
    """
    return on_body(func, _Inject().visit)


class _Inject(StmtRewriter):
    def __init__(self) -> None:
        self.inside = False

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == ASYNC_SCOPE:
            outer, self.inside = self.inside, True
            body = self.visit(stmt.body)
            self.inside = outer
            return body
        if stmt.attr_key == COMMIT:
            return seq(self.visit(stmt.body), _call(COMMIT_GROUP))
        if stmt.attr_key == WAIT:
            inner = stmt.body
            if isinstance(inner, AttrStmt) and inner.attr_key == IN_FLIGHT:
                return seq(_call(WAIT_GROUP, inner.value), self.visit(inner.body))
            return seq(_call(WAIT_GROUP, const(0)), self.visit(inner))
        return super().visit_AttrStmt(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        return (_copy(stmt) if self.inside else None) or stmt


def _call(op: str, *args: Expr) -> Stmt:
    return Evaluate(Call("handle", op, args))


def _copy(stmt: BufferStore) -> Stmt | None:
    """The store as an asynchronous copy, if the hardware can do it."""
    value: Expr = stmt.value
    condition: Expr | None = None
    while isinstance(value, Call) and value.op == IF_THEN_ELSE and _is_zero(value.args[2]):
        inner = value.args[0]
        condition = inner if condition is None else binary(And, condition, inner)
        value = value.args[1]
    if stmt.predicate is not None or not isinstance(value, BufferLoad):
        return None
    if value.predicate is not None:
        return None
    source, target = value.buffer, stmt.buffer
    if storage_rank(target.scope) != 1 or storage_rank(source.scope) != 0:
        return None
    to, start = _adjoining(stmt.indices[0]), _adjoining(value.indices[0])
    size = value.dtype.bits * value.dtype.lanes // 8
    if to is None or start is None or size not in _SIZES:
        return None
    args = (target.data, to, source.data, start, const(size))
    return _call(CP_ASYNC, *args, *([] if condition is None else [condition]))


def _is_zero(expr: Expr) -> bool:
    if isinstance(expr, Broadcast | Cast):
        return _is_zero(expr.value)
    return getattr(expr, "value", None) == 0


def _adjoining(index: Expr) -> Expr | None:
    """The first of adjoining elements."""
    if isinstance(index, Ramp):
        one = isinstance(index.stride, IntImm) and index.stride.value == 1
        return index.base if one else None
    return index if index.dtype.lanes == 1 else None
