"""How far integer expressions reach in exact arithmetic: where 32 bits would not do.

`bounds` takes index arithmetic not to overflow and cuts intervals at the ends of the type. Here
nothing is cut: an interval is that of the mathematical value, and an end is infinite where it
hangs on something of which nothing is known (a size of the caller, an element of memory).
"""

from __future__ import annotations

from math import inf

from ..base.late import TYPE_CHECKING
from .nodes import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
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
    Ramp,
    Select,
    Sub,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The least and the greatest value, both included; either may be infinite.
Interval = tuple[float, float]

UNKNOWN: Interval = (-inf, inf)
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


def beyond_int32(interval: Interval) -> bool:
    """Whether an end that is known does not fit into 32 bits.

    >>> beyond_int32((0, 2**31)), beyond_int32((0, 2**31 - 1)), beyond_int32(UNKNOWN)
    (True, False, False)
    """
    low, high = interval
    return _is_beyond(low) or _is_beyond(high)


def _is_beyond(end: float) -> bool:
    return not _INT32_MIN <= end <= _INT32_MAX and abs(end) != inf


class Reach:
    """Intervals of expressions over variables of known ranges. Results are memoised.

    >>> i, j = Var("i"), Var("j")
    >>> reach = Reach({i: (0, 69999), j: (0, 69999)})
    >>> reach.of(i * 70000 + j), reach.of(i * Var("n"))
    ((0, 4899999999), (-inf, inf))
    """

    __slots__ = ("_memo", "_ranges")

    def __init__(self, ranges: Mapping[Var, Interval] | None = None) -> None:
        self._ranges: dict[Var, Interval] = dict(ranges or {})
        self._memo: dict[Expr, Interval] = {}

    def bind(self, var: Var, interval: Interval) -> None:
        """Let a variable be in a range from now on."""
        known = self._ranges.get(var)
        if known is not None and known != interval:
            self._memo.clear()
        self._ranges[var] = interval

    def of(self, expr: Expr) -> Interval:
        """The interval of an integer expression, of every lane of a vector."""
        found = self._memo.get(expr)
        if found is None:
            rule = _RULES.get(type(expr))
            if isinstance(expr, Var):
                found = self._ranges.get(expr, UNKNOWN)
            else:
                found = UNKNOWN if rule is None else rule(self, expr)
            self._memo[expr] = found
        return found


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _mul(reach: Reach, e: Any) -> Interval:
    a, b = reach.of(e.a), reach.of(e.b)
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _add(reach: Reach, e: Any) -> Interval:
    a, b = reach.of(e.a), reach.of(e.b)
    return a[0] + b[0], a[1] + b[1]


def _sub(reach: Reach, e: Any) -> Interval:
    a, b = reach.of(e.a), reach.of(e.b)
    return a[0] - b[1], a[1] - b[0]


def _divisor(expr: BinaryOp) -> int | None:
    divisor = expr.b
    return divisor.value if isinstance(divisor, IntImm) and divisor.value > 0 else None


def _quotient(reach: Reach, e: Any) -> Interval:
    a, divisor = reach.of(e.a), _divisor(e)
    if divisor is None:
        return UNKNOWN
    low, high = (end if abs(end) == inf else end // divisor for end in a)
    return low, high if isinstance(e, FloorDiv) else max(high, 0)


def _remainder(reach: Reach, e: Any) -> Interval:
    a, divisor = reach.of(e.a), _divisor(e)
    if divisor is None:
        return UNKNOWN
    if a[0] >= 0:
        return 0, min(a[1], divisor - 1)
    return (0 if isinstance(e, FloorMod) else 1 - divisor), divisor - 1


def _min(reach: Reach, e: Any) -> Interval:
    a, b = reach.of(e.a), reach.of(e.b)
    return min(a[0], b[0]), min(a[1], b[1])


def _max(reach: Reach, e: Any) -> Interval:
    a, b = reach.of(e.a), reach.of(e.b)
    return max(a[0], b[0]), max(a[1], b[1])


def _either(reach: Reach, a: Expr, b: Expr) -> Interval:
    x, y = reach.of(a), reach.of(b)
    return min(x[0], y[0]), max(x[1], y[1])


def _cast(reach: Reach, e: Any) -> Interval:
    kind, source = e.dtype, e.value.dtype
    if kind.code != "int" or source.code not in ("int", "uint", "bool"):
        return UNKNOWN
    inner = reach.of(e.value)
    if inner == UNKNOWN and source.bits < 32:
        signed = source.code == "int"
        bits = source.bits - signed
        inner = (-(1 << bits) if signed else 0, (1 << bits) - 1)
    limit = 1 << (kind.bits - 1)
    return inner if -limit <= inner[0] and inner[1] < limit else UNKNOWN


def _ramp(reach: Reach, e: Any) -> Interval:
    base, stride = reach.of(e.base), reach.of(e.stride)
    steps = [_times(end, e.lanes - 1) for end in stride]
    return base[0] + min(0, *steps), base[1] + max(0, *steps)


def _call(reach: Reach, e: Any) -> Interval:
    if e.op == "tir.if_then_else":
        return _either(reach, e.args[1], e.args[2])
    return reach.of(e.args[0]) if e.op == "tir.likely" else UNKNOWN


_RULES: dict[type[Expr], Callable[[Reach, Any], Interval]] = {
    IntImm: lambda _, e: (e.value, e.value),
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _quotient,
    Div: _quotient,
    FloorMod: _remainder,
    Mod: _remainder,
    Min: _min,
    Max: _max,
    Select: lambda reach, e: _either(reach, e.true_value, e.false_value),
    Cast: _cast,
    Ramp: _ramp,
    Broadcast: lambda reach, e: reach.of(e.value),
    Call: _call,
}
