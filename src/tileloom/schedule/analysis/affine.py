"""Affine bindings: whether the loops around a block run a full box of its instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...expr import (
    Add,
    Analyzer,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterSumExpr,
    Mul,
    Range,
    Sub,
    Var,
    const,
    detect_iter_map,
    free_vars,
    post_order,
    substitute,
)
from ..sref import StmtSRef
from ..state import ScheduleState
from .tree import is_one, is_zero, loops_above

Term = tuple[Var, int]


def affine_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether the values of a block's iteration variables are an affine map of the loops around.

    Then the loops run every instance in a box of the iteration space, and leave none in it out.
    """
    return _affine_under(state, block, loops_above(block))


def partial_affine_binding(state: ScheduleState, block: StmtSRef, top: StmtSRef) -> bool:
    """Whether the part of the values that the loops from `top` inwards make is an affine map."""
    loops = loops_above(block)
    if top in loops:
        loops = loops[loops.index(top) :]
    return _affine_under(state, block, loops, partial=True)


def masked_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether the values are an affine map of the loops around, whatever the predicate leaves out.

    Then the loops run a box of instances but for those, which may depend on several variables at a
    time.
    """
    return _affine_under(state, block, loops_above(block), masked=True)


def _affine_under(
    state: ScheduleState,
    block: StmtSRef,
    loops: Sequence[StmtSRef],
    partial: bool = False,
    masked: bool = False,
) -> bool:
    realize = state.realize(block)
    predicate = const(True) if masked else realize.predicate
    domains = tuple((s.loop.loop_var, s.loop.min, s.loop.extent) for s in loops)
    # Nothing but these decides it, so a step that moves the block leaves the answer known.
    key = (_affine_under, realize.iter_values, predicate, frozenset(domains), partial)
    known = state.memo.get(key)
    if known is None:
        ranges = {var: Range(low, extent) for var, low, extent in domains}
        known = is_affine(realize.iter_values, ranges, predicate, partial)
        state.memo[key] = known
    return known


def is_affine(
    values: Sequence[Expr], domains: Mapping[Var, Range], predicate: Expr, partial: bool = False
) -> bool:
    """Whether values are an affine map of the variables of the domains where a predicate holds."""
    if partial:
        values = [v for v in values if not free_vars(v).isdisjoint(domains)]
    if is_one(predicate) and _plainly_affine(values, domains):
        return True
    known = where_running(domains.values())
    for wanted in forms_of(values, domains, predicate):
        found = detect_iter_map(*wanted, "surjective", known)
        if found:
            return all(map(_starts_at_one, found.indices))
    return False


def forms_of(
    values: Sequence[Expr], domains: Mapping[Var, Range], predicate: Expr
) -> Iterator[tuple[Sequence[Expr], Mapping[Var, Range], Expr]]:
    """Values, domains and a predicate; then over splits of the loops that values divide.

    Of the quotients of a fused loop that was split elsewhere, some simplify to those of one of the
    two loops: `(i * 4048 + j) // 1704` stands beside `j % 8`. Over `j = j0 * 8 + j1` all are sums.
    """
    yield values, domains, predicate
    splits: dict[Var, Expr] = {}
    refined: dict[Var, Range] = {}
    for var, domain in domains.items():
        split = _split_of(var, domain, values)
        if split is None:
            refined[var] = domain
            continue
        count, base = split
        high, low = (var.with_name(f"{var.name}_{k}") for k in range(2))
        splits[var] = high * const(base, var.dtype) + low
        refined[high] = Range(0, const(count, var.dtype))
        refined[low] = Range(0, const(base, var.dtype))
    if splits:
        analyzer = Analyzer(refined)
        over = [analyzer.simplify(substitute(value, splits)) for value in values]
        yield over, refined, analyzer.simplify(substitute(predicate, splits))


def _split_of(var: Var, domain: Range, values: Sequence[Expr]) -> tuple[int, int] | None:
    """The one number by which values divide a variable, after how often it is in its extent."""
    found = {
        part.b.value
        for value in values
        for part in post_order(value)
        if isinstance(part, (FloorDiv, FloorMod)) and part.a is var and isinstance(part.b, IntImm)
    }
    if len(found) != 1 or not is_zero(domain.min) or not isinstance(domain.extent, IntImm):
        return None
    (base,) = found
    count, rest = divmod(domain.extent.value, base) if base > 1 else (0, 1)
    return None if rest else (count, base)


def where_running(domains: Iterable[Range]) -> Analyzer:
    """What holds where loops run at all: one of `n * 32` iterations has any with `n >= 1` only."""
    known = Analyzer()
    for domain in domains:
        size = domain.extent
        while isinstance(size, Mul) and isinstance(size.b, IntImm) and size.b.value > 0:
            size = size.a
        if isinstance(size, Var):
            known.bind_bound(size, 1, (1 << (size.dtype.bits - 1)) - 1)
    return known


def _starts_at_one(total: IterSumExpr) -> bool:
    """Whether the innermost digit of a sum has scale 1."""
    return not total.args or is_one(total.args[-1].scale)


def _plainly_affine(values: Sequence[Expr], domains: Mapping[Var, Range]) -> bool:
    """A quick yes for sums of loop variables times numbers, each variable used once."""
    used: set[Var] = set()
    for value in values:
        terms = linear_terms(value)
        if terms is None:
            return False
        reach = 1
        for var, scale in sorted(terms, key=lambda term: term[1]):
            domain = domains.get(var)
            if var in used or domain is None or not isinstance(domain.extent, IntImm):
                return False
            used.add(var)
            if domain.extent.value == 1:
                continue
            if scale != reach or not isinstance(domain.min, IntImm):
                return False
            reach *= domain.extent.value
    return True


def linear_terms(value: Expr) -> tuple[Term, ...] | None:
    """The variables of `sum(var * scale) + number` with their scales; None for anything else."""
    form = linear_form(value)
    return None if form is None else form[0]


def linear_form(value: Expr) -> tuple[tuple[Term, ...], int] | None:
    """`sum(var * scale) + number` as terms and number, each variable once; None otherwise.

    >>> i, j = Var("i"), Var("j"); linear_form(i * 4 + j + 3)
    (((i, 4), (j, 1)), 3)
    """
    if isinstance(value, Var):
        return ((value, 1),), 0
    memo = value.memo
    if "schedule.linear" in memo:
        return memo["schedule.linear"]  # type: ignore[no-any-return]
    result = memo["schedule.linear"] = _linear_form(value)
    return result


def _linear_form(value: Expr) -> tuple[tuple[Term, ...], int] | None:
    if isinstance(value, IntImm):
        return (), value.value
    if isinstance(value, (Add, Sub)):
        left, right = linear_form(value.a), linear_form(value.b)
        if left is None or right is None:
            return None
        sign = 1 if isinstance(value, Add) else -1
        terms = dict(left[0])
        for var, scale in right[0]:
            terms[var] = terms.get(var, 0) + sign * scale
        return tuple(t for t in terms.items() if t[1]), left[1] + sign * right[1]
    if isinstance(value, Mul) and isinstance(value.b, IntImm):
        form, factor = linear_form(value.a), value.b.value
        if form is None or factor == 0:
            return None if form is None else ((), 0)
        return tuple((var, scale * factor) for var, scale in form[0]), form[1] * factor
    return None
