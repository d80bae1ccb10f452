"""Symbolic intervals against the least and the greatest value over all of a domain."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.expr import (
    Analyzer,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Range,
    Select,
    SizeVar,
    Var,
    cast,
    const,
    evaluate,
    intrin,
)
from tileloom.expr.int_set import IntSet, int_set, intersect, union
from tileloom.expr.nodes import Call

I, J, N, S, L = Var("i"), Var("j"), Var("n"), SizeVar("s"), Var("l", "int64")
RUNS = {I: (2, 5), J: (-1, 3)}
DOMAINS = {v: Range(low, count) for v, (low, count) in RUNS.items()}
EXACT = [
    I, I + J, I - J, J - I, I * 3, I * -3, I * 0 + 4, N - I, N + I * 2 - J, I * S, I * (0 - S),
    S * I, I // 2, (I + 1) // 3, (I * 4 + J) // 4, (I + N * 4) // 4,
    I % 8, (I + 8) % 8, (I + N * 8) % 8, Min(I, J), Max(I, J), Min(I, const(4)), Max(J, const(1)),
    Min(I, N), Max(N, J), I - Min(J, const(0)), Select(N < 3, I, J), Select(I < 3, I, J * 2),
    intrin.if_then_else(N < 3, I, J + 9), N, N * 2 + 1, const(7),
    cast("int32", cast("int64", I) + 5), -I, (I + N) - N, I * 2 + 1,
]  # fmt: skip
SOUND = [
    I * J, I * (J - 5), I % 4, (I * 3) % 5, I // (J + 2), I % (J + 2), I * I, (I + N) % 3,
    intrin.bitwise_and(I, 3), intrin.shift_left(I, 1), I * N, I - I // 2 * 2,
    Select(I < 4, I, const(4)), intrin.abs(I - 4), intrin.popcount(I),
]  # fmt: skip


def values(expr: Expr, n: int) -> list[int]:
    runs = [range(low, low + count) for low, count in RUNS.values()]
    found = []
    for at in itertools.product(*runs):
        env = {**dict(zip(RUNS, at, strict=True)), N: n, S: n}
        found.append(int(evaluate(expr, env)))
    return found


def ends(found: IntSet, n: int) -> tuple[Any, Any]:
    low, high = (None if e is None else int(evaluate(e, {N: n, S: n})) for e in found)
    return low, high


@pytest.mark.parametrize("expr", EXACT, ids=str)
def test_exact_intervals(expr: Any) -> None:
    """Of what is monotonic in each variable: the ends are reached, whatever n is.

    A choice may be of either side, whatever its condition.
    """
    found = int_set(Analyzer(), expr, DOMAINS)
    sides = [expr]
    if isinstance(expr, Select):
        sides = [expr.true_value, expr.false_value]
    elif isinstance(expr, Call) and expr.op == "tir.if_then_else":
        sides = list(expr.args[1:])
    for n in (0, 1, 2, 3, 9):
        all_values = [value for side in sides for value in values(side, n)]
        assert ends(found, n) == (min(all_values), max(all_values)), n


@pytest.mark.parametrize("expr", SOUND, ids=str)
def test_intervals_hold_all_values(expr: Any) -> None:
    found = int_set(Analyzer(), expr, DOMAINS)
    for n in (-2, 0, 1, 3):
        low, high = ends(found, n)
        for value in values(expr, n):
            assert (low is None or low <= value) and (high is None or value <= high)
    if str(expr) not in ("i * n", "(i + n) % 3"):
        assert found.min_value is not None and found.max_value is not None


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (I + J, "2", None), (I - J, None, "6"), (J - I, "-6", None), (J * 3, "0", None),
        (J * -3, None, "0"), (J * S, "0", None), (J * 0 + I, "2", "6"), (J // 4, "0", None),
        (J % 4, "0", "3"), (J % N, None, None), (J // N, None, None), (Min(I, J), "0", "6"),
        (Max(I, J), "2", None), (J * I, None, None), (I * N, None, None), (N, "n", "n"),
        (Select(N < 2, I, J), "0", None), (cast("int64", J) + 1, "T.int64(1)", None),
        (J % S, "0", "2147483646"), (J % (S + 1), "0", "s"),
        (I // (S + 1), "2 // (s + 1)", "6 // (s + 1)"),
    ],
)  # fmt: skip
def test_open_ends(expr: Any, low: str | None, high: str | None) -> None:
    domains: dict[Var, Range | IntSet] = {I: Range(2, 5), J: IntSet(const(0), None)}
    found = int_set(Analyzer(), expr, domains)
    assert [None if end is None else str(end) for end in found] == [low, high]


def test_domains_take_the_type_of_their_variable() -> None:
    found = int_set(Analyzer(), L * 2, {L: Range(1, 4)})
    assert [str(end) for end in found] == ["T.int64(2)", "T.int64(8)"]
    wide = int_set(Analyzer(), Cast("int64", I), {I: Range(0, N)})
    assert wide.max_value is not None and wide.max_value.dtype == "int64"
    floats = int_set(Analyzer(), cast("int32", cast("float32", I)), DOMAINS)
    assert floats == IntSet(None, None)


def test_unions_and_intersections() -> None:
    analyzer = Analyzer()

    def set_of(low: int | None, high: int | None) -> IntSet:
        return IntSet(*(None if end is None else const(end) for end in (low, high)))

    def same(found: IntSet, low: int | None, high: int | None) -> bool:
        return [None if e is None else str(e) for e in found] == [
            None if e is None else str(e) for e in (low, high)
        ]

    ends_ = [None, 0, 3, 7]
    for a, b, c, d in itertools.product(ends_, repeat=4):
        one, other = set_of(a, b), set_of(c, d)
        low = None if a is None or c is None else min(a, c)
        high = None if b is None or d is None else max(b, d)
        assert same(union(analyzer, one, other), low, high)
        lows, highs = [e for e in (a, c) if e is not None], [e for e in (b, d) if e is not None]
        both = intersect(analyzer, one, other)
        assert same(both, max(lows, default=None), min(highs, default=None))


def test_points_and_ranges() -> None:
    analyzer = Analyzer()
    assert int_set(analyzer, N + 1, DOMAINS).is_point
    assert not int_set(analyzer, I, DOMAINS).is_point and not IntSet(None, None).is_point
    assert not IntSet(None, N).is_point and not IntSet(N, None).is_point
    made = int_set(analyzer, I * 2 + N, DOMAINS)
    assert (str(made.min_value), str(made.max_value)) == ("n + 4", "n + 12")


@pytest.mark.parametrize(("divisor", "exact"), [(8, True), (5, False), (4, False)])
def test_a_remainder_within_one_period(divisor: int, exact: bool) -> None:
    """6 to 9 lie in one period of 16 only, 2 to 6 in one of 8."""
    found = int_set(Analyzer(), FloorMod(I, const(divisor)), DOMAINS)
    assert ends(found, 0) == ((2, 6) if exact else (0, divisor - 1))
    whole = int_set(Analyzer(), FloorDiv(I, const(divisor)), DOMAINS)
    assert ends(whole, 0) == (2 // divisor, 6 // divisor)
