"""Which part of a buffer an access reaches while some loops run: intervals of index expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from ...base import DType
from ...expr import Call, Expr, FloorDiv, FloorMod, IntImm, Let, Max, Min, Var, free_vars, has_load
from ...expr.analyzer import Analyzer
from ...expr.linear import Linear
from ...expr.linear import atom as one_term
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    While,
    collect,
    stmt_children,
    stmt_exprs,
)
from ..common import ADDRESS_OF, loaded_buffers
from .known_ranges import analyzer_of
from .linear import linear, number
from .threads import is_virtual, shared_over

Interval = tuple[Linear, Linear]  # both ends belong to it
Scope = For | BlockRealize | While | LetStmt


@dataclass(frozen=True, slots=True)
class RegionAccess:
    """One access to a buffer: the statements around it from the root on, and what it touches.

    `low` and `high` are the first and last index of each axis, None where that is not known. An
    access `by_pointer` touches what the block around it declares, and minds the strides.
    """

    buffer: Buffer
    scopes: tuple[Scope, ...]
    is_write: bool
    low: tuple[Expr, ...] | None
    high: tuple[Expr, ...] | None
    order: int
    by_pointer: bool = False


@dataclass(slots=True)
class Accesses:
    """All accesses to the buffers that blocks of a function allocate, in program order."""

    by_buffer: dict[Buffer, list[RegionAccess]] = field(default_factory=dict)
    owners: dict[Buffer, tuple[Scope, ...]] = field(default_factory=dict)
    bounds: Analyzer = field(default_factory=Analyzer)  # knows the ranges of loops and axes
    _by_data: dict[Var, list[Buffer]] = field(default_factory=dict)
    _count: int = 0

    @staticmethod
    def of(stmt: Stmt) -> Accesses:
        """The accesses of a function's body."""
        found = Accesses()
        found._declare(stmt, ())
        if found.owners:
            found._visit(stmt, ())
            found.bounds = _bounds(stmt)
        return found

    def _declare(self, stmt: Stmt, scopes: tuple[Scope, ...]) -> None:
        if isinstance(stmt, Block):
            for buffer in stmt.alloc_buffers:
                self.owners[buffer] = scopes
                self.by_buffer[buffer] = []
                self._by_data.setdefault(buffer.data, []).append(buffer)
        inner = scopes
        if isinstance(stmt, Scope):
            inner = (*scopes, stmt)
        for child in stmt_children(stmt):
            self._declare(child, inner)

    def _visit(self, stmt: Stmt, scopes: tuple[Scope, ...]) -> None:
        if isinstance(stmt, Block):
            for match in stmt.match_buffers:
                self._match(stmt, match, scopes)
        else:
            for expr in stmt_exprs(stmt):
                self._loads(expr, scopes, set())
        if isinstance(stmt, BufferStore):
            self._add(stmt.buffer, scopes, True, stmt.indices, stmt.indices)
        inner = (*scopes, stmt) if isinstance(stmt, Scope) else scopes
        for child in stmt_children(stmt):
            self._visit(child, inner)

    def _match(self, block: Block, match: MatchBufferRegion, scopes: tuple[Scope, ...]) -> None:
        """What is done through a view: what its block declares, or may be anything."""
        buffer, region = match.source.buffer, match.source.region
        lows = tuple(part.min for part in region)
        highs = tuple(part.min + part.extent - 1 for part in region)
        stored = any(store.buffer is match.buffer for store in collect(block.body, BufferStore))
        reads, writes = ({r.buffer for r in part} for part in (block.reads, block.writes))
        undeclared = buffer not in reads | writes
        for is_write in (True, False):
            if undeclared or buffer in (writes if is_write else reads) or (is_write and stored):
                self._add(buffer, scopes, is_write, lows, highs)

    def _loads(self, expr: Expr, scopes: tuple[Scope, ...], seen: set[Expr]) -> None:
        if expr in seen:
            return
        seen.add(expr)
        if isinstance(expr, Var):
            for buffer in self._by_data.get(expr, ()):
                self._pointer(buffer, scopes)
            return
        if not has_load(expr) and free_vars(expr).isdisjoint(self._by_data):
            return
        if isinstance(expr, Call) and expr.op == ADDRESS_OF:
            for buffer in loaded_buffers(expr):
                self._pointer(buffer, scopes)
        if isinstance(expr, BufferLoad):
            inner_let = any(isinstance(part, Let) for part in expr.indices)
            indices = None if inner_let else expr.indices
            self._add(expr.buffer, scopes, False, indices, indices)
        for child in expr.children:
            self._loads(child, scopes, seen)

    def _pointer(self, buffer: Buffer, scopes: tuple[Scope, ...]) -> None:
        """An access through the pointer: of the regions that the innermost block declares."""
        for scope in reversed(scopes):
            if not isinstance(scope, BlockRealize):
                continue
            reads = [r for r in scope.block.reads if r.buffer is buffer]
            writes = [r for r in scope.block.writes if r.buffer is buffer]
            for region in (*writes, *reads):
                lows = tuple(part.min for part in region.region)
                highs = tuple(part.min + part.extent - 1 for part in region.region)
                self._add(buffer, scopes, region in writes, lows, highs, by_pointer=True)
            if reads or writes:
                return
        for is_write in (True, False):
            self._add(buffer, scopes, is_write, None, None, by_pointer=True)

    def _add(
        self,
        buffer: Buffer,
        scopes: tuple[Scope, ...],
        is_write: bool,
        low: tuple[Expr, ...] | None,
        high: tuple[Expr, ...] | None,
        by_pointer: bool = False,
    ) -> None:
        known = self.by_buffer.get(buffer)
        if known is None:
            return
        self._count += 1
        known.append(RegionAccess(buffer, scopes, is_write, low, high, self._count, by_pointer))


