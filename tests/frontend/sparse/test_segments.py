"""Reductions and softmax of segments, against NumPy in float64 and PyTorch."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import tileloom
from sampling import sampled
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError
from tileloom.sparse import segment_reduce, segment_softmax

Array = np.ndarray[Any, Any]
NUMPY: dict[str, Any] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
}
EMPTY = {"sum": 0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1}
#: Around the lengths of vectors.
SHORT = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 0, 31, 32, 33, 65, 0]


def starts(lengths: Any) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int64")


def numbers(shape: Any, dtype: str = "float32") -> Array:
    found = np.random.default_rng(1).random(shape)
    found = found * 0.2 + 0.9 if dtype.startswith("float") else found * 99 - 9
    return np.asarray(found, dtype)


def by_numpy(values: Array, indptr: Array, op: str) -> Array:
    """Segment by segment; in float64, or integers as they are."""
    wide = values.astype("float64") if values.dtype.kind == "f" else values
    parts = [wide[a:b] for a, b in pairwise(indptr)]
    kind = {"dtype": wide.dtype} if op in ("sum", "prod") else {}
    found = [
        NUMPY[op](p, axis=0, **kind) if len(p) else np.full(p.shape[1:], EMPTY[op]) for p in parts
    ]
    return np.array(found, "float64").reshape(len(parts), *values.shape[1:])


def softmax_by_numpy(values: Array, indptr: Array) -> Array:
    found = np.empty(values.shape)
    for a, b in pairwise(indptr):
        if a < b:
            powers = np.exp(values[a:b].astype("float64") - values[a:b].max(axis=0))
            found[a:b] = powers / powers.sum(axis=0)
    return found


def check(values: Array, indptr: Array, op: str, rtol: float = 1e-4) -> None:
    found = segment_reduce(values, indptr, op)
    assert found.dtype == values.dtype
    np.testing.assert_allclose(found, by_numpy(values, indptr, op), rtol=rtol)


@pytest.mark.parametrize(
    ("longer", "op", "dtype"),
    sampled(product([0, 20], NUMPY, ["float64", "float32"]), 3, several=True),
)
def test_elements_of_vectors(longer: int, op: str, dtype: str) -> None:
    indptr = starts([*(n + longer for n in SHORT), *([longer] * 40), 0])
    check(numbers(indptr[-1], dtype), indptr, op)


@pytest.mark.parametrize(
    ("op", "width"),
    sampled(product(NUMPY, [0, 1, 2, 8, 16, 37, 130, 300]), 3, several=True),
)
def test_rows_of_matrices(op: str, width: int) -> None:
    indptr = starts(SHORT)
    check(numbers((indptr[-1], width)), indptr, op)


@pytest.mark.parametrize(
    ("dtype", "op"),
    # each type and operation; the ones in between only where all tests run
    sampled(product(["int8", "uint16", "int32", "int64", "uint64"], ["sum", "max", "min", "prod"]),
            3, several=True),
)  # fmt: skip
def test_integers(dtype: str, op: str) -> None:
    indptr = starts(SHORT)[1:]  # none is empty but those amid
    keep = np.diff(indptr) > 0
    with np.errstate(invalid="ignore"):  # -9 as an unsigned number
        values = numbers(indptr[-1], dtype), numbers((indptr[-1], 5), dtype)
    for each in values:
        found = segment_reduce(each, indptr, op)
        assert found.dtype == dtype
        parts = [each[a:b] for a, b in pairwise(indptr) if a < b]
        kind = {"dtype": dtype} if op in ("sum", "prod") else {}
        np.testing.assert_array_equal(found[keep], [NUMPY[op](p, axis=0, **kind) for p in parts])


def test_types_of_results() -> None:
    whole, indptr = np.array([1, 2, 5, 3]), [0, 2, 4]
    found = segment_reduce(whole, indptr, "mean")
    assert found.dtype == "float64" and found.tolist() == [1.5, 4.0]
    assert segment_softmax(whole, indptr).dtype == "float64"
    truth = np.array([True, True, False, False])
    assert segment_reduce(truth, indptr, "sum").tolist() == [2, 0]
    assert segment_reduce(truth, [0, 0, 2, 3, 4], "max").tolist() == [False, True, False, False]
    assert segment_reduce(truth, [0, 0, 2, 3, 4], "min").tolist() == [True, True, False, False]
    half = numbers(900, "float16")
    found = segment_reduce(half, [0, 900], "sum")
    assert found.dtype == "float16"
    np.testing.assert_allclose(found, half.astype("float64").sum(), rtol=1e-3)
    assert segment_softmax(half, [0, 900]).dtype == "float16"
    with pytest.raises(DTypeError, match="values has elements of type complex64"):
        segment_reduce(np.zeros(3, "complex64"), [0, 3])


@pytest.mark.parametrize("op", NUMPY)
def test_initial_as_torch_has_it(op: str) -> None:
    torch = pytest.importorskip("torch")
    indptr = starts(SHORT)
    for values in (numbers(indptr[-1]), numbers((indptr[-1], 5))):
        for initial in (None, 2.5):
            wanted = torch.segment_reduce(
                torch.from_numpy(values), op, offsets=torch.from_numpy(indptr), initial=initial
            )
            found = segment_reduce(values, indptr, op, initial=initial)
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4)


def test_segments_without_elements_of_integers() -> None:
    values = np.array([3], "int16")
    for op, empty in (("sum", 0), ("prod", 1), ("max", -(2**15)), ("min", 2**15 - 1)):
        assert segment_reduce(values, [0, 0, 1], op).tolist() == [empty, 3]
    assert segment_reduce(values, [0, 0, 1], "max", initial=0).tolist() == [0, 3]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0)])
def test_arrays_without_elements(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, "float32")
    assert segment_reduce(values, [0, len(values)]).tolist() == np.zeros((1, *shape[1:])).tolist()
    assert segment_softmax(values, [0, len(values)]).shape == shape
    if not len(values):
        assert segment_reduce(values, [0]).shape == (0, *shape[1:])
        assert segment_reduce(values, [0, 0, 0], "prod").shape == (2, *shape[1:])


@pytest.mark.parametrize("length", [3, 8, 20, 77])
@pytest.mark.parametrize("at", [0, 2, -1])
def test_not_a_number_and_infinity(at: int, length: int) -> None:
    for shape in ((length,), (length, 3)):
        values = numbers(shape)
        values[at] = np.nan
        for op in NUMPY:
            assert np.isnan(segment_reduce(values, [0, length], op)).all()
        assert np.isnan(segment_softmax(values, [0, length])).all()
        values[at] = np.inf
        assert np.isposinf(segment_reduce(values, [0, length], "max")).all()
        values[at] = -np.inf
        assert np.isneginf(segment_reduce(values, [0, length], "sum")).all()
        np.testing.assert_allclose(
            segment_softmax(values, [0, length]),
            softmax_by_numpy(values, np.array([0, length])),
            rtol=1e-4,
        )
        assert np.isnan(segment_softmax(np.full_like(values, -np.inf), [0, length])).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [None, 1, 3, 16, 37, 130])
@pytest.mark.parametrize("longer", [0, 20])
def test_softmax(longer: int, width: int | None, dtype: str) -> None:
    indptr = starts([*(n + longer for n in SHORT), *([longer] * 40)])
    shape = indptr[-1] if width is None else (indptr[-1], width)
    values = numbers(shape, dtype) * 200 - 900
    found = segment_softmax(values, indptr)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, softmax_by_numpy(values, indptr), rtol=1e-4, atol=1e-12)


def test_lengths_by_a_power_law_and_threads() -> None:
    rng = np.random.default_rng(3)
    indptr = starts(np.minimum(rng.zipf(1.5, 9000) - 1, 30_000))
    wanted = []
    for shape in (indptr[-1], (indptr[-1], 3)):
        values = rng.standard_normal(shape).astype("float32")
        wanted.append((values, by_numpy(values, indptr, "max"), softmax_by_numpy(values, indptr)))
    before = tileloom.get_num_threads()
    try:
        for threads in (1, 2, 5):
            tileloom.set_num_threads(threads)
            for values, most, soft in wanted:
                np.testing.assert_array_equal(segment_reduce(values, indptr, "max"), most)
                np.testing.assert_allclose(segment_softmax(values, indptr), soft, rtol=1e-3)
    finally:
        tileloom.set_num_threads(before)


@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint8", "int16"])
def test_arrays_of_any_strides(index_dtype: str) -> None:
    values, indptr = numbers((9, 64)), np.array([0, 7, 4, 7, 9, 7], index_dtype)[::2]
    for each in (values[:, ::2], np.asfortranarray(values), values[::-1], values[:, 3]):
        found = segment_reduce(each, indptr)
        np.testing.assert_allclose(found, by_numpy(each, indptr.astype(int), "sum"), rtol=1e-5)
        np.testing.assert_allclose(
            segment_softmax(each, indptr), softmax_by_numpy(each, indptr), rtol=1e-5
        )
    assert segment_reduce([1.0, 2.0], [0, 2]).tolist() == [3.0]


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    values, indptr = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 3])
    found = segment_reduce(values, indptr)
    assert isinstance(found, torch.Tensor) and found.tolist() == [[0, 1], [6, 8]]
    soft = segment_softmax(values, indptr)
    torch.testing.assert_close(soft[1:], torch.softmax(values[1:], 0))
    half = segment_reduce(values.bfloat16(), indptr, "max")
    assert half.dtype == torch.bfloat16 and half.tolist() == [[0, 1], [4, 5]]


def test_misfits_are_refused() -> None:
    values = numbers(4)
    with pytest.raises(ArgumentError, match="unknown op 'median'"):
        segment_reduce(values, [0, 4], "median")
    for function in (segment_reduce, segment_softmax):
        with pytest.raises(ShapeError, match="indptr ends with 5, but values has 4 rows"):
            function(values, [0, 5])
        with pytest.raises(ArgumentError, match="indptr falls from 3 to 2 at segment 1"):
            function(values, [0, 3, 2, 4])
        with pytest.raises(ArgumentError, match="indptr begins with 1"):
            function(values, [1, 4])
        with pytest.raises(ShapeError, match=r"indptr has shape \(0,\)"):
            function(values, np.zeros(0, "int64"))
        with pytest.raises(ShapeError, match=r"indptr has shape \(1, 2\)"):
            function(values, [[0, 4]])
        with pytest.raises(DTypeError, match="indptr holds float64"):
            function(values, [0.0, 4.0])
        with pytest.raises(ShapeError, match=r"values has shape \(2, 2, 1\)"):
            function(values.reshape(2, 2, 1), [0, 2])
        with pytest.raises(ArgumentError, match="indptr is None"):
            function(values, None)
    with pytest.raises(ArgumentError, match=r"initial is 0\.5; it must be a number of type int32"):
        segment_reduce(values.astype("int32"), [0, 4], initial=0.5)
    with pytest.raises(ArgumentError, match="initial is 'a'"):
        segment_reduce(values, [0, 4], initial="a")
    with pytest.raises(ArgumentError, match="initial is 300"):
        segment_reduce(values.astype("int8"), [0, 4], initial=300)
