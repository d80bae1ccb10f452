"""Long sums of floats: blocks of additions, with what rounding loses between blocks kept apart.

A running sum of n numbers has an error that grows with n. Here a place that is added to many times
takes only short runs of additions, in a place of their own; their results are added up by the
error-free transformation of Knuth (TwoSum), which also says exactly what rounding took away. So the
error depends on the length of a run, not on n (the scheme is the blocked form of Ogita, Rump and
Oishi's Sum2: Accurate sum and dot product, SIAM J. Sci. Comput. 26, 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from ...base import DType, dtype
from ...base.sums import COMPENSATED
from ...expr import Expr, Min, Ramp, Select, Var, binary, const, free_vars, is_int
from ...expr.intrin import isnan
from ...expr.linear import Linear
from ...tir import (
    SERIAL,
    UNROLLED,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
    make_buffer,
    seq,
    under_names,
)
from ..analysis.linear import constant_difference, linear, number
from ..blocks import allocate
from ..common import fresh_copy, on_body, replace_vars
from .long_sums import SumUpdate, repeated_updates, run_of

#: Loops over so few places are written out, so that these may be registers.
FEW = 16
#: So many places at most that loops inside go over, each added to in turn.
MOST_PLACES = 1 << 14


def compensate_sums(func: PrimFunc) -> PrimFunc:
    """Long sums of floats get an error that does not grow with their length.

    Needs: flat code whose loops are not vectorised any more. Only functions with the attribute
    "compensated_sums" are concerned. A loop annotated with "sum_run" asks for runs of that length.

    Ensures: a place that a loop adds to more than 128 times (`A[i] = A[i] + value`, where the loop
    reads and writes `A` by nothing else) is added to in runs of about 32. The runs are a matter of
    the loops' extents alone. Infinities and NaN come out as they do from a running sum.
    """
    return on_body(func, _Compensate().visit) if func.attrs.get(COMPENSATED) else func


@dataclass(eq=False)
class _Places:
    """The places of one buffer that a loop adds to, and what rounding took from them.

    Attributes:
        indices: a few places that stay the same in the loop; none where there is a stretch.
        start: where a stretch of neighbouring places begins, which loops inside go over.
        runs: by loop, the places that hold its present run.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    start: Linear
    lanes: int
    lost: Buffer
    index_dtype: DType
    runs: dict[For, Buffer] = field(default_factory=dict)

    @staticmethod
    def of(updates: Sequence[SumUpdate]) -> _Places | None:
        """The places of updates of one buffer, if they can be told apart."""
        buffer = updates[0].store.buffer
        if any(update.store.buffer is not buffer for update in updates):
            return None
        indices = tuple(dict.fromkeys(update.index for update in updates))
        if any(isinstance(i, Ramp) and not is_int(i.stride, 1) for i in indices):
            return None
        widths = {index.dtype.lanes for index in indices}
        loops = {loop.loop_var: loop for update in updates for loop in update.loops}
        fixed = all(free_vars(index).isdisjoint(loops) for index in indices)
        guarded = any(update.is_guarded for update in updates)
        if fixed and len(widths) == 1 and _apart(indices):
            lanes = widths.pop()
            if guarded and not all(_is_inside(linear(_first(i)), lanes, buffer) for i in indices):
                return None
            lost = _like(buffer, len(indices) * lanes, "lost")
            return _Places(buffer, indices, number(0), lanes, lost, dtype("int32"))
        found = _stretch(indices, loops)
        if found is None or found[1] > MOST_PLACES:
            return None
        start, count, kind = found
        moving = [v for v in loops if v in free_vars(indices[0])]
        reached = prod(loops[v].static_extent or 0 for v in moving) * indices[0].dtype.lanes
        is_whole = len(indices) == 1 and reached == count and not guarded
        if not is_whole and not _is_inside(start, count, buffer):
            return None
        lanes = next(n for n in (max(widths), 1) if count % n == 0)
        return _Places(buffer, (), start, lanes, _like(buffer, count, "lost"), kind)

    def start_run(self, loop: For) -> Buffer:
        """The places for the runs of a loop."""
        return self.runs.setdefault(loop, _like(self.buffer, self.count, "run"))

    @property
    def count(self) -> int:
        """How many places there are."""
        return (self.lost.static_shape or (0,))[0]

    def place_in_run(self, index: Expr) -> Expr:
        """Where the element at an index of the buffer is in a run."""
        if self.indices:
            return _vector(self.indices.index(index), self.lanes)
        first = _first(index)
        own = linear(first).plus(self.start, -1).to_expr(first.dtype)
        return Ramp(own, index.stride, index.lanes) if isinstance(index, Ramp) else own

    def each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """Statements for all places, given their index in the buffer and in a run."""
        if self.indices:
            pairs = ((i, _vector(k, self.lanes)) for k, i in enumerate(self.indices))
            return seq(*(body(index, own) for index, own in pairs))
        count = self.count // self.lanes
        kind = self.index_dtype
        step = Var("a", kind)
        own = step * const(self.lanes, kind)
        ends = [self.start.to_expr(kind) + own, own]
        if self.lanes > 1:
            ends = [Ramp(end, const(1, kind), self.lanes) for end in ends]
        how = UNROLLED if count <= FEW else SERIAL
        return For(step, const(0, kind), const(count, kind), how, body(*ends))

    def clear(self, memory: Buffer) -> Stmt:
        """Let a run, or what was lost, be zero."""
        zero = const(0.0, memory.dtype.with_lanes(self.lanes))
        return self.each(lambda _, own: BufferStore(memory, zero, (own,)))

    def take(self, run: Buffer) -> Stmt:
        """Add a run to the sum: TwoSum, whose error term goes to what was lost."""

        def body(index: Expr, own: Expr) -> Stmt:
            old, new = BufferLoad(self.buffer, [index]), BufferLoad(run, [own])
            kind = old.dtype
            a, b, total, shift = (Var(name, kind) for name in ("sum", "run", "total", "shift"))
            error = (a - (total - shift)) + (b - shift)
            stores = seq(
                BufferStore(self.lost, BufferLoad(self.lost, [own]) + error, (own,)),
                BufferStore(self.buffer, total, (index,)),
            )
            names = ((a, old), (b, new), (total, a + b), (shift, total - a))
            return under_names(names, stores)

        return self.each(body)

    def give_back(self) -> Stmt:
        """Add what was lost. Where a sum is not finite, that is NaN, and says nothing."""

        def body(index: Expr, own: Expr) -> Stmt:
            lost = Var("lost", self.lost.dtype.with_lanes(self.lanes))
            zero = const(0.0, lost.dtype)
            value = BufferLoad(self.buffer, [index]) + Select(isnan(lost), zero, lost)
            store = BufferStore(self.buffer, value, (index,))
            return LetStmt(lost, BufferLoad(self.lost, [own]), store)

        return self.each(body)


