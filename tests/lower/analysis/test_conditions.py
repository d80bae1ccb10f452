"""Opposites of conditions, and what may be evaluated where the program would not."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import And, Expr, Not, Or, Select, Var, const, evaluate
from tileloom.lower.analysis.conditions import may_divide_by_zero, may_trap, negate
from tileloom.script import tir as T
from tileloom.tir import BufferLoad, make_buffer

X, Y, U, F = Var("x"), Var("y"), Var("u", "uint8"), Var("f", "float32")
LOADED = BufferLoad(make_buffer((9,), "int32", "A"), [X])


@pytest.mark.parametrize(
    ("condition", "text"),
    [(X < Y, "x >= y"), (X >= Y, "x < y"), (X <= Y, "x > y"), (X > Y, "x <= y"),
     (X == Y, "not (x == y)"), (X != Y, "not (x != y)"), (U < 3, "u >= T.uint8(3)"),
     (F < 1.0, "not (f < T.float32(1.0))"), (Not(X < Y), "not (not (x < y))"),
     (const(True), "T.bool(False)"),
     (And(X > 0, Y > 0), "not (x > 0 and y > 0)")],
    ids=str,
)  # fmt: skip
def test_opposites(condition: Expr, text: str) -> None:
    """An order of floats has none, for there is NaN."""
    found = negate(condition)
    assert str(found) == text
    for x in range(-1, 2):
        env = {X: x, Y: 0, U: x + 2, F: float(x)}
        assert bool(evaluate(found, env)) is not bool(evaluate(condition, env))


V = T.Ramp(X, 1, 4)


@pytest.mark.parametrize(
    ("expr", "divides", "traps"),
    [
        (X // Y, True, True), (X % Y, True, True), (T.truncdiv(X, Y), True, True),
        (T.truncmod(X, Y), True, True), (X // 3, False, False), (X % 3, False, False),
        (F / F, False, False), (X + Y, False, False), (X // Y + 1, False, True),
        (LOADED, False, True), (LOADED + 1, False, True), (Or(X > 0, LOADED > 0), False, True),
        (V // T.Broadcast(const(3), 4), False, False), (V // T.Broadcast(Y, 4), True, True),
        (V // V, True, True), (T.truncdiv(X, const(-1)), False, False),
        (Select(X > 0, X // Y, Y), False, True), (Select(X > 0, X // 2, Y), False, False),
    ],
    ids=str,
)  # fmt: skip
def test_what_may_fail(expr: Any, divides: bool, traps: bool) -> None:
    assert may_divide_by_zero(expr) is divides
    assert [may_trap(expr) for _ in range(2)] == [traps, traps]
