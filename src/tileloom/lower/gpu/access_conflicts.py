"""Whether two accesses to shared memory by different threads can conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from ...expr import Expr, FloorMod, IntImm, Range, Var, free_vars, has_load
from ...expr.analyzer import Analyzer
from ...expr.linear import Linear
from ..analysis.linear import constant_difference, linear
from ..analysis.thread_places import Places, Threads, differences
from ..analysis.threads import is_uniform
from .shared_accesses import SharedAccess

_UNBOUNDED = (1 << 31) - 1  # the span of what nothing is known of
_BUDGET = 1 << 24  # elements that may be counted out for one kernel
_GIVEN = 64  # values of common loops that are tried one after the other
_SHIFTS = 256  # differences of two indices that are tried one after the other


@dataclass(frozen=True, slots=True)
class _IndexForm:
    """An index: what is the same for all, and factors of what is not.

    `moving` are (factor, count) of inner loops, `loose` (factor, least, largest) of other terms.
    """

    fixed: Linear
    threads: dict[Var, int]
    moving: tuple[tuple[int, int], ...]
    loose: tuple[tuple[int, int, int], ...]


class ConflictAnalysis:
    """Whether two accesses of two threads can be to one element.

    First by the form of the indices, which asks nothing of their ranges; then by counting out who
    touches what, where threads and loops have constant extents.

    Args:
        threads: the thread variables of a block and how many values each has.
        analyzer: knows the bounds of all variables.
        divergent: variables that threads may have different values of.
    """

    def __init__(self, threads: Mapping[Var, Expr], analyzer: Analyzer, divergent: set[Var]):
        self.threads = threads
        self.analyzer = analyzer
        self.divergent = divergent
        self.batch = Threads(threads)
        self.budget = _BUDGET
        self.known: dict[object, Places | None] = {}

    def may_conflict(
        self, a: SharedAccess, b: SharedAccess, common: Mapping[Var, Range | None]
    ) -> bool:
        """Whether `b`, after `a`, may be of the same element and another thread.

        Variables of `common` have the same value at both.
        """
        if b.arrives:
            return False  # an arrival has been in order since the copy began
        if a.atomic and b.atomic:
            return False
        if a.index is None or b.index is None or a.bits != b.bits:
            return True
        first, second = self._form(a, common), self._form(b, common)
        if first is not None and second is not None:
            same = first.fixed.same_as(second.fixed) and not (a.together or b.together)
            if self._tell_threads(first, second) if same else self._apart(first, second):
                return False
        return self._counted(a, b, common)

    # ------------------------------------------------------------------ by form

    def _apart(self, a: _IndexForm, b: _IndexForm) -> bool:
        """Whether they never conflict: constants keep them apart, or `x % n`, `(x + 1) % n`."""
        difference = a.fixed.plus(b.fixed, -1)
        low, high = difference.const, difference.const
        for part, sign in ((a, 1), (b, -1)):
            for factor, least, most in self._reaches(part):
                ends = sign * factor * least, sign * factor * most
                low, high = low + min(ends), high + max(ends)
        if not difference.terms:
            return low > 0 or high < 0
        step = _version_step(difference)
        return step is not None and max(-low, high) < step

    def _reaches(self, part: _IndexForm) -> Iterable[tuple[int, int, int]]:
        """What moves an index: a factor, and the least and largest number it stands before."""
        yield from ((factor, 0, count - 1) for factor, count in part.moving)
        yield from part.loose
        for var, factor in part.threads.items():
            yield factor, *self.analyzer.const_int_bound(var)

    def _form(self, access: SharedAccess, common: Mapping[Var, Range | None]) -> _IndexForm | None:
        """An index as a fixed part, thread numbers and loop variables, each with its factor."""
        if access.index is None:
            return None
        value = linear(access.index)
        first = value.const
        moving: list[tuple[int, int]] = []
        threads: dict[Var, int] = {}
        fixed: dict[Expr, int] = {}
        loose: list[tuple[int, int, int]] = []
        for atom, factor in value.terms.items():
            if atom in self.threads:
                threads[atom] = factor  # type: ignore[index]
            elif isinstance(atom, Var) and atom in access.ranges and atom not in common:
                run = _run(access.ranges[atom])
                if run is None:
                    return None
                first += factor * run[0]
                moving.append((factor, run[1]))
            elif self._same_for_all(atom, access, common):
                fixed[atom] = factor
            else:
                low, high = self.analyzer.const_int_bound(atom)
                if has_load(atom) or high - low >= _UNBOUNDED:
                    return None
                loose.append((factor, low, high))
        return _IndexForm(Linear(value.dtype, fixed, first), threads, tuple(moving), tuple(loose))

    def _same_for_all(
        self, atom: Expr, access: SharedAccess, common: Mapping[Var, Range | None]
    ) -> bool:
        """Whether it has one value at both accesses: it depends on loops around both, or none."""
        inner = free_vars(atom) & (access.ranges.keys() - common.keys())
        return not inner and not has_load(atom) and is_uniform(atom, self.divergent)

    def _tell_threads(self, a: _IndexForm, b: _IndexForm) -> bool:
        """Whether equal indices mean equal threads: the factors are places of a number system."""
        if a.threads != b.threads or a.loose or b.loose:
            return False
        factors: dict[int, int] = {}
        for factor, count in (*a.moving, *b.moving):
            factors[factor] = max(factors.get(factor, 1), count)
        for var, extent in self.threads.items():
            if isinstance(extent, IntImm) and extent.value == 1:
                continue
            factor = a.threads.get(var, 0)
            if factor in factors or not isinstance(extent, IntImm) or factor <= 0:
                return False
            factors[factor] = extent.value
        reach = 0  # the largest number that the lower places give
        for factor in sorted(factors):
            if factor <= reach:
                return False
            reach += factor * (factors[factor] - 1)
        return True

    # ------------------------------------------------------------------ by counting

    def _counted(
        self, a: SharedAccess, b: SharedAccess, common: Mapping[Var, Range | None]
    ) -> bool:
        """Whether a count of who touches what finds a meeting, or cannot be made."""
        first, second = self._parts(a, common), self._parts(b, common)
        if first is None or second is None:
            return True
        ranges = {v: run for v, r in common.items() if (run := _run(r)) is not None}
        shifts = differences(first[0].plus(second[0], -1), ranges)
        given = {v: ranges.get(v) for v in (*first[2], *second[2])}
        runs = {v: run for v, run in given.items() if run is not None}
        count = 1
        for _, length in runs.values():
            count *= length
        if shifts is None or len(shifts) > _SHIFTS or len(runs) < len(given) or count > _GIVEN:
            return True
        for at in product(*(range(low, low + count) for low, count in runs.values())):
            values = dict(zip(runs, at, strict=True))
            x = self._places(a, first, common, values)
            y = self._places(b, second, common, values)
            if x is None or y is None or any(x.conflicts(y, shift) for shift in shifts):
                return True
        return False

    def _parts(
        self, access: SharedAccess, common: Mapping[Var, Range | None]
    ) -> tuple[Linear, Linear, frozenset[Var]] | None:
        """The index as what is the same for all and what is not, and common loops in that."""
        if access.index is None:
            return None
        value = linear(access.index)
        fixed: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        mixed: frozenset[Var] = frozenset()
        for atom, factor in value.terms.items():
            if has_load(atom):
                return None
            if self._same_for_all(atom, access, common):
                fixed[atom] = factor
                continue
            rest[atom] = factor
            others = free_vars(atom) - self.threads.keys()
            mixed |= others - (access.ranges.keys() - common.keys())
        kind = value.dtype
        return Linear(kind, fixed, 0), Linear(kind, rest, value.const), mixed

    def _places(
        self,
        access: SharedAccess,
        parts: tuple[Linear, Linear, frozenset[Var]],
        common: Mapping[Var, Range | None],
        given: Mapping[Var, int],
    ) -> Places | None:
        _, rest, mixed = parts
        own = {v: n for v, n in given.items() if v in mixed}
        loops: dict[Var, tuple[int, int]] = {}
        for atom in rest.terms:
            for var in free_vars(atom) - self.threads.keys() - mixed:
                run = _run(access.ranges.get(var))
                if run is None:
                    return None
                loops[var] = run
        key = (
            access.index,
            access.together,
            access.conditions,
            tuple(loops.items()),
            tuple(own.items()),
        )
        if key not in self.known:
            self.known[key] = self._count(rest, loops, access, own)
        return self.known[key]

    def _count(
        self,
        index: Linear,
        loops: Mapping[Var, tuple[int, int]],
        access: SharedAccess,
        given: Mapping[Var, int],
    ) -> Places | None:
        size = self.batch.count
        for _, count in loops.values():
            size *= count
        self.budget -= size
        if self.budget < 0:
            return None  # a barrier too many is better than a compiler that is never done
        found = self.batch.places(index, loops, access.conditions, given)
        return found.by_many() if found is not None and access.together else found


def _run(domain: Range | None) -> tuple[int, int] | None:
    """First value and number of values of a constant range."""
    if domain is None or not isinstance(domain.extent, IntImm):
        return None
    return (domain.min.value, domain.extent.value) if isinstance(domain.min, IntImm) else None


def _version_step(difference: Linear) -> int | None:
    """How far apart two versions are, for `step * (x % n) - step * (y % n)` that never is zero."""
    if len(difference.terms) != 2:
        return None
    (first, size), (second, other) = difference.terms.items()
    if not isinstance(first, FloorMod) or not isinstance(second, FloorMod) or size != -other:
        return None
    apart, count = constant_difference(first.a, second.a), first.b
    if count is not second.b or not isinstance(count, IntImm) or apart is None:
        return None
    return abs(size) if apart % count.value else None
