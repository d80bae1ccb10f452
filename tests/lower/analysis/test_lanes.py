"""Integer arithmetic on ramps and the forms it keeps, lane by lane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Broadcast,
    Cast,
    Expr,
    IntImm,
    Ramp,
    Var,
    broadcast_to,
    const,
    match_lanes,
)
from tileloom.expr.evaluate import evaluate
from tileloom.lower.analysis import lanes
from tileloom.lower.analysis.conditions import negate
from tileloom.lower.vector.body import any_lane

I, N = Var("i"), Var("n")
LANES = 4
ENVIRONMENTS = [{I: i, N: n} for i in (0, 1, 5, -3) for n in (1, 2, 7, -4)]


def ramp(base: Any, stride: Any) -> Expr:
    return Ramp(base if isinstance(base, Expr) else const(base),
                stride if isinstance(stride, Expr) else const(stride), LANES)  # fmt: skip


SCALARS = [I, const(3), const(-2), const(0), const(1), I * 4 + 1]
RAMPS = [ramp(I, 1), ramp(I * 8 + 4, 1), ramp(I * 8 + 2, 2), ramp(3, -1), ramp(I, N), ramp(I, -3)]
WIDE: list[Expr] = [Broadcast(N, LANES), Broadcast(const(2), LANES), Broadcast(const(-5), LANES)]
#: A vector that is no ramp.
ODD = Cast("int32x4", Cast("int8x4", ramp(I, 100)))


def values(expr: Expr, env: dict[Var, int]) -> list[int]:
    """What each lane has; a scalar stands for all of them."""
    found = evaluate(expr, env)
    return list(found) if isinstance(found, (list, tuple)) else [int(found)] * LANES


def pairs(*sides: list[Expr]) -> Iterator[tuple[Expr, Expr]]:
    pool = [x for side in sides for x in side]
    yield from ((a, b) for a in pool for b in pool)


def check(made: Expr, a: Expr, b: Expr, operation: Callable[[int, int], int]) -> None:
    for env in ENVIRONMENTS:
        wanted = [operation(x, y) for x, y in zip(values(a, env), values(b, env), strict=True)]
        assert values(made, env) == wanted, (a, b, made, env)


@pytest.mark.parametrize(
    ("form", "operation"), [(lanes.add, operator.add), (lanes.subtract, operator.sub)]
)
def test_sums_stay_ramps(form: Any, operation: Any) -> None:
    for a, b in pairs(SCALARS, RAMPS, WIDE):
        made = form(a, b)
        check(made, a, b, operation)
        lanes_of = [values(made, env) for env in ENVIRONMENTS]
        still = all(len(set(each)) == 1 for each in lanes_of)
        if still and made.dtype.lanes > 1:  # equal ramps of a step that is not known
            assert isinstance(made, Ramp) and not isinstance(made.stride, IntImm), (a, b, made)
        assert still or isinstance(made, Ramp), (a, b, made)
    for a, b in ((ODD, I), (RAMPS[0], ODD), (ODD, ODD)):
        made = form(a, b)
        check(made, a, b, operation)
        assert made.dtype.lanes == LANES


def test_products_of_a_ramp_and_a_number_stay_ramps() -> None:
    for a, b in pairs(SCALARS, RAMPS, WIDE):
        made = lanes.multiply(a, b)
        check(made, a, b, operator.mul)
        if isinstance(a, Ramp) and isinstance(b, Ramp):
            assert not isinstance(made, Ramp)
        elif isinstance(a, Ramp) or isinstance(b, Ramp):
            other = b if isinstance(a, Ramp) else a
            nothing = isinstance(other, IntImm) and other.value == 0
            assert made.dtype.lanes == 1 if nothing else isinstance(made, Ramp), (a, b, made)
        else:
            assert made.dtype.lanes == 1


@pytest.mark.parametrize(
    ("form", "operation"),
    [(lanes.floor_divide, operator.floordiv), (lanes.floor_remainder, operator.mod)],
)
def test_quotients_and_remainders(form: Any, operation: Any) -> None:
    for scale, low, step in product((4, 8, 16), (0, 1, 3, 5, -1), (1, 2, -1, 3, 4, 8)):
        a = ramp(I * scale + low, step)
        for divisor in (1, 2, 3, 4, 8, 16):
            for b in (const(divisor), Broadcast(const(divisor), LANES)):
                made = form(a, b)
                check(made, a, b, operation)
                rows = [v // divisor for v in values(a, {I: 0})]
                if step % divisor == 0:
                    expected = ("ramp", "scalar")
                elif scale % divisor == 0 and len(set(rows)) == 1:
                    expected = ("scalar", "ramp")  # no lane crosses a multiple
                else:
                    expected = ("vector", "vector")
                assert shape_of(made) == expected[form is lanes.floor_remainder], (a, b, made)
    for b in (N * N + 1, Broadcast(const(-3), LANES), const(-4)):
        check(form(RAMPS[1], b), RAMPS[1], broadcast_to(b, LANES), operation)


def shape_of(made: Expr) -> str:
    return "scalar" if made.dtype.lanes == 1 else "ramp" if isinstance(made, Ramp) else "vector"


@pytest.mark.parametrize(
    ("value", "target", "shape"),
    [
        (RAMPS[2], "int64", "ramp"), (RAMPS[2], "int32", "ramp"), (RAMPS[2], "int16", "vector"),
        (RAMPS[2], "uint64", "vector"), (RAMPS[2], "float32", "vector"), (ODD, "int64", "vector"),
        (Ramp(const(3, "uint8"), const(1, "uint8"), LANES), "int32", "vector"),
    ],
)  # fmt: skip
def test_conversions(value: Expr, target: str, shape: str) -> None:
    made = lanes.convert(value, target)
    assert shape_of(made) == shape and str(made.dtype) == f"{target}x{LANES}"
    check(made, value, value, lambda x, _: x % (1 << 64) if target == "uint64" else x)


def test_conversions_of_one_number_stay_one_number() -> None:
    made = lanes.convert(Broadcast(N, LANES), "int16")
    assert isinstance(made, Broadcast) and str(made.dtype) == "int16x4"
    assert [lanes.uniform(x) for x in (N, WIDE[1], RAMPS[0])] == [N, const(2), None]
    nested = Broadcast(ramp(I, 1), 2)
    assert lanes.base_and_stride(nested) is None and lanes.base_and_stride(ODD) is None


# ---------------------------------------------------------------------------- conditions

STEADY = [I, const(5), Broadcast(N, LANES), Broadcast(const(0), LANES)]
MOVING = [ramp(I, 1), ramp(I * 2, 3), ramp(7, -2), ramp(N, 1)]


@pytest.mark.parametrize("compare", [LT, LE, GT, GE])
def test_whether_any_lane_holds_is_one_comparison(compare: Any) -> None:
    for a, b in pairs(STEADY, MOVING):
        if a.dtype.lanes == b.dtype.lanes == 1:
            continue
        condition = compare(*match_lanes(a, b))
        found = any_lane(condition)
        assert found is not None and found.dtype.lanes == 1
        opposite = negate(condition)
        for i in range(-6, 12):
            for n in (-2, 0, 3):
                env = {I: i, N: n}
                each = [bool(v) for v in values(condition, env)]
                assert bool(evaluate(found, env)) == any(each), (condition, found, env)
                assert [not bool(v) for v in values(opposite, env)] == each


def test_conditions_of_which_that_is_not_known() -> None:
    for a, b in ((ramp(I, N), Broadcast(N, LANES)), (Broadcast(I, LANES), ramp(0, N)),
                 (ODD, ramp(0, 1)), (ramp(0, 1), ODD)):  # fmt: skip
        assert any_lane(LT(a, b)) is None
    assert any_lane(EQ(ramp(0, 1), Broadcast(N, LANES))) is None
    floats = LT(Cast("float32x4", ramp(0, 1)), Broadcast(const(1.0), LANES))
    assert any_lane(floats) is None and not isinstance(negate(floats), GE)
