"""What several passes share: buffer replacement, substitution with folding, fresh copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_not

from ..expr import And, BinaryOp, Call, Expr, IntImm, IterVar, Let, Select, Var, free_vars, has_load
from ..expr.rebuild import rebuild as folded
from ..tir import (
    Allocate,
    AllocateConst,
    Block,
    Buffer,
    BufferLoad,
    BufferRewriter,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
    pre_order,
)

Access = tuple[Buffer, tuple[Expr, ...]]
LIKELY = "tir.likely"
IF_THEN_ELSE = "tir.if_then_else"
ADDRESS_OF = "tir.address_of"
THREAD_EXTENT, VIRTUAL_THREAD = "thread_extent", "virtual_thread"
THREAD_KEYS = (THREAD_EXTENT, VIRTUAL_THREAD)  # attributes of code that a thread variable runs in


def on_body(func: PrimFunc, transform: Callable[[Stmt], Stmt]) -> PrimFunc:
    """`func` with its body transformed; `func` itself when nothing changed."""
    body = transform(func.body)
    return func if body is func.body else func.replace(body=body)


def true_value(condition: Expr) -> bool | None:
    """The value of a constant condition, else None."""
    while isinstance(condition, Call) and condition.op == LIKELY:
        condition = condition.args[0]
    return bool(condition.value) if isinstance(condition, IntImm) else None


def rebuild(expr: Expr, children: tuple[Expr, ...]) -> Expr:
    """`expr` over other children, with constants and known choices folded."""
    if isinstance(expr, Select) and isinstance(children[0], IntImm):
        return children[1] if children[0].value else children[2]
    if isinstance(expr, BinaryOp) and children[0].dtype is not children[1].dtype:
        return expr.with_children(children)
    return _rebuild_call(expr, children) if isinstance(expr, Call) else folded(expr, children)


def _rebuild_call(expr: Call, children: tuple[Expr, ...]) -> Expr:
    if expr.op == LIKELY and isinstance(children[0], IntImm):
        return children[0]
    if expr.op == IF_THEN_ELSE:
        known = true_value(children[0])
        if known is not None:
            return children[1] if known else children[2]
    return expr.with_children(children)


class Replacer(BufferRewriter):
    """Replaces variables by expressions and buffers by buffers, folding constants on the way.

    Both tables may grow while the walk goes on: definitions inside (`fresh=True`) or overrides in a
    subclass add to them. The memo of expressions is dropped whenever they do.
    """

    def __init__(self, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> None:
        self.values = dict(values)
        self.buffers = dict(buffers)
        self._done: dict[Expr, Expr] = {}

    def define(self, var: Var, value: Expr) -> None:
        """Replace `var` from now on."""
        self.values[var] = value
        self._done = {}

    def define_buffer(self, old: Buffer, new: Buffer) -> None:
        """Replace a buffer from now on."""
        self.buffers[old] = new
        self._done = {}

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        """What is loaded or stored instead of an element, whose indices are already rewritten.

        None: the same. Subclasses override it.
        """
        new = self.buffers.get(buffer)
        return None if new is None else (new, indices)

    def load(self, expr: BufferLoad) -> Expr:
        """What stands for a load, whose indices are already rewritten."""
        new = self.access(expr.buffer, expr.indices)
        return expr if new is None else BufferLoad(*new, expr.predicate)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return self.values.get(expr, expr)
        children = expr.children
        if not children:
            if isinstance(expr, BufferLoad):
                return self.load(expr)
            return expr
        known = self._done.get(expr)
        if known is not None:
            return known
        result = expr
        if isinstance(expr, Let) and expr.var in self.values:
            result = self._let(expr)
        elif self.concerns(expr):
            new = tuple([self.visit_expr(child) for child in children])
            if any(map(is_not, new, children)):
                result = rebuild(expr, new)
            if isinstance(result, BufferLoad):
                result = self.load(result)
        self._done[expr] = result
        return result

    def _let(self, expr: Let) -> Expr:
        var = self.values[expr.var]
        new = var if isinstance(var, Var) else expr.var
        return Let(new, self.visit_expr(expr.value), self.visit_expr(expr.body))

    def concerns(self, expr: Expr) -> bool:
        """Whether `expr` can change at all; a quick test that may say yes too often."""
        return not free_vars(expr).isdisjoint(self.values) or has_load(expr)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with its own expressions rewritten, entered into the table if they changed."""
        known = self.buffers.get(buffer)
        if known is not None:
            return known
        data = self.values.get(buffer.data, buffer.data)
        shape = self.all(buffer.shape, self.visit_expr)
        strides = self.all(buffer.strides, self.visit_expr)
        offset = None if buffer.elem_offset is None else self.visit_expr(buffer.elem_offset)
        same = shape is buffer.shape and strides is buffer.strides
        if same and offset is buffer.elem_offset and data is buffer.data:
            return buffer
        if not isinstance(data, Var):
            data = buffer.data
        new = buffer.replace(data=data, shape=shape, strides=strides, elem_offset=offset)
        self.define_buffer(buffer, new)
        return new

    def used_buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        result = StmtRewriter.visit_BufferStore(self, stmt)
        new = self.access(stmt.buffer, result.indices) if isinstance(result, BufferStore) else None
        return result if new is None else self.update(result, buffer=new[0], indices=new[1])


