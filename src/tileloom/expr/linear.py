"""Sums of products: an index expression as `sum(coefficient * term) + constant`.

A term is a canonical expression that is not itself a sum: a variable, a product of such
(factors sorted by `order_key`), a division, a minimum, a load, ... Equal maps become equal sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Protocol

from ..base import DType
from .bounds import ConstIntBound
from .build import binary, cast, const
from .modular import ModularSet
from .nodes import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, wrapped
from .order import order_key

MAX_PRODUCT = 16  # terms that distributing a product may make


class Linear:
    """`sum(coefficient * term) + const`; treat it as immutable.

    `dtype` is that of the expression which the sum stands for. Sums of several widths can be added:
    the result has the type of the first, and `to_expr` gives it in any.
    """

    __slots__ = ("_expr", "const", "dtype", "terms")

    def __init__(self, dtype: DType, terms: Mapping[Expr, int], const: int) -> None:
        self.dtype = dtype
        self.terms = terms
        self.const = const
        self._expr: Expr | None = None

    @property
    def expr(self) -> Expr:
        """The sum as an expression: largest coefficients first, what is subtracted last."""
        if self._expr is None:
            self._expr = _build(self)
        return self._expr

    def __neg__(self) -> Linear:
        return self.scaled(-1)

    def scaled(self, factor: int) -> Linear:
        """The sum times a constant."""
        if factor == 1:
            return self
        terms = {t: k * factor for t, k in self.terms.items()} if factor else {}
        return Linear(self.dtype, terms, self.const * factor)

    def shifted(self, offset: int) -> Linear:
        """The sum plus a constant."""
        return Linear(self.dtype, self.terms, self.const + offset) if offset else self

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum plus a multiple of another, coefficients collected but nothing recombined."""
        if not other.terms:
            return self.shifted(other.const * factor)
        if not factor:
            return self
        terms = dict(self.terms)
        for term, k in other.terms.items():
            total = terms.get(term, 0) + k * factor
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return Linear(self.dtype, terms, self.const + other.const * factor)

    def same_as(self, other: Linear) -> bool:
        """Whether both are one sum."""
        return self.const == other.const and self.terms == other.terms

    def without(self, term: Expr) -> Linear:
        """The sum without one of its terms."""
        if term not in self.terms:
            return self
        return Linear(
            self.dtype, {t: k for t, k in self.terms.items() if t is not term}, self.const
        )

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """`(q, r)` with `self == divisor * q + r`, as much as possible in `q`, `0 <= r.const`."""
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        for term, k in self.terms.items():
            whole, part = divmod(k, divisor)
            if part == 0:
                quotient[term] = whole
            else:
                rest[term] = k
        whole, part = divmod(self.const, divisor)
        return Linear(self.dtype, quotient, whole), Linear(self.dtype, rest, part)

    def to_expr(self, kind: DType) -> Expr:
        """The sum as an expression of an integer type, its terms in the order that they have.

        What would be subtracted first comes after the first term that is added.
        """
        items = list(self.terms.items())
        positive = next((i for i, (_, k) in enumerate(items) if k >= 0), len(items))
        total: Expr | None = None
        for term, k in items[positive:] + items[:positive]:
            total = _with_term(total, cast(kind, term), k, kind)
        if total is None:
            return const(self.const, kind)
        return _with_part(total, const(abs(self.const), kind), self.const)

    def __repr__(self) -> str:
        return f"Linear({self.expr})"


def _with_term(total: Expr | None, term: Expr, factor: int, kind: DType) -> Expr:
    if total is None:
        return term if factor == 1 else binary(Mul, term, const(factor, kind))
    size = abs(factor)
    return _with_part(total, term if size == 1 else term * const(size, kind), factor)


def _with_part(total: Expr, part: Expr, sign: int) -> Expr:
    return total if sign == 0 else binary(Add if sign > 0 else Sub, total, part)


