"""The order of a reduction: what starts its results comes first, and no step is taken twice.

The `T.init()` of a block runs with the instances whose reduction variables are all at their start.
Of all instances for one result these must come first, so not every order of loops is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import combinations

from ...expr import (
    GE,
    GT,
    LE,
    LT,
    REDUCE,
    Add,
    Analyzer,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IntSet,
    Mul,
    Sub,
    Var,
    as_expr,
    const,
    detect_iter_map,
    free_vars,
    free_vars_of,
    substitute,
)
from ...expr.extents import limits_of_variables
from ...tir import BlockRealize, For
from ..errors import name_of
from .affine import forms_of, linear_form, where_running
from .regions import Box
from .tree import is_one

# What a loop does to the results of a reduction.
_PLACES, _REDUCES, _REPEATS, _MIXES = "places", "reduces", "repeats", "both places and reduces"


def repetition_fault(
    realize: BlockRealize, outside: Sequence[For], inside: Sequence[For]
) -> str | None:
    """Why the inner loops may run an instance of a block twice while the outer stand; else None."""
    values = realize.iter_values
    used = free_vars_of(values)
    long = [loop for loop in inside if not is_one(loop.extent)]
    for loop in long:
        if loop.loop_var not in used:
            return f"{name_of(loop)} only repeats {name_of(realize.block)}"
    if not long or _is_injective(values, inside) or _is_injective_in_a_turn(values, long):
        return None
    outer = [loop for loop in outside if loop.loop_var in used]
    if _is_injective(values, [*outer, *inside], realize.predicate):
        return None
    if _is_injective_as_a_number(realize, [*outer, *inside]):
        return None
    names = " and ".join(repr(loop.loop_var.name) for loop in long)
    word = "the loops" if len(long) > 1 else "the loop"
    return f"{word} {names} may run the same instances of {name_of(realize.block)} again"


def _is_injective(
    values: Sequence[Expr], loops: Sequence[For], predicate: Expr | bool = True
) -> bool:
    if rows_apart([IntSet(value, value) for value in values], loops):
        return True
    domains = {loop.loop_var: loop.domain for loop in loops}
    known = where_running(domains.values())
    wanted = as_expr(predicate)
    # Conditions that are not understood leave out instances, which makes no two of them one.
    conditions = [wanted] if is_one(wanted) else [wanted, const(True)]
    return any(
        detect_iter_map(*form, "bijective", known)
        for condition in conditions
        for form in forms_of(values, domains, condition)
    )


def _is_injective_as_a_number(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether the values, as the places of one number, tell all iterations apart.

    Places of a loop that was fused and split elsewhere are no affine map; their number is one.
    """
    analyzer = Analyzer({loop.loop_var: loop.domain for loop in loops})
    number: Expr | None = None
    count = 1
    places = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    for axis, value in reversed([*places]):
        extent = axis.domain.extent
        if not isinstance(extent, IntImm) or (number is not None and number.dtype != value.dtype):
            return False
        number = value if number is None else _with_place(value, number, count, analyzer)
        count *= extent.value
    if number is None or count >= 1 << (number.dtype.bits - 1):
        return False
    value = analyzer.simplify(number)
    return rows_apart([IntSet(value, value)], loops)


def _with_place(place: Expr, below: Expr, size: int, known: Analyzer) -> Expr:
    """A number below `size` with another place in front.

    The two halves of a division belong together, also where one was simplified without the other:
    `a % 49 * 64 + b`, divided by 56, and the rest of `a * 64 + b` by 56, which is the same.
    """
    if isinstance(place, FloorDiv) and isinstance(below, FloorMod):
        divisors = [part.value for part in (place.b, below.b) if isinstance(part, IntImm)]
        same = divisors == [size, size]
        if same and known.can_prove_equal((below.a - place.a) % size, 0):
            return place.a
    number: Expr = place * size + below
    return number


def _is_injective_in_a_turn(values: Sequence[Expr], loops: Sequence[For]) -> bool:
    """Whether a value is the rest of a division that tells iterations apart, whatever is outside.

    `(n + i) % 32` does, wherever it begins, for not more than 32 iterations of `i`.
    """
    variables = {loop.loop_var for loop in loops}
    for value in values:
        match _moving_terms(value, variables):
            case [FloorMod(a=total, b=IntImm(value=turn))]:
                first, *rest = _moving_terms(total, variables)
                if _fit_in(sum(rest, first), loops, turn):
                    return True
    return False


