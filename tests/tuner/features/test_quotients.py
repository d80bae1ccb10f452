"""Quotients and remainders of sums, in the form that TVM's simplifier gives them."""

from __future__ import annotations

import itertools

import pytest

from tileloom.expr import Expr, IntImm, Var, substitute
from tileloom.expr.analyzer import Analyzer
from tileloom.expr.bounds import ConstIntBound
from tileloom.expr.evaluate import evaluate
from tileloom.tuner.features.conditions import condition
from tileloom.tuner.features.counts import ADDSUB, DIVMOD, INT, MUL
from tileloom.tuner.features.forms import Forms
from tileloom.tuner.features.quotients import expr_of

F, T, V, B = Var("f"), Var("t"), Var("v"), Var("b")  # rounds, threads, lanes; blocks
SIZES = {F: 6, T: 64, V: 4, B: 8}
SUM = F * 256 + T * 4 + V


def forms() -> Forms:
    ranges: dict[Expr, ConstIntBound] = {v: ConstIntBound(0, n - 1) for v, n in SIZES.items()}
    return Forms(ranges, _no_analyzer)


def _no_analyzer() -> Analyzer:
    raise AssertionError("nothing here needs more than forms")


CASES = [
    (SUM // 2048, "0"),
    (SUM // 512, "f // 2"),
    (SUM // 48, "(f * 256 + t * 4 + v) // 48"),  # not (f * 64 + t) // 12
    (SUM % 48 // 16, "(f * 16 + t // 4) % 3"),
    (SUM % 512 // 128, "f % 2 * 2 + t // 32"),
    (SUM % 1024, "(f * 256 + t * 4 + v) % 1024"),  # not f % 4 * 256 + t * 4 + v
    (SUM % 1024 // 512, "(f * 256 + t * 4 + v) % 1024 // 512"),
    (SUM % 16, "t % 4 * 4 + v"),
    (B % 4 * 16 + SUM % 16, "b % 4 * 16 + t % 4 * 4 + v"),
    ((F * 100 + T) % 64, "(f * 100 + t) % 64"),
    (F * 100 % 64, "f * 36 % 64"),
    (F * 24 % 16, "f % 2 * 8"),
    (F * 24 // 16, "f * 24 // 16"),
    ((T * 4 + 3) // 8, "t // 2"),
    ((T * 4 + 3) % 8, "t % 2 * 4 + 3"),
    ((T + 11) % 8, "(t + 3) % 8"),
    (T % 24 % 8, "t % 8"),
    (T % 24 % 16, "t % 24 % 16"),
    ((T % 24 * 4 + V) // 12, "t % 24 // 3"),
    (T // 2 % 12 // 3, "t % 24 // 6"),
    (T // 4 * 4 + T % 4, "t"),
    (T // 8 * 8 + T % 8 // 2 * 2, "t // 2 * 2"),
    (2 - F * 2 + T // 8, "t // 8 + 2 - f * 2"),
    (B + T // 2, "t // 2 + b"),
]


@pytest.mark.parametrize(("expr", "text"), CASES, ids=lambda value: str(value))
def test_form(expr: Expr, text: str) -> None:
    result = expr_of(forms().of(expr))
    assert str(result) == text
    for values in itertools.product(*(range(0, n, 3) for n in SIZES.values())):
        given: dict[Var, Expr] = {v: IntImm("int32", x) for v, x in zip(SIZES, values, strict=True)}
        assert evaluate(substitute(result, given)) == evaluate(substitute(expr, given))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (T < 64, True),
        (T >= 64, False),
        ((T < 64) & (T < 8), (0, 0, 0)),
        (T * 4 + V < 20, (0, 0, 0)),  # t < 5
        (T * 4 + V < 21, (1, 1, 0)),
        (T * 4 + V >= 4, (1, 1, 0)),  # nothing is done to this one
        ((T * 3 + V) // 12 < 5, (1, 1, 0)),  # t * 3 + v < 60, as v may be 3
        ((F * 32 + T) // 48 >= 1, (1, 1, 0)),  # 48 <= f * 32 + t
        (SUM % 48 // 16 >= 1, (1, 1, 2)),
        (T * 2 + B * 2 >= 3, (1, 0, 0)),  # 2 <= t + b
        (T * 2 + B * 2 < 27, (1, 0, 0)),
        ((T + B) % 2 == 0, (1, 0, 1)),
        (T // 4 < 5, (0, 0, 0)),
        (B + T - 2 >= 3, (1, 0, 0)),
    ],
    ids=lambda value: str(value),
)
def test_operations_of_conditions(expr: Expr, expected: bool | tuple[int, int, int]) -> None:
    found = condition(expr, forms())
    if isinstance(found, tuple):
        counted = tuple(found[place + INT] for place in (ADDSUB, MUL, DIVMOD))
        assert counted == expected
    else:
        assert found is expected
