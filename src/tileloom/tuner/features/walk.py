"""One walk over a function, which gathers what the features are computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import REDUCE, SPATIAL, Expr, IntImm, Var, free_vars, has_load
from ...expr.bounds import ConstIntBound
from ...expr.linear import atom
from ...tir import (
    SERIAL,
    AttrStmt,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    stmt_children,
    stmt_exprs,
)
from ..annotations import LAYOUT_REWRITE
from .accesses import AccessReader
from .conditions import condition
from .counts import folded
from .guards import limits_of
from .program import (
    AllocationScope,
    BlockAllocation,
    Bounds,
    GatheredProgram,
    Loop,
    Nest,
    Store,
)
from .threads import launched, tag_of, unroll_step
from .values import value_summary


def walk(func: PrimFunc) -> GatheredProgram:
    """What a function has to say."""
    walker = _Walk(func)
    walker.visit(func.body)
    return walker.program


class _Walk(AccessReader):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.nest: Nest = ()
        self.threads: dict[str, Loop] | None = None  # of the kernel that we are in
        self.loop_scopes: dict[Var, AllocationScope] = {}

    def visit(self, stmt: Stmt) -> None:
        method = _METHODS.get(type(stmt))
        if method is not None:
            method(self, stmt)
            return
        for expr in stmt_exprs(stmt):
            self.read(expr)
            self.point(expr)
        for child in stmt_children(stmt):
            self.visit(child)

    # ------------------------------------------------------------------------ loops

    def visit_seq(self, stmt: SeqStmt) -> None:
        for part in stmt.seq:
            self.visit(part)

    def visit_for(self, stmt: For) -> None:
        low, extent = self._number(stmt.min), self._number(stmt.extent)
        if extent is not None and extent <= 0:
            return
        if stmt.thread_binding is not None:
            self._thread(stmt)
            return
        unit = extent == 1 and low is not None
        if unit:
            self.forms.bind_number(stmt.loop_var, low or 0)
            if low == 0 and stmt.kind == SERIAL and not stmt.annotations:
                self.visit(stmt.body)
                return
        least, most = (low, extent or 1) if low is not None and extent else self._ends(stmt)
        unroll = unroll_step(stmt.annotations)
        loop = Loop(stmt.loop_var, least, extent, most, stmt.kind, unroll_step=unroll)
        self._set_range(loop)
        outer = self.scope, self.nest
        self._enter(stmt.loop_var, (*self.nest, loop))
        self.visit(stmt.body)
        self.scope, self.nest = outer

    def _number(self, expr: Expr) -> int | None:
        if isinstance(expr, IntImm):
            return expr.value
        form = self.forms.of(expr)
        return None if form.terms else form.const

    def _ends(self, stmt: For) -> tuple[int, int]:
        """The first value of a loop variable and the greatest number of its iterations."""
        low = self.forms.in_loops(stmt.min)
        extent = self.forms.in_loops(stmt.extent)
        first, last = self.forms.bounds.of(low), self.forms.bounds.of(low + extent)
        return first[0], max(1, last[1] - first[0])

    def _set_range(self, loop: Loop) -> None:
        bound = ConstIntBound(loop.first, loop.first + loop.most - 1)
        self.program.ranges[loop.var] = bound

    def _thread(self, stmt: For) -> None:
        if self.threads is None:
            self.threads = launched(stmt)
            for loop in self.threads.values():
                self.program.tags[loop.var] = loop.tag
                self._set_range(loop)
            outer, self.nest = self.nest, (*self.nest, *self.threads.values())
            self._thread_body(stmt, self.threads[tag_of(stmt)], self.nest)
            self.nest, self.threads = outer, None
            return
        nest = self.nest
        if stmt.annotations:  # they move to a loop of their own
            unroll = unroll_step(stmt.annotations)
            nest = (*nest, Loop(Var("var"), 0, 1, 1, SERIAL, unroll_step=unroll))
        self._thread_body(stmt, self.threads[tag_of(stmt)], nest)

    def _thread_body(self, stmt: For, loop: Loop, nest: Nest) -> None:
        if loop.extent == 1:
            self.forms.bind_number(stmt.loop_var, loop.first)
        elif stmt.loop_var is not loop.var:
            self.forms.bind(stmt.loop_var, atom(loop.var))
        outer = self.scope, self.nest
        scope = self.loop_scopes[stmt.loop_var] = self._enter(loop.var, nest)
        if loop.tag.startswith("blockIdx"):
            self.program.grids.append(scope)
        self.visit(stmt.body)
        self.scope, self.nest = outer

    def _enter(self, var: Var | None, nest: Nest) -> AllocationScope:
        outer = self.scope
        names = outer.variables if var is None else outer.variables | {var}
        scope = self.scope = AllocationScope(outer, nest, names, outer.depth + 1)
        self.nest = nest
        if var is not None:
            self.loop_scopes[var] = scope
        return scope

    # ------------------------------------------------------------------------ blocks

    def visit_realize(self, stmt: BlockRealize) -> None:
        block = stmt.block
        if LAYOUT_REWRITE in block.annotations:  # done once, before: what it writes is a parameter
            for region in block.writes:
                self.program.allocations.pop(region.buffer, None)
                self.pointers.pop(region.buffer.data, None)
            return
        for value in stmt.iter_values:
            self.read(value)
        for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            self.forms.bind(axis.var, self.forms.of(value), value)
        outer = self.scope, self.limits, self.bindings
        self.limits, self.bindings = self._limits(stmt.predicate), stmt.bindings
        self._enter(None, self.nest)
        self._dominate(stmt)
        for buffer in block.alloc_buffers:
            found = BlockAllocation(buffer, self.scope)
            self.program.allocations[buffer] = self.pointers[buffer.data] = found
        for match in block.match_buffers:
            self.match(match)
        self.blocks.append(block)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.blocks.pop()
        self.scope, self.limits, self.bindings = outer

    def _limits(self, predicate: Expr) -> Bounds:
        if isinstance(predicate, IntImm):
            return {}
        self.read(predicate)
        return limits_of(self.forms.in_loops(predicate))

    def _dominate(self, stmt: BlockRealize) -> None:
        """What a reduction writes is allocated outside of its loops, and so is what an axis of
        unknown kind indexes."""
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            if axis.iter_type == SPATIAL:
                continue
            around = self._around(value)
            if around is None:
                continue
            reduces = axis.iter_type == REDUCE
            regions = stmt.block.writes if reduces else (*stmt.block.reads, *stmt.block.writes)
            for region in regions:
                found = self.program.allocations.get(region.buffer)
                if found is not None and (reduces or _uses(region, axis.var)):
                    found.move_to(around)

    def _around(self, value: Expr) -> AllocationScope | None:
        """The scope around all loops that a value depends on."""
        scopes = [self.loop_scopes[v] for v in free_vars(value) if v in self.loop_scopes]
        return min(scopes, key=lambda scope: scope.depth).parent if scopes else None

    def visit_store(self, stmt: BufferStore) -> None:
        for index in stmt.indices:
            self.read(index)
        target = self.access(stmt.buffer, stmt.indices)
        found = value_summary(folded(stmt.value), self.forms)
        if found is not None:
            loads = [self.access(load.buffer, load.indices) for load in found.loads]
            self.program.stores.append(Store(self.nest, target, loads, found.counts))

    def visit_if(self, stmt: IfThenElse) -> None:
        self.read(stmt.condition)
        known = condition(stmt.condition, self.forms)
        if known is not False:
            self.visit(stmt.then_case)
        if stmt.else_case is not None and known is not True:
            self.visit(stmt.else_case)

    def visit_let(self, stmt: LetStmt) -> None:
        self.read(stmt.value)
        if stmt.value.dtype.code == "int" and not has_load(stmt.value):
            self.forms.bind(stmt.var, self.forms.of(stmt.value))
        self.visit(stmt.body)

    def visit_attr(self, stmt: AttrStmt) -> None:
        self.read(stmt.value)
        self.visit(stmt.body)


def _uses(region: BufferRegion, var: Var) -> bool:
    return any(
        var in free_vars(part.min) or var in free_vars(part.extent) for part in region.region
    )


_METHODS: dict[type[Stmt], Callable[[Any, Any], None]] = {
    SeqStmt: _Walk.visit_seq,
    For: _Walk.visit_for,
    BlockRealize: _Walk.visit_realize,
    BufferStore: _Walk.visit_store,
    IfThenElse: _Walk.visit_if,
    LetStmt: _Walk.visit_let,
    AttrStmt: _Walk.visit_attr,
}
