"""Combinations of several values at a time, and how they are recognised in expressions.

`online_softmax` and `moments` reduce in one pass what otherwise takes two: a maximum with the sum
of exponentials relative to it (Milakov and Gimelshein, 2018), and a sum with the sum of squares
around its mean (Chan, Golub and LeVeque, 1983). Both are associative and commutative up to
rounding, as sums of floats are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .build import const
from .nodes import EQ, GE, BinaryOp, Call, Expr, FloatImm, Max, Select, Var
from .reduction import CommReducer
from .walk import post_order, substitute

Values = Sequence[Expr]
#: The new values of old ones and of those that are combined in.
Combine = Callable[[Values, Values], list[Expr]]


def combined(combiner: CommReducer, old: Values, new: Values) -> list[Expr]:
    """The new values of a combiner's tuple."""
    table = dict(zip((*combiner.lhs, *combiner.rhs), (*old, *new), strict=True))
    return [substitute(result, table) for result in combiner.result]


def online_softmax(old: Values, new: Values) -> list[Expr]:
    """Of pairs (m, s): the larger m, and the sum of both s as they are relative to it.

    One value x is the pair (x, 1), none is (-inf, 0). A NaN among the values makes s NaN. Infinite
    m are taken as equal to themselves, so that values of -inf do no harm beside others; for an
    infinite m in the end, where all exponentials are of NaN, see `reduce_online`.
    """
    (m1, s1), (m2, s2) = old, new
    first = GE(m1, m2)
    gap = Select(first, m2 - m1, m1 - m2)
    one = const(1, m1.dtype)
    shrunk = Select(EQ(m1, m2), one, Call(m1.dtype, "tir.exp", (gap,)))
    return [Max(m1, m2), Select(first, s1 + _times(s2, shrunk), s1 * shrunk + s2)]


def moments(old: Values, new: Values) -> list[Expr]:
    """Of triples (n, s, q) of a count, a sum, and a sum of squares around the mean.

    One value x is the triple (1, x, 0), none is (0, 0, 0).
    """
    (n1, s1, q1), (n2, s2, q2) = old, new
    zero = const(0, n1.dtype)
    count, both = n1 + n2, _times(n2, n1)
    apart = s2 * n1 - _times(n2, s1)
    more = Select(EQ(both, zero), zero, apart * (apart / (both * count)))
    return [count, s1 + s2, (q1 if _is(q2, 0) else q1 + q2) + more]


def _times(factor: Expr, value: Expr) -> Expr:
    """A product; the value itself where the factor is the number 1."""
    return value if _is(factor, 1) else factor * value


def _is(value: Expr, number: int) -> bool:
    return isinstance(value, FloatImm) and value.value == number


#: The combinations by what one value is: None stands for the value, a number for itself.
OF_ONE: Mapping[Combine, tuple[int | None, ...]] = {
    online_softmax: (None, 1),
    moments: (1, None, 0),
}


def neutral(combine: Combine, kind: str) -> list[Expr]:
    """What combining in changes nothing.

    >>> neutral(moments, "float32")
    [T.float32(0.0), T.float32(0.0), T.float32(0.0)]
    """
    if combine is online_softmax:
        return [const(float("-inf"), kind), const(0, kind)]
    return [const(0, kind)] * len(OF_ONE[combine])


def of_one(combine: Combine, value: Expr) -> list[Expr]:
    """A value as what is combined."""
    parts = OF_ONE[combine]
    return [value if part is None else const(part, value.dtype) for part in parts]


def recognise(values: Values, old: Values) -> tuple[Combine, list[Expr]] | None:
    """Which combination gives these values of old ones, and what is combined in.

    >>> m, s, x = (Var(name, "float32") for name in "msx")
    >>> found = recognise(online_softmax([m, s], of_one(online_softmax, x)), [m, s])
    >>> found[0] is online_softmax, found[1]
    (True, [x, T.float32(1.0)])
    """
    for combine, parts in OF_ONE.items():
        if len(parts) != len(old):
            continue
        found = match_combination(combine, old, values)
        if found is None:
            hole = Var("new", old[0].dtype)
            given = of_one(combine, hole)
            found = match_combination(combine, old, values, given)
        if found is not None:
            return combine, found
    return None


def match_combination(
    combine: Combine, old: Values, values: Values, new: Values | None = None
) -> list[Expr] | None:
    """What stands for the new values, if `values` are a combination of `old` with others.

    These do not depend on the old ones: `old + (new - old)` is no sum.

    Args:
        new: variables for what is sought, and numbers; by default a variable for each.
    """
    given = new or [Var(f"new{k}", value.dtype) for k, value in enumerate(old)]
    holes = {value for value in given if isinstance(value, Var)}
    if any(a.dtype is not b.dtype for a, b in zip(given, old, strict=True)):
        return None
    found: dict[Var, Expr] = {}
    whole = set(old)
    for pattern, value in zip(combine(old, given), values, strict=True):
        if not _unify(pattern, value, whole, holes, found):
            return None
    if len(found) < len(holes):
        return None
    if not all(whole.isdisjoint(post_order(value)) for value in found.values()):
        return None
    return [found[value] if isinstance(value, Var) else value for value in given]


def _unify(
    pattern: Expr, value: Expr, whole: set[Expr], holes: set[Var], found: dict[Var, Expr]
) -> bool:
    if isinstance(pattern, Var) and pattern in holes:
        if pattern.dtype is not value.dtype:
            return False
        return found.setdefault(pattern, value) is value
    if pattern is value:
        return True
    if type(pattern) is not type(value) or pattern.dtype is not value.dtype or pattern in whole:
        return False
    if isinstance(pattern, Call) and isinstance(value, Call) and pattern.op != value.op:
        return False
    orders = [list(value.children)]
    if isinstance(pattern, BinaryOp) and pattern.commutative:
        orders.append(orders[0][::-1])
    return any(_unify_all(pattern.children, order, whole, holes, found) for order in orders)


def _unify_all(
    patterns: Values, values: Values, whole: set[Expr], holes: set[Var], found: dict[Var, Expr]
) -> bool:
    trial = dict(found)
    if not patterns or len(values) != len(patterns):
        return False
    if all(_unify(p, v, whole, holes, trial) for p, v in zip(patterns, values, strict=True)):
        found.update(trial)
        return True
    return False