def _bounds(stmt: Stmt) -> Analyzer:
    """What is known of all loops, and of the variables of blocks."""
    result = analyzer_of(stmt)
    ends: dict[Var, tuple[int, int]] = {}
    for block in collect(stmt, Block):
        for axis in block.iter_vars:
            low, extent = axis.domain.min, axis.domain.extent
            if isinstance(low, IntImm) and isinstance(extent, IntImm) and extent.value > 0:
                ends[axis.var] = low.value, low.value + extent.value - 1
    result.bind_bounds(ends)
    return result


# ---------------------------------------------------------------------------- intervals


class Table(dict[Var, Interval | None]):
    """What variables take while they run; `bounds` knows constant ranges of the others."""

    bounds: Analyzer | None = None


def own_thread(buffer: Buffer, scope: Scope) -> Var | None:
    """The number of the threads of a loop, if each has its own copy of the buffer."""
    if not isinstance(scope, For) or scope.thread_binding is None:
        return None
    tag = scope.thread_binding.thread_tag
    if shared_over(buffer.scope, tag) or is_virtual(tag):
        return None
    zero = isinstance(scope.min, IntImm) and scope.min.value == 0
    return thread_number(tag, scope.loop_var.dtype) if zero else None


def _shares(buffer: Buffer, scope: Scope) -> bool:
    """Whether a loop's threads have the buffer in common."""
    if not isinstance(scope, For) or scope.thread_binding is None:
        return False
    return shared_over(buffer.scope, scope.thread_binding.thread_tag)


def relaxed(
    scopes: Iterable[Scope],
    numbers: Mapping[Scope, Var] | None = None,
    bounds: Analyzer | None = None,
) -> Table:
    """The ranges, over all iterations, of what these nested scopes define; None where unknown.

    The variable of a loop in `numbers` stays one value, the number given.
    """
    table = Table()
    table.bounds = bounds
    for scope in scopes:
        if numbers and scope in numbers and isinstance(scope, For):
            own = one_term(numbers[scope])
            table[scope.loop_var] = own, own
        elif isinstance(scope, For) and _has_constant_ends(scope):
            first, count = scope.min.value, scope.extent.value  # type: ignore[attr-defined]
            table[scope.loop_var] = number(first), number(first + count - 1)
        elif isinstance(scope, For):
            low, high = interval(scope.min, table), interval(scope.min + scope.extent - 1, table)
            table[scope.loop_var] = None if low is None or high is None else (low[0], high[1])
        elif isinstance(scope, LetStmt):
            table[scope.var] = interval(scope.value, table)
        elif isinstance(scope, BlockRealize):
            for axis, value in zip(scope.block.iter_vars, scope.iter_values, strict=True):
                table[axis.var] = interval(value, table)
    return table


def _has_constant_ends(loop: For) -> bool:
    whole = isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
    return whole and loop.min.dtype.code == "int"


def interval(expr: Expr, table: Table) -> Interval | None:
    """The smallest and largest value of `expr` while the variables of the table run."""
    if expr.dtype.lanes != 1:
        return None
    if expr.dtype.code != "int":
        return None if _moves(expr, table) else (linear(expr), linear(expr))
    return interval_of(linear(expr), table)


