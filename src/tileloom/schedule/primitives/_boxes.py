"""Boxes that blocks touch, quickly where all indices are sums of variables times numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...expr import (
    REDUCE,
    Add,
    Analyzer,
    And,
    Expr,
    IntImm,
    IntSet,
    Mul,
    Range,
    Var,
    binary,
    conjunction,
    const,
    free_vars,
    free_vars_of,
    post_order,
)
from ...tir import BlockRealize, BufferLoad, BufferRegion
from ..analysis.affine import linear_form, where_running
from ..analysis.cover import left_inside, quickly_covered
from ..analysis.regions import Box, conjuncts, lower_bound, ranges_at, upper_bound
from ..analysis.tree import domains_above, is_one
from ..sref import StmtSRef
from ..state import ScheduleState

TRUE: Expr = const(True)


def outer_condition(realize: BlockRealize, outer: Mapping[Var, Range]) -> Expr:
    """The parts of what a block runs under that only loops and variables outside decide."""
    parts = conjuncts(realize.predicate)
    return conjunction(part for part in parts if free_vars(part) <= outer.keys())


def accessed_box(
    region: Sequence[Range],
    domains: Mapping[Var, Range],
    predicate: Expr,
    outer: Mapping[Var, Range],
) -> Box:
    """As `upper_bound`: a box that holds all that is touched while variables run."""
    if is_one(predicate):
        quick = [_quick(part, domains) for part in region]
        found = [interval for interval in quick if interval is not None]
        if len(found) == len(quick):
            return found
    return upper_bound(region, domains, predicate, outer)


def _quick(part: Range, domains: Mapping[Var, Range]) -> IntSet | None:
    form = linear_form(part.min)
    if form is None or not isinstance(part.extent, IntImm):
        return None
    terms, low = form
    high = low + part.extent.value - 1
    rest: Expr | None = None
    kind = part.min.dtype
    for var, scale in terms:
        domain = domains.get(var)
        if domain is None:
            term = var if scale == 1 else binary(Mul, var, IntImm(var.dtype, scale))
            rest = term if rest is None else binary(Add, rest, term)
            continue
        if not (isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm)):
            return None
        first = domain.min.value * scale
        last = first + (domain.extent.value - 1) * scale
        low, high = low + min(first, last), high + max(first, last)
    ends = [IntImm(kind, value) for value in (low, high)]
    if rest is None:
        return IntSet(ends[0], ends[0] if low == high else ends[1])
    start = binary(Add, rest, ends[0])
    return IntSet(start, start if low == high else binary(Add, rest, ends[1]))


def first_load(box: Sequence[IntSet]) -> BufferLoad | None:
    """An element of a buffer that an end of the box depends on, if one does."""
    for end in (end for interval in box for end in interval):
        if end is None or isinstance(end, (IntImm, Var)) or linear_form(end) is not None:
            continue
        for node in post_order(end):
            if isinstance(node, BufferLoad):
                return node
    return None


def covers(box: Box | None, region: Sequence[Range], analyzer: Analyzer) -> bool:
    """Whether a box holds a region."""
    return box is not None and all(
        low is not None
        and high is not None
        and analyzer.can_prove_less_equal(low, part.min)
        and analyzer.can_prove_less_equal(part.min + part.extent - 1, high)
        for (low, high), part in zip(box, region, strict=True)
    )


def made_whole(
    state: ScheduleState,
    block: StmtSRef,
    region: BufferRegion,
    domains: Mapping[Var, Range],
    outer: Mapping[Var, Range],
    given: Expr = TRUE,
) -> Box | None:
    """The box that a block touches while loops run; None where it touches only some of a box.

    What conditions leave out beyond the buffer does not count, nor where another one, which is
    given, does not hold.
    """
    parts, condition = _made_under(state.realize(block), region, domains, outer, given)
    fixed = {var: domain for var, domain in outer.items() if var not in domains}
    if quickly_covered(parts, domains, condition, parts, domains):
        return accessed_box(parts, domains, const(True), fixed)
    found = lower_bound(parts, domains, condition, Analyzer(fixed))
    if found is None or not is_one(condition):
        return found
    analyzer, most = Analyzer(fixed), accessed_box(parts, domains, condition, fixed)
    same = all(
        x is y or (x is not None and y is not None and analyzer.can_prove_equal(x, y))
        for a, b in zip(found, most, strict=True)
        for x, y in zip(a, b, strict=True)
    )
    return most if same else None


def _made_under(
    realize: BlockRealize,
    region: BufferRegion,
    domains: Mapping[Var, Range],
    outer: Mapping[Var, Range],
    given: Expr,
) -> tuple[list[Range], Expr]:
    """What a block touches in terms of loops, and the condition under which.

    Conditions that leave out nothing but what is beyond the buffer are left out themselves, and so
    are those on loops that do not place but run, or reduce: what they leave out, others make.
    """
    parts = ranges_at(realize, region.region)
    placing = free_vars_of(part.min for part in parts)
    condition, known = TRUE, set(conjuncts(given))
    for part in conjuncts(realize.predicate):
        if part in known:
            continue
        used = free_vars(part)
        if not used.isdisjoint(placing) or not used <= domains.keys() | realize.loops_of(REDUCE):
            condition = binary(And, condition, part)
    if not is_one(condition):
        condition = left_inside(condition, parts, region.buffer, {**outer, **domains})
    return parts, condition


def runs_all(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether the loops around a block are known to run all its instances."""
    realize = state.realize(block)
    domains = domains_above(block)
    points = [Range(value, const(1, value.dtype)) for value in realize.iter_values]
    own = [axis.domain for axis in block.block.iter_vars]
    if is_one(realize.predicate) and _are_loops(realize.iter_values, domains, own):
        return True
    if quickly_covered(points, domains, realize.predicate, own, {}):
        return True
    analyzer = where_running(own)  # otherwise there are no instances
    return covers(lower_bound(points, domains, realize.predicate, analyzer), own, analyzer)


def _are_loops(values: Sequence[Expr], domains: Mapping[Var, Range], own: Sequence[Range]) -> bool:
    """Whether each value is a loop of its own, over the very range that is asked for."""
    loops = [domains.get(value) for value in values if isinstance(value, Var)]
    return len(set(values)) == len(loops) == len(own) and all(
        loop is not None and loop.min is asked.min and loop.extent is asked.extent
        for loop, asked in zip(loops, own, strict=True)
    )
