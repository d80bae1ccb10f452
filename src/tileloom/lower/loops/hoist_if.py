"""Conditions leave the loops that they do not depend on."""

from __future__ import annotations

from ...expr import conjunction, free_vars, is_pure
from ...tir import For, IfThenElse, PrimFunc, Stmt, StmtRewriter
from ..analysis.conditions import may_trap
from ..common import conjuncts, on_body


def hoist_if(func: PrimFunc) -> PrimFunc:
    """`for i: if a and b(i): ...` becomes `if a: for i: if b(i): ...`.

    Needs: the loops stage or flat code.
    Ensures: the same effects; what a hoisted condition evaluates cannot fail (no load, no
    division by a variable), as a loop without iterations did not evaluate it.
    """
    return on_body(func, _Hoist().visit)


class _Hoist(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        loop = super().visit_For(stmt)
        if not isinstance(loop, For) or not isinstance(loop.body, IfThenElse):
            return loop
        inner = loop.body
        if inner.else_case is not None or loop.thread_binding is not None:
            return loop
        parts = conjuncts(inner.condition)
        free = [
            p for p in parts if loop.loop_var not in free_vars(p) and not may_trap(p) and is_pure(p)
        ]
        if not free:
            return loop
        kept = [part for part in parts if part not in free]
        body = inner.replace(condition=conjunction(kept)) if kept else inner.then_case
        return IfThenElse(conjunction(free), loop.replace(body=body), span=inner.span)
