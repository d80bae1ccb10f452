"""All dynamic shared memory of a kernel is one allocation: a launch can ask for one size only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import DType, dtype
from ...base.errors import UserError
from ...expr import Call, Expr, IntImm, Var, const, free_vars, has_load
from ...target.instructions import PATTERN_BYTES
from ...tir import (
    Allocate,
    Buffer,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    collect,
    stmt_children,
)
from ..analysis import lanes
from ..analysis.pointers import ACCESS_PTR, POINTERS, redirected, uses_patterns
from ..analysis.threads import GRID_TAGS, KernelBody, is_uniform, scope_of
from ..common import Access, Replacer
from .kernels import inside_threads, on_kernels

DYNAMIC, ALIGNMENT = "shared.dyn", 16  # bytes, of the widest access
STATIC_BYTES = 48 << 10  # that a kernel may have without asking for them when it is launched


def merge_shared_memory_allocations(func: PrimFunc) -> PrimFunc:
    """Allocations of "shared.dyn" in a kernel become parts of one array of bytes.

    Accesses keep their types: a buffer of each type lies over the one pointer, and indices are
    shifted. Parts do not overlap (what may share memory does since `storage_rewrite`), except those
    of which a block only ever uses one, as in a launch of several kernels side by side. Where a
    kernel has more of "shared" than `STATIC_BYTES`, or such parts, that is dynamic as well.

    Needs: flat code with its barriers.
    Ensures: each kernel allocates dynamic shared memory once, directly inside its thread variables.

    Raises:
        UserError: a size is not a constant, or a pointer to the memory is passed on.
    """
    return on_kernels(func, _with_one_memory)


def allocated_bytes(stmt: Allocate) -> int | None:
    """The bytes of an allocation; None where they are not constant."""
    size = 1
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size * element_bytes(stmt.dtype)


def element_bytes(kind: DType) -> int:
    """The bytes of one element, a whole vector's of a vector type."""
    return -(-kind.bits * kind.lanes // 8)


def _with_one_memory(kernel: KernelBody) -> Stmt:
    root = kernel.root
    shared = [node for node in collect(root, Allocate) if scope_of(node) in ("shared", DYNAMIC)]
    found = [node for node in shared if scope_of(node) == DYNAMIC]
    sizes = [allocated_bytes(node) or 0 for node in shared if node not in found]
    static = sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
    known = len(shared) > 1 and all(allocated_bytes(node) is not None for node in shared)
    if static > STATIC_BYTES or (known and _Layout(kernel, shared).overlaps):
        return _merged(kernel, shared)
    return _merged(kernel, found) if len(found) > 1 else root


class _Layout:
    """Where each allocation lies in the memory of a kernel.

    Attributes:
        offsets: in bytes, by pointer.
        total: the bytes of all.
        overlaps: whether some lie where others do.
    """

    def __init__(self, kernel: KernelBody, found: Sequence[Allocate]) -> None:
        self.found = set(found)
        self.alignment = PATTERN_BYTES if uses_patterns(kernel.root) else ALIGNMENT
        self.others = {var for tag, (var, _) in kernel.threads.items() if tag not in GRID_TAGS}
        self.offsets: dict[Var, int] = {}
        self.overlaps = False
        self.total = self._place(kernel.root, 0)

    def _place(self, stmt: Stmt, start: int) -> int:
        """The end of what is inside a statement, from a place on."""
        if isinstance(stmt, IfThenElse) and stmt.else_case is not None and self._is_of_block(stmt):
            first = self._place(stmt.then_case, start)
            second = self._place(stmt.else_case, start)
            self.overlaps = self.overlaps or (first > start and second > start)
            return max(first, second)
        if isinstance(stmt, Allocate) and stmt in self.found:
            self.offsets[stmt.buffer_var] = start
            start += self._size(stmt)
        elif isinstance(stmt, For | LetStmt):
            self.others.add(stmt.loop_var if isinstance(stmt, For) else stmt.var)
        for child in stmt_children(stmt):
            start = self._place(child, start)
        return start

    def _is_of_block(self, stmt: IfThenElse) -> bool:
        """Whether all threads of a block take the same branch whenever they come by."""
        return is_uniform(stmt.condition, self.others) and not has_load(stmt.condition)

    def _size(self, stmt: Allocate) -> int:
        size = allocated_bytes(stmt)
        if size is None:
            raise UserError(f"the size of dynamic shared memory {stmt.buffer_var} is not constant")
        return -(-size // self.alignment) * self.alignment


def _merged(kernel: KernelBody, found: Sequence[Allocate]) -> Stmt:
    layout = _Layout(kernel, found)
    total = layout.total
    byte = dtype("uint8")
    pointer = Var("shared_memory", "handle", (byte, DYNAMIC))
    body = _Merge(pointer, layout.offsets, total).visit(kernel.root)
    extents = (const(total),)
    memory = found[0].replace(buffer_var=pointer, dtype=byte, extents=extents, annotations={})
    return inside_threads(body, lambda inner: memory.replace(body=inner))


class _Merge(Replacer):
    def __init__(self, pointer: Var, offsets: Mapping[Var, int], total: int) -> None:
        super().__init__({}, {})
        self.pointer = pointer
        self.offsets = offsets
        self.total = total
        self.views: dict[DType, Buffer] = {}

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        return (
            self.visit(stmt.body)
            if stmt.buffer_var in self.offsets
            else super().visit_Allocate(stmt)
        )

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        if stmt.buffer.data in self.offsets:
            return self.visit(stmt.body)
        return super().visit_DeclBuffer(stmt)

    def view(self, buffer: Buffer) -> Buffer:
        """The whole memory as elements of a buffer's type."""
        known = self.views.get(buffer.dtype)
        if known is None:
            count = const(self.total // element_bytes(buffer.dtype))
            known = buffer.replace(data=self.pointer, shape=(count,), name=str(buffer.dtype))
            self.views[buffer.dtype] = known
        return known

    def shifted(self, buffer: Buffer, index: Expr) -> Expr:
        """An index, from the head of the memory."""
        start = self.offsets[buffer.data] // element_bytes(buffer.dtype)
        return lanes.add(index, const(start, index.dtype.element))

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        if buffer.data not in self.offsets:
            return None
        return self.view(buffer), (self.shifted(buffer, indices[0]),)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.op in POINTERS:
            kind = expr.args[0].dtype if expr.op == ACCESS_PTR else self.pointer.dtype
            expr = redirected(expr, lambda data, index: self._moved(data, index, kind))
        if isinstance(expr, Var) and expr in self.offsets:
            raise UserError(f"the pointer to dynamic shared memory {expr} is passed on")
        return super().visit_expr(expr)

    def concerns(self, expr: Expr) -> bool:
        return super().concerns(expr) or not free_vars(expr).isdisjoint(self.offsets)

    def _moved(self, data: Var, index: Expr, kind: DType) -> tuple[Expr, Expr] | None:
        """A pointer and an index: of elements where the call names their type, else of bytes."""
        start = self.offsets.get(data)
        if start is None:
            return None
        if not kind.is_handle:
            return self.pointer, index + start // element_bytes(kind)
        size = element_bytes(data.pointee[0]) if data.pointee else 1
        return self.pointer, index * size + start
