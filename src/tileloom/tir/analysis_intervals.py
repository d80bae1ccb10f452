"""Which values an index takes while some variables run: intervals with symbolic ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ..expr import (
    Add,
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
    Range,
    Select,
    Sub,
    Var,
    binary,
    cast,
    const,
    free_vars,
    post_order,
    substitute,
)
from ..expr.analyzer import Analyzer
from ..expr.bounds import type_range
from .nodes import BufferLoad


class Interval(NamedTuple):
    """All integers from `low` to `high`, both included."""

    low: Expr
    high: Expr

    @property
    def is_point(self) -> bool:
        """Whether it holds one value."""
        return self.low is self.high

    def extent(self, analyzer: Analyzer) -> Expr:
        """How many integers it holds."""
        if self.is_point:
            return const(1, self.low.dtype)
        return analyzer.simplify(self.high - self.low + 1)


class Intervals:
    """Evaluates expressions while the variables that have been told to run take all their values.

    Args:
        fixed: ranges of variables that do not run, which proofs may use.

    >>> i, j, n = Var("i"), Var("j"), Var("n")
    >>> intervals = Intervals(); intervals.run(i, Range(0, 4)); intervals.run(j, Range(0, i + 1))
    >>> intervals.of(n * 8 + i * 2 + j)
    Interval(low=n * 8, high=n * 8 + 9)
    """

    def __init__(self, fixed: Mapping[Var, Range] | None = None) -> None:
        # A variable of one value is kept all the same: regions should say what they follow.
        known = {v: d for v, d in (fixed or {}).items() if not _is_one(d.extent)}
        self.outside = Analyzer(known)
        self.inside = Analyzer(known)
        self.ends: dict[Var, Interval | None] = {}

    def run(self, var: Var, domain: Range) -> None:
        """From now on the variable takes all values of the domain."""
        low, high = self.of(domain.min), self.of(domain.min + domain.extent - 1)
        known = low is not None and high is not None
        self.ends[var] = Interval(low.low, high.high) if low and high and known else None
        self.inside.bind(var, domain)

    @contextmanager
    def under(self, condition: Expr) -> Iterator[None]:
        """A scope in which a condition holds: it narrows what the running variables take."""
        before = dict(self.ends)
        with self.inside.constraint(condition):
            for var in free_vars(condition) & self.ends.keys():
                self.ends[var] = self._narrowed(var, self.ends[var])
            yield
        self.ends = before

    def _narrowed(self, var: Var, known: Interval | None) -> Interval | None:
        least, most = self.inside.const_int_bound(var)
        bottom, top = type_range(var.dtype)  # the bounds of what nothing is known of
        low = None if known is None else known.low
        high = None if known is None else known.high
        if least > bottom and (low is None or isinstance(low, IntImm)):
            low = const(int(least), var.dtype)
        if most < top and (high is None or isinstance(high, IntImm)):
            high = const(int(most), var.dtype)
        return None if low is None or high is None else Interval(low, high)

    def of(self, expr: Expr) -> Interval | None:
        """The least interval known to hold all values, or None if nothing is known."""
        if expr.dtype.lanes == 1 and free_vars(expr).isdisjoint(self.ends):
            return Interval(expr, expr)
        found = self._of(self.inside.simplify(expr))
        if found is None or found.is_point:
            return found
        low, high = self.outside.simplify(found.low), self.outside.simplify(found.high)
        return Interval(low, high)

    def _of(self, expr: Expr) -> Interval | None:
        if expr.dtype.lanes == 1 and free_vars(expr).isdisjoint(self.ends):
            return Interval(expr, expr)
        match expr:
            case Var():
                return self.ends[expr]
            case Add(a, b) | Sub(a, b) | Min(a, b) | Max(a, b):
                return self._binary(expr, self._of(a), self._of(b))
            case Mul(a, b):
                return self._product(a, b) or self._product(b, a) or self._constants(expr)
            case FloorDiv(a, b) if self._is_positive(b):
                x = self._of(a)
                return x and Interval(binary(FloorDiv, x.low, b), binary(FloorDiv, x.high, b))
            case FloorMod(a, b) if self._is_positive(b):
                return self._remainder(self._of(a), b)
            case Select(_, a, b) | Call(_, "tir.if_then_else", (_, a, b)):
                return self.union(self._of(a), self._of(b))
            case Call(_, "tir.likely", (a,)):
                return self._of(a)
            case Cast(kind, a) if kind.is_int and a.dtype.is_int:
                x = self._of(a)
                return x and Interval(cast(kind, x.low), cast(kind, x.high))
            case Ramp(base, stride, lanes):
                last = base + stride * (lanes - 1)
                return self.union(self._of(base), self._of(self.inside.simplify(last)))
            case Let(var, value, body):
                return self._of(self.inside.simplify(substitute(body, {var: value})))
        return self._constants(expr)

    def _binary(self, expr: Expr, x: Interval | None, y: Interval | None) -> Interval | None:
        if x is None or y is None:
            return self._constants(expr)
        if isinstance(expr, Sub):
            return Interval(binary(Sub, x.low, y.high), binary(Sub, x.high, y.low))
        op = type(expr)
        return Interval(binary(op, x.low, y.low), binary(op, x.high, y.high))  # type: ignore[arg-type]

    def _product(self, a: Expr, factor: Expr) -> Interval | None:
        if not free_vars(factor).isdisjoint(self.ends):
            return None
        x = self._of(a)
        if x is None:
            return None
        if self.outside.can_prove(factor >= 0):
            return Interval(x.low * factor, x.high * factor)
        if self.outside.can_prove(factor <= 0):
            return Interval(x.high * factor, x.low * factor)
        return None

    def _is_positive(self, divisor: Expr) -> bool:
        return free_vars(divisor).isdisjoint(self.ends) and self.outside.can_prove(divisor > 0)

    def _remainder(self, x: Interval | None, divisor: Expr) -> Interval:
        whole = Interval(const(0, divisor.dtype), divisor - 1)
        if x is None:
            return whole
        first = binary(FloorDiv, x.low, divisor)
        if self.outside.can_prove_equal(first, binary(FloorDiv, x.high, divisor)):
            return Interval(x.low - first * divisor, x.high - first * divisor)
        return whole

    def _constants(self, expr: Expr) -> Interval | None:
        """Constant bounds, where there are some tighter than those of the type."""
        if any(isinstance(part, BufferLoad) for part in post_order(expr)):
            return None
        low, high = self.inside.const_int_bound(expr)
        bottom, top = type_range(expr.dtype)
        if low <= bottom or high >= top:
            return None
        return Interval(const(int(low), expr.dtype), const(int(high), expr.dtype))

    def union(self, a: Interval | None, b: Interval | None) -> Interval | None:
        """The least interval that holds both."""
        if a is None or b is None:
            return None
        return Interval(self.least(a.low, b.low), self.most(a.high, b.high))

    def least(self, a: Expr, b: Expr) -> Expr:
        """The smaller of two ends, decided where that can be proven."""
        if a is b or self.outside.can_prove(a <= b):
            return a
        return b if self.outside.can_prove(b <= a) else binary(Min, a, b)

    def most(self, a: Expr, b: Expr) -> Expr:
        """The larger of two ends, decided where that can be proven."""
        if a is b or self.outside.can_prove(a >= b):
            return a
        return b if self.outside.can_prove(b >= a) else binary(Max, a, b)


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1
