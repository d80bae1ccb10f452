"""Rules of vectors: each lane keeps its value, and what all lanes share moves out."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Analyzer,
    And,
    Broadcast,
    Cast,
    Expr,
    Max,
    Min,
    Or,
    Ramp,
    Select,
    Var,
    cast,
    const,
    evaluate,
    free_vars,
    intrin,
)
from tileloom.expr.order import order_key

X, Y = Var("x"), Var("y")
RANGES = {X: (0, 3), Y: (0, 7)}
COMPARED = (LT, LE, GT, GE, EQ, NE)


@cache
def known() -> Analyzer:
    analyzer = Analyzer()
    for var, (low, high) in RANGES.items():
        analyzer.bind_bound(var, low, high)
    return analyzer


def lanes_of(expr: Expr, env: dict[Any, Any]) -> list[Any]:
    value = evaluate(expr, env)
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check(expr: Expr) -> Expr:
    """The simplified expression, after a check that it has the same lanes everywhere."""
    found = known().simplify(expr)
    assert found.dtype is expr.dtype
    for x, y in itertools.product(range(4), range(8) if Y in free_vars(expr) else (0,)):
        env = {X: x, Y: y}
        assert lanes_of(found, env) == lanes_of(expr, env), (str(expr), str(found), env)
    return found


@pytest.mark.parametrize("kind", COMPARED)
@pytest.mark.parametrize("stride", [-2, 0, 1])
def test_comparisons_with_a_limit(kind: Any, stride: int) -> None:
    """`x` is 0 to 3, and there are four lanes."""
    ramp = Ramp(X, const(stride), 4)
    bounds = [Broadcast(const(limit), 4) for limit in (-6, -1, 0, 3, 6, 7)]
    for a, b in (pair for bound in bounds for pair in ((ramp, bound), (bound, ramp))):
        found = check(kind(a, b))
        outcomes = {v for x in range(4) for v in lanes_of(kind(a, b), {X: x, Y: 0})}
        if len(outcomes) == 1 and kind in (LT, LE):
            assert isinstance(found, Broadcast)


TEXTS = [
    (Ramp(X, const(1), 4) + Broadcast(Y, 4), "T.Ramp(x + y, 1, 4)"),
    (Broadcast(Y, 4) - Ramp(X, const(1), 4), "T.Ramp(y - x, -1, 4)"),
    (Ramp(X, const(1), 4) + Ramp(Y, const(2), 4), "T.Ramp(x + y, 3, 4)"),
    (Ramp(X, const(1), 4) - Ramp(X, const(1), 4), "T.Broadcast(0, 4)"),
    (Broadcast(X, 4) * Broadcast(Y, 4), "T.Broadcast(x * y, 4)"),
    (Ramp(X, const(2), 4) * Broadcast(const(3), 4), "T.Ramp(x * 3, 6, 4)"),
    (Ramp(X * 8, const(1), 8) // Broadcast(const(8), 8), "T.Broadcast(x, 8)"),
    (Ramp(X * 8, const(1), 8) % Broadcast(const(8), 8), "T.Ramp(0, 1, 8)"),
    (Ramp(X, const(8), 4) // Broadcast(const(8), 4), "T.Ramp(0, 1, 4)"),
    (Ramp(X, const(8), 4) % Broadcast(const(8), 4), "T.Broadcast(x, 4)"),
    (Ramp(X * 4 + 1, const(1), 4) // Broadcast(const(4), 4), None),
    (Ramp(X * 4 + 1, const(1), 3) // Broadcast(const(4), 3), "T.Broadcast(x, 3)"),
    (Ramp(X * 4 + 1, const(1), 3) % Broadcast(const(4), 3), "T.Ramp(1, 1, 3)"),
    (Ramp(X * 4 + 2, const(1), 3) % Broadcast(const(4), 3), None),
    (Ramp(X, const(0), 4), "T.Broadcast(x, 4)"),
    (Broadcast(Broadcast(X, 2), 3), "T.Broadcast(x, 6)"),
    (Select(Broadcast(X < 2, 4), Broadcast(X, 4), Broadcast(Y, 4)),
     "T.Broadcast(T.Select(x < 2, x, y), 4)"),
    (Select(Broadcast(X < 2, 4), Ramp(X, const(1), 4), Broadcast(Y, 4)),
     "T.Select(x < 2, T.Ramp(x, 1, 4), T.Broadcast(y, 4))"),
    (Select(Ramp(X, const(1), 2) < Broadcast(Y, 2), Broadcast(X, 2), Broadcast(Y, 2)), None),
    (cast("int64x4", Broadcast(X, 4)), 'T.Broadcast(T.Cast("int64", x), 4)'),
    (Cast("int64x4", Ramp(X, const(2), 4)), 'T.Ramp(T.Cast("int64", x), T.int64(2), 4)'),
    (Cast("float32x4", Ramp(X, const(2), 4)), None), (Cast("int16x4", Ramp(X, const(2), 4)), None),
    (Min(Broadcast(X, 4), Broadcast(Y, 4)), "T.Broadcast(T.min(x, y), 4)"),
    (Max(Broadcast(X, 4), Broadcast(const(9), 4)), "T.Broadcast(9, 4)"),
    (And(Broadcast(X < 2, 4), Broadcast(Y < 2, 4)), "T.Broadcast(x < 2 and y < 2, 4)"),
    (Or(Broadcast(X < 2, 4), Broadcast(X < 3, 4)), "T.Broadcast(x < 3, 4)"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "text"), TEXTS, ids=str)
def test_what_vectors_become(expr: Expr, text: str | None) -> None:
    found = check(expr)
    assert str(found) == text if text is not None else str(found) == str(expr)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", COMPARED)
def test_types_of_comparisons(kind: Any, lanes: int) -> None:
    a, b = (Var(name, f"int32x{lanes}" if lanes > 1 else "int32") for name in "ab")
    assert kind(a, b).dtype == ("bool" if lanes == 1 else f"boolx{lanes}")


def test_the_order_of_expressions() -> None:
    """Products, divisions, sums, calls, variables as they were made, numbers."""
    products = [X * Y * X, X * Y]
    rest = [X // 3, Min(X, Y), X + Y, X - Y, intrin.popcount(Y), X, cast("int64", X), Y]
    numbers = [const(2), const(5), const(1, "int64")]
    wanted = [*products, *rest, *numbers]
    for turn in range(len(wanted)):
        mixed = wanted[turn:] + wanted[:turn]
        assert list(map(str, sorted(mixed, key=order_key))) == list(map(str, wanted))


@pytest.mark.parametrize(
    ("value", "text"),
    [(const(-3), "3"), (const(3), "3"), (const(-(1 << 31)), str(-(1 << 31))), (X, "T.abs(x)"),
     (Var("u", "uint8"), "u"), (const(-1.5, "float32"), "T.float32(1.5)")],
    ids=str,
)  # fmt: skip
def test_absolute_values(value: Expr, text: str) -> None:
    assert str(intrin.abs(value)) == text
    f = Var("f", "float32")
    assert str(intrin.abs(f)) == "T.fabs(f)"
