"""What the predicate of a block says of the indices in it.

Regions are told from indices as they are written: there the operand of a quotient is still the sum
that the predicate limits.
"""

from __future__ import annotations

from ...expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    rewrite,
)
from ...expr.bounds import ConstIntBound
from ...lower.analysis.linear import linear
from ...lower.common import conjuncts
from .program import Bounds, Form

_HUGE = 1 << 62


def limits_of(predicate: Expr) -> dict[Expr, ConstIntBound]:
    """The sums that the predicate limits, in the form that operands of quotients have here."""
    found: dict[Expr, ConstIntBound] = {}
    for part in conjuncts(predicate):
        while isinstance(part, Call) and part.op == "tir.likely":
            part = part.args[0]
        if not isinstance(part, LT | LE | GT | GE) or part.a.dtype.code != "int":
            continue
        less, more = (part.a, part.b) if isinstance(part, LT | LE) else (part.b, part.a)
        slack = int(isinstance(part, LT | GT))
        if isinstance(more, IntImm):
            _limit(found, less, ConstIntBound(-_HUGE, more.value - slack))
        elif isinstance(less, IntImm):
            _limit(found, more, ConstIntBound(less.value + slack, _HUGE))
    return found


def _limit(found: dict[Expr, ConstIntBound], expr: Expr, bound: ConstIntBound) -> None:
    known = linear(expr)
    expr, bound = known.shifted(-known.const).expr, _shifted(bound, -known.const)
    found[expr] = bound.intersect(found[expr]) if expr in found else bound


def _shifted(bound: ConstIntBound, offset: int) -> ConstIntBound:
    return ConstIntBound(bound.min_value + offset, bound.max_value + offset)


def with_limits(ranges: Bounds, limits: Bounds) -> dict[Expr, ConstIntBound]:
    """The ranges of variables together with what a predicate says."""
    result = dict(ranges)
    for expr, bound in limits.items():
        result[expr] = bound.intersect(result[expr]) if expr in result else bound
    return result


def written_form(expr: Expr) -> Form:
    """An index as a sum of its written terms, in which quotients are not split."""
    terms: dict[Expr, int] = {}
    number = _collect(expr, 1, terms)
    return Form(expr.dtype, {term: factor for term, factor in terms.items() if factor}, number)


def _collect(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    match expr:
        case IntImm():
            return expr.value * factor
        case Add(a, b):
            return _collect(a, factor, terms) + _collect(b, factor, terms)
        case Sub(a, b):
            return _collect(a, factor, terms) + _collect(b, -factor, terms)
        case Mul(a, IntImm() as times):
            return _collect(a, factor * times.value, terms)
        case _:
            term = rewrite(expr, _sum_inside)
            if isinstance(term, IntImm):
                return term.value * factor
            terms[term] = terms.get(term, 0) + factor
            return 0


def _sum_inside(expr: Expr) -> Expr | None:
    """A quotient or remainder of a sum in its normal form."""
    if isinstance(expr, FloorDiv | FloorMod):
        total = linear(expr.a)
        if not total.terms and isinstance(expr.b, IntImm) and expr.b.value > 0:
            value, divisor = total.const, expr.b.value
            result = value // divisor if isinstance(expr, FloorDiv) else value % divisor
            return IntImm(expr.dtype, result)
        return type(expr)(total.expr, expr.b)
    return None
