"""How many operations of which kind an expression has."""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    const,
    has_load,
    rewrite,
)
from ...expr.effects import has_effect
from ...tir import BufferLoad

# Where an operation is counted: of floats; of all other types it is INT places further.
ADDSUB, MUL, DIVMOD, COMPARE, MATH, OTHER = 1, 2, 3, 4, 5, 6
INT, BOOL, SELECT, KINDS = 7, 14, 15, 16
ZEROS = (0,) * KINDS
_PLACES: dict[type[Expr], int] = {
    Add: ADDSUB,
    Sub: ADDSUB,
    Mul: MUL,
    **dict.fromkeys((Div, Mod, FloorDiv, FloorMod), DIVMOD),
    Max: COMPARE,
    Min: COMPARE,
}
_COMPARISONS = frozenset((EQ, NE, LT, LE, GT, GE))  # whose results are no floats
_LOGIC = frozenset((And, Or, Not))
_UNIT = tuple(tuple(int(i == place) for i in range(KINDS)) for place in range(KINDS))


class Summary(NamedTuple):
    """What an expression consists of.

    Attributes:
        counts: its operations by kind, without those in the indices of loads. Every occurrence
            counts, also of equal parts.
        loads: what it reads, in evaluation order.
        is_fixed: whether no variable stands outside of the indices of loads.
    """

    counts: tuple[int, ...]
    loads: tuple[BufferLoad, ...]
    is_fixed: bool


_CONSTANT = Summary(ZEROS, (), True)
_VARIABLE = Summary(ZEROS, (), False)


def summary(expr: Expr) -> Summary:
    """What the expression consists of (memoised).

    >>> x, y = Var("x", "float32"), Var("y", "float32")
    >>> found = summary((x + y) * (x + y))
    >>> found.counts[:3], found.is_fixed
    ((0, 2, 1), False)
    """
    kind = type(expr)
    if kind is IntImm or kind is FloatImm:
        return _CONSTANT
    if isinstance(expr, BufferLoad):  # not memoised: it would hold itself
        inner = tuple(load for index in expr.indices if has_load(index) for load in _loads(index))
        return Summary(ZEROS, (*inner, expr), True)
    known = expr.memo.get("tune.summary")
    if known is None:
        known = expr.memo["tune.summary"] = _summary(expr)
    return known


def _summary(expr: Expr) -> Summary:
    if isinstance(expr, Var):
        return _VARIABLE
    place = place_of(expr)
    counts = ZEROS if place is None else _UNIT[place]
    loads: tuple[BufferLoad, ...] = ()
    is_fixed = True
    for child in expr.children:
        part = summary(child)
        counts = plus(counts, part.counts)
        loads += part.loads
        is_fixed = is_fixed and part.is_fixed
    return Summary(counts, loads, is_fixed)


def _loads(expr: Expr) -> tuple[BufferLoad, ...]:
    return summary(expr).loads


def plus(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The sum of two rows of counts."""
    if a is ZEROS:
        return b
    return a if b is ZEROS else tuple(map(add, a, b))


def unit(place: int) -> tuple[int, ...]:
    """One operation."""
    return _UNIT[place]


def place_of(expr: Expr) -> int | None:
    """Where an operation is counted; None for what is none."""
    kind = type(expr)
    place = _PLACES.get(kind)
    if place is not None:
        return place if expr.dtype.code == "float" else place + INT
    if kind in _COMPARISONS:
        return COMPARE + INT
    if kind in _LOGIC:
        return BOOL
    if kind is Select:
        return SELECT
    if isinstance(expr, Call):
        place = OTHER if has_effect(expr) else MATH
        return place if expr.dtype.code == "float" else place + INT
    return None


def folded(expr: Expr) -> Expr:
    """The expression with a `Select` that reads nothing replaced by one, and without operations
    that then change nothing (memoised).

    >>> x, y = Var("x"), Var("y", "float32")
    >>> folded(y * Select(x < 3, const(0.5), const(5.0)))
    y
    """
    memo = expr.memo
    if "tune.folded" not in memo:
        found = rewrite(expr, _folded)
        memo["tune.folded"] = None if found is expr else found  # no node holds itself
    known: Expr | None = memo["tune.folded"]
    return expr if known is None else known


def _folded(expr: Expr) -> Expr | None:
    if isinstance(expr, Select):
        if has_load(expr):
            return None
        return const(1.0 if expr.dtype.is_float else 1, expr.dtype)
    if not isinstance(expr, Add | Sub | Mul | Div):
        return None
    neutral = 0 if isinstance(expr, Add | Sub) else 1
    if _is_number(expr.b, neutral):
        return expr.a
    return expr.b if _is_number(expr.a, neutral) and expr.commutative else None


def _is_number(expr: Expr, value: int) -> bool:
    return isinstance(expr, IntImm | FloatImm) and expr.value == value
