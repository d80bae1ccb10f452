"""Loops over a thread's own arrays are written out, so that the arrays become registers."""

from __future__ import annotations

from collections.abc import Set

from ...expr import Expr, IntImm, Var, free_vars, has_load, post_order
from ...tir import (
    SERIAL,
    UNROLLED,
    BufferLoad,
    BufferStore,
    For,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
    collect,
    pre_order,
    stmt_exprs,
)
from ..analysis.threads import kernels, pointer_scope, storage_rank
from ..common import on_body
from ..loops import step_count

MAX_STEPS = 512  # of a loop that is written out, with all that is in it


def unroll_register_loops(func: PrimFunc) -> PrimFunc:
    """Serial loops become "unrolled" where their variable is in the index of a thread's array.

    Registers have no addresses: one array element whose number is not known when the program is
    compiled puts the array into memory, a hundred times slower. LLVM writes out some such loops
    itself, but not those with long bodies.

    Needs: flat code whose thread loops are attributes; `unroll_loops` comes after.
    Ensures: such a loop that is left has no constant extent or more than `MAX_STEPS` steps.
    """
    roots = {kernel.root for kernel in kernels(func.body)}
    numbers: set[Var] = set()
    for root in roots:
        numbers |= _numbers(root)
    return on_body(func, _Mark(numbers).visit) if numbers else func


def _numbers(kernel: Stmt) -> set[Var]:
    """The variables that tell which element of its own arrays a thread touches."""
    found: set[Var] = set()
    for node in pre_order(kernel):
        if isinstance(node, BufferStore) and _is_own(node.buffer.data):
            found.update(*map(free_vars, node.indices))
        for expr in stmt_exprs(node):
            _add(expr, found)
    for let in reversed(collect(kernel, LetStmt)):
        if let.var in found:
            found |= free_vars(let.value)
    return found


def _add(expr: Expr, found: set[Var]) -> None:
    variables = free_vars(expr)
    if any(v.dtype.is_handle and _is_own(v) for v in variables):
        found |= variables  # a call that takes the number of a fragment beside its pointer
    for node in post_order(expr) if has_load(expr) else ():
        if isinstance(node, BufferLoad) and _is_own(node.buffer.data):
            found.update(*map(free_vars, node.indices))


def _is_own(data: Var) -> bool:
    return data.pointee is not None and storage_rank(pointer_scope(data)) > 1


class _Mark(StmtRewriter):
    def __init__(self, numbers: Set[Var]) -> None:
        self.numbers = numbers

    def visit_For(self, stmt: For) -> Stmt:
        loop = super().visit_For(stmt)
        if not isinstance(loop, For) or loop.kind != SERIAL or loop.loop_var not in self.numbers:
            return loop
        if not isinstance(loop.extent, IntImm) or loop.annotations:
            return loop
        steps = loop.extent.value * step_count(loop.body)
        return loop.replace(kind=UNROLLED) if 0 < steps <= MAX_STEPS else loop
