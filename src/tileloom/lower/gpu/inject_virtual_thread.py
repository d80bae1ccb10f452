"""Virtual threads: one thread does the work of several, statement by statement."""

from __future__ import annotations

from ...base.errors import UserError
from ...expr import Expr, IntImm, Var, const, free_vars
from ...tir import (
    SERIAL,
    UNROLLED,
    Allocate,
    AttrStmt,
    Buffer,
    BufferStore,
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
    stmt_children,
    stmt_exprs,
)
from ...tir.atomics import has_atomic
from ..analysis import lanes
from ..common import VIRTUAL_THREAD, Access, Replacer, fresh_copy, loaded_buffers, on_body

MAX_COPIES = 16  # virtual threads whose statements are written out; more of them share a loop


def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    """Code of `n` virtual threads becomes code of one thread, each statement for all of them.

    What does not differ between virtual threads runs once; a loop or branch that is the same for
    all stays one, with the copies inside (so that they share a barrier, and their independent
    chains of operations overlap). Memory that differs is allocated `n` times over.

    Needs: flat code whose thread loops are attributes.
    Ensures: no "virtual_thread" attribute is left.

    Raises:
        UserError: the number of virtual threads is not a constant.
    """
    return on_body(func, _Inject().visit)


class _Inject(StmtRewriter):
    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        body = self.visit(stmt.body)
        if stmt.attr_key != VIRTUAL_THREAD:
            return self.update(stmt, body=body)
        if not isinstance(stmt.value, IntImm):
            raise UserError(f"the number of virtual threads is not a constant: {stmt.value}")
        return _Spread(stmt.node.var, stmt.value.value, body).visit(body)


class _Spread:
    """Rewrites the body of one virtual thread for all `count` of them."""

    def __init__(self, var: Var, count: int, body: Stmt) -> None:
        self.var = var
        self.count = count
        self.sizes = {
            node.buffer_var: node.extents[0]
            for node in pre_order(body)
            if isinstance(node, Allocate)
        }
        self.dependent: set[Var] = {var}
        size = 0
        while size != len(self.dependent):  # until nothing more depends on the thread
            size = len(self.dependent)
            self._spread(body, False)
        self.widened: dict[Buffer, Buffer] = {}

    # ------------------------------------------------------------------ what differs

    def differs(self, expr: Expr) -> bool:
        """Whether the virtual threads may see different values."""
        if not free_vars(expr).isdisjoint(self.dependent) or has_atomic(expr):
            return True
        return any(buffer.data in self.dependent for buffer in loaded_buffers(expr))

    def _spread(self, stmt: Stmt, under: bool) -> None:
        """Note the names and memory that differ; `under` a condition that does."""
        own = any(self.differs(expr) for expr in stmt_exprs(stmt))
        match stmt:
            case BufferStore():
                if (own or under) and stmt.buffer.data in self.sizes:
                    self.dependent.add(stmt.buffer.data)
            case LetStmt():
                if own:
                    self.dependent.add(stmt.var)
            case For():
                if own:
                    self.dependent.add(stmt.loop_var)
        under = under or (own and isinstance(stmt, IfThenElse | While | For))
        for child in stmt_children(stmt):
            self._spread(child, under)

    # ------------------------------------------------------------------ statements

    def visit(self, stmt: Stmt) -> Stmt:
        match stmt:
            case SeqStmt():
                return seq(*map(self.visit, stmt.seq))
            case Allocate():
                extents = stmt.extents
                if stmt.buffer_var in self.dependent:
                    extents = (extents[0] * const(self.count, extents[0].dtype),)
                return stmt.replace(extents=extents, body=self.visit(stmt.body))
            case DeclBuffer():
                return stmt.replace(buffer=self.wide(stmt.buffer), body=self.visit(stmt.body))
            case _ if not self._depends(stmt):
                return stmt
            case _ if any(self.differs(expr) for expr in stmt_exprs(stmt)):
                return self.copies(stmt)
            case For() | AttrStmt() | While() | LetStmt():
                return stmt.replace(body=self.visit(stmt.body))
            case IfThenElse():
                no = None if stmt.else_case is None else self.visit(stmt.else_case)
                return stmt.replace(then_case=self.visit(stmt.then_case), else_case=no)
            case _:
                return self.copies(stmt)

    def _depends(self, stmt: Stmt) -> bool:
        return any(
            (isinstance(node, BufferStore) and node.buffer.data in self.dependent)
            or any(self.differs(expr) for expr in stmt_exprs(node))
            for node in pre_order(stmt)
        )

    def wide(self, buffer: Buffer) -> Buffer:
        """The buffer, with room for all virtual threads if they differ in it."""
        if buffer.data not in self.dependent or buffer.data not in self.sizes:
            return buffer
        known = self.widened.get(buffer)
        if known is None:
            extent = buffer.shape[0] * const(self.count, buffer.shape[0].dtype)
            known = self.widened[buffer] = buffer.replace(shape=(extent,))
        return known

    def copies(self, stmt: Stmt) -> Stmt:
        """The statement once for each virtual thread."""
        var = self.var.with_name(self.var.name)
        body = _Own(self, var).visit(fresh_copy(stmt, {self.var: var}))
        kind = UNROLLED if self.count < MAX_COPIES else SERIAL
        return For(var, const(0, var.dtype), const(self.count, var.dtype), kind, body)


class _Own(Replacer):
    """Directs accesses to the part of the memory that a virtual thread has for itself."""

    def __init__(self, spread: _Spread, var: Var) -> None:
        super().__init__({}, {})
        self.spread = spread
        self.var = var

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        wide = self.spread.wide(buffer)
        if wide is buffer:
            return None
        size, kind = self.spread.sizes[buffer.data], indices[0].dtype.element
        return wide, (lanes.add(self.var.astype(kind) * size.astype(kind), indices[0]),)
