"""Conditions on indices: whether they are decided, and how many operations they are.

As in `quotients`, this follows TVM's simplifier, since operations are counted.
"""

from __future__ import annotations

from math import gcd

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Expr,
    FloorDiv,
    IntImm,
    Not,
    Or,
    has_load,
)
from ...expr.bounds import BoundAnalyzer
from ...expr.linear import atom, split_of
from .counts import BOOL, COMPARE, INT, place_of, plus, unit
from .forms import Forms
from .index import arithmetic
from .program import Form
from .quotients import bound_of, divided, split_term, sum_of

Counts = tuple[int, ...]
_ONE_COMPARISON = unit(COMPARE + INT)


def condition(expr: Expr, forms: Forms) -> bool | Counts | None:
    """Whether a condition holds, if that is decided, or else its operations; None for a condition
    that is not only on indices."""
    match expr:
        case IntImm():
            return bool(expr.value)
        case And(a, b) | Or(a, b):
            return _junction(expr, condition(a, forms), condition(b, forms))
        case Not(a):
            found = condition(a, forms)
            return not found if isinstance(found, bool) else found
        case Call(op="tir.likely", args=(inner,)):
            found = condition(inner, forms)
            place = place_of(expr)
            return plus(found, unit(place)) if isinstance(found, tuple) and place else found
        case EQ(a, b) | NE(a, b) | LT(a, b) | LE(a, b) | GT(a, b) | GE(a, b):
            if a.dtype.code != "int" or a.dtype.lanes != 1 or has_load(expr):
                return None
            return _comparison(expr, forms.of(a), forms.of(b), forms.bounds)
        case _:
            return None


def _junction(expr: Expr, a: bool | Counts | None, b: bool | Counts | None) -> bool | Counts | None:
    if a is None or b is None:
        return None
    decisive = isinstance(expr, Or)
    for part, other in ((a, b), (b, a)):
        if isinstance(part, bool):
            return part if part is decisive else other
    return plus(plus(a, b), unit(BOOL))  # type: ignore[arg-type]


def _comparison(expr: Expr, a: Form, b: Form, bounds: BoundAnalyzer) -> bool | Counts:
    if isinstance(expr, GT | GE):
        a, b = b, a
    total = a.plus(b, -1)
    low, high = bound_of(total, bounds)
    known = _known(expr, low, high)
    if known is not None:
        return known
    if a.terms and b.terms:
        return plus(plus(arithmetic(a), arithmetic(b)), _ONE_COMPARISON)
    if not isinstance(expr, EQ | NE):
        if isinstance(expr, LE | GE) is bool(a.terms):  # not (b < a), with a number for one of them
            total = total.scaled(-1)
        found = less_than(total, 0, bounds)
        if isinstance(found, bool):
            return found is not isinstance(expr, LE | GE)
        total = found[0]
    return plus(arithmetic(total.shifted(-total.const)), _ONE_COMPARISON)


def _known(expr: Expr, low: int, high: int) -> bool | None:
    """Whether a difference within bounds compares so with zero, if that is decided."""
    match expr:
        case EQ() | NE():
            if low > 0 or high < 0:
                return isinstance(expr, NE)
            return isinstance(expr, EQ) if low == high == 0 else None
        case LT() | GT():
            return True if high < 0 else (False if low >= 0 else None)
        case _:
            return True if high <= 0 else (False if low > 0 else None)


def less_than(total: Form, limit: int, bounds: BoundAnalyzer) -> tuple[Form, int] | bool:
    """`total < limit` with as small numbers as there can be; or whether it always holds."""
    total, limit = total.shifted(-total.const), limit - total.const
    low, high = bound_of(total, bounds)
    if high < limit or low >= limit:
        return high < limit
    if len(total.terms) == 1:
        ((term, factor),) = total.terms.items()
        if isinstance(term, FloorDiv) and isinstance(term.b, IntImm) and factor in (1, -1):
            divisor, source = term.b.value, sum_of(term.a)
            if factor == 1:
                return less_than(source, limit * divisor, bounds)
            return less_than(source.scaled(-1), 1 - (1 - limit) * divisor, bounds)
    factors = [abs(factor) for factor in total.terms.values() if abs(factor) > 1]
    common = gcd(limit, *factors)
    if not factors or common <= 1:
        return total, limit
    whole, extra = divided(total, common)
    low, high = bound_of(extra, bounds)
    if -common < low and high < common:
        return less_than(whole, limit // common, bounds)
    if len(extra.terms) == 1:
        ((term, factor),) = extra.terms.items()
        inner, lower, upper = split_of(term) or (term, 1, 0)
        if factor == 1 and upper and upper % (common * lower) == 0:
            part = atom(split_term(inner, common * lower, upper))
            return less_than(whole.plus(part), limit // common, bounds)
    return total, limit