def interval_of(value: Linear, table: Table) -> Interval | None:
    """`interval` of a sum."""
    low = high = number(value.const)
    for atom, coefficient in value.terms.items():
        ends = _atom(atom, table)
        if ends is None:
            return None
        first, last = ends if coefficient > 0 else ends[::-1]
        low, high = low.plus(first, coefficient), high.plus(last, coefficient)
    return low, high


def _moves(expr: Expr, table: Table) -> bool:
    return has_load(expr) or not free_vars(expr).isdisjoint(table)


def _atom(atom: Expr, table: Table) -> Interval | None:
    if isinstance(atom, Var) and atom in table:
        return table[atom]
    if not _moves(atom, table):
        same = one_term(atom)
        return same, same
    match atom:
        case FloorDiv(a, IntImm() as divisor) if divisor.value > 0:
            ends = interval(a, table)
            if ends is None:
                return None
            return over(ends[0], divisor, table), over(ends[1], divisor, table)
        case FloorMod(a, IntImm() as divisor) if divisor.value > 0:
            return _remainder(a, divisor, table)
        case Min(a, b) | Max(a, b):
            return _extreme(atom, interval(a, table), interval(b, table))
        case _:
            return None


def over(value: Linear, divisor: IntImm, table: Table) -> Linear:
    """`value // divisor`, in the type of the divisor."""
    result = linear(FloorDiv(value.to_expr(divisor.dtype), divisor))
    if result.terms and table.bounds is not None:
        low, high = table.bounds.const_int_bound(result.to_expr(divisor.dtype))
        if low == high:
            return number(low)
    return result


def _remainder(a: Expr, divisor: IntImm, table: Table) -> Interval:
    ends = interval(a, table)
    if ends is not None:
        first, last = over(ends[0], divisor, table), over(ends[1], divisor, table)
        if first.same_as(last):
            return ends[0].plus(first, -divisor.value), ends[1].plus(last, -divisor.value)
    return number(0), number(divisor.value - 1)


def _extreme(atom: Min | Max, a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (_pick(atom, a[0], b[0]), _pick(atom, a[1], b[1]))


def _pick(atom: Min | Max, a: Linear, b: Linear) -> Linear:
    difference = a.plus(b, -1)
    if not difference.terms:
        return a if (difference.const <= 0) == isinstance(atom, Min) else b
    return one_term(type(atom)(a.to_expr(atom.dtype), b.to_expr(atom.dtype)))


@cache
def thread_number(tag: str, kind: DType) -> Var:
    """The variable that stands for a thread's number, whichever loop is bound to it."""
    return Var(tag, kind)


def box(access: RegionAccess, depth: int, bounds: Analyzer | None = None) -> list[Interval | None]:
    """What an access touches of each axis while the scopes from `depth` on run.

    Threads that have each their own copy of the buffer do not run: the box is that of one thread,
    in terms of its `thread_number`. Threads that share it run wherever their loops stand: what is
    allocated inside the loops of a block's threads is still one for the block.
    """
    if access.low is None or access.high is None:
        return [None] * access.buffer.ndim
    scopes = access.scopes[depth:]
    numbers = {scope: own_thread(access.buffer, scope) for scope in scopes}
    own = {loop: var for loop, var in numbers.items() if var is not None}
    around = (scope for scope in access.scopes[:depth] if _shares(access.buffer, scope))
    table = relaxed((*around, *scopes), own, bounds)
    return [_span(low, high, table) for low, high in zip(access.low, access.high, strict=True)]


def _span(low: Expr, high: Expr, table: Table) -> Interval | None:
    first = interval(low, table)
    last = first if high is low else interval(high, table)
    return None if first is None or last is None else (first[0], last[1])


def union(a: Interval | None, b: Interval | None) -> Interval | None:
    """The interval over both, if their ends compare."""
    if a is None or b is None:
        return None
    low, high = b[0].plus(a[0], -1), b[1].plus(a[1], -1)
    if low.terms or high.terms:
        return None
    return (b[0] if low.const < 0 else a[0]), (b[1] if high.const > 0 else a[1])


def hulls(
    accesses: Iterable[RegionAccess], depth: int, bounds: Analyzer | None = None
) -> list[Interval | None]:
    """The union of what the accesses touch, axis by axis."""
    parts: Iterator[list[Interval | None]] = (box(access, depth, bounds) for access in accesses)
    result = next(parts)
    for part in parts:
        result = [union(a, b) for a, b in zip(result, part, strict=True)]
    return result
