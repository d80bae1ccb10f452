"""One walk over a function, which gathers what the features are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...expr import REDUCE, SPATIAL, Expr, IntImm, Var, free_vars, has_load, substitute
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from ...expr.linear import atom
from ...lower.analysis.known_ranges import analyzer_of
from ...tir import (
    SERIAL,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    stmt_children,
    stmt_exprs,
)
from .conditions import condition
from .counts import summary, without_free_selects
from .forms import Forms
from .guards import limits_of, written_form
from .program import (
    AccessedRegion,
    AllocationScope,
    BlockAllocation,
    Bounds,
    ElementAccess,
    Form,
    GatheredProgram,
    Loop,
    Nest,
    Store,
)
from .quotients import is_plain
from .threads import launched, tag_of, unroll_step
from .values import value_summary


def walk(func: PrimFunc) -> GatheredProgram:
    """What a function has to say."""
    walker = _Walk(func)
    walker.visit(func.body)
    return walker.program


class _Walk:
    def __init__(self, func: PrimFunc) -> None:
        self.program = GatheredProgram()
        self.forms = Forms(self.program.ranges, lambda: analyzer_of(func.body))
        self.nest: Nest = ()
        self.scope = AllocationScope(None, (), frozenset())
        self.threads: dict[str, Loop] | None = None  # of the kernel that we are in
        self.loop_scopes: dict[Var, AllocationScope] = {}
        self.views: dict[Buffer, tuple[Buffer, list[Form]]] = {}
        self.blocks: list[Block] = []
        self.bindings: Mapping[Var, Expr] = {}  # of the block that we are in
        self.limits: Bounds = {}
        self.pointers: dict[Var, BlockAllocation] = {}

    def visit(self, stmt: Stmt) -> None:
        method = _METHODS.get(type(stmt))
        if method is not None:
            method(self, stmt)
            return
        for expr in stmt_exprs(stmt):
            self._read(expr)
            self._point(expr)
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
        bounds = BoundAnalyzer(self.program.ranges)
        first, last = bounds.of(low), bounds.of(low + extent)
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
        for value in stmt.iter_values:
            self._read(value)
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
            self._match(match)
        self.blocks.append(block)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.blocks.pop()
        self.scope, self.limits, self.bindings = outer

    def _limits(self, predicate: Expr) -> Bounds:
        if isinstance(predicate, IntImm):
            return {}
        self._read(predicate)
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

    def _match(self, match: MatchBufferRegion) -> None:
        lows = [self.forms.of(part.min) for part in match.source.region]
        source, first = self._place(match.source.buffer, lows)
        self.views[match.buffer] = source, first
        found = self.program.allocations.get(source)
        if found is not None:
            skipped = len(first) - len(lows)
            sizes = [0] * skipped + [self._most(p.extent) - 1 for p in match.source.region]
            pairs = zip(first, sizes, strict=True)
            axes = [(low, low.shifted(size)) for low, size in pairs]
            found.access(self.scope, AccessedRegion(axes, {}))

    def _most(self, extent: Expr) -> int:
        return BoundAnalyzer(self.program.ranges).of(self.forms.in_loops(extent))[1]

    # ------------------------------------------------------------------------ accesses

    def visit_store(self, stmt: BufferStore) -> None:
        for index in stmt.indices:
            self._read(index)
        target = self._access(stmt.buffer, stmt.indices)
        found = value_summary(without_free_selects(stmt.value), self.forms)
        if found is not None:
            loads = [self._access(load.buffer, load.indices) for load in found.loads]
            self.program.stores.append(Store(self.nest, target, loads, found.counts))

    def visit_if(self, stmt: IfThenElse) -> None:
        self._read(stmt.condition)
        known = condition(stmt.condition, self.forms)
        if known is not False:
            self.visit(stmt.then_case)
        if stmt.else_case is not None and known is not True:
            self.visit(stmt.else_case)

    def visit_let(self, stmt: LetStmt) -> None:
        self._read(stmt.value)
        if stmt.value.dtype.code == "int" and not has_load(stmt.value):
            self.forms.bind(stmt.var, self.forms.of(stmt.value))
        self.visit(stmt.body)

    def visit_attr(self, stmt: AttrStmt) -> None:
        self._read(stmt.value)
        self.visit(stmt.body)

    def _read(self, expr: Expr) -> None:
        """Note what an expression that is not the value of a store reads."""
        if has_load(expr):
            for load in summary(expr).loads:
                self._access(load.buffer, load.indices)

    def _point(self, expr: Expr) -> None:
        """Note what an expression accesses through pointers."""
        for var in free_vars(expr):
            found = self.pointers.get(var)
            if found is not None:
                found.access(self.scope, self._declared(found.buffer))

    def _declared(self, buffer: Buffer) -> AccessedRegion | None:
        """The region of a buffer that the block around declares to access."""
        for block in reversed(self.blocks):
            for region in (*block.reads, *block.writes):
                if region.buffer is buffer:
                    return AccessedRegion(list(self._ends_of(region)), {})
        return None

    def _ends_of(self, region: BufferRegion) -> Iterator[tuple[Form, Form]]:
        for part in region.region:
            low = self.forms.of(part.min)
            yield low, low.shifted(self._most(part.extent) - 1)

    def _access(self, buffer: Buffer, indices: Sequence[Expr]) -> ElementAccess:
        source, forms = self._place(buffer, self.forms.all(indices))
        found = self.program.allocations.get(source)
        if found is not None:
            found.access(self.scope, self._region(source is buffer, indices, forms))
        return ElementAccess(source, forms)

    def _region(
        self, direct: bool, indices: Sequence[Expr], forms: Sequence[Form]
    ) -> AccessedRegion:
        """What an access reaches, limited by the predicate of the block around."""
        limits = self.limits
        if not limits or not direct or all(map(is_plain, forms)):
            return AccessedRegion([(form, form) for form in forms], {})
        written = [self.forms.in_loops(substitute(index, self.bindings)) for index in indices]
        return AccessedRegion([(form, form) for form in map(written_form, written)], limits)

    def _place(self, buffer: Buffer, forms: list[Form]) -> tuple[Buffer, list[Form]]:
        """The buffer under a view, and the indices into it."""
        view = self.views.get(buffer)
        if view is None:
            return buffer, forms
        source, first = view
        skipped = len(first) - len(forms)
        rest = [low.plus(form) for low, form in zip(first[skipped:], forms, strict=True)]
        return source, [*first[:skipped], *rest]


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
