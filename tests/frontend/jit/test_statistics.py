"""Reductions with `initial` and `where`, and NumPy's statistics, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.test_numpy_functions import _same
from tileloom import numpy as tnp
from tileloom.base.errors import UserError

AXES = [None, 0, 1, (0, 2), -1]


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    array = rng.standard_normal((3, 4, 5)).astype(np.float32)
    array[0, 1, 2] = array[2, 3] = np.nan
    return array


@pytest.fixture
def plain(rng: np.random.Generator) -> Any:
    return rng.standard_normal((3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_without_nan(name: str, axis: Any, x: Any) -> None:
    function = getattr(np, f"nan{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _same(tl.jit(lambda x: function(x, axis))(x), function(x, axis))
        keep = tl.jit(lambda x: function(x, axis=axis, keepdims=True))(x)
        _same(keep, function(x, axis=axis, keepdims=True))
    whole = np.arange(24).reshape(2, 3, 4)
    _same(tl.jit(lambda x: function(x, axis))(whole), function(whole, axis))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_medians_and_averages(axis: Any, x: Any, plain: Any) -> None:
    def both(x: Any) -> Any:
        return np.median(x, axis), np.median(x, axis=axis, keepdims=True), np.average(x, axis)

    for array in (x, plain, np.arange(60).reshape(3, 4, 5) % 7):
        _same(tl.jit(both)(array), both(array))


def test_weights(plain: Any, rng: np.random.Generator) -> None:
    along, whole = rng.random(4).astype(np.float32), rng.random((3, 4, 5))

    def averages(x: Any, w: Any, v: Any) -> Any:
        return (
            np.average(x, 1, w), np.average(x, weights=v), np.average(x, axis=0, weights=v),
            np.average(x, axis=1, weights=w, keepdims=True), np.average(w, weights=w),
        )  # fmt: skip

    _same(tl.jit(averages)(plain, along, whole), averages(plain, along, whole))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_initial_and_where(axis: Any, plain: Any) -> None:
    def everything(x: Any, m: Any) -> Any:
        return (
            np.sum(x, axis, initial=2.5), np.sum(x, axis=axis, where=m), x.sum(axis, where=m[:1]),
            np.prod(x, axis, initial=2, where=m), np.max(x, axis, initial=0.5),
            np.max(x, axis, initial=-1, where=m), np.min(x, axis, initial=0, where=m[0]),
            np.any(x > 1, axis, where=m), np.all(x < 1, axis, where=m),
            np.mean(x, axis, where=m), np.mean(x, axis, dtype=np.float64),
            np.var(x, axis, where=m, ddof=1), np.std(x, axis, where=m), np.std(x, axis, dtype="f8"),
            np.sum(x, axis, where=True), np.sum(x, axis, keepdims=True, initial=1, where=m),
        )  # fmt: skip

    mask = plain > -0.3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _same(tl.jit(everything)(plain, mask), everything(plain, mask))
        none = np.zeros_like(mask)
        _same(tl.jit(everything)(plain, none), everything(plain, none))


def test_initial_of_nothing_and_of_integers() -> None:
    empty, whole = np.zeros((0, 3), np.float32), np.array([[3, -4], [1, 2]], np.int32)
    _same(tnp.max(empty, axis=0, initial=1.5), np.max(empty, axis=0, initial=1.5))
    _same(tnp.min(whole, initial=-7), np.min(whole, initial=-7))
    _same(tnp.sum(whole, axis=0, initial=10), np.sum(whole, axis=0, initial=10))
    _same(tnp.sum(whole, where=whole > 0), np.sum(whole, where=whole > 0))
    with pytest.raises(UserError):
        tnp.sum(whole, where=np.ones((3, 3), bool))
    with pytest.raises(UserError):
        tnp.sum(whole, initial=np.ones(3, int))


def test_running(plain: Any) -> None:
    runs: dict[str, Any] = {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod}
    for name, theirs in runs.items():
        ours = getattr(tnp, name)
        _same(ours(plain, axis=1), theirs(plain, axis=1))
        _same(ours(plain, axis=-1, dtype=np.float64), theirs(plain, axis=-1, dtype=np.float64))
        first = np.full((3, 1, 5), name == "cumulative_prod", np.float32)
        expected = np.concatenate([first, theirs(plain, axis=1)], 1)
        _same(ours(plain, axis=1, include_initial=True), expected)
        _same(ours(plain[:, :0], axis=1, include_initial=True), first)


SPECS = ["f8", np.float64, float, "float64", np.dtype("float64"), "d"]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_types_are_named_as_in_numpy(spec: Any) -> None:
    x = np.ones(3, np.float32)
    made = [
        tnp.zeros(3, dtype=spec), tnp.ones_like(x, dtype=spec), tnp.full(3, 1, dtype=spec),
        tnp.arange(3, dtype=spec), tnp.linspace(0, 1, 3, dtype=spec), tnp.eye(3, dtype=spec),
        tnp.asarray(x, dtype=spec), tnp.astype(x, spec), tnp.sum(x, dtype=spec),
        tnp.mean(x, dtype=spec), tl.jit(lambda x: x.astype(spec))(x),
        tl.jit(lambda x: np.sum(x, dtype=spec))(x), tl.jit(lambda x, t: x.astype(t))(x, spec),
    ]  # fmt: skip
    assert {np.asarray(a).dtype for a in made} == {np.dtype("float64")}
    assert tnp.zeros(2, dtype=int).dtype == np.int64 and tnp.zeros(2, dtype=bool).dtype == bool
    assert tnp.zeros(2, dtype="bfloat16").dtype.name == "bfloat16"


def test_arrays_are_made_of_float64() -> None:
    for made in (
        tnp.zeros(3),
        tnp.ones((2, 2)),
        tnp.eye(3),
        tnp.linspace(0, 1, 4),
        tnp.full(3, 0.5),
    ):
        assert made.dtype == np.float64
    assert tnp.full(3, 1).dtype == np.int64 and tnp.full(3, True).dtype == bool


@pytest.mark.parametrize("num", [2, 3])
def test_linspace_ends_where_it_is_told(num: int) -> None:
    traced = tl.jit(lambda a: np.linspace(a, 1.0, num))(1e20)
    assert np.asarray(traced)[-1] == 1.0 and np.asarray(traced)[0] == 1e20


@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(endpoint: bool) -> None:
    for num in (0, 1, 2, 7):
        expected = np.linspace(-1, 2.5, num, endpoint)
        _same(tnp.linspace(-1, 2.5, num, endpoint=endpoint), expected)
        traced = tl.jit(lambda a, n=num: np.linspace(a, 2.5, n, endpoint))(-1.0)
        _same(traced, expected)
        whole = tl.jit(lambda a, n=num: np.linspace(a, 2.5, n, endpoint, dtype=int))(-1.0)
        _same(whole, np.linspace(-1, 2.5, num, endpoint, dtype=int))
    ends = np.array([1.0, 3.0]), np.array([[2.0], [0.3]])
    found = tl.jit(lambda a, b: np.linspace(a, b, 5, endpoint=endpoint))(*ends)
    _same(found, np.linspace(*ends, 5, endpoint=endpoint))
    with pytest.raises(UserError):
        tnp.linspace(0, 1, -1)


def test_full_of_a_traced_value() -> None:
    found = tl.jit(lambda a, x: (tnp.full((2, 3), a), tnp.full_like(x, a)))(1.5, np.ones(2, "f4"))
    _same(found, (np.full((2, 3), 1.5), np.full(2, 1.5, "f4")))
