"""Where buffers are allocated, and how large they are there.

An allocation moves to the innermost scope around all accesses, outside of the loops of a reduction
that writes it, and keeps the part of the buffer that is accessed inside that scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from ...expr import Expr, FloorDiv, FloorMod, IntImm, Var, free_vars
from ...expr.bounds import BoundAnalyzer, const_int_bound
from ...lower.analysis.linear import number
from ...lower.analysis.regions import Table, interval_of
from ...tir import Buffer
from .forms import difference
from .guards import with_limits
from .program import (
    AccessedRegion,
    AllocationScope,
    BlockAllocation,
    ElementAccess,
    Form,
    GatheredProgram,
    Nest,
)
from .quotients import bound_of, quotient, remainder, sum_of
from .threads import shares

_UNKNOWN = (1 << 63) - 1  # the bound of an extent of which nothing is known
_BoundedRegion = tuple[Sequence[tuple[Form, Form]], BoundAnalyzer]
_Start = tuple[Mapping[Expr, int], int]  # a sum of terms, and a number
_Span = tuple[Mapping[Expr, int], int, int]  # a sum of terms, and two numbers that are added to it


@dataclass(slots=True, eq=False)
class PlacedBuffer:
    """A buffer as it is in memory.

    Attributes:
        buffer: as the program declares it.
        shape: what is kept of it, in elements.
        nest: the loops around its allocation; None for what nobody allocates.
        starts: the index of the first element that is kept, for each axis.
        name: by which buffers are sorted.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    nest: Nest | None = None
    starts: tuple[_Start, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or self.buffer.name

    def indices(self, access: ElementAccess) -> list[Form]:
        """The indices into what is kept."""
        if not self.starts:
            return list(access.indices)
        pairs = zip(access.indices, self.starts, strict=True)
        return [difference(form, terms, offset) for form, (terms, offset) in pairs]


def memory_of(buffer: Buffer, nest: Nest | None = None) -> PlacedBuffer:
    """A buffer that no block allocates."""
    return PlacedBuffer(buffer, shape_of(buffer), nest)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The extents as numbers: the greatest that they can be, one where that is not known."""
    return tuple(map(_extent, buffer.shape))


def _extent(extent: Expr) -> int:
    if isinstance(extent, IntImm):
        return extent.value
    most = const_int_bound(extent)[1]
    return most if 0 <= most < _UNKNOWN else 1


def allocated(program: GatheredProgram) -> dict[Buffer, PlacedBuffer]:
    """The buffers that blocks allocate, where they are needed and no larger."""
    result: dict[Buffer, PlacedBuffer] = {}
    for buffer, found in program.allocations.items():
        scope = found.scope
        if scope is None:
            continue
        if buffer.scope == "global":
            for grid in program.grids:
                scope = scope.common(grid)
        result[buffer] = _compacted(found, scope, program)
    return result


def _compacted(
    found: BlockAllocation, scope: AllocationScope, program: GatheredProgram
) -> PlacedBuffer:
    buffer = found.buffer
    tags = program.tags
    kept = {var for var in scope.variables if not (var in tags and shares(buffer.scope, tags[var]))}
    common = BoundAnalyzer(program.ranges)
    regions = [None if region is None else _with_bounds(region, common) for region in found.regions]
    shape, starts = [], []
    for axis, extent in enumerate(shape_of(buffer)):
        size, start = _axis(axis, extent, regions, kept)
        shape.append(size)
        starts.append(start)
    return PlacedBuffer(buffer, tuple(shape), scope.nest, tuple(starts))


def _with_bounds(region: AccessedRegion, common: BoundAnalyzer) -> _BoundedRegion:
    if not region.limits:
        return region.axes, common
    return region.axes, BoundAnalyzer(with_limits(common.facts, region.limits))


def _axis(
    axis: int,
    extent: int,
    regions: Iterable[_BoundedRegion | None],
    kept: set[Var],
) -> tuple[int, _Start]:
    """How much is accessed of an axis, and from where on."""
    whole: tuple[int, _Start] = extent, ({}, 0)
    hull: _Span | None = None
    for region in regions:
        span = None if region is None else _span(*region[0][axis], kept, region[1])
        if span is None or (hull is not None and span[0] != hull[0]):
            return whole
        hull = span if hull is None else (span[0], min(span[1], hull[1]), max(span[2], hull[2]))
    if hull is None:
        return whole
    terms, low, high = hull
    if high - low + 1 >= extent:
        return whole
    return high - low + 1, (terms, low if terms else max(low, 0))


def _span(low: Form, high: Form, kept: set[Var], bounds: BoundAnalyzer) -> _Span | None:
    """From where to where an index runs, while all variables but those kept do."""
    first = _sum(low, kept, bounds)
    if low is high or first is None:
        return first
    last = _sum(high, kept, bounds)
    return None if last is None or last[0] != first[0] else (first[0], first[1], last[2])


def _sum(form: Form, kept: set[Var], bounds: BoundAnalyzer) -> _Span | None:
    terms: dict[Expr, int] = {}
    low = high = form.const
    for term, factor in form.terms.items():
        if isinstance(term, Var):
            inside = term in kept
        else:
            variables = free_vars(term)
            inside = variables <= kept
            if not inside and not variables.isdisjoint(kept):
                return _mixed(form, kept, bounds)
        if inside:
            terms[term] = factor
            continue
        ends = bounds.of(term)
        low += min(ends[0] * factor, ends[1] * factor)
        high += max(ends[0] * factor, ends[1] * factor)
    return terms, low, high


def _mixed(form: Form, kept: set[Var], bounds: BoundAnalyzer) -> _Span | None:
    """The same, where variables of both kinds stand in one quotient or remainder."""
    apart = _apart(form, kept, bounds)
    if apart is not form:
        return _sum(apart, kept, bounds)
    table = Table()
    for var, (first, last) in bounds.facts.items():
        if isinstance(var, Var) and var not in kept:
            table[var] = number(first), number(last)
    ends = interval_of(form, table)
    if ends is None or ends[0].terms != ends[1].terms:
        return None
    return ends[0].terms, ends[0].const, ends[1].const


def _apart(form: Form, kept: set[Var], bounds: BoundAnalyzer) -> Form:
    """The sum with quotients and remainders, as far as that goes, of kept variables alone: what
    else is in them is too small to matter."""
    for term, factor in form.terms.items():
        if not isinstance(term, FloorDiv | FloorMod) or not isinstance(term.b, IntImm):
            continue
        divisor, total = term.b.value, sum_of(term.a)
        outer = {t: k for t, k in total.terms.items() if free_vars(t) <= kept}
        inner = Form(
            total.dtype, {t: k for t, k in total.terms.items() if t not in outer}, total.const
        )
        step = gcd(divisor, *outer.values())
        low, high = bound_of(inner, bounds)
        if not outer or not inner.terms or low < 0 or high >= step:
            continue
        rest, alone = form.without(term), Form(total.dtype, outer, 0)
        if isinstance(term, FloorDiv):
            return rest.plus(quotient(alone, divisor, bounds), factor)
        return rest.plus(remainder(alone, divisor, bounds).plus(inner), factor)
    return form