class _FreshCopy(Replacer):
    """Gives every definition inside a new variable, so that two copies can stand side by side."""

    def visit_For(self, stmt: For) -> Stmt:
        var = stmt.loop_var.with_name(stmt.loop_var.name)
        low, extent = self.visit_expr(stmt.min), self.visit_expr(stmt.extent)
        self.define(stmt.loop_var, var)
        return stmt.replace(loop_var=var, min=low, extent=extent, body=self.visit(stmt.body))

    def visit_iter_var(self, axis: IterVar) -> IterVar:
        var = axis.var.with_name(axis.var.name)
        self.define(axis.var, var)
        dom = None if axis.dom is None else self.visit_range(axis.dom)
        return IterVar(dom, var, axis.iter_type, axis.thread_tag)

    def visit_Block(self, stmt: Block) -> Block:
        for buffer in stmt.alloc_buffers:
            self.define(buffer.data, buffer.data.with_name(buffer.data.name))
        for match in stmt.match_buffers:
            self.define(match.buffer.data, match.buffer.data.with_name(match.buffer.data.name))
        return Replacer.visit_Block(self, stmt)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        value, var = self.visit_expr(stmt.value), stmt.var.with_name(stmt.var.name)
        self.define(stmt.var, var)
        return stmt.replace(var=var, value=value, body=self.visit(stmt.body))

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        var = stmt.buffer_var.with_name(stmt.buffer_var.name)
        self.define(stmt.buffer_var, var)
        extents = self.all(stmt.extents, self.visit_expr)
        condition, body = self.visit_expr(stmt.condition), self.visit(stmt.body)
        return stmt.replace(buffer_var=var, extents=extents, condition=condition, body=body)

    def visit_AllocateConst(self, stmt: AllocateConst) -> Stmt:
        var = stmt.buffer_var.with_name(stmt.buffer_var.name)
        self.define(stmt.buffer_var, var)
        return stmt.replace(buffer_var=var, body=self.visit(stmt.body))


def fresh_copy(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """A copy of a statement with variables replaced and its definitions renamed."""
    return _FreshCopy(values, {}).visit(stmt)


def replace_vars(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with variables replaced and constants folded."""
    return Replacer(values, {}).visit(stmt) if values else stmt


def replaced(stmt: Stmt, changes: Mapping[Stmt, Stmt]) -> Stmt:
    """`stmt` with other statements in place of some of those in it."""
    return _Replaced(changes).visit(stmt) if changes else stmt


class _Replaced(StmtRewriter):
    def __init__(self, changes: Mapping[Stmt, Stmt]) -> None:
        self.changes = changes

    def visit(self, stmt: Stmt) -> Stmt:
        return self.changes.get(stmt) or super().visit(stmt)


def defined_vars(stmt: Stmt) -> set[Var]:
    """The variables of loops, and the names of values, that a statement gives."""
    parts = list(pre_order(stmt))
    loops = {part.loop_var for part in parts if isinstance(part, For)}
    return loops | {part.var for part in parts if isinstance(part, LetStmt)}


def loaded_buffers(expr: Expr) -> frozenset[Buffer]:
    """The buffers that `expr` reads (memoised)."""
    if not has_load(expr):
        return frozenset()
    known: frozenset[Buffer] | None = expr.memo.get("loads")
    if known is None:
        known = frozenset().union(*(loaded_buffers(child) for child in expr.children))
        if isinstance(expr, BufferLoad):
            known |= {expr.buffer}
        expr.memo["loads"] = known
    return known


def conjuncts(condition: Expr) -> Sequence[Expr]:
    """The parts of a conjunction (memoised); `likely` is kept on each part that was under it."""
    known: Sequence[Expr] | None = condition.memo.get("lower.conjuncts")
    if known is None:
        known = _conjuncts(condition)
        if len(known) > 1:  # a node that its own memo held would live for ever
            condition.memo["lower.conjuncts"] = known
    return known


def _conjuncts(condition: Expr) -> tuple[Expr, ...]:
    match condition:
        case Call(op="tir.likely", args=(inner,)):
            parts = conjuncts(inner)
            return (condition,) if len(parts) == 1 else tuple(likely(part) for part in parts)
        case And(a, b):
            return (*conjuncts(a), *conjuncts(b))
        case IntImm() if condition.value:
            return ()
        case _:
            return (condition,)


def likely(condition: Expr) -> Expr:
    """The condition with the promise that it holds nearly always."""
    if isinstance(condition, IntImm) or (isinstance(condition, Call) and condition.op == LIKELY):
        return condition
    return Call("bool", LIKELY, (condition,))


def unlikely_free(condition: Expr) -> Expr:
    """The condition without a `likely` around it."""
    while isinstance(condition, Call) and condition.op == LIKELY:
        condition = condition.args[0]
    return condition


def branch(condition: Expr, then_case: Stmt, else_case: Stmt | None = None) -> Stmt | None:
    """A branch, or the side that a constant condition chooses (None for nothing at all)."""
    known = true_value(condition)
    if known is None:
        return IfThenElse(condition, then_case, else_case)
    return then_case if known else else_case
