"""Arrays that are made from nothing or of numbers: NumPy's values and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.test_like_numpy import Interpreted
from tileloom import driver
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError

X = np.arange(6, dtype=np.int16).reshape(2, 3)

#: The same call of NumPy and of ours.
CALLS: list[Callable[[Any], Any]] = [
    lambda np: np.zeros(3), lambda np: np.zeros((2, 3), dtype="int8"), lambda np: np.ones(()),
    lambda np: np.ones((2, 0), dtype=bool), lambda np: np.full((2, 2), 7),
    lambda np: np.full(3, 2.5), lambda np: np.full((2, 3), [1, 2, 3]),
    lambda np: np.full((), True), lambda np: np.full(2, 3, dtype="float32"),
    lambda np: np.zeros_like(X), lambda np: np.ones_like(X, dtype="float32"),
    lambda np: np.full_like(X, 5), lambda np: np.full_like(X, 5.0, dtype="float64"),
    lambda np: np.arange(4), lambda np: np.arange(4.0), lambda np: np.arange(2, 9, 3),
    lambda np: np.arange(5, 1, -2), lambda np: np.arange(0), lambda np: np.arange(3, 1),
    lambda np: np.arange(1, 4, dtype="float32"), lambda np: np.arange(0.5, 3),
    lambda np: np.linspace(0, 1), lambda np: np.linspace(0, 1, 1), lambda np: np.linspace(0, 1, 0),
    lambda np: np.linspace(2, 5, 4, endpoint=False), lambda np: np.linspace(0, 9, 4, dtype="int32"),
    lambda np: np.linspace(-2, 2, 7, dtype="int64"), lambda np: np.linspace([0, 1], [3, 5], 3),
    lambda np: np.eye(3), lambda np: np.eye(2, 4), lambda np: np.eye(3, k=1),
    lambda np: np.eye(3, 2, k=-1), lambda np: np.eye(2, k=5), lambda np: np.eye(3, dtype="int8"),
    lambda np: np.eye(0), lambda np: np.eye(2, dtype=bool),
]  # fmt: skip


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "compile_graph", Interpreted)


def same(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_numpy_makes_them(number: int) -> None:
    call = CALLS[number]
    same(call(tnp), call(np))
    same(tl.jit(lambda: call(tnp))(), call(np))


TRACED: list[Callable[[Any, Any, Any], Any]] = [
    lambda np, a, b: np.linspace(a, b, 5), lambda np, a, b: np.linspace(a, b, 1),
    lambda np, a, b: np.linspace(a, b, 4, endpoint=False), lambda np, a, b: np.linspace(a, 3, 2),
    lambda np, a, b: np.linspace(a, b, 1, endpoint=False), lambda np, a, b: np.linspace(1, b, 0),
    lambda np, a, b: np.linspace(a, b, 3, dtype="int32"),
    lambda np, a, b: np.linspace(a, b, 3, dtype="float64"),
    lambda np, a, b: np.full((2, 3), a), lambda np, a, b: np.full((2, 3), a, dtype="int32"),
    lambda np, a, b: np.full_like(a, b), lambda np, a, b: np.full_like(a, 2.75, dtype="int8"),
    lambda np, a, b: np.zeros_like(a), lambda np, a, b: np.ones_like(b, dtype="int16"),
    lambda np, a, b: np.asarray([a, b]), lambda np, a, b: np.asarray([[a, b], [b, a]]),
    lambda np, a, b: np.asarray(a, dtype="float64"), lambda np, a, b: np.asarray([1, 2.5]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TRACED)))
def test_of_traced_arrays(number: int) -> None:
    call = TRACED[number]
    a, b = np.array([0.5, -3.0, 7.25], "float32"), np.array([2.0, 9.5, 7.25], "float32")
    found = np.asarray(tl.jit(lambda x, y: call(tnp, x, y))(a, b))
    wanted = call(np, a, b)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="a number of values is not negative, got -1"):
        tnp.linspace(0, 1, -1)
    for convert in (lambda x: tnp.asarray([x, x], copy=False),
                    lambda x: tnp.asarray(x, dtype="float64", copy=False)):  # fmt: skip
        with pytest.raises(ArgumentError, match="cannot become an array without a copy"):
            tl.jit(convert)(np.ones(2, "float32"))
    one = tl.jit(lambda x: tnp.asarray(x, copy=False) + 1)(np.ones(2, "float32"))
    assert one.tolist() == [2, 2]