class _Compensate(StmtRewriter):
    """Finds the outermost loops that add to a place, and has those sums made in runs."""

    def __init__(self, done: frozenset[Var] = frozenset()) -> None:
        self.done = done

    def visit_For(self, stmt: For) -> Stmt:
        found = _long_sums(stmt, self.done) if stmt.kind in (SERIAL, UNROLLED) else []
        if not found:
            return super().visit_For(stmt)
        runs = _InRuns(found)
        body = runs.visit(stmt)
        places = [part for part, _ in found]
        memory = [m for part in places for m in (part.lost, *part.runs.values())]
        known = {part.buffer.data for part in places} | {m.data for m in memory}
        body = _Compensate(self.done | known).visit(body)
        result = seq(
            *(part.clear(part.lost) for part in places),
            body,
            *(part.give_back() for part in places),
        )
        for part in reversed(memory):
            result = allocate(part, result)
        if stmt.static_extent is None and set(runs.steps) == {stmt}:  # one run is just the loop
            enough = stmt.extent <= const(runs.steps[stmt], stmt.loop_var.dtype)
            return IfThenElse(enough, fresh_copy(stmt, {}), result)
        return result


class _InRuns(StmtRewriter):
    """Cuts the loops that updates repeat in, and has each run made in a place of its own."""

    def __init__(self, found: Sequence[tuple[_Places, Sequence[SumUpdate]]]) -> None:
        self.runs: dict[BufferStore, tuple[_Places, Buffer, SumUpdate]] = {}
        self.steps: dict[For, int] = {}
        self.ends: dict[For, list[tuple[_Places, Buffer]]] = {}
        for places, updates in found:
            for update in updates:
                loop, steps = run_of(update)
                run = places.start_run(loop)
                self.runs[update.store] = places, run, update
                self.steps[loop] = min(steps, self.steps.get(loop, steps))
                ends = self.ends.setdefault(loop, [])
                if (places, run) not in ends:
                    ends.append((places, run))

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        known = self.runs.get(stmt)
        if known is None:
            return stmt
        places, run, update = known
        at = places.place_in_run(update.index)
        return BufferStore(run, BufferLoad(run, [at]) + update.addend, (at,), span=stmt.span)

    def visit_For(self, stmt: For) -> Stmt:
        loop = super().visit_For(stmt)
        ends = self.ends.get(stmt)
        if ends is None or not isinstance(loop, For):
            return loop
        start = [places.clear(run) for places, run in ends]
        end = [places.take(run) for places, run in ends]
        steps, extent = self.steps[stmt], loop.static_extent
        if extent is not None and extent <= steps:
            return seq(*start, loop, *end)
        kind = loop.loop_var.dtype
        number, inner = Var("run", kind), loop.loop_var.with_name(loop.loop_var.name)
        first, length = number * const(steps, kind), const(steps, kind)
        left = loop.extent - first
        here = length if extent is not None and extent % steps == 0 else binary(Min, length, left)
        body = replace_vars(loop.body, {loop.loop_var: loop.min + (first + inner)})
        own = loop.replace(loop_var=inner, min=const(0, kind), extent=here, body=body)
        count = (loop.extent + const(steps - 1, kind)) // const(steps, kind)
        return For(number, const(0, kind), count, SERIAL, seq(*start, own, *end))


