"""`tvm.arith.int_set`: sets of integers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....expr import Expr, ExprLike, Ramp, Var, as_expr, const
from ....expr.int_set import IntSet as Interval
from .._names import missing

_POS_INF, _NEG_INF = Var("pos_inf", "handle"), Var("neg_inf", "handle")


def pos_inf() -> Var:
    """What stands for plus infinity."""
    return _POS_INF


def neg_inf() -> Var:
    """What stands for minus infinity."""
    return _NEG_INF


class IntSet:
    """Sets of integers: `IntSet.vector(ramp)`, `IntSet.single_point(x)`."""

    @staticmethod
    def vector(vec: Expr) -> IntervalSet:
        """The values of a vector."""
        if isinstance(vec, Ramp):
            return IntervalSet(vec.base, vec.base + vec.stride * (vec.lanes - 1))
        return IntervalSet(vec, vec)

    @staticmethod
    def single_point(point: ExprLike) -> IntervalSet:
        """One value."""
        return IntervalSet(point, point)


class _Ends(NamedTuple):
    min_value: Expr
    max_value: Expr


class IntervalSet(_Ends, IntSet):
    """All integers from `min_value` to `max_value`, both included.

    >>> IntervalSet(0, 3).max_value
    3
    """

    __slots__ = ()

    def __new__(cls, min_value: ExprLike, max_value: ExprLike) -> IntervalSet:
        return _Ends.__new__(cls, as_expr(min_value), as_expr(max_value))

    def is_nothing(self) -> bool:
        """Whether it is empty, as far as constants tell."""
        low, high = self
        both = hasattr(low, "value") and hasattr(high, "value")
        return self == (_POS_INF, _NEG_INF) or bool(both and low.value > high.value)  # type: ignore[attr-defined]

    def is_everything(self) -> bool:
        """Whether nothing is known."""
        return self.min_value is _NEG_INF and self.max_value is _POS_INF


def from_interval(found: Interval) -> IntervalSet:
    """Our interval as TVM's, open ends as infinities."""
    low, high = found
    return IntervalSet(_NEG_INF if low is None else low, _POS_INF if high is None else high)


def to_interval(given: Any) -> Any:
    """A domain as ours: intervals of TVM are turned round, ranges stay."""
    if not isinstance(given, IntervalSet):
        return given
    low = None if given.min_value is _NEG_INF else given.min_value
    high = None if given.max_value is _POS_INF else given.max_value
    return Interval(low, high)


NOTHING = IntervalSet(const(0), const(-1))
__getattr__ = missing(__name__)
