"""Comparisons of index expressions: decided by bounds, or brought into one form.

The form has no common divisor, the added terms left and the subtracted terms right, `<` unless the
difference of both sides is exactly one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ..base import dtype
from . import CompareOp
from .bounds import type_range
from .extents import limits_of_variables
from .linear import Context, Linear, atom, constant, factors, multiply, quotient, split_of
from .nested_quotients import sums_above
from .nodes import EQ, GE, GT, LE, LT, NE, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Not
from .order import order_key

TRUE = IntImm(dtype("bool"), 1)
FALSE = IntImm(dtype("bool"), 0)
OPPOSITE: dict[type[Expr], type[CompareOp]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}


def truth(value: bool) -> Expr:
    """A boolean constant."""
    return TRUE if value else FALSE


def compare(ctx: Context, kind: type[Expr], a: Linear, b: Linear) -> Expr:
    """`a kind b` in canonical form."""
    if kind in (GT, GE):
        return compare(ctx, LT if kind is GT else LE, b, a)
    if kind is EQ or kind is NE:
        return _equal(ctx, ctx.combine(a, b, -1), kind is EQ)
    difference = ctx.combine(a, b, -1)
    return _less(ctx, difference if kind is LT else difference.shifted(-1))


def _less(ctx: Context, value: Linear) -> Expr:
    """`value < 0`."""
    low, high = ctx.bound(value)
    if high < 0 or low >= 0:
        return truth(high < 0)
    condition = _of_condition(ctx, value, lambda v: v < 0)
    if condition is not None:
        return condition
    g = gcd(*value.terms.values())
    if g > 1:
        scaled = {t: k // g for t, k in value.terms.items()}
        return _less(ctx, Linear(value.dtype, scaled, value.const // g))
    if not _has_form(value):
        # A constant that has no form: arithmetic does not overflow, so no sum reaches it.
        return truth(value.const < 0)
    shorter = _without_low_part(ctx, value) or _without_quotient(ctx, value)
    if shorter is not None:
        return _less(ctx, shorter)
    if _is_remainder_below(ctx, value) or _is_product_below(ctx, value):
        return TRUE
    if any(_less(ctx, more) is TRUE for more in sums_above(ctx, value)):
        return TRUE
    return _write_less(value)


def _has_form(value: Linear) -> bool:
    """Whether the constant of `value < 0` fits into the type on the side where it stands."""
    low, high = type_range(value.dtype)
    signs = {k > 0 for k in value.terms.values()}
    if len(signs) > 1:
        return low < value.const < high
    return low <= (-value.const if True in signs else value.const) <= high


def _is_product_below(ctx: Context, value: Linear) -> bool:
    """Whether `value < 0` since it is `f * rest - 1`, or less, with `0 <= f` and `rest <= 0`."""
    if value.const >= 0 or not any(type(term) is Mul for term in value.terms):
        return False
    first, *_ = value.terms
    for factor in factors(first):
        parts = [(quotient(term, factor), k) for term, k in value.terms.items()]
        if ctx.bound_of(factor)[0] < 0 or any(part is None for part, _ in parts):
            continue
        rest = constant(value.dtype, sum(k for part, k in parts if isinstance(part, int)))
        for part, k in parts:
            if isinstance(part, Expr):
                rest = rest.plus(atom(part), k)
        if _less(ctx, rest.shifted(-1)) is TRUE:
            return True
    return False


def _is_remainder_below(ctx: Context, value: Linear) -> bool:
    """Whether `value < 0` because of a digit in it, where the base or the limit is open."""
    for term, k in value.terms.items():
        if k != 1 or type(term) not in (FloorDiv, FloorMod):
            continue
        number, base = term.children
        if isinstance(base, IntImm) and (
            type(term) is FloorMod
            or not any(m < 0 and limits_of_variables(other) for other, m in value.terms.items())
        ):
            continue
        if ctx.bound_of(base)[0] <= 0:
            continue
        limit = atom(term).plus(value, -1)  # term < limit
        if type(term) is FloorMod:
            found = _less(ctx, ctx.linear(base).plus(limit, -1).shifted(-1))
        else:
            product = multiply(ctx.linear(base), limit)
            found = _less(ctx, ctx.combine(ctx.linear(number), product, -1))
        if found is TRUE:
            return True
    return False


def _of_condition(ctx: Context, value: Linear, holds: Callable[[int], bool]) -> Expr | None:
    """The condition itself, where one converted to a number is compared with a constant."""
    if len(value.terms) != 1:
        return None
    ((term, k),) = value.terms.items()
    if type(term) is not Cast or not term.value.dtype.is_bool:
        return None
    when_false, when_true = holds(value.const), holds(value.const + k)
    if when_false == when_true:
        return truth(when_true)
    return term.value if when_true else ctx.simplify(Not(term.value))


def _without_low_part(ctx: Context, value: Linear) -> Linear | None:
    """`h` such that `value = g * h + low < 0` is `h < 0`, whatever the low terms are."""
    if len(value.terms) < 2:
        return None
    items = sorted(value.terms.items(), key=lambda item: -abs(item[1]))
    for n in range(len(items) - 1, 0, -1):
        g = gcd(*(k for _, k in items[:n]))
        if g == 1:
            continue
        least, most = ctx.bound(Linear(value.dtype, dict(items[n:]), value.const))
        if least // g == most // g:
            high = {t: k // g for t, k in items[:n]}
            return Linear(value.dtype, high, least // g)
    return None


def _without_quotient(ctx: Context, value: Linear) -> Linear | None:
    """`y - limit < 0` for `y // c + const < 0`, and the same for a negated quotient."""
    if len(value.terms) != 1:
        return None
    ((term, k),) = value.terms.items()
    if type(term) is not FloorDiv or abs(k) != 1 or split_of(term) is None:
        return None
    y, c = ctx.linear(term.a), term.b.value  # type: ignore[attr-defined]
    if k > 0:
        return y.shifted(value.const * c)
    # const < y // c  <=>  (const + 1) * c <= y
    return (-y).shifted((value.const + 1) * c - 1)


def _write_less(value: Linear) -> Expr:
    added, subtracted = _sides(value)
    kind, const = value.dtype, value.const
    if not subtracted:
        return LT(Linear(kind, added, 0).expr, constant(kind, -const).expr)
    if not added:
        return LT(constant(kind, const).expr, Linear(kind, subtracted, 0).expr)
    if const == -1:
        return LE(Linear(kind, added, 0).expr, Linear(kind, subtracted, 0).expr)
    left, right = Linear(kind, added, max(const, 0)), Linear(kind, subtracted, max(-const, 0))
    return LT(left.expr, right.expr)


def _sides(value: Linear) -> tuple[dict[Expr, int], dict[Expr, int]]:
    added = {t: k for t, k in value.terms.items() if k > 0}
    return added, {t: -k for t, k in value.terms.items() if k < 0}


def _equal(ctx: Context, value: Linear, positive: bool) -> Expr:
    """`value == 0`, or its negation."""
    low, high = ctx.bound(value)
    if low == high == 0:
        return truth(positive)
    if low > 0 or high < 0:
        return truth(not positive)
    condition = _of_condition(ctx, value, lambda v: (v == 0) == positive)
    if condition is not None:
        return condition
    g = gcd(*value.terms.values())
    coeff, base = ctx.remainders(value)
    if value.const % g or (coeff and base % coeff):
        return truth(not positive)
    if coeff == 0:
        return truth((base == 0) == positive)
    if g > 1:
        scaled = {t: k // g for t, k in value.terms.items()}
        value = Linear(value.dtype, scaled, value.const // g)
    return _write_equal(value, EQ if positive else NE)


def _write_equal(value: Linear, kind: type[Expr]) -> Expr:
    if value.terms[min(value.terms, key=order_key)] < 0:
        value = -value
    added, subtracted = _sides(value)
    if not added:
        added, subtracted, value = subtracted, added, -value
    left = Linear(value.dtype, added, 0)
    return kind(left.expr, Linear(value.dtype, subtracted, -value.const).expr)  # type: ignore[call-arg]
