"""Loops bound to threads become attributes: code that is run by threads, not repeated."""

from __future__ import annotations

from ...base.errors import UserError
from ...expr import IterVar, Range, Var, free_vars
from ...tir import (
    THREAD_BINDING,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    collect,
    stmt_children,
    stmt_exprs,
)
from ..analysis.threads import is_virtual, kernels, scope_of, storage_rank, tag_of
from ..common import THREAD_EXTENT, VIRTUAL_THREAD, Replacer, loaded_buffers, on_body
from ..loops import accessed_pointers


def lower_thread_binding(func: PrimFunc) -> PrimFunc:
    """`for i in thread_binding(n, tag)` becomes the attribute "thread_extent" of its body.

    A virtual thread becomes the attribute "virtual_thread", which `inject_virtual_thread` takes.

    Memory that threads have for themselves or share in a block, but that stands around the launch,
    moves into it.

    Needs: the loops stage.
    Ensures: no loop is bound to a thread; device memory is allocated inside of a kernel.

    Raises:
        UserError: two kernels use one piece of such memory, or one and the code around it.
    """
    return on_body(func, lambda body: _sunk(_Lower({}, {}).visit(body)))


def _sunk(body: Stmt) -> Stmt:
    inside = {node for kernel in kernels(body) for node in collect(kernel.root, Allocate)}
    outside = [
        node
        for node in collect(body, Allocate)
        if storage_rank(scope_of(node)) > 0 and node not in inside
    ]
    homes: dict[AttrStmt, list[Allocate]] = {}
    by_host = _host_pointers(body) if outside else set()
    for node in outside:
        users = [k.root for k in kernels(node.body) if node.buffer_var in accessed_pointers(k.root)]
        if len(users) > 1:
            raise UserError(
                f"{node.buffer_var.name!r}, memory of one kernel, is used by {len(users)}",
                hint='give it the scope "global"',
            )
        if users and node.buffer_var in by_host:
            raise UserError(
                f"{node.buffer_var.name!r}, memory of one kernel, is used outside of its threads",
                hint='bind the other loops as well, or give it the scope "global"',
            )
        for root in users:
            homes.setdefault(root, []).append(node)
    return _Sink(homes).visit(body) if homes else body


def _host_pointers(stmt: Stmt) -> set[Var]:
    """The pointers that code outside of kernels uses."""
    if isinstance(stmt, AttrStmt) and stmt.attr_key == THREAD_EXTENT:
        return set()
    if isinstance(stmt, BufferStore | Evaluate):
        return accessed_pointers(stmt)
    found = {v for expr in stmt_exprs(stmt) for v in free_vars(expr) if v.dtype.is_handle}
    found |= {b.data for expr in stmt_exprs(stmt) for b in loaded_buffers(expr)}
    return found.union(*map(_host_pointers, stmt_children(stmt)))


class _Sink(StmtRewriter):
    def __init__(self, homes: dict[AttrStmt, list[Allocate]]) -> None:
        self.homes = homes
        self.moved = {node for nodes in homes.values() for node in nodes}
        self.declared = {node.buffer_var: list[DeclBuffer]() for node in self.moved}

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        return self.visit(stmt.body) if stmt in self.moved else super().visit_Allocate(stmt)

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        if stmt.buffer.data not in self.declared:
            return super().visit_DeclBuffer(stmt)
        self.declared[stmt.buffer.data].append(stmt)
        return self.visit(stmt.body)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        result = super().visit_AttrStmt(stmt)
        if stmt not in self.homes or not isinstance(result, AttrStmt):
            return result
        return self._inside(result, self.homes[stmt])

    def _inside(self, stmt: Stmt, memory: list[Allocate]) -> Stmt:
        if isinstance(stmt, AttrStmt) and stmt.attr_key == THREAD_EXTENT:
            return stmt.replace(body=self._inside(stmt.body, memory))
        for node in memory:
            for declaration in self.declared[node.buffer_var]:
                stmt = declaration.replace(body=stmt)
            stmt = node.replace(body=stmt)
        return stmt


class _Lower(Replacer):
    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != THREAD_BINDING or stmt.thread_binding is None:
            return super().visit_For(stmt)
        extent, binding = self.visit_expr(stmt.extent), stmt.thread_binding
        axis = IterVar(Range.from_extent(extent), binding.var, 1, tag_of(stmt))
        value = axis.var + self.visit_expr(stmt.min)
        if stmt.loop_var is not binding.var:
            self.define(stmt.loop_var, value.astype(stmt.loop_var.dtype))
        key = VIRTUAL_THREAD if is_virtual(axis.thread_tag) else THREAD_EXTENT
        return AttrStmt(axis, key, extent, self.visit(stmt.body))
