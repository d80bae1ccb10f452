"""Modular sets: what is known of an integer modulo something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, NamedTuple

from ..base.dtype import wrap_int
from .bounds import is_index
from .nodes import (
    Add,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
)


class ModularSet(NamedTuple):
    """The integers `coeff * k + base`; `coeff` 0 means the constant `base`."""

    coeff: int
    base: int

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int):
            return False
        return value == self.base if self.coeff == 0 else (value - self.base) % self.coeff == 0


EVERYTHING = ModularSet(1, 0)


def modular(coeff: int, base: int) -> ModularSet:
    """The set with the base reduced.

    >>> modular(-4, 7)
    ModularSet(coeff=4, base=3)
    """
    coeff = abs(coeff)
    return ModularSet(coeff, base % coeff if coeff else base)


class ModularAnalyzer:
    """Modular sets under facts about variables and other sub-expressions; memoised."""

    __slots__ = ("facts", "memo")

    def __init__(self, facts: Mapping[Expr, ModularSet]) -> None:
        self.facts = facts
        self.memo: dict[Expr, ModularSet] = {}

    def of(self, expr: Expr) -> ModularSet:
        """The modular set of `expr`."""
        found = self.memo.get(expr)
        if found is None:
            rule = _RULES.get(type(expr))
            found = EVERYTHING if rule is None else _wrapped(rule(self, expr), expr)
            fact = self.facts.get(expr)
            if fact is not None:
                found = intersect(found, fact)
            self.memo[expr] = found
        return found


def modular_set(expr: Expr, facts: Mapping[Var, ModularSet] | None = None) -> ModularSet:
    """What is known of `expr` modulo something.

    >>> i = Var("i"); modular_set(i * 8 + 3)
    ModularSet(coeff=8, base=3)
    """
    return ModularAnalyzer(dict((facts or {}).items())).of(expr)


def union(a: ModularSet, b: ModularSet) -> ModularSet:
    """The smallest modular set that holds both."""
    return modular(gcd(a.coeff, b.coeff, a.base - b.base), a.base)


def intersect(a: ModularSet, b: ModularSet) -> ModularSet:
    """The stronger of two statements about one value (not always all that both say)."""
    if a.coeff == 0 or b.coeff == 0:
        return a if a.coeff == 0 else b
    return a if a.coeff >= b.coeff else b


def _wrapped(found: ModularSet, expr: Expr) -> ModularSet:
    """Wrap-around keeps remainders by powers of two only."""
    kind = expr.dtype
    if is_index(kind) or not kind.is_int or found == EVERYTHING:
        return found
    if found.coeff == 0:
        return ModularSet(0, wrap_int(found.base, kind.element))
    return modular(gcd(found.coeff, 1 << kind.bits), found.base)


def _add(self: ModularAnalyzer, e: Any) -> ModularSet:
    a, b = self.of(e.a), self.of(e.b)
    return modular(gcd(a.coeff, b.coeff), a.base + b.base)


def _sub(self: ModularAnalyzer, e: Any) -> ModularSet:
    a, b = self.of(e.a), self.of(e.b)
    return modular(gcd(a.coeff, b.coeff), a.base - b.base)


def _product(a: ModularSet, b: ModularSet) -> ModularSet:
    coeff = gcd(a.coeff * b.coeff, a.coeff * b.base, a.base * b.coeff)
    return modular(coeff, a.base * b.base)


def _floor_div(self: ModularAnalyzer, e: Any) -> ModularSet:
    a, b = self.of(e.a), self.of(e.b)
    if b.coeff == 0 and b.base > 0 and a.coeff % b.base == 0:
        return modular(a.coeff // b.base, a.base // b.base)
    return EVERYTHING


def _floor_mod(self: ModularAnalyzer, e: Any) -> ModularSet:
    a, b = self.of(e.a), self.of(e.b)
    if b.coeff or b.base <= 0:
        return EVERYTHING
    if a.coeff % b.base == 0:
        return ModularSet(0, a.base % b.base)
    return modular(gcd(a.coeff, b.base), a.base)


def _merge(self: ModularAnalyzer, e: Any) -> ModularSet:
    return union(self.of(e.a), self.of(e.b))


def _cast(self: ModularAnalyzer, e: Any) -> ModularSet:
    source, target = e.value.dtype, e.dtype
    if not source.is_int or not target.is_int:
        return EVERYTHING
    inner = self.of(e.value)
    if is_index(source) and is_index(target) and target.bits >= source.bits:
        return inner
    return modular(gcd(inner.coeff, 1 << min(target.bits, source.bits)), inner.base)


def _call(self: ModularAnalyzer, e: Any) -> ModularSet:
    if e.op == "tir.likely":
        return self.of(e.args[0])
    if e.op == "tir.if_then_else":
        return union(self.of(e.args[1]), self.of(e.args[2]))
    if len(e.args) != 2 or not isinstance(e.args[1], IntImm) or e.args[1].value < 0:
        return EVERYTHING
    value = e.args[1].value
    if e.op == "tir.shift_left" and value < e.dtype.bits:
        return _product(self.of(e.args[0]), ModularSet(0, 1 << value))
    return EVERYTHING


def _let(self: ModularAnalyzer, e: Any) -> ModularSet:
    return ModularAnalyzer({**self.facts, e.var: self.of(e.value)}).of(e.body)


_RULES: dict[type[Expr], Callable[[ModularAnalyzer, Any], ModularSet]] = {
    IntImm: lambda _, e: ModularSet(0, e.value),
    Add: _add,
    Sub: _sub,
    Mul: lambda self, e: _product(self.of(e.a), self.of(e.b)),
    FloorDiv: _floor_div,
    FloorMod: _floor_mod,
    Min: _merge,
    Max: _merge,
    Select: lambda self, e: union(self.of(e.true_value), self.of(e.false_value)),
    Cast: _cast,
    Call: _call,
    Broadcast: lambda self, e: self.of(e.value),
    Ramp: lambda self, e: modular(
        gcd(self.of(e.base).coeff, self.of(e.stride).coeff, self.of(e.stride).base),
        self.of(e.base).base,
    ),
    Let: _let,
}
