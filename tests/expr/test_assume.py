"""What a condition says of its variables, by enumeration."""

from __future__ import annotations

import operator
from collections.abc import Callable
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
    IntImm,
    Not,
    Or,
    Range,
    Select,
    Var,
    const,
    evaluate,
)

I, J = Var("i"), Var("j")
KINDS: dict[Any, Callable[[int, int], bool]] = {
    LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge, EQ: operator.eq,
    NE: operator.ne,
}  # fmt: skip
NUMBERS = (-3, -2, -1, 0, 3, 7, 8, 9, 10)


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_under_a_comparison(kind: Any, swapped: bool, negated: bool) -> None:
    """Of a variable in [-2, 8] compared with a number: the least and greatest value left."""
    for number in NUMBERS:
        sides = (const(number), I) if swapped else (I, const(number))
        condition = kind(*sides)
        holds = KINDS[kind]
        left = [
            i
            for i in range(-2, 9)
            if (holds(number, i) if swapped else holds(i, number)) != negated
        ]
        known = Analyzer({I: Range(-2, 11)})
        with known.constraint(Not(condition) if negated else condition):
            if left:
                assert known.const_int_bound(I) == (left[0], left[-1]), (kind, number)
                assert known.const_int_bound(I * 3 + 1) == (3 * left[0] + 1, 3 * left[-1] + 1)
                ends = [LE(I, const(left[-1])), GE(I, const(left[0]))]
                assert all(known.can_prove(end) for end in ends)
                ends = [LT(I, const(left[-1])), GT(I, const(left[0]))]
                assert not any(known.can_prove(end) for end in ends)
                assert known.can_prove(Not(condition) if negated else condition)
        assert known.const_int_bound(I) == (-2, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_from_two_terms_compared(kind: Any) -> None:
    """Of variables without bounds: every comparison that follows is proven, and no other."""
    holds = KINDS[kind]
    for shift in (-2, -1, 0, 1, 2):
        known = Analyzer()
        with known.constraint(kind(I + shift, J)):
            for other, says in KINDS.items():
                for number in (-2, -1, 0, 1, 2):
                    gaps = [gap for gap in range(-9, 10) if holds(gap + shift, 0)]
                    follows = all(says(gap, number) for gap in gaps)
                    proven = known.can_prove(other(I - J, const(number)))
                    assert not proven or follows, (kind, shift, other, number)
                    if kind is not NE and other not in (EQ, NE):
                        assert proven == follows, (kind, shift, other, number)


@pytest.mark.parametrize(
    ("condition", "proven", "unknown"),
    [
        (I % 4 == 1, [(I + 3) % 4 == 0, I % 2 == 1, (I * 2) % 8 == 2], [I % 8 == 1, I % 3 == 1]),
        (I % 4 == 0, [I % 2 == 0, (I + J * 4) % 4 == 0], [I % 8 == 0]),
        (I % 4 != 0, [], [I % 2 == 1, I % 4 == 0]),
        (I % 4 < 1, [], [I % 8 == 0]),
    ],
    ids=str,
)
def test_remainders(condition: Any, proven: list[Any], unknown: list[Any]) -> None:
    known = Analyzer()
    with known.constraint(condition):
        assert known.can_prove(condition)
        assert all(known.can_prove(each) for each in proven)
        assert not any(known.can_prove(each) for each in unknown)
    assert not any(known.can_prove(each) for each in (condition, *proven))


def test_floats_have_no_bounds() -> None:
    x = Var("x", "float32")
    known = Analyzer()
    with known.constraint(x < const(3.0, "float32")):
        assert not known.can_prove(x < const(4.0, "float32"))


def test_constraints_within_constraints() -> None:
    known = Analyzer({I: Range(0, 100)})
    with known.constraint(I < 50):
        with known.constraint(I >= 20):
            assert known.const_int_bound(I) == (20, 49)
            with known.constraint(I % 10 == 3):
                assert known.can_prove(I % 5 == 3)
        assert known.const_int_bound(I) == (0, 49)
        assert not known.can_prove(I % 5 == 3)
    assert known.const_int_bound(I) == (0, 99)


PAIRS = [(a, shift) for a in (LT, LE, EQ, NE, GE, GT) for shift in (-1, 0, 1)]


@pytest.mark.parametrize("first", PAIRS, ids=lambda pair: f"{pair[0].__name__}{pair[1]:+}")
def test_conditions_are_simplified_under_each_other(first: Any) -> None:
    """Both sides of a conjunction, a disjunction and a choice: what is made of them is the same,
    and it is a constant where it can be nothing else."""
    known, points = Analyzer(), [(i, j) for i in range(-3, 4) for j in range(-2, 3)]
    kind, shift = first
    a = kind(I, J + shift)
    for other, move in PAIRS:
        b = other(I, J + move)
        left, right = KINDS[kind], KINDS[other]
        cases: list[Any] = [
            (And(a, b), lambda p, q: p and q),
            (Or(a, b), lambda p, q: p or q),
            (Select(a, b, Not(b)), lambda p, q: q if p else not q),
            (And(Not(a), b), lambda p, q: not p and q),
            (Or(Not(a), b), lambda p, q: not p or q),
        ]
        for made, meaning in cases:
            found = known.simplify(made)
            wanted = [bool(meaning(left(i, j + shift), right(i, j + move))) for i, j in points]
            assert [bool(evaluate(found, {I: i, J: j})) for i, j in points] == wanted, made
            if len(set(wanted)) == 1 and NE not in (kind, other) and EQ not in (kind, other):
                assert isinstance(found, IntImm), made
