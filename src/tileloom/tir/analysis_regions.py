"""The regions of buffers that blocks and statements read and write."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ..base.errors import InternalError
from ..expr import (
    BinaryOp,
    Call,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Range,
    Var,
    binary,
    const,
    is_int,
    substitute,
)
from ..expr.analyzer import Analyzer
from ..expr.effects import PREFETCH
from ..expr.int_set import EVERYTHING, IntSet, union
from .analysis_intervals import Intervals
from .atomics import atomic_parts, atomic_place, is_atomic
from .nodes import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from .walk import pre_order, stmt_children, stmt_exprs

Regions = tuple[BufferRegion, ...]
_NUMBERS = (IntImm, FloatImm)
_CHOICE = "tir.if_then_else"
_ADDRESS = ("tir.address_of", "tir.tvm_access_ptr")


def infer_block_access(block: Block, buffers: Iterable[Buffer] = ()) -> tuple[Regions, Regions]:
    """The regions that a block reads and writes, in order of first appearance.

    Each is the least box that covers all accesses while the loops inside run, cut off at the
    buffer's shape; an access to one element stays as it is. Inner blocks count by what they
    declare. What the block allocates does not count; what it writes counts as read only if it has
    no `init`.

    Args:
        block: the block; what it declares is not looked at.
        buffers: buffers that the block may reach through their pointers; all of such a buffer
            counts as read and written.
    """
    domains = {axis.var: axis.domain for axis in block.iter_vars}
    found = _Accesses(Intervals(domains), buffers)
    own = set(block.alloc_buffers)
    for match in block.match_buffers:
        found.views[match.buffer] = match.source
    if block.init is not None:
        found.stmt(block.init)
    found.stmt(block.body)
    reads, writes = found.regions(found.reads, own), found.regions(found.writes, own)
    if block.init is not None:
        written = {region.buffer for region in writes}
        reads = tuple(region for region in reads if region.buffer not in written)
    return reads, writes


def access_regions(stmt: Stmt, domains: dict[Var, Range] | None = None) -> tuple[Regions, Regions]:
    """The regions that a statement reads and writes while its loops run.

    Args:
        stmt: any statement.
        domains: ranges of variables defined outside, which stay as they are in the result.
    """
    found = _Accesses(Intervals(domains), ())
    found.stmt(stmt)
    own = set(allocated_buffers(stmt))
    return found.regions(found.reads, own), found.regions(found.writes, own)


def union_regions(
    a: BufferRegion, b: BufferRegion, analyzer: Analyzer | None = None
) -> BufferRegion:
    """The least box of one buffer that covers two."""
    analyzer = analyzer or Analyzer()
    parts = []
    for x, y in zip(a.region, b.region, strict=True):
        if x.min is y.min and x.extent is y.extent:
            parts.append(x)
            continue
        ends = (IntSet(part.min, part.min + part.extent - 1) for part in (x, y))
        low, high = union(analyzer, *ends)
        if low is None or high is None:
            raise InternalError(f"the union of {x} and {y} has no ends")
        parts.append(Range(low, analyzer.simplify(high - low + 1)))
    return BufferRegion(a.buffer, tuple(parts))


Box = list[IntSet]


class _Accesses:
    """Walks a statement and collects a box for each buffer, for reads and for writes."""

    def __init__(self, intervals: Intervals, pointers: Iterable[Buffer]) -> None:
        self.intervals = intervals
        self.reads: dict[Buffer, Box] = {}
        self.writes: dict[Buffer, Box] = {}
        self.views: dict[Buffer, BufferRegion] = {}
        self.pointers = {buffer.data: buffer for buffer in pointers}
        self.lets: dict[Var, Expr] = {}
        self.seen: set[Expr] = set()  # with nothing running and nothing defined

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case For():
                self.loop(stmt.loop_var, stmt.domain, stmt.body)
            case AttrStmt() if stmt.attr_key == "thread_extent" and isinstance(stmt.node, IterVar):
                self.loop(stmt.node.var, Range(const(0, stmt.value.dtype), stmt.value), stmt.body)
            case IfThenElse():
                self.branch(stmt)
            case LetStmt():
                self.expr(stmt.value)
                self.lets[stmt.var] = substitute(stmt.value, self.lets)
                self.stmt(stmt.body)
            case BufferStore():
                self.access(self.writes, stmt.buffer, stmt.indices)
                self.expr(stmt.value)
                for index in stmt.indices:
                    self.expr(index)
            case BlockRealize():
                self.realize(stmt)
            case _:
                for expr in stmt_exprs(stmt):
                    self.expr(expr)
                for child in stmt_children(stmt):
                    self.stmt(child)

    def loop(self, var: Var, domain: Range, body: Stmt) -> None:
        self.expr(domain.min)
        self.expr(domain.extent)
        low, extent = (substitute(e, self.lets) for e in (domain.min, domain.extent))
        self.intervals.run(var, Range(low, extent))
        self.stmt(body)

    def branch(self, stmt: IfThenElse) -> None:
        self.expr(stmt.condition)
        condition = substitute(stmt.condition, self.lets)
        with self.intervals.under(condition):
            self.stmt(stmt.then_case)
        if stmt.else_case is not None:
            with self.intervals.under(_negated(condition)):
                self.stmt(stmt.else_case)

    def realize(self, stmt: BlockRealize) -> None:
        """A block inside counts by what it declares, for the values that it is run for."""
        for value in stmt.iter_values:
            self.expr(value)
        block = stmt.block
        values = {
            axis.var: substitute(value, self.lets)
            for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True)
        }
        with self.intervals.under(substitute(stmt.predicate, self.lets)):
            for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
                for region in regions:
                    low = [substitute(part.min, values) for part in region.region]
                    last = [
                        first
                        if is_int(part.extent, 1)
                        else substitute(part.min + part.extent - 1, values)
                        for first, part in zip(low, region.region, strict=True)
                    ]
                    self.box(table, region.buffer, low, last)

    # ------------------------------------------------------------------ expressions

    def expr(self, expr: Expr) -> None:
        """The loads of an expression, outer ones first."""
        if isinstance(expr, _NUMBERS):
            return
        if not self.intervals.ends and not self.lets:  # then it is the same each time
            if expr in self.seen:
                return
            self.seen.add(expr)
        match expr:
            case BinaryOp():
                pass
            case BufferLoad():
                self.access(self.reads, expr.buffer, expr.indices)
            case Var() if expr in self.pointers:
                self.opaque(self.pointers[expr])
                return
            case Call(_, op, (condition, yes, no)) if op == _CHOICE:
                self.choice(condition, yes, no)
                return
            case Call() if is_atomic(expr):
                self.atomic(expr)
                return
            case Call(_, op, (Call(_, _, (BufferLoad() as place, *_)), *_)) if op == PREFETCH:
                for index in place.indices:
                    self.expr(index)
                return
            case Call(_, op, args) if op in _ADDRESS and isinstance(args[0], BufferLoad):
                self.opaque(args[0].buffer)
                return
            case Let(var, value, body):
                self.expr(value)
                self.lets[var] = substitute(value, self.lets)
                self.expr(body)
                return
        for child in expr.children:
            self.expr(child)

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> None:
        self.expr(condition)
        if not self.intervals.ends:  # there is nothing for the condition to narrow
            self.expr(yes)
            self.expr(no)
            return
        condition = substitute(condition, self.lets)
        with self.intervals.under(condition):
            self.expr(yes)
        with self.intervals.under(_negated(condition)):
            self.expr(no)

    def atomic(self, call: Call) -> None:
        """An element that is read and written."""
        place = atomic_place(call)
        if place.load is not None:
            for table in (self.reads, self.writes):
                self.access(table, place.load.buffer, place.load.indices)
        elif place.data in self.pointers:
            self.opaque(self.pointers[place.data])
        for part in atomic_parts(call):
            self.expr(part)

    # ------------------------------------------------------------------ boxes

    def opaque(self, buffer: Buffer) -> None:
        for table in (self.reads, self.writes):
            table[buffer] = [EVERYTHING] * buffer.ndim

    def access(self, table: dict[Buffer, Box], buffer: Buffer, indices: Sequence[Expr]) -> None:
        self.box(table, buffer, indices, indices)

    def box(
        self, table: dict[Buffer, Box], buffer: Buffer, low: Sequence[Expr], last: Sequence[Expr]
    ) -> None:
        view = self.views.get(buffer)
        if view is not None:
            starts = [part.min for part in view.region]
            lead = len(starts) - buffer.ndim
            low = [*starts[:lead], *(s + i for s, i in zip(starts[lead:], low))]
            last = [*starts[:lead], *(s + i for s, i in zip(starts[lead:], last))]
            self.box(table, view.buffer, low, last)
            return
        new: Box = []
        for first, end in zip(low, last, strict=True):
            a = self.intervals.of(substitute(first, self.lets))
            b = a if end is first else self.intervals.of(substitute(end, self.lets))
            new.append(IntSet(a.min_value, b.max_value))
        known = table.get(buffer)
        if known is not None:
            new = [self.intervals.union(a, b) for a, b in zip(known, new, strict=True)]
        table[buffer] = new

    def regions(self, table: dict[Buffer, Box], without: set[Buffer]) -> Regions:
        changing = {*self.writes, *without}
        return tuple(self.region(b, box, changing) for b, box in table.items() if b not in without)

    def region(self, buffer: Buffer, box: Box, changing: Container[Buffer]) -> BufferRegion:
        """A box as a region, cut off where it leaves the buffer.

        An end that is loaded from a buffer that changes meanwhile says nothing.
        """
        parts = []
        outside = self.intervals.outside
        for (low, high), size in zip(box, buffer.shape, strict=True):
            low = None if low is None or _loads_of(low, changing) else low
            high = None if high is None or _loads_of(high, changing) else high
            if low is not None and low is high:
                parts.append(Range(low, const(1, low.dtype)))
                continue
            kind = size.dtype if low is None else low.dtype
            first, end = const(0, kind), (size - 1).astype(kind)
            low = first if low is None else outside.simplify(binary(Max, low, first))
            high = end if high is None else outside.simplify(binary(Min, high, end))
            parts.append(Range(low, outside.simplify(high - low + 1)))
        return BufferRegion(buffer, tuple(parts))


def _loads_of(expr: Expr, buffers: Container[Buffer]) -> bool:
    """Whether an expression depends on what some buffers hold."""
    if isinstance(expr, BufferLoad) and expr.buffer in buffers:
        return True
    return any(_loads_of(child, buffers) for child in expr.children)


def _negated(condition: Expr) -> Expr:
    return ~condition  # type: ignore[no-any-return]


def allocated_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that blocks inside allocate, in program order."""
    blocks = (node for node in pre_order(stmt) if isinstance(node, Block))
    return tuple(buffer for block in blocks for buffer in block.alloc_buffers)
