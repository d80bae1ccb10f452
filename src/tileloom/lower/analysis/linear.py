"""Integer expressions as sums of atoms: the form in which index arithmetic is compared.

Index arithmetic does not overflow (see `flatten_buffers`, which widens where it could), so a
sign-preserving widening cast is looked through.
"""

from __future__ import annotations

from ...base import DType, dtype
from ...expr import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, const
from ...expr.linear import Linear, atom, constant

_WIDEST = dtype("int64")


def number(value: int) -> Linear:
    """A sum without terms, as wide as indices are."""
    return constant(_WIDEST, value)


def linear(expr: Expr) -> Linear:
    """The canonical sum that a signed integer expression is (memoised).

    >>> from tileloom.expr import Var
    >>> i, j = Var("i"), Var("j")
    >>> linear((i * 4 + j) * 2 - j).to_expr(i.dtype)
    i * 8 + j
    >>> linear((i * 8 + j) // 4).to_expr(i.dtype)
    i * 2 + j // 4
    >>> linear((i + j) // 3 * 6 + (i + j) % 3 * 2).to_expr(i.dtype)
    i * 2 + j * 2
    """
    known = expr.memo.get("lower.linear")
    if known is None:
        known = expr.memo["lower.linear"] = _linear(expr)
    return known


def _linear(expr: Expr) -> Linear:
    if expr.dtype.code == "int" and expr.dtype.lanes == 1:
        match expr:
            case IntImm():
                return constant(expr.dtype, expr.value)
            case Add(a, b):
                return _rejoined(linear(a).plus(linear(b)))
            case Sub(a, b):
                return linear(a).plus(linear(b), -1)
            case Mul(a, b):
                return _product(expr, a, b)
            case FloorDiv(a, IntImm() as divisor) if divisor.value > 0:
                return _quotient(a, divisor)
            case FloorMod(a, IntImm() as divisor) if divisor.value > 0:
                return _remainder(a, divisor)
            case Cast(value=value) if _widens(value.dtype, expr.dtype):
                return linear(value)
            case _:
                pass
    return atom(expr)


def _rejoined(total: Linear) -> Linear:
    """With `a // d * d + a % d` put together again."""
    for term, coefficient in total.terms.items():
        if isinstance(term, FloorMod) and isinstance(term.b, IntImm):
            quotient = FloorDiv(term.a, term.b)
            if total.terms.get(quotient) == coefficient * term.b.value:
                rest = total.without(term).without(quotient)
                return _rejoined(rest.plus(linear(term.a), coefficient))
    return total


def _widens(source: DType, target: DType) -> bool:
    return source.code == "int" and source.lanes == 1 and target.bits >= source.bits


def _product(expr: Expr, a: Expr, b: Expr) -> Linear:
    left, right = linear(a), linear(b)
    if not right.terms:
        return left.scaled(right.const)
    if not left.terms:
        return right.scaled(left.const)
    return atom(expr)


def _quotient(a: Expr, divisor: IntImm) -> Linear:
    whole, rest = linear(a).split(divisor.value)
    if not rest.terms:
        return whole
    return whole.plus(atom(FloorDiv(rest.to_expr(a.dtype), const(divisor.value, a.dtype))))


def _remainder(a: Expr, divisor: IntImm) -> Linear:
    _, rest = linear(a).split(divisor.value)
    if not rest.terms:
        return constant(a.dtype, rest.const)
    return atom(FloorMod(rest.to_expr(a.dtype), const(divisor.value, a.dtype)))


def constant_difference(a: Expr, b: Expr) -> int | None:
    """`a - b` where it is the same for all values of the variables, else None."""
    difference = linear(a).plus(linear(b), -1)
    return None if difference.terms else difference.const
