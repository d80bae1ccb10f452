"""Quotients and remainders of sums, in the form that TVM's simplifier leaves them in.

How an index is written decides some features: its operations are counted, and by its products
strides are told. So this follows what that simplifier does, also where more could be done.
"""

from __future__ import annotations

from math import inf

from ...expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, const
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from ...expr.linear import atom, constant, split_of
from .program import Form

_MOST_TERMS = 3  # of a sum in which a leading term is looked for


def is_plain(total: Form) -> bool:
    """Whether all terms are variables."""
    return all(isinstance(term, Var) for term in total.terms)


def bound_of(total: Form, bounds: BoundAnalyzer) -> ConstIntBound:
    """The bounds of a sum."""
    low = high = total.const
    for term, factor in total.terms.items():
        first, last = bounds.of(term)
        low += (first if factor > 0 else last) * factor
        high += (last if factor > 0 else first) * factor
    return ConstIntBound(low, high)


def quotient(total: Form, divisor: int, bounds: BoundAnalyzer) -> Form:
    """`total // divisor`."""
    whole, rest = divided(total, divisor)
    low, high = bound_of(rest, bounds)
    if low // divisor == high // divisor:
        return whole.shifted(low // divisor)
    if len(rest.terms) == 1 and not rest.const:
        ((term, factor),) = rest.terms.items()
        if factor > 0 and divisor % factor == 0:
            return whole.plus(_quotient_of_term(term, divisor // factor, bounds))
    leading = _leading(rest, divisor, _MOST_TERMS, bounds)
    if leading is not None:
        return whole.plus(atom(_shrunk(leading, divisor // rest.terms[leading])))
    return whole.plus(atom(FloorDiv(expr_of(rest), const(divisor, total.dtype))))


def remainder(total: Form, divisor: int, bounds: BoundAnalyzer) -> Form:
    """`total % divisor`."""
    _, rest = divided(total, divisor)
    rest = rest.shifted(rest.const % divisor - rest.const)
    low, high = bound_of(rest, bounds)
    if low >= 0 and high < divisor:
        return rest
    if len(rest.terms) == 1 and not rest.const:
        ((term, factor),) = rest.terms.items()
        factor %= divisor
        if divisor % factor == 0:
            return _cut(term, divisor // factor).scaled(factor)
        return atom(FloorMod(_times(term, factor), const(divisor, total.dtype)))
    leading = _leading(rest, divisor, _MOST_TERMS - 1, bounds)
    if leading is not None:
        factor = rest.terms[leading]
        return _cut(leading, divisor // factor).scaled(factor).plus(rest.without(leading))
    return atom(FloorMod(expr_of(rest), const(divisor, total.dtype)))


def quotient_of_remainder(total: Form, modulus: int, divisor: int, bounds: BoundAnalyzer) -> Form:
    """`total % modulus // divisor`."""
    if modulus % divisor == 0 and any(k % divisor == 0 for k in total.terms.values()):
        return remainder(quotient(total, divisor, bounds), modulus // divisor, bounds)
    return quotient(remainder(total, modulus, bounds), divisor, bounds)


def _quotient_of_term(term: Expr, divisor: int, bounds: BoundAnalyzer) -> Form:
    """`term // divisor` of a term that is no sum."""
    if isinstance(term, FloorMod) and isinstance(term.a, Add | Sub) and isinstance(term.b, IntImm):
        source, modulus = sum_of(term.a), term.b.value
        if modulus % divisor == 0 and any(k % divisor == 0 for k in source.terms.values()):
            return quotient_of_remainder(source, modulus, divisor, bounds)
    return atom(_shrunk(term, divisor))


def divided(total: Form, divisor: int) -> tuple[Form, Form]:
    """What of a sum the divisor divides, already divided, and the rest."""
    whole = {t: k // divisor for t, k in total.terms.items() if k % divisor == 0}
    rest = {t: k for t, k in total.terms.items() if k % divisor}
    kind, number = total.dtype, total.const
    if number % divisor == 0:
        return Form(kind, whole, number // divisor), Form(kind, rest, 0)
    return Form(kind, whole, 0), Form(kind, rest, number)


def _leading(total: Form, divisor: int, most: int, bounds: BoundAnalyzer) -> Expr | None:
    """The term of which all others are a fraction, where its factor divides the divisor."""
    if len(total.terms) + (total.const != 0) > most:
        return None
    term, factor = max(total.terms.items(), key=lambda item: item[1])
    if factor <= 0 or divisor % factor:
        return None
    low, high = bound_of(total.without(term), bounds)
    return term if low >= 0 and high < factor else None


def _shrunk(term: Expr, divisor: int) -> Expr:
    """`term // divisor` of a term that is no sum."""
    if divisor == 1:
        return term
    source, lower, upper = split_of(term) or (term, 1, 0)
    return split_term(source, lower * divisor, upper)


def _cut(term: Expr, divisor: int) -> Form:
    """`term % divisor` of a term that is no sum."""
    if divisor == 1:
        return constant(term.dtype, 0)
    source, lower, upper = split_of(term) or (term, 1, 0)
    new = lower * divisor
    if upper == 0 or upper % new == 0:
        return atom(split_term(source, lower, new))
    return atom(term if new % upper == 0 else FloorMod(term, const(divisor, term.dtype)))


def split_term(source: Expr, lower: int, upper: int) -> Expr:
    """`source % upper // lower`; no remainder where `upper` is 0."""
    if upper:
        source = FloorMod(source, const(upper, source.dtype))
    return source if lower == 1 else FloorDiv(source, const(lower, source.dtype))


def joined(total: Form) -> Form:
    """The sum with what belongs together put together again: `x // 4 * 4 + x % 4` is `x`."""
    odd = [(term, split) for term in total.terms if (split := split_of(term)) is not None]
    for low, (source, lower, upper) in odd:
        if not upper:
            continue
        for high in total.terms:
            found = split_of(high)
            if found is None or found[0] is not source or found[1] != upper:
                continue
            factor = total.terms[low]
            if total.terms[high] * lower == factor * upper:
                rest = total.without(low).without(high)
                return joined(rest.plus(atom(split_term(source, lower, found[2])), factor))
    return total


# ---------------------------------------------------------------------------- as expressions


def ordered(total: Form) -> list[tuple[Expr, int]]:
    """The terms of a sum with their factors: large factors first, then large divisors."""
    items = list(total.terms.items())
    return items if len(items) < 2 else sorted(items, key=_order)


def _order(item: tuple[Expr, int]) -> tuple[float, ...]:
    term, factor = item
    _, lower, upper = (None if isinstance(term, Var) else split_of(term)) or (term, 1, 0)
    return -factor, -lower, -(upper or inf)


def expr_of(total: Form) -> Expr:
    """The sum as an expression: what is added, the number, what is subtracted."""
    kind = total.dtype
    items = ordered(total)
    result: Expr | None = None
    for term, factor in items:
        if factor > 0:
            part = _times(term, factor)
            result = part if result is None else Add(result, part)
    if total.const > 0 or result is None:
        number = const(total.const, kind)
        result = number if result is None else Add(result, number)
    for term, factor in items:
        if factor < 0:
            result = Sub(result, _times(term, -factor))
    if total.const < 0 and any(factor > 0 for _, factor in items):
        result = Sub(result, const(-total.const, kind))
    return result


def _times(term: Expr, factor: int) -> Expr:
    return term if factor == 1 else Mul(term, const(factor, term.dtype))


def sum_of(expr: Expr) -> Form:
    """A sum again, of an operand that `expr_of` has made."""
    match expr:
        case IntImm():
            return constant(expr.dtype, expr.value)
        case Add(a, b):
            return sum_of(a).plus(sum_of(b))
        case Sub(a, b):
            return sum_of(a).plus(sum_of(b), -1)
        case Mul(a, IntImm() as factor):
            return sum_of(a).scaled(factor.value)
        case _:
            return atom(expr)