def _fit_in(total: Expr, loops: Sequence[For], turn: int) -> bool:
    """Whether a sum of loops is different in all iterations, and stays below a number."""
    form = linear_form(total)
    extents = {loop.loop_var: loop.extent for loop in loops}
    if form is None or not rows_apart([IntSet(total, total)], loops):
        return False
    sizes = [(scale, extents.get(var)) for var, scale in form[0]]
    return sum(k * (e.value - 1) for k, e in sizes if isinstance(e, IntImm)) < turn


def _moving_terms(value: Expr, variables: Set[Var]) -> list[Expr]:
    """The terms of a sum that use some of the variables."""
    if free_vars(value).isdisjoint(variables):
        return []
    if isinstance(value, Add):
        return [*_moving_terms(value.a, variables), *_moving_terms(value.b, variables)]
    return [value]


def rows_apart(box: Box, loops: Sequence[For]) -> bool:
    """Whether boxes of different iterations of the loops surely have no element in common.

    They have none where each loop is in one axis, with a step beyond what is below it. Loops of one
    iteration do not count.
    """
    extents = {loop.loop_var: loop.extent for loop in loops if not is_one(loop.extent)}
    seen: set[Var] = set()
    for low, high in box:
        first = None if low is None else linear_form(low)
        last = first if high is low else None if high is None else linear_form(high)
        if first is None or last is None or set(first[0]) != set(last[0]):
            return False
        reach = last[1] - first[1]  # how far it is to the end of one box
        for var, scale in sorted((term for term in first[0] if term[0] in extents), key=_by_scale):
            extent = extents[var]
            if var in seen or not isinstance(extent, IntImm) or scale <= reach:
                return False
            seen.add(var)
            reach += scale * (extent.value - 1)
    return seen == extents.keys()


def _by_scale(term: tuple[Var, int]) -> int:
    return term[1]


def reordering_fault(
    realize: BlockRealize,
    outside: Sequence[For],
    before: Sequence[For],
    after: Sequence[For],
    below: Sequence[For],
) -> tuple[str, For, For] | None:
    """Why a reduction needs two loops in their order, and these; None if another order will do.

    Loops that only place results may go anywhere, as long as each result is in one of their
    iterations alone. Of the others only those that only reduce may change places.

    Args:
        realize: what runs the block, which has an init.
        outside: the loops around those that change places.
        before: these loops, as they are.
        after: the same in the order that is asked for.
        below: the loops inside of them.
    """
    swapped = list(_swapped(before, after))
    roles = {loop: _role(realize, loop) for loop in before}
    crossing = any((roles[a] == _PLACES) != (roles[b] == _PLACES) for a, b in swapped)
    if crossing and repetition_fault(realize, outside, [*before, *below]) is not None:
        roles = {a: _REPEATS if role == _PLACES else role for a, role in roles.items()}
    for a, b in swapped:
        pair = {roles[a], roles[b]}
        if _PLACES in pair or pair == {_REPEATS}:
            continue
        if pair == {_REDUCES} and _starts_at_least(realize.predicate, (a.loop_var, b.loop_var)):
            continue
        special = a if roles[a] != _REDUCES else b
        return f"{name_of(special)} {roles[special]}", a, b
    return None


def start_fault(realize: BlockRealize, loops: Sequence[For]) -> str | None:
    """Why what starts a result might not come first where loops run a reduction; else None.

    Args:
        loops: all loops around, outermost first; they run each instance once.
    """
    loops = [loop for loop in loops if not is_one(loop.extent)]
    roles = {loop: _role(realize, loop) for loop in loops}
    mixed = [loop for loop in loops if roles[loop] == _MIXES]
    reducing = tuple(loop.loop_var for loop in loops if roles[loop] != _PLACES)
    late = _late_start(realize, [loop for loop in loops if roles[loop] == _REDUCES])
    if late is not None:
        return late
    if not mixed:
        if _starts_at_least(realize.predicate, reducing):
            return None
        return f"the condition {realize.predicate} may leave out the first iterations"
    variables = {loop.loop_var for loop in mixed}
    parts = {part for value in realize.iter_values for part in _linear_parts(value, variables)}
    if len(parts) == 1 and _counts_up(parts.pop(), [s for s in loops if roles[s] != _PLACES]):
        return None
    names = " and ".join(repr(loop.loop_var.name) for loop in mixed)
    return f"{names} place results and reduce, in an order that may not begin with the start"


