"""Memory of a warp becomes registers of its threads."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import UserError
from ...expr import Call, Expr, IntImm, Ramp, Var, cast, const, free_vars
from ...expr.analyzer import Analyzer
from ...target.matrix_units import LANES, Fragment
from ...tir import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    PrimFunc,
    Stmt,
    collect,
    collect_exprs,
    make_buffer,
    pre_order,
    seq,
)
from ..analysis.known_ranges import analyzer_of
from ..analysis.linear import linear
from ..analysis.pointers import ACCESS_PTR, MMA_FILL, MMA_STORE, POINTERS, pointers, redirected
from ..analysis.threads import KernelBody, pointer_scope, scope_of
from ..common import Access, Replacer
from .kernels import on_kernels

_GROUP = 4  # warps that multiply together
_SIDE, _HELD = 16, 8  # of the tile that `mma_store` writes, and a thread's elements of it


def lower_warp_memory(func: PrimFunc) -> PrimFunc:
    """Each thread of a warp keeps its own part of what is allocated as "warp" memory.

    Element `(group, threadIdx.x, k)` of memory whose accesses advance by `n` from thread to thread
    becomes element `(group, k)` of an array of the thread, where k < n. `mma_fill` and `mma_store`
    become the stores that each thread does. With 128 threads along threadIdx.x it is memory of four
    warps, as `wgmma` needs it.

    Needs: flat code whose thread loops are attributes, indices simplified.
    Ensures: no "warp" memory, no `mma_fill` and no `mma_store` is left.

    Raises:
        UserError: a thread touches what belongs to another, or threadIdx.x is no warp.
    """
    if not _concerned(func.body):
        return func
    known = {b.data: b for b in func.buffers if b.ndim == 1}
    known |= {node.buffer.data: node.buffer for node in collect(func.body, DeclBuffer)}
    analyzer = analyzer_of(func.body)

    def transform(kernel: KernelBody) -> Stmt:
        lane, lanes = _warp(kernel)
        return _Lower(lane, lanes, kernel.root, analyzer, known).visit(kernel.root)

    return on_kernels(func, transform)


def _concerned(body: Stmt) -> bool:
    if any(scope_of(node) == "warp" for node in collect(body, Allocate)):
        return True
    return any(call.op in (MMA_FILL, MMA_STORE) for call in collect_exprs(body, Call))


def _warp(kernel: KernelBody) -> tuple[Var, int]:
    """The variable that numbers the threads of a warp, or of four warps, and how many they are."""
    lane, extent = kernel.threads.get("threadIdx.x", (None, None))
    lanes = extent.value if isinstance(extent, IntImm) else 0
    if lane is not None and lanes == _GROUP * LANES and not _stores_squares(kernel.body):
        return lane, lanes
    if lane is None or lanes != LANES:
        raise UserError(
            f"memory of a warp needs {LANES} threads along threadIdx.x, not {extent}",
            hint="bind a loop of 32 to threadIdx.x, and warps to threadIdx.y or threadIdx.z",
        )
    return lane, lanes


def _stores_squares(body: Stmt) -> bool:
    """Whether single warps store tiles."""
    return any(call.op == MMA_STORE for call in collect_exprs(body, Call))


class _Lower(Replacer):
    def __init__(
        self,
        lane: Var,
        lanes: int,
        kernel: Stmt,
        analyzer: Analyzer,
        known: Mapping[Var, Buffer],
    ) -> None:
        super().__init__({}, {})
        self.lane = lane
        self.lanes = lanes
        self.analyzer = analyzer
        self.flat = dict(known)  # a buffer over each pointer
        self.steps: dict[Var, int] = {}
        self.local: dict[Var, Var] = {}
        for node in collect(kernel, Allocate):
            if scope_of(node) == "warp":
                var = node.buffer_var
                self.local[var] = Var(var.name, "handle", (node.dtype, "local"))
        self._find_steps(kernel)

    # ------------------------------------------------------------------ what a thread has

    def _find_steps(self, kernel: Stmt) -> None:
        for stmt in pre_order(kernel):
            if isinstance(stmt, BufferStore):
                self._note(stmt.buffer.data, stmt.indices[0])
        for call in collect_exprs(kernel, Call):
            for data, index in pointers(call):
                if call.op not in (MMA_FILL, MMA_STORE) or self.lane in free_vars(index):
                    self._note(data, index)

    def _note(self, data: Var, index: Expr) -> None:
        if data not in self.local:
            return
        first = index.base if isinstance(index, Ramp) else index
        step = linear(self.analyzer.simplify(first)).terms.get(self.lane, 0)
        known = self.steps.setdefault(data, step)
        if step <= 0 or known != step:
            raise UserError(
                f"{data.name!r} is memory of a warp, but {index} does not advance by a constant "
                f"number of elements from thread to thread",
                hint="index it [..., threadIdx.x, k]",
            )

    def _own(self, data: Var, index: Expr) -> Expr:
        """The index among the thread's own elements."""
        if isinstance(index, Ramp):
            return Ramp(self._own(data, index.base), index.stride, index.lanes)
        step = self.steps.get(data)
        if step is None:
            raise UserError(f"memory of a warp is read, but nobody writes it: {data.name!r}")
        group, rest = linear(self.analyzer.simplify(index)).split(self.lanes * step)
        lane, local = rest.split(step)
        kind = index.dtype
        owner = self.analyzer.simplify(lane.to_expr(kind))
        low, high = self.analyzer.const_int_bound(local.to_expr(kind))
        mine = self.analyzer.can_prove_equal(owner, cast(kind, self.lane))
        if not mine or low < 0 or high >= step:
            raise UserError(
                f"element {index} of {data.name!r} may belong to another thread of the warp",
                hint="read what another thread holds through shared memory or by a shuffle",
            )
        return group.scaled(step).plus(local).to_expr(kind)

    # ------------------------------------------------------------------ rewriting

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        data = self.local.get(stmt.buffer_var)
        if data is None:
            return super().visit_Allocate(stmt)
        (extent,) = stmt.extents
        step = self.steps.get(stmt.buffer_var, 1)
        if not isinstance(extent, IntImm) or extent.value % (self.lanes * step):
            raise UserError(f"{extent} elements of {data.name!r} do not divide among a warp")
        count = const(extent.value // self.lanes, extent.dtype)
        return stmt.replace(buffer_var=data, extents=(count,), body=self.visit(stmt.body))

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        data = self.local.get(buffer.data)
        if data is None:
            return super().visit_buffer(buffer)
        known = self.buffers.get(buffer)
        if known is None:
            (extent,) = buffer.shape
            known = buffer.replace(data=data, shape=(extent // self.lanes,), scope="local")
            self.define_buffer(buffer, known)
            self.flat[data] = known
        return known

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        if buffer.data not in self.local:
            return super().access(buffer, indices)
        return self.visit_buffer(buffer), (self._own(buffer.data, indices[0]),)

    def concerns(self, expr: Expr) -> bool:
        return True

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.op in POINTERS:
            move = self._moved_tile if expr.op in (MMA_FILL, MMA_STORE) else self._moved
            expr = redirected(expr, move)
            return expr.with_children(tuple(self._argument(arg) for arg in expr.args))
        return super().visit_expr(expr)

    def _argument(self, arg: Expr) -> Expr:
        return arg if isinstance(arg, Var) else self.visit_expr(arg)

    def _moved(self, data: Var, index: Expr) -> tuple[Expr, Expr] | None:
        local = self.local.get(data)
        return None if local is None else (local, self._own(data, index))

    def _moved_tile(self, data: Var, index: Expr) -> tuple[Expr, Expr] | None:
        """As TVM writes it, a tile's first element; or the thread's own."""
        if data in self.steps and self.lane not in free_vars(index):
            index = index + cast(index.dtype, self.lane) * self.steps[data]
        return self._moved(data, index)

    # ------------------------------------------------------------------ fills and stores

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        result = super().visit_Evaluate(stmt)
        call = result.value if isinstance(result, Evaluate) else None
        if isinstance(call, Call) and call.op == MMA_FILL:
            return self._filled(call)
        if isinstance(call, Call) and call.op == MMA_STORE:
            return self._stored(call)
        return result

    def _filled(self, call: Call) -> Stmt:
        count, data, first = call.args[:3]
        if not isinstance(count, IntImm) or not isinstance(data, Var):
            raise UserError(f"mma_fill fills a constant number of elements: {call}")
        buffer = self._over(data, _element(data), first + count)
        zero = const(0, buffer.dtype)
        return seq(*(BufferStore(buffer, zero, (first + k,)) for k in range(count.value)))

    def _over(self, data: Expr, kind: str, extent: Expr) -> Buffer:
        """A flat buffer over a pointer: that of the program, or one that reaches so far."""
        if not isinstance(data, Var):
            raise UserError(f"no memory is known for {data}")
        known = self.flat.get(data)
        if known is not None and known.dtype == kind:
            return known
        return make_buffer((extent,), kind, data.name, data=data, scope=pointer_scope(data))

    def _stored(self, call: Call) -> Stmt:
        rows, columns, to, source, first, stride = call.args
        sides = [side.value for side in (rows, columns) if isinstance(side, IntImm)]
        if sides != [_SIDE, _SIDE]:
            raise UserError(
                f"mma_store writes {_SIDE} by {_SIDE} elements, not {rows} by {columns}"
            )
        if not isinstance(to, Call) or to.op != ACCESS_PTR or not isinstance(source, Var):
            raise UserError(f"mma_store writes through an access pointer: {call}")
        kind, data, start, extent, _ = to.args
        target = self._over(data, kind.dtype, start + extent)
        registers = self._over(source, _element(source), first + _HELD)
        group, member = self.lane // 4, self.lane % 4 * 2
        parts: list[Stmt] = []
        for held in range(0, _HELD, 2):
            row, column = _first_place(held)
            at = start + (group + row) * stride + (member + column)
            parts += self._pair(target, self.analyzer.simplify(at), registers, first + held)
        return seq(*parts)

    def _pair(self, target: Buffer, at: Expr, source: Buffer, first: Expr) -> list[Stmt]:
        """Two neighbours: together where they begin at an even place."""
        found = self.analyzer.modular_set(at)
        if found.coeff % 2 == 0 and found.base % 2 == 0:
            pair = BufferLoad(source, (Ramp(first, const(1, first.dtype), 2),))
            value = cast(target.dtype.with_lanes(2), pair)
            return [BufferStore(target, value, (Ramp(at, const(1, at.dtype), 2),))]
        return [
            BufferStore(target, cast(target.dtype, BufferLoad(source, (first + k,))), (at + k,))
            for k in range(2)
        ]


def _first_place(held: int) -> tuple[int, int]:
    """Where the first thread has an element of the tile: in one half of it, or in the other."""
    row, column = Fragment("c", _SIDE, _SIDE // 2, 32).place(0, held % 4)
    return row, column + held // 4 * (_SIDE // 2)


def _element(data: Var) -> str:
    if data.pointee is None:
        raise UserError(f"the pointer {data.name!r} does not say what it points to")
    return data.pointee[0]
