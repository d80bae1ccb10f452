"""Buffers whose lives do not overlap share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...expr import Expr, IntImm, Var, free_vars
from ...tir import (
    Allocate,
    Buffer,
    BufferStore,
    DeclBuffer,
    PrimFunc,
    SeqStmt,
    Stmt,
    pre_order,
    stmt_exprs,
    used_buffers,
)
from ..analysis.pointers import self_ordered_pointers
from ..analysis.threads import scope_of
from ..common import Replacer, loaded_buffers, on_body


def storage_rewrite(func: PrimFunc) -> PrimFunc:
    """Allocations around one sequence of statements share memory where they can.

    Two do if they have the same element type and storage scope and the last statement that
    touches the one comes before the first that touches the other. The memory has the larger size.
    What engines work on by themselves (`SELF_ORDERED`) has memory of its own.

    Needs: flat code; barriers not yet inserted, as shared memory with two uses needs more of them.
    Ensures: the same effects; no more memory.
    """
    return on_body(func, _Rewrite({}, {}).visit)


@dataclass(slots=True)
class _Memory:
    """An allocation, and the last statement that needs what is in it."""

    stmt: Allocate
    size: Expr
    last: int


class _Rewrite(Replacer):
    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        chain, inner = memory_around(stmt)
        found = [node for node in chain if isinstance(node, Allocate)]
        flat = all(len(node.extents) == 1 for node in found)
        if len(found) < 2 or not flat or not isinstance(inner, SeqStmt):
            return super().visit_Allocate(stmt)
        kept = self._share(found, inner.seq)
        declared = [node for node in chain if isinstance(node, DeclBuffer)]
        if len(kept) < len(found):
            for buffer in dict.fromkeys((*used_buffers(inner), *(d.buffer for d in declared))):
                self.visit_buffer(buffer)
        body = self.visit(inner)
        for node in reversed(declared):
            body = DeclBuffer(self.buffers.get(node.buffer, node.buffer), body, span=node.span)
        for memory in reversed(kept):
            body = memory.stmt.replace(extents=(memory.size,), body=body)
        return body

    def _share(self, found: Sequence[Allocate], parts: Sequence[Stmt]) -> list[_Memory]:
        """The memory that is needed; what is left out goes into the table of variables."""
        lives = _lives([node.buffer_var for node in found], parts)
        apart = {var for part in parts for var in self_ordered_pointers(part)}
        kept: list[_Memory] = []
        for node in sorted(found, key=lambda node: lives[node.buffer_var]):
            first, last = lives[node.buffer_var]
            free = [m for m in kept if m.last < first and _fits(m.stmt, node)]
            if node.buffer_var in apart:
                kept.append(_Memory(node, node.extents[0], len(parts)))  # for ever
                continue
            if not free:
                kept.append(_Memory(node, node.extents[0], last))
                continue
            memory = min(free, key=lambda m: _waste(m.size, node.extents[0]))
            memory.size, memory.last = _larger(memory.size, node.extents[0]), last
            self.define(node.buffer_var, memory.stmt.buffer_var)
        return kept

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        data = self.values.get(buffer.data)
        if not isinstance(data, Var):
            return super().visit_buffer(buffer)
        known = self.buffers.get(buffer)
        if known is None:
            known = buffer.replace(data=data)
            self.define_buffer(buffer, known)
        return known


def memory_around(stmt: Stmt) -> tuple[list[Allocate | DeclBuffer], Stmt]:
    """Allocations and declarations directly inside each other, and what is inside them."""
    chain: list[Allocate | DeclBuffer] = []
    while isinstance(stmt, Allocate | DeclBuffer):
        chain.append(stmt)
        stmt = stmt.body
    return chain, stmt


def _lives(pointers: Sequence[Var], parts: Sequence[Stmt]) -> dict[Var, tuple[int, int]]:
    lives: dict[Var, tuple[int, int]] = {}
    for number, part in enumerate(parts):
        for pointer in accessed_pointers(part):
            first, _ = lives.get(pointer, (number, number))
            lives[pointer] = first, number
    return {pointer: lives.get(pointer, (0, len(parts))) for pointer in pointers}


def accessed_pointers(stmt: Stmt) -> set[Var]:
    """The pointers to what a statement may read or write."""
    found: set[Var] = set()
    for node in pre_order(stmt):
        if isinstance(node, BufferStore | DeclBuffer):
            found.add(node.buffer.data)
        for expr in stmt_exprs(node):
            found.update(buffer.data for buffer in loaded_buffers(expr))
            found.update(var for var in free_vars(expr) if var.dtype.is_handle)
    return found


def _fits(memory: Allocate, wanted: Allocate) -> bool:
    """Whether one piece of memory may serve for both."""
    if memory.dtype is not wanted.dtype or scope_of(memory) != scope_of(wanted):
        return False
    a, b = memory.extents[0], wanted.extents[0]
    sizes = a is b or (isinstance(a, IntImm) and isinstance(b, IntImm))
    plain = not memory.annotations and not wanted.annotations
    return sizes and plain and memory.condition is wanted.condition


def _waste(a: Expr, b: Expr) -> int:
    return abs(a.value - b.value) if isinstance(a, IntImm) and isinstance(b, IntImm) else 0


def _larger(a: Expr, b: Expr) -> Expr:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a if a.value >= b.value else b
    return a
