"""Conditions guard what comes after them: simplification evaluates no more than it was given."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tileloom.expr import (
    GE,
    LT,
    Analyzer,
    And,
    Call,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Not,
    Or,
    Range,
    StringImm,
    Var,
    const,
    post_order,
    simplify,
    substitute,
)
from tileloom.tir import BufferLoad, make_buffer

BY_ZERO = "division by zero"
I, J = Var("i"), Var("j")
Y = make_buffer((12,), "int32", "Y")


def y(index: Any) -> BufferLoad:
    return BufferLoad(Y, (index if isinstance(index, Expr) else const(index),))


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (And(And(I < 4, y(I) > 2), I < 2), "i < 2 and 2 < Y[i]"),
        (And(And(I < 2, y(I) > 2), I < 4), "i < 2 and 2 < Y[i]"),
        (Or(Or(I >= 4, y(I) > 2), I >= 2), "1 < i or 2 < Y[i]"),
        (And(And(I < 4, J < 3), I < 2), "j < 3 and i < 2"),
        (And(And(I < 4, J < 3), And(y(I) > 2, I < 2)), "j < 3 and i < 2 and 2 < Y[i]"),
        # What implies it may itself not be evaluated.
        (And(And(I < 4, y(I) > 2), y(0) // 2 > I), None),
        (And(And(J > 0, FloorDiv(I, J) > 2), J > 1), "1 < j and 2 < i // j"),
        (And(And(J != 0, FloorMod(I, J) > 2), J > 1), "1 < j and 2 < i % j"),
        (And(And(I < 4, FloorDiv(I, const(3)) > 0), I < 9), "i < 4 and 2 < i"),
    ],
)
def test_what_implies_a_guard_takes_its_place(condition: Expr, wanted: str | None) -> None:
    assert str(simplify(condition)) == (wanted or str(simplify(condition)))
    _check(condition, Analyzer(), [4, 0, 7, 2, 1, 5, 3, 9, 8, 2, 6, 4])


def test_calls_with_effects_keep_their_guards() -> None:
    called = Call("bool", "tir.call_extern", (StringImm("test"), I))
    found = simplify(And(And(I < 4, called), I < 2))
    assert str(found).startswith("i < ")


@settings(deadline=None, max_examples=40, phases=[Phase.generate])
@given(st.randoms(use_true_random=False), st.booleans())
def test_random_conditions_read_no_more(random: Random, ranges: bool) -> None:
    numbers = [random.randint(-3, 12) for _ in range(12)]
    known = {I: Range(const(0), const(9)), J: Range(const(-2), const(6))} if ranges else {}
    _check(_condition(random, 3), Analyzer(known), numbers)


def _condition(random: Random, depth: int) -> Expr:
    kind = random.randint(0, 4) if depth else 5
    if kind == 0:
        return Not(_condition(random, depth - 1))
    if kind < 5:
        junction = random.choice([And, And, Or])
        return junction(_condition(random, depth - 1), _condition(random, depth - 1))
    left: Expr = random.choice([I, J, I * 2 - 3, I + J, I - J])
    if random.random() < 0.4:
        left = random.choice([y(left), FloorDiv(I, J), FloorMod(left, const(3))])
    return random.choice([LT, GE])(left, const(random.randint(-2, 9)))


def _check(condition: Expr, analyzer: Analyzer, numbers: list[int]) -> None:
    """The simplified condition holds where this one does, and does nothing that it does not."""
    simple = analyzer.simplify(condition)
    for i in range(9):
        for j in range(-2, 4):
            done: list[Any] = []
            holds = _holds(substitute(condition, {I: const(i), J: const(j)}), numbers, done)
            if BY_ZERO in done:
                continue
            again: list[Any] = []
            assert holds == _holds(substitute(simple, {I: const(i), J: const(j)}), numbers, again)
            assert {*again} <= {*done}, (condition, simple, i, j)


def _holds(condition: Expr, numbers: list[int], done: list[Any]) -> bool:
    match condition:
        case IntImm(_, value):
            return bool(value)
        case And(a, b):
            return _holds(a, numbers, done) and _holds(b, numbers, done)
        case Or(a, b):
            return _holds(a, numbers, done) or _holds(b, numbers, done)
        case Not(a):
            return not _holds(a, numbers, done)
        case CompareOp():
            parts = [_number(part, numbers, done) for part in (condition.a, condition.b)]
            found = simplify(condition.with_children([const(part) for part in parts]))
            assert isinstance(found, IntImm)
            return bool(found.value)
    raise AssertionError(condition)


def _number(expr: Expr, numbers: list[int], done: list[Any]) -> int:
    """The value of an expression over constants; notes the elements that it reads, and divisors."""
    if isinstance(expr, IntImm):
        return expr.value
    parts = [_number(part, numbers, done) for part in expr.children]
    if isinstance(expr, BufferLoad):
        done.append(parts[0])
        return numbers[parts[0] % 12]
    if isinstance(expr, FloorDiv | FloorMod) and parts[1] == 0:
        done.append(BY_ZERO)
        return 0
    found = simplify(expr.with_children([const(part) for part in parts]))
    assert isinstance(found, IntImm), [*post_order(expr)]
    return found.value
