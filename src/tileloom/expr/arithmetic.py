"""The canonical sum of each kind of index arithmetic node."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from ..base import DType
from . import canonical
from .bounds import ConstIntBound, is_index, type_range
from .build import trunc_div
from .linear import Context, Linear, atom, constant, multiply
from .nested_quotients import bound_of_sum
from .nodes import (
    Add,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    SizeVar,
    Sub,
    Var,
)
from .order import order_key


def _linear_var(self: Context, e: Any) -> Linear:
    value = self.value_of(e)
    if value is not None:
        return self.linear(value)
    least, most = self.bound_of(e)
    return constant(e.dtype, least) if least == most else atom(e)


def _linear_mul(self: Context, e: Any) -> Linear:
    a, b = self.linear(e.a), self.linear(e.b)
    result = multiply(a, b)
    return canonical.recombine(self, result) if a.terms and b.terms else result


def _linear_trunc_div(self: Context, e: Any) -> Linear:
    a, b = self.linear(e.a), self.linear(e.b)
    if self.bound(a)[0] >= 0 and self.bound(b)[0] >= 1:
        return canonical.floor_div(self, a, b)
    if not b.terms and b.const:
        if b.const < 0:
            return -self.linear(Div(a.expr, (-b).expr))
        if not a.terms:
            return constant(a.dtype, trunc_div(a.const, b.const))
        if _divides(a, b.const):
            return Linear(
                a.dtype, {t: k // b.const for t, k in a.terms.items()}, a.const // b.const
            )
        if self.bound(a)[1] <= 0:
            return -canonical.floor_div(self, -a, b)
    return _trunc(self, Div(a.expr, b.expr))


def _linear_trunc_mod(self: Context, e: Any) -> Linear:
    a, b = self.linear(e.a), self.linear(e.b)
    if self.bound(a)[0] >= 0 and self.bound(b)[0] >= 1:
        return canonical.floor_mod(self, a, b)
    if not b.terms and b.const:
        if b.const < 0:
            return self.linear(Mod(a.expr, (-b).expr))
        if not a.terms:
            return constant(a.dtype, a.const - b.const * trunc_div(a.const, b.const))
        if _divides(a, b.const):
            return constant(a.dtype, 0)
        if self.bound(a)[1] <= 0:
            return -canonical.floor_mod(self, -a, b)
    return _trunc(self, Mod(a.expr, b.expr))


def _divides(a: Linear, c: int) -> bool:
    return a.const % c == 0 and all(k % c == 0 for k in a.terms.values())


def _linear_cast(self: Context, e: Any) -> Linear:
    source: DType = e.value.dtype
    if source.lanes != 1 or not is_index(source):
        return self.opaque(e)
    inner = self.linear(e.value)
    if source.bits <= e.dtype.bits:
        return Linear(
            e.dtype, {_cast_term(t, e.dtype): k for t, k in inner.terms.items()}, inner.const
        )
    least, most = self.bound(inner)
    limits = type_range(e.dtype)
    wide = all(_was_cast(t, e.dtype) for t in inner.terms)
    if wide and limits[0] <= least and most <= limits[1]:
        return Linear(e.dtype, {t.value: k for t, k in inner.terms.items()}, inner.const)  # type: ignore[attr-defined]
    return atom(Cast(e.dtype, inner.expr)) if inner.terms else constant(e.dtype, inner.const)


def _cast_term(term: Expr, kind: DType) -> Expr:
    return term if term.dtype is kind else Cast(kind, term)


def _was_cast(term: Expr, kind: DType) -> bool:
    return isinstance(term, Cast) and term.value.dtype is kind


def _linear_extremum(self: Context, e: Any) -> Linear:
    return _extremum(self, type(e), [self.linear(e.a), self.linear(e.b)])


def _extremum(self: Context, kind: type[Expr], sums: list[Linear]) -> Linear:
    """The extremum without needless operands; what all have in common stands outside."""
    parts = _without_needless(self, kind, [part for a in sums for part in _operands(self, kind, a)])
    if len(parts) == 1:
        return parts[0]
    first, rest = parts[0], parts[1:]
    shared = {t: k for t, k in first.terms.items() if all(b.terms.get(t) == k for b in rest)}
    offset = first.const if all(b.const == first.const for b in rest) else 0
    if shared or offset:
        common = Linear(first.dtype, shared, offset)
        return self.combine(common, _extremum(self, kind, [b.plus(common, -1) for b in parts]))
    g = gcd(*(b.const for b in parts), *(k for b in parts for k in b.terms.values()))
    if g > 1:
        return _extremum(self, kind, [_shrunk(b, g) for b in parts]).scaled(g)
    return _chain(self, kind, [b.expr for b in parts])


def _shrunk(a: Linear, g: int) -> Linear:
    return Linear(a.dtype, {t: k // g for t, k in a.terms.items()}, a.const // g)


def _operands(self: Context, kind: type[Expr], value: Linear) -> list[Linear]:
    """The operands of a chain of one operator; a sum over one chain is a chain of sums."""
    chains = [t for t, k in value.terms.items() if type(t) is kind and k > 0]
    if len(chains) != 1:
        return [value]
    chain, k = chains[0], value.terms[chains[0]]
    rest = value.plus(atom(chain), -k)
    sides = [self.linear(side) for side in chain.children]
    return [part for side in sides for part in _operands(self, kind, self.combine(rest, side, k))]


def _without_needless(self: Context, kind: type[Expr], parts: list[Linear]) -> list[Linear]:
    """The operands that no other one makes needless."""
    kept: list[Linear] = []
    for part in parts:
        bounds = [bound_of_sum(self, self.combine(part, k, -1)) for k in kept]
        if kind is Max:
            bounds = [ConstIntBound(-high, -low) for low, high in bounds]
        if any(low >= 0 for low, _ in bounds):
            continue
        kept = [k for k, (_, high) in zip(kept, bounds, strict=True) if high > 0] + [part]
    return kept


def _chain(self: Context, kind: type[Expr], parts: list[Expr]) -> Linear:
    """The extremum of several operands as a term, constants last."""
    parts = sorted(parts, key=lambda part: (isinstance(part, IntImm), order_key(part)))
    result = parts[0]
    for part in parts[1:]:
        result = kind(result, part)  # type: ignore[call-arg]
    changed = self.apply_rules(result)
    return atom(result) if changed is None else self.linear(changed)


def _trunc(self: Context, expr: Expr) -> Linear:
    changed = self.apply_rules(expr)
    if changed is not None:
        return self.linear(changed)
    least, most = self.bound_of(expr)
    return constant(expr.dtype, least) if least == most else atom(expr)


LINEAR: dict[type[Expr], Callable[[Context, Any], Linear]] = {
    IntImm: lambda _, e: constant(e.dtype, e.value),
    Var: _linear_var,
    SizeVar: _linear_var,
    Add: lambda self, e: self.combine(self.linear(e.a), self.linear(e.b)),
    Sub: lambda self, e: self.combine(self.linear(e.a), self.linear(e.b), -1),
    Mul: _linear_mul,
    FloorDiv: lambda self, e: canonical.floor_div(self, self.linear(e.a), self.linear(e.b)),
    FloorMod: lambda self, e: canonical.floor_mod(self, self.linear(e.a), self.linear(e.b)),
    Div: _linear_trunc_div,
    Mod: _linear_trunc_mod,
    Min: _linear_extremum,
    Max: _linear_extremum,
    Cast: _linear_cast,
}
