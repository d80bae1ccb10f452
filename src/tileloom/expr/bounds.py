"""Constant bounds of integer expressions, by interval arithmetic.

Index arithmetic (`int32` and wider) is taken not to overflow, as everywhere in this room; narrow
and unsigned types wrap around, so a result that may leave the type's range is only known to be in
that range. "Unbounded" is the range of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import mul
from typing import Any, NamedTuple

from ..base import DType
from .build import trunc_div
from .nodes import (
    Add,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    Var,
)
from .polynomials import bounds_of_products, has_product, products_of


class ConstIntBound(NamedTuple):
    """All integers from `min_value` to `max_value`, both included."""

    min_value: int
    max_value: int

    def intersect(self, other: ConstIntBound) -> ConstIntBound:
        """What both say; contradictory bounds leave `self`, as nothing is ever evaluated there."""
        low, high = max(self[0], other[0]), min(self[1], other[1])
        return ConstIntBound(low, high) if low <= high else self

    def union(self, other: ConstIntBound) -> ConstIntBound:
        """The smallest interval that holds both."""
        return ConstIntBound(min(self[0], other[0]), max(self[1], other[1]))

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self[0] <= value <= self[1]


_RANGES: dict[DType, ConstIntBound] = {}
_BOOLEAN = ConstIntBound(0, 1)


def type_range(kind: DType) -> ConstIntBound:
    """The values of an integer or boolean type; of any other type, those of int64.

    >>> from tileloom.base import dtype
    >>> type_range(dtype("uint8")), type_range(dtype("bool"))
    (ConstIntBound(min_value=0, max_value=255), ConstIntBound(min_value=0, max_value=1))
    """
    found = _RANGES.get(kind)
    if found is None:
        bits = kind.bits if kind.is_int else 64
        if kind.is_bool:
            found = _BOOLEAN
        elif kind.code == "uint":
            found = ConstIntBound(0, (1 << bits) - 1)
        else:
            found = ConstIntBound(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        _RANGES[kind] = found
    return found


def is_index(kind: DType) -> bool:
    """Whether arithmetic of this type is taken not to overflow.

    >>> from tileloom.base import dtype
    >>> is_index(dtype("int32")), is_index(dtype("uint32")), is_index(dtype("int8"))
    (True, False, False)
    """
    return kind.code == "int" and kind.bits >= 32


class BoundAnalyzer:
    """Bounds under facts: what is known of variables and of other sub-expressions.

    Results are memoised; a new set of facts needs a new analyzer.
    """

    __slots__ = ("facts", "memo")

    def __init__(self, facts: Mapping[Expr, ConstIntBound]) -> None:
        self.facts = facts
        self.memo: dict[Expr, ConstIntBound] = {}

    def of(self, expr: Expr) -> ConstIntBound:
        """The bounds of `expr` (of every lane of a vector)."""
        found = self.memo.get(expr)
        if found is None:
            rule = _RULES.get(type(expr))
            if rule is not None:
                found = rule(self, expr)
            elif isinstance(expr, CompareOp):
                found = _BOOLEAN
            else:
                found = type_range(expr.dtype)
            fact = self.facts.get(expr)
            if fact is not None:
                found = found.intersect(fact)
            self.memo[expr] = found
        return found


def const_int_bound(
    expr: Expr, ranges: Mapping[Var, tuple[int, int]] | None = None
) -> ConstIntBound:
    """The bounds of `expr` when variables lie in the given ranges, both ends included.

    >>> i = Var("i"); const_int_bound(i * 4 + 3, {i: (0, 7)})
    ConstIntBound(min_value=3, max_value=31)
    """
    facts: dict[Expr, ConstIntBound] = {v: ConstIntBound(*r) for v, r in (ranges or {}).items()}
    return BoundAnalyzer(facts).of(expr)


# ---------------------------------------------------------------------------- the rules


def _fit(low: int, high: int, kind: DType) -> ConstIntBound:
    """The interval within the type: cut where arithmetic cannot overflow, else all or nothing."""
    limits = type_range(kind)
    if low >= limits[0] and high <= limits[1]:
        return ConstIntBound(low, high)
    if is_index(kind):
        return limits.intersect(ConstIntBound(low, high))
    return limits


def _corners(function: Callable[[int, int], int], a: ConstIntBound, b: ConstIntBound) -> list[int]:
    return [function(a[0], b[0]), function(a[0], b[1]), function(a[1], b[0]), function(a[1], b[1])]


def _add(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    return _sum(self, e, a[0] + b[0], a[1] + b[1])


def _sub(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    return _sum(self, e, a[0] - b[1], a[1] - b[0])


def _sum(self: BoundAnalyzer, e: Any, low: int, high: int) -> ConstIntBound:
    """The bounds of a sum, of which an interval is known."""
    if low < 0 < high and is_index(e.dtype) and has_product(e):
        products = products_of(e)
        found = None if products is None else bounds_of_products(products, self.of)
        if found is not None:
            low, high = max(low, found[0]), min(high, found[1])
    return _fit(low, high, e.dtype)


def _mul(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    if b[0] == b[1]:
        first, last = a[0] * b[0], a[1] * b[0]
        return _fit(first, last, e.dtype) if first <= last else _fit(last, first, e.dtype)
    values = _corners(mul, a, b)
    return _fit(min(values), max(values), e.dtype)


def _without_zero(b: ConstIntBound) -> list[ConstIntBound]:
    """The negative and the positive divisors; division by zero has no value."""
    parts = [ConstIntBound(b[0], min(b[1], -1)), ConstIntBound(max(b[0], 1), b[1])]
    return [part for part in parts if part[0] <= part[1]]


def _division(function: Callable[[int, int], int]) -> Callable[[BoundAnalyzer, Any], ConstIntBound]:
    """Quotients are monotonic in each operand as long as the divisor keeps its sign."""

    def bound(self: BoundAnalyzer, e: Any) -> ConstIntBound:
        a, b = self.of(e.a), self.of(e.b)
        if b[0] == b[1] > 0:
            return _fit(function(a[0], b[0]), function(a[1], b[0]), e.dtype)
        values = [v for part in _without_zero(b) for v in _corners(function, a, part)]
        return _fit(min(values), max(values), e.dtype) if values else type_range(e.dtype)

    return bound


def _floor_mod(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    if b[0] == b[1] > 0:
        c = b[0]
        if a[0] // c == a[1] // c:
            return ConstIntBound(a[0] % c, a[1] % c)
    low, high = min(b[0] + 1, 0), max(b[1] - 1, 0)
    if b[0] > 0:
        if a[0] >= 0:
            high = min(high, a[1])
            if a[1] < b[0]:
                low = a[0]
        return ConstIntBound(low, high)
    return ConstIntBound(low, high)


def _trunc_mod(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    largest = max(abs(b[0]), abs(b[1]), 1) - 1
    low = 0 if a[0] >= 0 else max(-largest, a[0])
    high = 0 if a[1] <= 0 else min(largest, a[1])
    return ConstIntBound(low, high)


def _min(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    return ConstIntBound(min(a[0], b[0]), min(a[1], b[1]))


def _max(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.a), self.of(e.b)
    return ConstIntBound(max(a[0], b[0]), max(a[1], b[1]))


def _choice(self: BoundAnalyzer, condition: Expr, yes: Expr, no: Expr) -> ConstIntBound:
    known = self.of(condition)
    if known[0] == known[1]:
        return self.of(yes if known[0] else no)
    return self.of(yes).union(self.of(no))


def _cast(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    source, limits = e.value.dtype, type_range(e.dtype)
    if not (source.is_int or source.is_bool):
        return limits
    inner = self.of(e.value)
    if e.dtype.is_bool:
        return _BOOLEAN if inner[0] <= 0 <= inner[1] else ConstIntBound(1, 1)
    return inner if limits[0] <= inner[0] and inner[1] <= limits[1] else limits


def _ramp(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    base, stride = self.of(e.base), self.of(e.stride)
    steps = (0, stride[0] * (e.lanes - 1), stride[1] * (e.lanes - 1))
    return _fit(base[0] + min(steps), base[1] + max(steps), e.dtype)


def _shuffle(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    result = self.of(e.vectors[0])
    for vector in e.vectors[1:]:
        result = result.union(self.of(vector))
    return result


def _let(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    return BoundAnalyzer({**self.facts, e.var: self.of(e.value)}).of(e.body)


def _not(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    inner = self.of(e.a)
    return ConstIntBound(1 - inner[1], 1 - inner[0])


def _call(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    rule = _CALLS.get(e.op)
    if rule is None or not (e.dtype.is_int or e.dtype.is_bool):
        return type_range(e.dtype)
    return rule(self, e)


def _bits_mask(value: int) -> int:
    return (1 << value.bit_length()) - 1


def _bitwise_and(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.args[0]), self.of(e.args[1])
    highs = [x[1] for x in (a, b) if x[0] >= 0]
    return ConstIntBound(0, min(highs)) if highs else type_range(e.dtype)


def _bitwise_or(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, b = self.of(e.args[0]), self.of(e.args[1])
    if a[0] < 0 or b[0] < 0:
        return type_range(e.dtype)
    low = 0 if e.op == "tir.bitwise_xor" else max(a[0], b[0])
    return ConstIntBound(low, _bits_mask(max(a[1], b[1])))


def _bitwise_not(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a, top = self.of(e.args[0]), type_range(e.dtype)[1] if e.dtype.is_unsigned else -1
    return ConstIntBound(top - a[1], top - a[0])


def _shift(function: Callable[[int, int], int]) -> Callable[[BoundAnalyzer, Any], ConstIntBound]:
    def bound(self: BoundAnalyzer, e: Any) -> ConstIntBound:
        a, b = self.of(e.args[0]), self.of(e.args[1])
        if b[0] < 0 or b[1] >= e.dtype.bits:
            return type_range(e.dtype)
        values = _corners(function, a, b)
        return _fit(min(values), max(values), e.dtype)

    return bound


def _abs(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    a = self.of(e.args[0])
    low = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return _fit(low, max(abs(a[0]), abs(a[1])), e.dtype)


def _bit_count(self: BoundAnalyzer, e: Any) -> ConstIntBound:
    return ConstIntBound(0, e.args[0].dtype.bits)


#: RISC-V allows vectors of 2**16 bits.
_MOST_VSCALE = 512
_CALLS: dict[str, Callable[[BoundAnalyzer, Any], ConstIntBound]] = {
    "tir.likely": lambda self, e: self.of(e.args[0]),
    "tir.if_then_else": lambda self, e: _choice(self, *e.args),
    "tir.bitwise_and": _bitwise_and,
    "tir.bitwise_or": _bitwise_or,
    "tir.bitwise_xor": _bitwise_or,
    "tir.bitwise_not": _bitwise_not,
    "tir.shift_left": _shift(lambda a, b: a << b),
    "tir.shift_right": _shift(lambda a, b: a >> b),
    "tir.abs": _abs,
    "tir.popcount": _bit_count,
    "tir.clz": _bit_count,
    "tir.vscale": lambda _, e: ConstIntBound(1, _MOST_VSCALE),
}
_RULES: dict[type[Expr], Callable[[BoundAnalyzer, Any], ConstIntBound]] = {
    IntImm: lambda _, e: ConstIntBound(e.value, e.value),
    SizeVar: lambda _, e: ConstIntBound(0, type_range(e.dtype)[1]),
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _division(lambda a, b: a // b),
    Div: _division(trunc_div),
    FloorMod: _floor_mod,
    Mod: _trunc_mod,
    Min: _min,
    Max: _max,
    Select: lambda self, e: _choice(self, e.condition, e.true_value, e.false_value),
    Cast: _cast,
    Not: _not,
    Ramp: _ramp,
    Broadcast: lambda self, e: self.of(e.value),
    Shuffle: _shuffle,
    Let: _let,
    Call: _call,
}