def _late_start(realize: BlockRealize, loops: Sequence[For]) -> str | None:
    """Which value is not least in the first iteration of loops that only reduce; None if none."""
    known = Analyzer({loop.loop_var: loop.domain for loop in loops})
    first: dict[Var, Expr] = {v.loop_var: v.min.astype(v.loop_var.dtype) for v in loops}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type != REDUCE or free_vars(value).isdisjoint(first):
            continue
        start = substitute(value, first)
        if not known.can_prove_less_equal(start, value):
            return f"{axis.var.name!r} does not begin with its start but at {start}"
    return None


def _linear_parts(value: Expr, variables: set[Var]) -> Iterator[Expr]:
    """The largest sums of variables times numbers in an expression that use some variables."""
    if free_vars(value).isdisjoint(variables):
        return
    if linear_form(value) is not None:
        yield value
        return
    for child in value.children:
        yield from _linear_parts(child, variables)


def _counts_up(total: Expr, loops: Sequence[For]) -> bool:
    """Whether a sum grows while loops run, outermost first."""
    form = linear_form(total)
    scales = dict(form[0]) if form is not None else {}
    reach = 0
    for loop in reversed(loops):
        scale = scales.get(loop.loop_var)
        if scale is None:
            continue
        if not isinstance(loop.extent, IntImm) or scale <= reach:
            return False
        reach += scale * (loop.extent.value - 1)
    return True


def _swapped(before: Sequence[For], after: Sequence[For]) -> Iterator[tuple[For, For]]:
    place = {loop: i for i, loop in enumerate(after)}
    for a, b in combinations(before, 2):
        if place[a] > place[b] and not is_one(a.extent) and not is_one(b.extent):
            yield a, b


def _role(realize: BlockRealize, loop: For) -> str:
    places = reduces = False
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if loop.loop_var in free_vars(value):
            reduces = reduces or axis.iter_type == REDUCE
            places = places or axis.iter_type != REDUCE
    if places:
        return _MIXES if reduces else _PLACES
    return _REDUCES if reduces else _REPEATS


def _starts_at_least(condition: Expr, variables: tuple[Var, ...]) -> bool:
    """Whether a condition that holds anywhere holds where these variables are least."""
    if isinstance(condition, And):
        return all(_starts_at_least(side, variables) for side in (condition.a, condition.b))
    if free_vars(condition).isdisjoint(variables):
        return True
    if not isinstance(condition, (LT, LE, GT, GE)):
        return False
    less, more = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        less, more = more, less
    form = linear_form(less - more)
    if form is not None:
        return all(s >= 0 for v, s in form[0] if v in variables)
    return _slope(less, variables) in (0, 1) and _slope(more, variables) in (0, -1)


def _slope(value: Expr, variables: tuple[Var, ...]) -> int | None:
    """Whether a value grows with some variables, is the same (0), or shrinks; None if unknown."""
    if free_vars(value).isdisjoint(variables):
        return 0
    match value:
        case Var():
            return 1
        case Add(a=a, b=b):
            return _sum(_slope(a, variables), _slope(b, variables))
        case Sub(a=a, b=b):
            less = _slope(b, variables)
            return _sum(_slope(a, variables), None if less is None else -less)
        case Mul(a=a, b=b):
            slope, other = (
                (_slope(a, variables), b) if _uses(a, variables) else (_slope(b, variables), a)
            )
            known = Analyzer()
            known.bind_bounds(limits_of_variables(other))
            ends = known.const_int_bound(other)
            if slope is None or _uses(other, variables) or ends.min_value < 0:
                return None
            return slope
        case _:
            return None


def _uses(value: Expr, variables: tuple[Var, ...]) -> bool:
    return not free_vars(value).isdisjoint(variables)


def _sum(a: int | None, b: int | None) -> int | None:
    """The slope of a sum."""
    if a is None or b is None or a * b < 0:
        return None
    return a or b
