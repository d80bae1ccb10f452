"""Reductions, positions and sorting against NumPy: axes, types, zero sizes, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import BF16, check, wide
from sampling import sampled
from tileloom import numpy as tnp
from tileloom.base.errors import UserError
from tileloom.frontend.jit import PUBLIC

SHAPES = [((6,), None), ((5, 7), 0), ((5, 7), 1), ((5, 7), -1), ((5, 7), None), ((3, 1, 4), (0, 2)),
          ((1, 1), 0), ((2, 3, 4, 5), (1, -1)), ((130, 70), 0), ((70, 130), 1)]  # fmt: skip
FLOAT = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
         "var": np.var, "std": np.std}  # fmt: skip
TRUTH = {"all": np.all, "any": np.any, "count_nonzero": np.count_nonzero}


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(shape: Any, axis: Any, keepdims: bool, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    x[x > 1.5] = 0
    functions: dict[str, Any] = {**FLOAT, **TRUTH}

    def everything(x: Any) -> Any:
        return {name: PUBLIC[name](x, axis=axis, keepdims=keepdims) for name in functions}

    found = tl.jit(everything)(x)
    for name, reference in functions.items():
        expected = np.asarray(reference(wide(x), axis=axis, keepdims=keepdims))
        check(found[name], expected, np.float32 if name in FLOAT else expected.dtype, scale=5)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64", "bool"])
def test_integers_are_added_in_64_bits(kind: str) -> None:
    x = np.array([[100, 27, 100], [3, 90, 120]]).astype(kind)
    for name in ("sum", "prod"):
        check(PUBLIC[name](x, axis=1), getattr(np, name)(x, axis=1))
    check(tnp.max(x, axis=0), np.max(x, axis=0))
    check(tnp.min(x), np.min(x))
    check(tnp.mean(x, axis=0), np.mean(x, axis=0), scale=1e4)
    check(tnp.cumulative_sum(x, axis=1), np.cumsum(x, axis=1))


def test_the_type_of_a_sum_can_be_asked_for() -> None:
    x = np.full(1000, 0.1, np.float32)
    check(tnp.sum(x, dtype="float64"), np.sum(x, dtype=np.float64))
    check(tnp.prod(x[:3], dtype="float64"), np.prod(x[:3], dtype=np.float64))


@pytest.mark.parametrize("kind", ["float16", BF16])
def test_narrow_floats_are_added_more_widely(kind: Any) -> None:
    x = np.ones(3000, dtype=kind)
    assert float(tnp.sum(x)) == pytest.approx(3000, rel=0.01)
    assert float(tnp.mean(x)) == 1.0


def test_nan_wins() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    for name in ("max", "min", "sum", "mean"):
        found = PUBLIC[name](x, axis=1)
        assert np.isnan(found[0]) and not np.isnan(found[1]), name
    assert tnp.argmax(x, axis=1).tolist() == np.argmax(x, axis=1).tolist()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_reductions_of_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert tnp.sum(x) == 0 and tnp.prod(x) == 1 and tnp.all(x) and not tnp.any(x)
    check(tnp.sum(x, axis=0), np.sum(x, axis=0))
    for name in ("max", "min", "argmax"):
        with pytest.raises(UserError):
            PUBLIC[name](x)


@pytest.mark.parametrize("shape", [(1,), (9,), (4, 5), (2, 1, 33)])
@pytest.mark.parametrize("kind", sampled(["float32", "int16", "float64"], 2))
def test_positions(shape: tuple[int, ...], kind: Any, rng: np.random.Generator) -> None:
    x = rng.integers(-5, 5, shape).astype(kind)
    for name in ("argmax", "argmin"):
        check(PUBLIC[name](x), np.asarray(getattr(np, name)(x)))
        for axis in range(-1, len(shape)):
            for keepdims in (False, True):
                expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                check(PUBLIC[name](x, axis=axis, keepdims=keepdims), np.asarray(expected))


@pytest.mark.parametrize("shape", [(1,), (0,), (13,), (4, 6), (3, 2, 5)])
def test_sorting(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.integers(0, 9, shape).astype(np.float32)
    for axis in {0, -1}:
        check(tnp.sort(x, axis=axis), np.sort(x, axis=axis))
        check(tnp.argsort(x, axis=axis), np.argsort(x, axis=axis, kind="stable"))
        check(tnp.sort(x, axis=axis, descending=True), -np.sort(-x, axis=axis))


@pytest.mark.parametrize("shape", [(5,), (1,), (3, 7), (2, 3, 4)])
def test_running_sums_and_differences(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    for axis in range(len(shape)):
        check(tnp.cumulative_sum(x, axis=axis), np.cumsum(wide(x), axis=axis), np.float32)
        check(tnp.diff(x, axis=axis), np.diff(x, axis=axis))
    check(tnp.cumulative_sum(x.ravel()), np.cumsum(wide(x)), np.float32)
    if len(shape) > 1:
        with pytest.raises(UserError, match="axis"):
            tnp.cumulative_sum(x)


@pytest.mark.parametrize(("shape", "axis"), [((7,), -1), ((5, 9), 0), ((5, 9), 1), ((2, 3, 4), 1)])
def test_softmax_and_its_relatives(
    shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> None:
    x = (40 * rng.standard_normal(shape)).astype(np.float32)
    top = wide(x).max(axis, keepdims=True)
    exps = np.exp(wide(x) - top)
    total = exps.sum(axis, keepdims=True)
    check(tnp.softmax(x, axis=axis), exps / total, np.float32)
    check(tnp.log_softmax(x, axis=axis), wide(x) - top - np.log(total), np.float32)
    check(tnp.logsumexp(x, axis=axis, keepdims=True), top + np.log(total), np.float32)


def test_softmax_where_numbers_end() -> None:
    x = np.array([[0, -np.inf, 0], [3e38, -3e38, 0], [np.nan, 0, 0]], np.float32)
    found = tnp.softmax(x)
    np.testing.assert_allclose(found[:2], [[0.5, 0, 0.5], [1, 0, 0]], atol=1e-7)  # type: ignore[arg-type]
    assert np.isnan(found[2]).all()


def test_variance_with_correction(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 6)).astype(np.float32)
    check(tnp.var(x, axis=1, correction=1), np.var(wide(x), axis=1, ddof=1), np.float32)
    check(tnp.std(x, correction=1.0), np.asarray(np.std(wide(x), ddof=1)), np.float32)


def test_wrong_axes_are_named() -> None:
    x = np.ones((2, 3), np.float32)
    bad: Any
    for bad in (
        lambda: tnp.sum(x, axis=2),
        lambda: tnp.max(x, axis=(0, 0)),
        lambda: tnp.sort(x, axis=5),
    ):
        with pytest.raises(UserError, match="ax"):
            bad()
