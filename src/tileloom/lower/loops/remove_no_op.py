"""What has no effect goes."""

from __future__ import annotations

from ...expr import Expr, IntImm, Var, free_vars, is_pure
from ...tir import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    is_no_op,
    seq,
)
from ..common import loaded_buffers, on_body, true_value


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """Empty loops and branches, unused values and memory, and stores of what is there, go.

    Needs: the loops stage or flat code.
    Ensures: the same effects. Assertions and `while` loops stay.
    """
    return on_body(func, _RemoveNoOp().visit)


class _RemoveNoOp(StmtRewriter):
    def __init__(self) -> None:
        # Every variable seen so far; bodies are seen before their heads.
        self.used: set[Var] = set()

    def visit_expr(self, expr: Expr) -> Expr:
        self.used |= free_vars(expr)
        for buffer in loaded_buffers(expr):
            self.used.add(buffer.data)
        return expr

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        parts = self.all(stmt.seq, self.visit)
        if parts is stmt.seq and not any(map(is_no_op, parts)):
            return stmt
        return seq(*parts)

    def visit_For(self, stmt: For) -> Stmt:
        if isinstance(stmt.extent, IntImm) and stmt.extent.value <= 0:
            return seq()
        result = super().visit_For(stmt)
        return seq() if isinstance(result, For) and is_no_op(result.body) else result

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        known = true_value(stmt.condition)
        if known is not None:
            chosen = stmt.then_case if known else stmt.else_case
            return seq() if chosen is None else self.visit(chosen)
        result = super().visit_IfThenElse(stmt)
        if not isinstance(result, IfThenElse):
            return result
        if result.else_case is not None and is_no_op(result.else_case):
            result = result.replace(else_case=None)
        if result.else_case is None and is_no_op(result.then_case):
            return seq() if is_pure(result.condition) else Evaluate(result.condition)
        return result

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        body = self.visit(stmt.body)
        if stmt.var not in self.used and is_pure(stmt.value):
            return body
        self.visit_expr(stmt.value)
        return self.update(stmt, body=body)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        result = super().visit_AttrStmt(stmt)
        return seq() if isinstance(result, AttrStmt) and is_no_op(result.body) else result

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        result = super().visit_Allocate(stmt)
        return self._unless_unused(stmt.buffer_var, result)

    def visit_AllocateConst(self, stmt: AllocateConst) -> Stmt:
        return self._unless_unused(stmt.buffer_var, super().visit_AllocateConst(stmt))

    def _unless_unused(self, var: Var, stmt: Stmt) -> Stmt:
        body = getattr(stmt, "body", stmt)
        if var in self.used:
            return stmt
        while isinstance(body, DeclBuffer) and body.buffer.data is var:
            body = body.body
        return body

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        result = super().visit_DeclBuffer(stmt)
        return seq() if isinstance(result, DeclBuffer) and is_no_op(result.body) else result

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        if _stores_what_is_there(stmt):
            return seq()
        self.used.add(stmt.buffer.data)
        return super().visit_BufferStore(stmt)

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return seq() if is_pure(stmt.value) else super().visit_Evaluate(stmt)


def _stores_what_is_there(stmt: BufferStore) -> bool:
    value = stmt.value
    return (
        isinstance(value, BufferLoad)
        and value.buffer is stmt.buffer
        and value.predicate is stmt.predicate
        and all(a is b for a, b in zip(value.indices, stmt.indices, strict=True))
    )
