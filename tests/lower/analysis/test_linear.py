"""Sums of index expressions, and the intervals that they are compared by."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base import dtype
from tileloom.expr import Expr, Var, as_expr, cast, const
from tileloom.expr.linear import Linear
from tileloom.lower.analysis.linear import constant_difference, linear
from tileloom.lower.analysis.regions import union

I, J, N = Var("i"), Var("j"), Var("n")
INT = dtype("int32")


@pytest.mark.parametrize(
    ("expr", "terms", "rest"),
    [
        (I * 4 + J + 3, {I: 4, J: 1}, 3),
        (I * 4 - J * 2 - 3, {I: 4, J: -2}, -3),
        (const(5) - I, {I: -1}, 5),
        (I - I, {}, 0),
        (I * J, {I * J: 1}, 0),
        (3 * (I + 2), {I: 3}, 6),
        ((I + 2) * 3, {I: 3}, 6),
        ((I * 8 + 5) // 4, {I: 2}, 1),
        ((I * 8 + 5) % 4, {}, 1),
        ((I * 8 + J + 9) // 8, {I: 1, (J + 1) // 8: 1}, 1),
        ((I * 8 + J + 9) % 8, {(J + 1) % 8: 1}, 0),
        ((I * 8 - 3) // 8, {I: 1}, -1),
        (I // N, {I // N: 1}, 0),
        (I // 8 * 8 + I % 8, {I: 1}, 0),
        (I // 8 * 16 + I % 8 * 2 + J, {I: 2, J: 1}, 0),
        (I // 8 * 8 + I % 8 * 2, {I // 8: 8, I % 8: 2}, 0),
        (cast("int64", I * 2 + 1), {I: 2}, 1),
        (cast("int8", I), {cast("int8", I): 1}, 0),
        (cast("int32", Var("u", "uint8")), None, 0),
    ],
)
def test_forms(expr: Expr, terms: Any, rest: int) -> None:
    found = linear(expr)
    assert dict(found.terms) == ({expr: 1} if terms is None else terms) and found.const == rest


@pytest.mark.parametrize(
    ("terms", "rest", "text"),
    [
        ({}, 0, "0"), ({}, -4, "-4"), ({I: 1}, 0, "i"), ({I: 1}, 3, "i + 3"),
        ({I: 1}, -3, "i - 3"), ({I: 2, J: -1}, 0, "i * 2 - j"), ({J: -1, I: 2}, 0, "i * 2 - j"),
        ({J: -3, I: 1}, 1, "i - j * 3 + 1"), ({I: -1}, 0, "i * -1"), ({I: -2}, 5, None),
    ],
)  # fmt: skip
def test_sums_as_expressions(terms: Any, rest: int, text: str | None) -> None:
    made = Linear(INT, terms, rest).to_expr(INT)
    assert text is None or str(made) == text
    assert linear(made).same_as(Linear(INT, terms, rest))


def test_arithmetic() -> None:
    one, other = linear(I * 4 + J + 3), linear(J - 5)
    assert one.plus(other, -1).same_as(linear(I * 4 + 8))
    assert one.plus(other, 0) is one and one.plus(linear(const(2)), 3).same_as(
        linear(I * 4 + J + 9)
    )
    assert one.shifted(0) is one and one.shifted(-3).same_as(linear(I * 4 + J))
    assert one.without(I).same_as(linear(J + 3)) and one.without(N) is one
    whole, rest = linear(I * 8 + J * 3 - 5).split(4)
    assert whole.same_as(linear(I * 2 - 2)) and rest.same_as(linear(J * 3 + 3))
    assert one.same_as(one) and not one.same_as(one.shifted(1)) and not one.same_as(one.without(J))


@pytest.mark.parametrize(
    ("a", "b", "gap"),
    [(I + 5, I + 2, 3), (I, J, None), (I * 2, I, None), (as_expr(3), as_expr(7), -4)],
)
def test_differences(a: Expr, b: Expr, gap: int | None) -> None:
    assert constant_difference(a, b) == gap


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ((I, I + 3), (I + 2, I + 5), (I, I + 5)),
        ((I + 2, I + 5), (I, I + 3), (I, I + 5)),
        ((I, I + 9), (I + 2, I + 5), (I, I + 9)),
        ((I + 2, I + 5), (I, I + 9), (I, I + 9)),
        ((I, I + 3), (I, I + 3), (I, I + 3)),
        ((I, I + 3), (J, I + 5), None),
        ((I, I + 3), (I, J), None),
        (None, (I, I), None),
        ((I, I), None, None),
    ],
)
def test_unions(a: Any, b: Any, both: Any) -> None:
    ends = [None if part is None else (linear(part[0]), linear(part[1])) for part in (a, b)]
    found = union(ends[0], ends[1])
    if both is None:
        assert found is None
    else:
        assert found is not None
        assert found[0].same_as(linear(both[0])) and found[1].same_as(linear(both[1]))