class Context(Protocol):
    """What the canonical forms ask of the simplifier that uses them."""

    knows_moduli: bool  # whether there are facts about remainders

    def simplify(self, expr: Expr) -> Expr:
        """The simplest known form."""

    def linear(self, expr: Expr) -> Linear:
        """The canonical sum of an index expression."""

    def opaque(self, expr: Expr) -> Linear:
        """The sum of a node that is no arithmetic."""

    def bound(self, value: Linear) -> ConstIntBound:
        """Constant bounds of a sum."""

    def bound_of(self, expr: Expr) -> ConstIntBound:
        """Constant bounds of an expression as it stands."""

    def remainders(self, value: Linear) -> ModularSet:
        """The modular set of a sum."""

    def value_of(self, var: Var) -> Expr | None:
        """The expression that the variable stands for, if it was told."""

    def combine(self, a: Linear, b: Linear, factor: int = 1) -> Linear:
        """`a + factor * b` in canonical form."""

    def apply_rules(self, expr: Expr) -> Expr | None:
        """What the first rule that fits makes of the node, or None."""


@cache
def integer(kind: DType, value: int) -> IntImm:
    """An integer constant, kept."""
    return wrapped(kind, value)


def constant(kind: DType, value: int) -> Linear:
    """A sum without terms."""
    return Linear(kind, {}, value)


def atom(expr: Expr) -> Linear:
    """A sum of one term."""
    return Linear(expr.dtype, {expr: 1}, 0)


def _sort_key(item: tuple[Expr, int]) -> tuple[object, ...]:
    return (item[1] < 0, -abs(item[1]), order_key(item[0]))


def _build(value: Linear) -> Expr:
    kind, const = value.dtype, value.const
    if not value.terms:
        return wrapped(kind, const)
    items = list(value.terms.items())
    if len(items) > 1:
        items.sort(key=_sort_key)
    (first, k), rest = items[0], items[1:]
    if k > 0:
        result = first if k == 1 else Mul(first, integer(kind, k))
    elif const > 0:
        result, const, rest = wrapped(kind, const), 0, items
    else:
        result = Mul(first, integer(kind, k))
    for term, k in rest:
        size = abs(k)
        part = term if size == 1 else Mul(term, integer(kind, size))
        result = Add(result, part) if k > 0 else Sub(result, part)
    if const > 0:
        return Add(result, wrapped(kind, const))
    return Sub(result, wrapped(kind, -const)) if const < 0 else result


# ---------------------------------------------------------------------------- products


def factors(term: Expr) -> list[Expr]:
    """The factors of a term, sorted."""
    if type(term) is not Mul:
        return [term]
    return [*factors(term.a), *factors(term.b)]


def product(parts: Iterable[Expr]) -> Expr:
    """The term that multiplies the factors; there must be one."""
    first, *rest = sorted(parts, key=order_key)
    for part in rest:
        first = Mul(first, part)
    return first


def multiply(a: Linear, b: Linear) -> Linear:
    """The product of two sums, distributed unless that makes too many terms."""
    if not b.terms:
        return a.scaled(b.const)
    if not a.terms:
        return b.scaled(a.const)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > MAX_PRODUCT:
        return atom(product((a.expr, b.expr)))
    result = b.scaled(a.const)
    for x, k in a.terms.items():
        distributed = {product((*factors(x), *factors(y))): k * m for y, m in b.terms.items()}
        result = result.plus(Linear(a.dtype, distributed, 0))
        if b.const:
            result = result.plus(Linear(a.dtype, {x: k * b.const}, 0))
    return result


def quotient(term: Expr, divisor: Expr) -> Expr | int | None:
    """`term / divisor` as a term if all factors of the divisor are in it; 1 if they are all."""
    left = factors(term)
    for part in factors(divisor):
        for i, candidate in enumerate(left):
            if candidate is part:
                del left[i]
                break
        else:
            return None
    return product(left) if left else 1


# ---------------------------------------------------------------------------- splits


def split_of(term: Expr) -> tuple[Expr, int, int] | None:
    """`(source, lower, upper)` of a term `source % upper // lower`; `upper` 0 means no modulo."""
    kind = type(term)
    if (kind is not FloorDiv and kind is not FloorMod) or not isinstance(term.b, IntImm):  # type: ignore[attr-defined]
        return None
    a: Expr = term.a  # type: ignore[attr-defined]
    c: int = term.b.value  # type: ignore[attr-defined]
    if c <= 0:
        return None
    if kind is FloorMod:
        return a, 1, c
    if type(a) is FloorMod and isinstance(a.b, IntImm) and a.b.value > 0 and a.b.value % c == 0:
        return a.a, c, a.b.value
    return a, c, 0


def contains_multiple(whole: Mapping[Expr, int], part: Mapping[Expr, int], factor: int) -> bool:
    """Whether `whole` holds `factor` times every term of `part`."""
    return all(whole.get(term) == k * factor for term, k in part.items())
