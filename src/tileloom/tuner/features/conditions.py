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
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
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
            return _comparison(expr, forms)
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


def _comparison(expr: CompareOp, forms: Forms) -> bool | Counts:
    a, b = (expr.b, expr.a) if isinstance(expr, GT | GE) else (expr.a, expr.b)
    less, more, bounds = forms.of(a), forms.of(b), forms.bounds
    known = _known(expr, *bound_of(less.plus(more, -1), bounds))
    if known is not None:
        return known
    if less.terms and more.terms:
        return plus(plus(arithmetic(less), arithmetic(more)), _ONE_COMPARISON)
    if isinstance(expr, EQ | NE):
        total = less if less.terms else more
    elif less.terms:
        total = less_than(less, more.const + isinstance(expr, LE | GE), bounds)
    elif isinstance(expr, LE | GE):
        total = _at_least(_undivided(b, more, less.const, forms), bounds)
    else:
        total = less_than(more.scaled(-1), -less.const, bounds)
    return plus(arithmetic(total.shifted(-total.const)), _ONE_COMPARISON)


def _undivided(expr: Expr, total: Form, least: int, forms: Forms) -> tuple[Form, int]:
    """`least <= expr`, where the expression is written as a quotient, without the division.

    That is not done where the divisor divides a part of the sum: the quotient is split then.
    """
    written = forms.written(expr)
    if isinstance(written, FloorDiv) and isinstance(written.b, IntImm) and written.b.value > 0:
        operand, divisor = written.a, written.b.value
        source = operand.a if isinstance(operand, FloorMod) else operand
        if all(factor % divisor for factor in forms.of(source).terms.values()):
            return forms.of(operand), least * divisor
    return total, least


def _at_least(part: tuple[Form, int], bounds: BoundAnalyzer) -> Form:
    """What is compared in `least <= total`; TVM hardly simplifies that."""
    total, least = part
    total, least = total.shifted(-total.const), least - total.const
    divided_term = _quotient_alone(total)
    if divided_term is not None:
        return _at_least((divided_term[0], least * divided_term[1]), bounds)
    factor = _common_factor(total)
    return (
        total
        if factor == 1
        else _at_least((divided(total, factor)[0], -(-least // factor)), bounds)
    )


def _quotient_alone(total: Form) -> tuple[Form, int] | None:
    """The operand and the divisor of a sum that is one quotient."""
    if len(total.terms) == 1:
        ((term, factor),) = total.terms.items()
        if factor == 1 and isinstance(term, FloorDiv) and isinstance(term.b, IntImm):
            return sum_of(term.a), term.b.value
    return None


def _common_factor(total: Form) -> int:
    """The factor that all terms have alike; one if there is none."""
    factors = {abs(factor) for factor in total.terms.values()}
    return factors.pop() if len(factors) == 1 else 1


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


def less_than(total: Form, limit: int, bounds: BoundAnalyzer) -> Form:
    """What is compared in `total < limit`, with as small numbers as there can be."""
    total, limit = total.shifted(-total.const), limit - total.const
    alone = _quotient_alone(total)
    if alone is not None:
        return less_than(alone[0], limit * alone[1], bounds)
    factor = _common_factor(total)
    if factor > 1:
        return less_than(divided(total, factor)[0], -(-limit // factor), bounds)
    factors = [abs(factor) for factor in total.terms.values() if abs(factor) > 1]
    common = gcd(limit, *factors)
    if not factors or common <= 1:
        return total
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
    return total
