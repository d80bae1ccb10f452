"""Which elements threads access, counted out one by one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tileloom.expr import EQ, NE, And, Call, Expr, Max, Min, Not, Or, Select, Var, const
from tileloom.expr.evaluate import evaluate
from tileloom.lower.analysis.linear import linear
from tileloom.lower.analysis.thread_places import (
    MANY,
    NOBODY,
    Places,
    Threads,
    differences,
    values_of,
)

X, Y, K, M = (Var(name, "int32") for name in "xykm")


def owners(
    index: Expr, x: int, y: int, loop: tuple[int, int], condition: Expr | None = None
) -> dict[int, set[int]]:
    """The threads that access each element."""
    found: dict[int, set[int]] = defaultdict(set)
    for a, b, k in itertools.product(range(x), range(y), range(loop[0], sum(loop))):
        values: dict[Any, int] = {X: a, Y: b, K: k}
        if condition is None or evaluate(condition, values):
            found[int(evaluate(index, values))].add(a + b * x)
    return found


def as_dict(places: Places | None) -> dict[int, int]:
    assert places is not None
    return {places.low + k: int(who) for k, who in enumerate(places.owner) if who != NOBODY}


INDICES: list[tuple[Expr, Expr | None]] = [
    (X, None),
    (X + Y * 4, None),
    (X * 2 + K, None),
    (X - Y, None),
    (X // 2 * 3 + Y * 8 + K, None),
    (X % 2 + Y, None),
    ((X + K) % 4, None),
    (const(5), None),
    (K, None),
    (Y * 7 - X * 2 - 3, None),
    (X + Y * 4, X < 2),
    (X + K, Not(EQ(K, X))),
    (Max(X, Y), None),
    (Min(X + 1, K) * 2, X >= Y),
]


@pytest.mark.parametrize(("index", "condition"), INDICES, ids=str)
@pytest.mark.parametrize("loop", [(0, 1), (2, 3), (0, 0)])
def test_who_accesses_what(index: Expr, condition: Expr | None, loop: tuple[int, int]) -> None:
    """One thread is named; of several it is known that they are."""
    block = Threads({X: const(4), Y: const(2)})
    conditions = [] if condition is None else [(condition, True)]
    found = as_dict(block.places(linear(index), {K: loop}, conditions))
    wanted = owners(index, 4, 2, loop, condition)
    assert found == {
        at: min(threads) if len(threads) == 1 else MANY for at, threads in wanted.items()
    }


def test_conditions_that_do_not_hold() -> None:
    block = Threads({X: const(4), Y: const(1)})
    found = as_dict(block.places(linear(X), {}, [(X < 2, False)]))
    assert found == {2: 2, 3: 3}
    assert as_dict(block.places(linear(X), {}, [(M < 2, False)])) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert as_dict(block.places(linear(X + M), {}, [(X < M, True)], {M: 3})) == {3: 0, 4: 1, 5: 2}


def test_what_is_too_much_to_say() -> None:
    assert Threads({X: M}).places(linear(X), {}, []) is None, "of threads nobody knows the number"
    block = Threads({X: const(4)})
    assert block.places(linear(X + M), {}, []) is None
    assert block.places(linear(X), {K: (0, 1 << 19)}, []) is None
    assert block.places(linear(X * (1 << 20)), {}, []) is None
    assert as_dict(block.places(linear(X * (1 << 18)), {}, [])).keys() == {
        0, 1 << 18, 2 << 18, 3 << 18,
    }  # fmt: skip
    nothing = block.places(linear(X), {K: (0, 0)}, [])
    assert nothing is not None and not len(nothing.owner)


def test_meetings() -> None:
    """Two threads in one element, or several of which one is another."""

    def places(low: int, *owner: int) -> Places:
        return Places(low, np.array(owner, np.int32))

    mine = places(4, 0, 1, NOBODY, 3)
    for shift in range(-6, 7):
        for other in (places(4, 0, 1, 2, 3), places(5, 1, NOBODY, 3), places(0, 3, 0), mine,
                      places(4, MANY), places(7, 0, MANY)):  # fmt: skip
            meets = False
            for (a, who), (b, whom) in itertools.product(
                enumerate(mine.owner, mine.low + shift), enumerate(other.owner, other.low)
            ):
                if a == b and NOBODY not in (who, whom):
                    meets |= bool(who != whom or who == MANY)
            assert mine.conflicts(other, shift) == meets
    assert as_dict(mine.by_many()) == {4: MANY, 5: MANY, 7: MANY}


A, B = np.arange(-4, 5), np.array([3, -1, 2, 5, 4, 1, 2, -3, 7])
I64 = Var("w", "int64")


@pytest.mark.parametrize(
    "expr",
    [
        X + Y, X - Y, X * Y, X // Y, X % Y, Min(X, Y), Max(X, Y), X < Y, X <= Y, X > Y, X >= Y,
        EQ(X, Y), NE(X, Y), And(X < 2, Y > 0), Or(X < 2, Y > 0), Not(X < Y),
        Select(X < Y, X, Y), X.astype("int64") + 1, (X < Y).astype("int32"), X & Y, X | Y, X ^ Y,
        X << 2, X >> 1, Call("bool", "tir.likely", (X < Y,)), X // 3 * 2 - Y % 3,
    ],
    ids=str,
)  # fmt: skip
def test_values(expr: Any) -> None:
    found = values_of(expr, {X: A, Y: B})
    wanted = [evaluate(expr, {X: int(a), Y: int(b)}) for a, b in zip(A, B, strict=True)]
    assert found is not None and found.tolist() == wanted


@pytest.mark.parametrize(
    "expr",
    [
        M + X,
        X // (Y - 2),  # by zero, for some
        X.astype("float32"),
        X.astype("int8"),  # which may not hold it
        X.astype("uint32"),
        I64.astype("int32"),
        const(2.0, "float32"),
    ],
    ids=str,
)
def test_what_is_no_known_number(expr: Any) -> None:
    assert values_of(expr, {X: A, Y: B, I64: A}) is None


@pytest.mark.parametrize(
    "value",
    [
        lambda a, b: a - b,
        lambda a, b: a * 3 - b * 3 + 1,
        lambda a, b: a % 3 * 10 - b,
        lambda a, b: (a + 2) % 4 - (b + 1) % 4,
        lambda a, b: a * 0 + 7,
    ],
)
def test_differences_of_indices(value: Callable[[Any, Any], Any]) -> None:
    ranges = {X: (2, 3), Y: (-1, 4)}
    found = differences(linear(value(X, Y)), ranges)
    assert found is not None
    wanted = {value(a, b) for a in range(2, 5) for b in range(-1, 3)}
    assert wanted <= set(found), "every value is there"
    assert list(found) == sorted(set(found))
    if "%" not in str(value(X, Y)):
        assert set(found) == wanted


def residues(value: Callable[[int], int], divisor: int) -> Sequence[int]:
    return sorted({value(k) for k in range(divisor)})


@pytest.mark.parametrize(
    ("value", "divisor"),
    [
        (lambda k: k % 3 * 100 - (k + 1) % 3 * 100, 3),
        (lambda k: (k + 5) % 4 * 8 - k % 4 * 8, 4),
        (lambda k: k % 2 - (k + 2) % 2, 2),
    ],
)
def test_remainders_of_what_is_not_known(value: Callable[[Any], Any], divisor: int) -> None:
    """As in buffers that steps take in turns."""
    found = differences(linear(value(M)), {})
    assert found is not None and list(found) == residues(value, divisor)


def test_differences_that_are_not_known() -> None:
    assert differences(linear(M), {}) is None
    assert differences(linear(M + X), {X: (0, 3)}) is None
    assert differences(linear(X), {X: (0, 4096)}) is not None
    assert differences(linear(X), {X: (0, 4097)}) is None, "too many"
    assert list(differences(linear(const(3)), {}) or ()) == [3]
