"""Barriers leave the branches that not all threads take."""

from __future__ import annotations

from ...base.errors import VerifyError
from ...expr import Expr, Var, has_load, is_pure, logical_not
from ...tir import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    While,
    pre_order,
    seq,
)
from ..analysis.conditions import may_trap
from ..analysis.threads import is_sync, is_uniform, kernels
from ..common import on_body


def hoist_barriers(func: PrimFunc) -> PrimFunc:
    """`if c: a; barrier; b` becomes `if c: a`, the barrier, and `if c: b`.

    So it does where threads of a block may differ in `c`: a barrier that some threads never reach
    hangs a GPU, or does something worse. A condition that reads memory is evaluated once, before.
    The branch moves into loops and uniform branches that hold the barrier.

    Needs: flat code whose thread loops are attributes.
    Ensures: every barrier is reached by all threads of a block or by none.

    Raises:
        VerifyError: the barrier is in a loop that threads may run differently often, or in one
            whose bounds make sense only where the condition holds.
    """
    roots = {kernel.root for kernel in kernels(func.body)}
    if not any(_has_barrier(root) for root in roots):
        return func
    return on_body(func, _Hoist(roots).visit)


def under_condition(condition: Expr, stmt: Stmt) -> Stmt:
    """Code whose barriers all threads reach, where only those do the rest that a condition allows.

    The condition has neither loads nor effects. Conditions inside are those of `stmt`.
    """
    return _Hoist(set()).under(condition, stmt, IfThenElse(condition, stmt))


def _has_barrier(stmt: Stmt) -> bool:
    return any(map(is_sync, pre_order(stmt)))


class _Hoist(StmtRewriter):
    def __init__(self, roots: set[AttrStmt]) -> None:
        self.divergent: set[Var] = set()
        for root in roots:
            self.divergent |= {
                stmt.node.var
                for stmt in pre_order(root)
                if isinstance(stmt, AttrStmt)
                and stmt.attr_key == "thread_extent"
                and stmt.node.thread_tag.startswith("threadIdx")
            }

    def uniform(self, *exprs: Expr) -> bool:
        return all(is_uniform(expr, self.divergent) for expr in exprs)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        if not self.uniform(stmt.value):
            self.divergent.add(stmt.var)
        return super().visit_LetStmt(stmt)

    def visit_For(self, stmt: For) -> Stmt:
        if not self.uniform(stmt.min, stmt.extent):
            self.divergent.add(stmt.loop_var)
            if _has_barrier(stmt):
                raise _refused(f"loop {stmt.loop_var.name!r}", stmt, "threads run it differently")
        return super().visit_For(stmt)

    def visit_While(self, stmt: While) -> Stmt:
        if not self.uniform(stmt.condition) and _has_barrier(stmt):
            raise _refused("while loop", stmt, "threads run it differently often")
        return super().visit_While(stmt)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        result = super().visit_IfThenElse(stmt)
        if not isinstance(result, IfThenElse) or self.uniform(stmt.condition):
            return result
        return self.apart(result) if _has_barrier(result) else result

    def apart(self, stmt: IfThenElse) -> Stmt:
        """A branch as several, between its barriers."""
        condition, name = stmt.condition, None
        if has_load(condition) or not is_pure(condition):
            name = Var("apart", condition.dtype)
            condition = name
            self.divergent.add(name)
        parts = [self.under(condition, stmt.then_case, stmt)]
        if stmt.else_case is not None:
            parts.append(self.under(logical_not(condition), stmt.else_case, stmt))
        body = seq(*parts)
        return body if name is None else LetStmt(name, stmt.condition, body)

    def under(self, condition: Expr, stmt: Stmt, branch: IfThenElse) -> Stmt:
        """A statement where a condition holds, its barriers for all threads."""
        if is_sync(stmt):
            return stmt
        if not _has_barrier(stmt):
            return IfThenElse(condition, stmt)
        match stmt:
            case SeqStmt():
                return self.sequence(condition, stmt, branch)
            case For(min=low, extent=extent) if self.safe(low, extent):
                return stmt.replace(body=self.under(condition, stmt.body, branch))
            case IfThenElse(condition=inner) if self.safe(inner):
                then_case = self.under(condition, stmt.then_case, branch)
                other = stmt.else_case
                if other is not None:
                    other = self.under(condition, other, branch)
                return stmt.replace(then_case=then_case, else_case=other)
            case LetStmt(value=value) if not may_trap(value) and is_pure(value):
                return stmt.replace(body=self.under(condition, stmt.body, branch))
            case Allocate() | DeclBuffer() | AttrStmt():
                return stmt.replace(body=self.under(condition, stmt.body, branch))
        what = f"branch {branch.condition}"
        raise _refused(what, branch, f"what is around it only has a meaning there: {_line(stmt)}")

    def safe(self, *exprs: Expr) -> bool:
        """Whether all threads may evaluate these, and find the same."""
        return self.uniform(*exprs) and not any(map(may_trap, exprs))

    def sequence(self, condition: Expr, stmt: SeqStmt, branch: IfThenElse) -> Stmt:
        parts: list[Stmt] = []
        together: list[Stmt] = []
        for part in stmt.seq:
            if not _has_barrier(part):
                together.append(part)
                continue
            if together:
                parts.append(IfThenElse(condition, seq(*together)))
                together = []
            parts.append(self.under(condition, part, branch))
        if together:
            parts.append(IfThenElse(condition, seq(*together)))
        return seq(*parts)


def _line(stmt: Stmt) -> str:
    return str(stmt).splitlines()[0]


def _refused(what: str, stmt: Stmt, why: str) -> VerifyError:
    barrier = next(node for node in pre_order(stmt) if is_sync(node))
    return VerifyError(
        f"a barrier is needed inside of the {what}, which not all threads may reach; {why}"
        f" ({_line(barrier)})"
    )