def _long_sums(loop: For, done: Set[Var]) -> list[tuple[_Places, list[SumUpdate]]]:
    """The places that a loop adds to more often than a few times, with those updates."""
    found = []
    for updates in repeated_updates(loop, done).values():
        long = [update for update in updates if update.is_long]
        places = _Places.of(updates) if long else None
        if places is not None:
            found.append((places, long))
    return found


# ---------------------------------------------------------------------------- places


def _apart(indices: Sequence[Expr]) -> bool:
    """Whether places, each a vector of neighbours or one element, are known not to overlap."""
    bases = [(i.base, i.lanes) if isinstance(i, Ramp) else (i, 1) for i in indices]
    if any(i.dtype.lanes != lanes for i, (_, lanes) in zip(indices, bases, strict=True)):
        return False
    for k, (a, lanes) in enumerate(bases):
        for b, others in bases[:k]:
            difference = constant_difference(a, b)
            if difference is None or -lanes < difference < others:
                return False
    return True


def _stretch(indices: Sequence[Expr], loops: Mapping[Var, For]) -> tuple[Linear, int, DType] | None:
    """Where the places begin that loops go over, and how many there are, if that is known."""
    starts, ends = [], []
    for index in indices:
        whole = linear(_first(index))
        terms = whole.terms.items()
        moving = {atom: c for atom, c in terms if not free_vars(atom).isdisjoint(loops)}
        starts.append(whole.plus(Linear(whole.dtype, moving, 0), -1))
        last = index.dtype.lanes
        for atom, coefficient in moving.items():
            loop = loops.get(atom) if isinstance(atom, Var) else None
            extent = None if loop is None or not is_int(loop.min, 0) else loop.static_extent
            if extent is None or coefficient < 0:
                return None
            last += coefficient * (extent - 1)
        ends.append(last)
    lowest = min(starts, key=lambda start: start.const)
    if any(start.terms != lowest.terms for start in starts):
        return None
    count = max(s.const - lowest.const + end for s, end in zip(starts, ends, strict=True))
    return lowest, count, _first(indices[0]).dtype


def _is_inside(start: Linear, count: int, buffer: Buffer) -> bool:
    """Whether a stretch is memory of one thread's own, whatever is added to it."""
    shape = buffer.static_shape
    own = buffer.scope == "local" and shape is not None and not start.terms
    return own and 0 <= start.const <= (shape or (0,))[0] - count


def _first(index: Expr) -> Expr:
    """The first element that an index names."""
    return index.base if isinstance(index, Ramp) else index


def _vector(number: int, lanes: int) -> Expr:
    start = const(number * lanes)
    return Ramp(start, const(1), lanes) if lanes > 1 else start


def _like(buffer: Buffer, count: int, name: str) -> Buffer:
    return make_buffer((count,), buffer.dtype, name, scope="local")
