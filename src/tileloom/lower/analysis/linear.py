"""Integer expressions as sums of atoms: the form in which index arithmetic is compared.

Index arithmetic does not overflow (see `flatten_buffers`, which widens where it could), so a
sign-preserving widening cast is looked through.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base import DType
from ...expr import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, binary, cast, const


class Linear:
    """The sum of `coefficient * atom` over `terms`, plus `const`. Not to be changed once made."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: Mapping[Expr, int], const_: int) -> None:
        self.terms = terms
        self.const = const_

    def plus(self, other: Linear, scale: int = 1) -> Linear:
        """`self + scale * other`."""
        if scale == 0:
            return self
        if not other.terms:
            return Linear(self.terms, self.const + scale * other.const)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + scale * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.const + scale * other.const)

    def shift(self, amount: int) -> Linear:
        """`self + amount`."""
        return Linear(self.terms, self.const + amount) if amount else self

    def without(self, atom: Expr) -> Linear:
        """The sum without one atom."""
        if atom not in self.terms:
            return self
        return Linear({a: c for a, c in self.terms.items() if a is not atom}, self.const)

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """`(q, r)` with `self == divisor * q + r`, as much as possible in `q`, `0 <= r.const`."""
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        for atom, coefficient in self.terms.items():
            whole, part = divmod(coefficient, divisor)
            if part == 0:
                quotient[atom] = whole
            else:
                rest[atom] = coefficient
        whole, part = divmod(self.const, divisor)
        return Linear(quotient, whole), Linear(rest, part)

    def same(self, other: Linear) -> bool:
        """Whether both are the same sum."""
        return self.const == other.const and self.terms == other.terms

    def to_expr(self, kind: DType) -> Expr:
        """The sum as an expression of an integer type."""
        total: Expr | None = None
        later: list[tuple[Expr, int]] = []
        for atom, coefficient in self.terms.items():
            if coefficient < 0 and total is None:
                later.append((atom, coefficient))
                continue
            total = _add(total, cast(kind, atom), coefficient, kind)
        for atom, coefficient in later:
            total = _add(total, cast(kind, atom), coefficient, kind)
        if total is None:
            return const(self.const, kind)
        return _plus(total, const(abs(self.const), kind), self.const)


def _add(total: Expr | None, atom: Expr, coefficient: int, kind: DType) -> Expr:
    if total is None:
        return atom if coefficient == 1 else binary(Mul, atom, const(coefficient, kind))
    size = abs(coefficient)
    return _plus(total, atom if size == 1 else atom * const(size, kind), coefficient)


def _plus(total: Expr, part: Expr, sign: int) -> Expr:
    return total if sign == 0 else binary(Add if sign > 0 else Sub, total, part)


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
                return Linear({}, expr.value)
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
    return Linear({expr: 1}, 0)


def _rejoined(total: Linear) -> Linear:
    """With `a // d * d + a % d` put together again."""
    for atom, coefficient in total.terms.items():
        if isinstance(atom, FloorMod) and isinstance(atom.b, IntImm):
            quotient = FloorDiv(atom.a, atom.b)
            if total.terms.get(quotient) == coefficient * atom.b.value:
                rest = total.without(atom).without(quotient)
                return _rejoined(rest.plus(linear(atom.a), coefficient))
    return total


def _widens(source: DType, target: DType) -> bool:
    return source.code == "int" and source.lanes == 1 and target.bits >= source.bits


def _product(expr: Expr, a: Expr, b: Expr) -> Linear:
    left, right = linear(a), linear(b)
    if not right.terms:
        return Linear({}, 0).plus(left, right.const)
    if not left.terms:
        return Linear({}, 0).plus(right, left.const)
    return Linear({expr: 1}, 0)


def _quotient(a: Expr, divisor: IntImm) -> Linear:
    whole, rest = linear(a).split(divisor.value)
    if not rest.terms:
        return whole
    atom = FloorDiv(rest.to_expr(a.dtype), const(divisor.value, a.dtype))
    return whole.plus(Linear({atom: 1}, 0))


def _remainder(a: Expr, divisor: IntImm) -> Linear:
    _, rest = linear(a).split(divisor.value)
    if not rest.terms:
        return Linear({}, rest.const)
    return Linear({FloorMod(rest.to_expr(a.dtype), const(divisor.value, a.dtype)): 1}, 0)


def constant_difference(a: Expr, b: Expr) -> int | None:
    """`a - b` where it is the same for all values of the variables, else None."""
    difference = linear(a).plus(linear(b), -1)
    return None if difference.terms else difference.const
