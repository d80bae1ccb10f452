"""Indices that walk several dimensions as if they were one: `A[x // n, x % n]` is element `x`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...expr import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, binary, const
from ...expr.linear import Linear
from .linear import linear


@dataclass(frozen=True)
class PositionTerm:
    """What one dimension adds to the position of an element: `index * stride`."""

    index: Expr
    stride: Expr


def rejoined(parts: Sequence[PositionTerm]) -> list[PositionTerm]:
    """The parts, outermost first, with quotients and remainders of one number put together again.

    Where `x // n * stride` meets `x % n * step`, and `stride` is `n * step`, the two are
    `x * step`. That `n` is a constant is not asked for.

    >>> from tileloom.expr import Var
    >>> x, n, k = Var("x"), Var("n"), Var("k")
    >>> parts = rejoined([PositionTerm(x // n + k, n), PositionTerm(x % n - 1, const(1))])
    >>> [part.index for part in parts]
    [k, x - 1]
    """
    result = list(parts)
    for inner in range(len(result) - 1, 0, -1):
        remainders = [x for x in _added(result[inner].index) if isinstance(x, FloorMod)]
        for remainder in remainders:
            _rejoin(result, inner, remainder)
    return result


def _rejoin(parts: list[PositionTerm], inner: int, remainder: FloorMod) -> None:
    """Put one remainder together with its quotients, as far as there are any."""
    below = parts[inner]
    step = _factors(below.stride)
    while True:
        divisor = remainder.b
        stride = _times(step, _factors(divisor))
        found = next(
            (
                (outer, term)
                for outer, part in enumerate(parts[:inner])
                for term in _added(part.index)
                if isinstance(term, FloorDiv)
                and term.b is divisor
                and _is_same_modulo(term.a, remainder)
                and _factors(part.stride) == stride
            ),
            None,
        )
        if found is None:
            return
        outer, quotient = found
        above, whole = parts[outer], quotient.a
        parts[outer] = replace(above, index=_replaced(above.index, quotient, None))
        parts[inner] = below = replace(below, index=_replaced(below.index, remainder, whole))
        if not isinstance(whole, FloorMod):
            return
        remainder = whole


def _added(index: Expr) -> Iterator[Expr]:
    """The terms that an index adds up."""
    match index:
        case Add(a, b):
            yield from _added(a)
            yield from _added(b)
        case Sub(a, _):
            yield from _added(a)
        case _ if index.dtype.lanes == 1:
            yield index
        case _:
            pass


def _is_same_modulo(value: Expr, remainder: FloorMod) -> bool:
    """Whether a number and what a remainder is of differ by a multiple of the divisor."""
    if value is remainder.a:
        return True
    divisor = remainder.b
    if isinstance(divisor, IntImm) and divisor.value:
        gap = _without_modulo(linear(value)).plus(_without_modulo(linear(remainder.a)), -1)
        return all(k % divisor.value == 0 for k in (gap.const, *gap.terms.values()))
    if not isinstance(value, FloorMod) or value.a is not remainder.a:
        return False
    return _is_multiple(_factors(value.b), _factors(divisor))


def _without_modulo(form: Linear) -> Linear:
    """The sum with `x - x // m * m` for `x % m`."""
    for term, k in form.terms.items():
        if isinstance(term, FloorMod) and isinstance(term.b, IntImm):
            rest = form.without(term).plus(linear(FloorDiv(term.a, term.b)), -k * term.b.value)
            return _without_modulo(rest.plus(linear(term.a), k))
    return form


def _replaced(index: Expr, term: Expr, by: Expr | None) -> Expr:
    """The index with something else in place of one of the terms that it adds up."""
    if index is term:
        return const(0, index.dtype) if by is None else by
    match index:
        case Add(a, b):
            first = _replaced(a, term, by)
            if first is not a:
                return binary(Add, first, b)
            return binary(Add, a, _replaced(b, term, by))
        case Sub(a, b):
            return binary(Sub, _replaced(a, term, by), b)
        case _:
            return index


@dataclass(frozen=True)
class _Factors:
    number: int
    others: Counter[Expr]


def _factors(expr: Expr) -> _Factors:
    """What an index or a stride is the product of; casts to wider types change nothing."""
    match expr:
        case IntImm(value=value):
            return _Factors(value, Counter())
        case Cast(value=value) if value.dtype.code == "int" and value.dtype.bits <= expr.dtype.bits:
            return _factors(value)
        case Mul(a, b):
            return _times(_factors(a), _factors(b))
        case _:
            return _Factors(1, Counter([expr]))


def _times(a: _Factors, b: _Factors) -> _Factors:
    return _Factors(a.number * b.number, a.others + b.others)


def _is_multiple(whole: _Factors, part: _Factors) -> bool:
    return part.number != 0 and whole.number % part.number == 0 and part.others <= whole.others
