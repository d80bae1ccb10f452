"""What a printer must know of a function before its first line: what it uses but never binds."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import Expr, IterVar, Let, Reduce, Var, free_vars, post_order
from ..tir import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Axis,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    PrimFunc,
    SparseIteration,
    Stmt,
    buffer_exprs,
    pre_order,
    stmt_exprs,
)
from .show_sparse import owns_nnz

if TYPE_CHECKING:
    from collections.abc import Iterable


class Survey:
    """The variables and buffers of a function: which it uses, and which have a binding statement.

    Attributes:
        used: every variable that occurs in an expression or as an attribute's node.
        bound: those that a parameter, loop, block or statement binds.
        buffers: every buffer that is loaded from, stored to, or named by a region.
        declared: those that a parameter, block or statement declares.
        launches: how many launches there are for a thread's variable.
        tags: the tags of the threads.
        pointers: how many buffers there are over a pointer.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.used: dict[Var, None] = {}
        self.bound: set[Var] = set(func.params)
        self.buffers: dict[Buffer, None] = {}
        self.declared: dict[Buffer, None] = {}
        self.launches: dict[Var, int] = {}
        self.tags: dict[Var, str] = {}
        self.pointers: dict[Var, int] = {}
        self._seen: set[Expr] = set()
        for axis in func.sp_axes:
            self._axis(axis)
        for buffer in func.buffer_map.values():
            self._declare(buffer)
        for stmt in pre_order(func.body):
            self._visit(stmt)
        for buffer in self.buffers:
            self._use_all(buffer_exprs(buffer))
        for buffer in {**self.buffers, **self.declared}:
            self.pointers[buffer.data] = self.pointers.get(buffer.data, 0) + 1

    def undeclared(self) -> list[Buffer]:
        """The buffers that are used without a declaration, in order of appearance."""
        return [buffer for buffer in self.buffers if buffer not in self.declared]

    def free(self) -> list[Var]:
        """The variables, other than pointers of buffers, that nothing binds."""
        known = {*self.bound, *self.pointers}
        shapes = {v for b in self.declared for extent in b.shape for v in free_vars(extent)}
        for buffer in self.declared:
            known |= own_vars(buffer) - shapes
        return [var for var in self.used if var not in known]

    def _visit(self, stmt: Stmt) -> None:
        for expr in stmt_exprs(stmt):
            self._use(expr)
        match stmt:
            case For():
                self.bound.add(stmt.loop_var)
            case LetStmt():
                self.bound.add(stmt.var)
            case Allocate() | AllocateConst():
                self.bound.add(stmt.buffer_var)
            case Block():
                self._block(stmt)
            case SparseIteration():
                self.bound.update(part.var for part in stmt.sp_iter_vars)
            case DeclBuffer():
                self._declare(stmt.buffer)
            case BufferStore():
                self.buffers[stmt.buffer] = None
            case AttrStmt():
                self._attr(stmt)
            case _:
                pass

    def _axis(self, axis: Axis) -> None:
        self._use_all(axis.exprs)
        self._use_all(part for part in (axis.indptr, axis.indices) if part is not None)
        if owns_nnz(axis) and isinstance(axis.nnz, Var):
            self.bound.add(axis.nnz)

    def _block(self, block: Block) -> None:
        self.bound.update(axis.var for axis in block.iter_vars)
        for region in (*block.reads, *block.writes):
            self._region(region)
        for match in block.match_buffers:
            self._declare(match.buffer)
            self._region(match.source)
        for buffer in block.alloc_buffers:
            self._declare(buffer)
            self.bound.add(buffer.data)

    def _region(self, region: BufferRegion) -> None:
        self.buffers[region.buffer] = None
        for item in region.region:
            self._use_all((item.min, item.extent))

    def _attr(self, stmt: AttrStmt) -> None:
        node = stmt.node
        if isinstance(node, IterVar):
            if stmt.attr_key in ("thread_extent", "virtual_thread"):
                self.tags[node.var] = node.thread_tag
                self.launches[node.var] = self.launches.get(node.var, 0) + 1
                self.bound.add(node.var)
        elif isinstance(node, Buffer):
            self.buffers[node] = None
        elif isinstance(node, Expr):
            self._use(node)

    def _declare(self, buffer: Buffer) -> None:
        self.declared[buffer] = None
        self._use_all(buffer_exprs(buffer))

    def _use_all(self, exprs: Iterable[Expr]) -> None:
        for expr in exprs:
            self._use(expr)

    def _use(self, expr: Expr) -> None:
        seen = self._seen
        if expr in seen:
            return
        for node in post_order(expr) if expr.children else (expr,):
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Var):
                self.used[node] = None
            elif isinstance(node, BufferLoad):
                self.buffers[node.buffer] = None
            elif isinstance(node, Let):
                self.bound.add(node.var)
            elif isinstance(node, Reduce):
                self.bound.update(axis.var for axis in node.axis)


def own_vars(buffer: Buffer) -> set[Var]:
    """Strides and offset that are bare variables: a declaration may bind them."""
    own = {stride for stride in buffer.strides if isinstance(stride, Var)}
    return own | ({buffer.elem_offset} if isinstance(buffer.elem_offset, Var) else set())
