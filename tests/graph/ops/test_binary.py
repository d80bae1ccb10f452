"""Functions of two numbers: broadcasting, integer edges, special values, types refused."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops

NAN, INF = math.nan, math.inf
ARITHMETIC = ["add", "sub", "mul", "trunc_div", "floor_divide", "mod", "fmod", "pow"]
ORDER = [
    "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
]  # fmt: skip
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN], "float32")


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16, "float32", "float64"], ids=str)
@pytest.mark.parametrize("name", [*ARITHMETIC, *ORDER, "div", "atan2"])
def test_floats(name: Any, kind: Any) -> None:
    x = np.array([-2.5, -1, -0.5, 0.5, 1, 3]).astype(kind)
    check(getattr(ops, name), x.reshape(6, 1), x.reshape(1, 6))


@pytest.mark.parametrize("name", [*ARITHMETIC, *ORDER, "div", "atan2"])
def test_special_floats(name: Any) -> None:
    check(getattr(ops, name), SPECIAL.reshape(-1, 1), SPECIAL)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("name", ARITHMETIC + ORDER + BITS)
def test_integers(name: Any, kind: str) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, limits.min + 1, 0, 1, 2, 3, 7, limits.max], kind)
    if limits.min < 0:
        x = np.concatenate([x, np.array([-1, -2, -7], kind)])
    check(getattr(ops, name), x.reshape(-1, 1), x)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", ["shift_left", "shift_right"])
def test_shifts_by_any_amount(name: str, kind: str) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, 0, 1, 5, limits.max], kind)
    amounts = np.array([0, 1, limits.bits - 1, limits.bits, limits.max], kind)
    check(getattr(ops, name), x.reshape(-1, 1), amounts)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", *ORDER, *BITS])
def test_bools(name: Any) -> None:
    x = np.array([False, True])
    expected = getattr(np, name)(x.reshape(2, 1), x)
    np.testing.assert_array_equal(check(getattr(ops, name), x.reshape(2, 1), x), expected)


def test_division_by_the_integer_zero_gives_zero() -> None:
    x, zero = np.array([-7, 0, 7]), np.zeros(3, int)
    for name in ("trunc_div", "floor_divide", "mod", "fmod"):
        assert check(getattr(ops, name), x, zero).tolist() == [0, 0, 0]


def test_kinds_of_division() -> None:
    x, y = np.array([-7, 7, -7, 7]), np.array([2, 2, -2, -2])
    assert check(ops.trunc_div, x, y).tolist() == [-3, 3, 3, -3]
    assert check(ops.floor_divide, x, y).tolist() == [-4, 3, 3, -4]
    assert check(ops.mod, x, y).tolist() == [1, 1, -1, -1]
    assert check(ops.fmod, x, y).tolist() == [-1, 1, -1, 1]


def test_integer_powers() -> None:
    assert check(ops.pow, np.array([2, -3, 0, 5]), np.array([10, 3, 0, 1])).tolist() == [
        1024, -27, 1, 5,
    ]  # fmt: skip
    base, minus = np.array([2, 1, -1, -1, 0]), np.array([-1, -5, -3, -2, -1])
    assert check(ops.pow, base, minus).tolist() == [0, 1, -1, 1, 0]
    big = np.array([3], "int8"), np.array([127], "int8")
    assert check(ops.pow, *big).tolist() == [(pow(3, 127) + 128) % 256 - 128]


def test_numbers_take_the_type_of_the_tensor() -> None:
    assert values(lambda x: ops.add(x, 1), np.ones(2, "float16")).dtype == np.float16
    assert values(lambda x: ops.sub(1.0, x), np.ones(2, "float32")).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((), (3,), (3,)), ((2, 1), (1, 3), (2, 3)), ((0, 1), (1, 4), (0, 4)), ((1,), (0,), (0,)),
        ((5, 1, 2), (4, 1), (5, 4, 2)), ((), (), ()), ((1, 1), (), (1, 1)),
    ],
)  # fmt: skip
def test_broadcasting(
    a: tuple[int, ...], b: tuple[int, ...], expected: tuple[int, ...], rng: np.random.Generator
) -> None:
    x, y = rng.random(a).astype("float32") + 0, rng.random(b).astype("float32") + 0
    assert check(ops.add, np.asarray(x), np.asarray(y)).shape == expected


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(0, 7), st.integers(0, 3))
def test_broadcasting_follows_numpy(shape: Any, mask: int, drop: int) -> None:
    other = [1 if mask >> k & 1 else n for k, n in enumerate(shape)][drop:]
    x = np.arange(math.prod(shape)).reshape(shape)
    y = np.arange(math.prod(other)).reshape(other)
    np.testing.assert_array_equal(values(ops.sub, x, y), x - y)


def test_mistakes_are_told() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \[3\] and \[4\] do not broadcast"):
        values(ops.add, np.zeros(3), np.zeros(4))
    with pytest.raises(DTypeError, match="mul: operands of different types: float32"):
        values(ops.mul, np.zeros(3, "float32"), np.zeros(3, "int32"))
    with pytest.raises(DTypeError, match="div: the operands must have a floating-point type"):
        values(ops.div, np.zeros(3, "int32"), np.zeros(3, "int32"))
    with pytest.raises(DTypeError, match="logical_and"):
        values(ops.logical_and, np.zeros(3, "int8"), np.zeros(3, "int8"))
