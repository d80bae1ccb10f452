"""Loops that do the same thing in every iteration do it once."""

from __future__ import annotations

from collections.abc import Set

from ...expr import Expr, IntImm, Var, const, free_vars, is_pure
from ...tir import (
    Allocate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    all_exprs,
    collect,
)
from ...tir.atomics import written_pointers
from ..analysis.threads import is_global
from ..common import loaded_buffers, on_body


def eliminate_invariant_loops(func: PrimFunc) -> PrimFunc:
    """`for k in range(n): body` becomes `if n > 0: body` where every iteration is as the first.

    That is so if the body does not name `k`, and reads nothing that it writes, other than memory
    of its own. Without "tir.noalias" a body that writes global memory must not read any.

    Needs: flat code.
    Ensures: the same effects.
    """
    used = {var for expr in all_exprs(func.body) for var in free_vars(expr)}
    free = {f.loop_var for f in collect(func.body, For) if f.loop_var not in used}
    noalias = bool(func.attrs.get("tir.noalias"))
    return on_body(func, _Eliminate(free, noalias).visit) if free else func


class _Eliminate(StmtRewriter):
    def __init__(self, free: Set[Var], noalias: bool) -> None:
        self.free = free
        self.noalias = noalias

    def visit_For(self, stmt: For) -> Stmt:
        loop = super().visit_For(stmt)
        if not isinstance(loop, For) or loop.loop_var not in self.free or loop.thread_binding:
            return loop
        if not is_pure(loop.extent) or not self.same_again(loop.body):
            return loop
        if isinstance(loop.extent, IntImm):
            return loop.body if loop.extent.value > 0 else loop
        return IfThenElse(loop.extent > const(0, loop.extent.dtype), loop.body)

    def same_again(self, body: Stmt) -> bool:
        """Whether a second run changes nothing."""
        exprs = list(all_exprs(body))
        if not all(map(is_pure, exprs)) or any(_has_pointer(expr) for expr in exprs):
            return False
        fresh = {node.buffer_var for node in collect(body, Allocate)}  # new in each iteration
        written = written_pointers(body) - fresh
        read = {buffer.data for expr in exprs for buffer in loaded_buffers(expr)} - fresh
        if not written.isdisjoint(read):
            return False
        return self.noalias or not (_any_global(written) and _any_global(read))


def _has_pointer(expr: Expr) -> bool:
    return any(var.dtype.is_handle for var in free_vars(expr))


def _any_global(pointers: Set[Var]) -> bool:
    return any(is_global(pointer) for pointer in pointers)
