"""Branches on one condition become one branch."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from ...expr import GE, GT, LE, LT, CompareOp, Expr, conjunction, has_load, is_pure, logical_not
from ...tir import (
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    all_exprs,
    seq,
)
from ...tir.atomics import written_pointers
from ..analysis.conditions import may_trap, negate
from ..analysis.threads import is_global, storage_rank
from ..common import branch, conjuncts, loaded_buffers, on_body, unlikely_free

_MIRRORED: Mapping[type[Expr], type[CompareOp]] = {LT: GT, GT: LT, LE: GE, GE: LE}


def fuse_ifs(func: PrimFunc) -> PrimFunc:
    """`if c: a`, `if c: b` becomes `if c: a; b`, and `if c: if d: a` becomes `if c and d: a`.

    So do branches with two sides, and `if c: a`, `if not c: b`. The first branch must not change
    what the condition reads. In a nest the inner condition is evaluated whatever the outer one is,
    so it must not read memory or divide.

    Needs: flat code; on GPUs barriers in place, which keep branches apart.
    Ensures: the same effects in the same order.
    """
    noalias = bool(func.attrs.get("tir.noalias"))
    return on_body(func, _Fuse(noalias).visit)


class _Fuse(StmtRewriter):
    def __init__(self, noalias: bool) -> None:
        self.noalias = noalias

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        result = super().visit_IfThenElse(stmt)
        inner = result.then_case if isinstance(result, IfThenElse) else None
        if not isinstance(inner, IfThenElse) or not isinstance(result, IfThenElse):
            return result
        if result.else_case is not None or inner.else_case is not None:
            return result
        if may_trap(inner.condition) or not is_pure(inner.condition):
            return result
        parts = dict.fromkeys((*conjuncts(result.condition), *conjuncts(inner.condition)))
        return inner.replace(condition=conjunction(parts))

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        parts: list[Stmt] = []
        for part in self.all(stmt.seq, self.visit):
            fused = self.fused(parts[-1], part) if parts else None
            if fused is None:
                parts.append(part)
            else:
                parts[-1] = self.visit(fused)  # what is inside may be adjacent only now
        same = len(parts) == len(stmt.seq)
        return stmt if same and all(map(is_, parts, stmt.seq)) else seq(*parts)

    def fused(self, first: Stmt, second: Stmt) -> Stmt | None:
        """Both in one branch, if they are branches that go together."""
        if not isinstance(first, IfThenElse) or not isinstance(second, IfThenElse):
            return None
        condition, other = unlikely_free(first.condition), unlikely_free(second.condition)
        opposite = condition is not other
        if opposite and other not in _opposites(condition):
            return None
        if not is_pure(condition) or self.changes(first, condition):
            return None
        yes, no = second.then_case, second.else_case
        if opposite:
            yes, no = no, yes  # type: ignore[assignment]
        both = branch(first.condition, seq(first.then_case, yes), _both(first.else_case, no))
        return both

    def changes(self, stmt: IfThenElse, condition: Expr) -> bool:
        """Whether a branch may change what a condition reads."""
        if not has_load(condition):
            return False
        if not all(map(is_pure, all_exprs(stmt))):
            return True  # a barrier, an atomic call, a function of others
        written = written_pointers(stmt)
        read = {buffer.data for buffer in loaded_buffers(condition)}
        if self.noalias:
            return not written.isdisjoint(read)
        ranks = {storage_rank(buffer.scope) for buffer in loaded_buffers(condition)}
        return not written.isdisjoint(read) or (0 in ranks and any(map(is_global, written)))


def _opposites(condition: Expr) -> tuple[Expr, ...]:
    """The negation, as passes may have written it."""
    other = negate(condition)
    mirrored = _MIRRORED.get(type(other))
    forms = (logical_not(condition), other)
    if mirrored is None or not isinstance(other, CompareOp):
        return forms
    return (*forms, mirrored(other.b, other.a))


def _both(a: Stmt | None, b: Stmt | None) -> Stmt | None:
    return None if a is None and b is None else seq(a, b)
