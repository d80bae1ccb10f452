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
    kind = type(e)
    a, b = self.linear(e.a), self.linear(e.b)
    least, most = self.bound(self.combine(a, b, -1))
    if most <= 0 or least >= 0:
        return a if (most <= 0) == (kind is Min) else b
    common = Linear(a.dtype, {t: k for t, k in a.terms.items() if b.terms.get(t) == k}, 0)
    if a.const == b.const:
        common = common.shifted(a.const)
    if common.terms or common.const:
        inner = kind(a.plus(common, -1).expr, b.plus(common, -1).expr)
        return self.combine(common, self.linear(inner))
    g = gcd(a.const, b.const, *a.terms.values(), *b.terms.values())
    if g > 1:
        a, b = _shrunk(a, g), _shrunk(b, g)
        return self.linear(kind(a.expr, b.expr)).scaled(g)
    return _chain(self, kind, a, b)


def _shrunk(a: Linear, g: int) -> Linear:
    return Linear(a.dtype, {t: k // g for t, k in a.terms.items()}, a.const // g)


def _operands(kind: type[Expr], expr: Expr) -> list[Expr]:
    """The operands of a chain of one operator."""
    if type(expr) is not kind:
        return [expr]
    return [*_operands(kind, expr.a), *_operands(kind, expr.b)]  # type: ignore[attr-defined]


def _chain(self: Context, kind: type[Expr], a: Linear, b: Linear) -> Linear:
    """The extremum of all operands, without those that another makes needless; constants last."""
    kept: list[Expr] = []
    for part in [*_operands(kind, a.expr), *_operands(kind, b.expr)]:
        bounds = [self.bound(self.combine(self.linear(part), self.linear(k), -1)) for k in kept]
        if kind is Max:
            bounds = [ConstIntBound(-high, -low) for low, high in bounds]
        if any(low >= 0 for low, _ in bounds):
            continue
        kept = [k for k, (_, high) in zip(kept, bounds, strict=True) if high > 0] + [part]
    kept.sort(key=lambda part: (isinstance(part, IntImm), order_key(part)))
    if len(kept) == 1:
        return self.linear(kept[0])
    result = kept[0]
    for part in kept[1:]:
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
