"""Double buffers: what the next iteration needs is made while this one runs."""

from __future__ import annotations

from ...expr import Expr, FloorMod, IntImm, Var, binary, const
from ...tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferStore,
    DeclBuffer,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    collect,
    parts_of,
    seq,
)
from ..analysis import lanes
from ..blocks import DOUBLE_BUFFER
from ..common import Access, Replacer, branch, fresh_copy, on_body
from .storage_rewrite import accessed_pointers, memory_around


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """A buffer under `double_buffer_scope` gets two halves, filled one iteration ahead.

    In `for k: allocate S: {fill S; use S}` with the attribute in the fill, the fill of the
    first iteration moves before the loop, each iteration fills the other half for the next one,
    and S is allocated outside.

    Needs: flat code.
    Ensures: the attribute is gone; where the pattern is not met, nothing else changes. The fill
    of iteration `k + 1` must not read what the use of iteration `k` writes; where it does, the
    loop stays as it is.
    """
    return on_body(
        func, lambda body: _Drop().visit(_Inject().visit(body)) if _filled(body) else body
    )


class _Inject(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        if not isinstance(result, For) or result.thread_binding is not None:
            return result
        return _doubled(result) or result


def _doubled(loop: For) -> Stmt | None:
    wrappers, body = memory_around(loop.body)
    parts = parts_of(body)
    fills = [part for part in parts if _filled(part)]
    if not fills:
        return None
    rest = [part for part in parts if not _filled(part)]
    pointers = set().union(*map(_filled, fills))
    sizes = {
        node.buffer_var: node.extents[0]
        for node in wrappers
        if isinstance(node, Allocate) and node.buffer_var in pointers
    }
    if pointers != sizes.keys() or not _may_run_ahead(parts, fills, rest, pointers):
        return None
    return _assemble(loop, wrappers, fills, rest, sizes)


def _filled(stmt: Stmt) -> set[Var]:
    """The pointers to the double buffers that a statement fills."""
    return {node.node for node in collect(stmt, AttrStmt) if node.attr_key == DOUBLE_BUFFER}


def _may_run_ahead(
    parts: tuple[Stmt, ...], fills: list[Stmt], rest: list[Stmt], pointers: set[Var]
) -> bool:
    """Whether the fills come first and read nothing that the rest writes."""
    if list(parts[: len(fills)]) != fills or not rest:
        return False
    written = {node.buffer.data for part in rest for node in collect(part, BufferStore)}
    return all(written.isdisjoint(accessed_pointers(fill) - pointers) for fill in fills)


def _assemble(
    loop: For,
    wrappers: list[Allocate | DeclBuffer],
    fills: list[Stmt],
    rest: list[Stmt],
    sizes: dict[Var, Expr],
) -> Stmt:
    var, kind = loop.loop_var, loop.loop_var.dtype
    two, one = const(2, kind), const(1, kind)
    table: dict[Buffer, Buffer] = {}
    body = _Drop().visit(seq(*fills))

    def half(stmt: Stmt, number: Expr) -> Stmt:
        return _Half(sizes, table, binary(FloorMod, number, two)).visit(stmt)

    first = half(fresh_copy(body, {var: loop.min}), const(0, kind))
    if not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
        first = branch(loop.extent >= one, first) or seq()
    number = var - loop.min
    ahead = half(fresh_copy(body, {var: var + one}), number + one)
    more = branch(var + one < loop.min + loop.extent, ahead)
    used = half(seq(*rest), number)
    inner: Stmt = seq(more, used)
    outer: list[Allocate | DeclBuffer] = []
    for node in reversed(wrappers):
        pointer = node.buffer_var if isinstance(node, Allocate) else node.buffer.data
        if pointer in sizes:
            outer.append(node)
        else:
            inner = node.replace(body=inner)
    result: Stmt = seq(first, loop.replace(body=inner))
    for node in outer:
        if isinstance(node, Allocate):
            result = node.replace(extents=(node.extents[0] * 2,), body=result)
        else:
            result = node.replace(buffer=table.get(node.buffer, node.buffer), body=result)
    return result


class _Half(Replacer):
    """Directs accesses to one half of the doubled memory."""

    def __init__(self, sizes: dict[Var, Expr], table: dict[Buffer, Buffer], slot: Expr) -> None:
        super().__init__({}, {})
        self.sizes = sizes
        self.table = table
        self.slot = slot

    def _double(self, buffer: Buffer) -> Buffer:
        known = self.table.get(buffer)
        if known is None:
            known = self.table[buffer] = buffer.replace(shape=(buffer.shape[0] * 2,))
        return known

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        size = self.sizes.get(buffer.data)
        if size is None:
            return None
        kind = indices[0].dtype.element
        index = lanes.add(self.slot.astype(kind) * size.astype(kind), indices[0])
        return self._double(buffer), (index,)


class _Drop(StmtRewriter):
    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        body = self.visit(stmt.body)
        return body if stmt.attr_key == DOUBLE_BUFFER else self.update(stmt, body=body)
