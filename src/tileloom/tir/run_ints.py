"""Scalar integers of the interpreter: Python source together with an interval that holds the value.

A result is wrapped to its type only where the interval says that it may have left it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from ..base import DType
from ..expr import Add, Div, Expr, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub, trunc_div
from ..expr.bounds import type_range
from .run_support import truncated_mod


@dataclass(frozen=True, slots=True)
class ValueCode:
    """Python source of a value; for scalar integers an interval that holds it."""

    code: str
    lo: int = 0
    hi: int = 0
    depth: int = 0
    extent: Expr | None = None  # the value is below this expression, whatever that is


def wrap(code: str, lo: int, hi: int, kind: DType, depth: int) -> ValueCode:
    """An integer result reduced to its type, if it can leave it."""
    low, high = type_range(kind)
    if kind.is_bool:
        return ValueCode(f"({code} != 0)", 0, 1, depth + 1)
    if low <= lo and hi <= high:
        return ValueCode(code, lo, hi, depth)
    mask = (1 << kind.bits) - 1
    if low == 0:
        return ValueCode(f"({code} & {mask})", low, high, depth + 1)
    return ValueCode(f"(({code} + {-low} & {mask}) - {-low})", low, high, depth + 2)


def _corners(function: Callable[[int, int], int], a: ValueCode, b: ValueCode) -> tuple[int, int]:
    values = [function(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(values), max(values)


def _plain(symbol: str, function: Callable[[int, int], int]) -> Callable[..., ValueCode]:
    def rule(kind: DType, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        lo, hi = _corners(function, a, b)
        return wrap(f"({a.code} {symbol} {b.code})", lo, hi, kind, depth)

    return rule


def _extreme(name: str, function: Callable[..., int]) -> Callable[..., ValueCode]:
    def rule(kind: DType, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        lo, hi = function(a.lo, b.lo), function(a.hi, b.hi)
        return ValueCode(f"{name}({a.code}, {b.code})", lo, hi, depth)

    return rule


def _quotient(truncated: bool) -> Callable[..., ValueCode]:
    def rule(kind: DType, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        floor = f"({a.code} // {b.code})"
        if b.lo > 0 and (a.lo >= 0 or not truncated):
            return ValueCode(floor, *_corners(operator.floordiv, a, b), depth)
        code = f"_tdiv({a.code}, {b.code})" if truncated else floor
        low, high = type_range(kind)
        return wrap(code, low, high + (a.lo == low), kind, depth)  # -min / -1 overflows

    return rule


def _remainder(truncated: bool) -> Callable[..., ValueCode]:
    def rule(kind: DType, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        floor = f"({a.code} % {b.code})"
        if b.lo > 0 and (a.lo >= 0 or not truncated):
            return ValueCode(floor, 0, min(b.hi - 1, a.hi) if a.lo >= 0 else b.hi - 1, depth)
        code = f"_tmod({a.code}, {b.code})" if truncated else floor
        return ValueCode(code, *type_range(kind), depth)

    return rule


INT_RULES: dict[type[Expr], Callable[..., ValueCode]] = {
    Add: _plain("+", operator.add),
    Sub: _plain("-", operator.sub),
    Mul: _plain("*", operator.mul),
    Div: _quotient(True),
    FloorDiv: _quotient(False),
    Mod: _remainder(True),
    FloorMod: _remainder(False),
    Min: _extreme("min", min),
    Max: _extreme("max", max),
}
INT_DIVISIONS: dict[type[Expr], Callable[[int, int], int]] = {
    Div: trunc_div,
    Mod: truncated_mod,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
}
INT_CALLS = {
    "tir.bitwise_and": "{} & {}",
    "tir.bitwise_or": "{} | {}",
    "tir.bitwise_xor": "{} ^ {}",
    "tir.bitwise_not": "~{}",
    "tir.shift_left": "_shl({}, {})",
    "tir.shift_right": "{} >> {}",
    "tir.abs": "abs({})",
    "tir.pow": "{} ** {}",
}
NEVER_OVERFLOWS = {"tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "tir.shift_right"}
