"""Picking by index: each argument that does not fit, and those that just do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import check_with_runtime, f32, i64, run_node
from tileloom.base.errors import UserError

X = np.arange(24, dtype="float32").reshape(2, 3, 4)

REFUSED: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("OneHot", [i64(0, 1), np.int64(3), f32(0, 1, 2)], {}, "one-hot of depth 3 along axis -1"),
    ("OneHot", [i64(0, 1), np.int64(3), f32(0)], {}, "one-hot"),
    ("OneHot", [i64(0, 1), np.int64(3), f32(0, 1)], {"axis": 2}, "along axis 2"),
    ("OneHot", [i64(0, 1), np.int64(3), f32(0, 1)], {"axis": -3}, "along axis -3"),
    ("OneHot", [i64(0, 1), np.int64(-1), f32(0, 1)], {}, "of depth -1"),
    ("Compress", [X, np.array([1, 0])], {}, "must be a bool vector"),
    ("Compress", [X, np.array([[True]])], {}, "must be a bool vector"),
    ("Compress", [X, np.ones(4, bool)], {"axis": 1}, "a condition of 4 does not fit axis 1"),
    ("Compress", [X, np.ones(25, bool)], {}, "a condition of 25 does not fit axis 0"),
    ("Compress", [X, np.ones(1, bool)], {"axis": 3}, "does not fit axis 3"),
    ("Compress", [X, np.ones(1, bool)], {"axis": -4}, "does not fit axis -4"),
    ("Gather", [X, i64(3)], {"axis": 1}, "an index is out of range"),
    ("Gather", [X, i64(-4)], {"axis": 1}, "an index is out of range"),
    ("GatherElements", [X, i64(2).reshape(1, 1, 1)], {}, "an index is out of range"),
    ("GatherND", [X, i64(1, 3).reshape(1, 2)], {}, "an index is out of range"),
    ("ScatterND", [X, i64(2).reshape(1, 1), X[:1]], {}, "an index is out of range"),
]


@pytest.mark.parametrize(("op", "arrays", "attrs", "words"), REFUSED)
def test_what_is_refused(op: Any, arrays: Any, attrs: Any, words: Any) -> None:
    with pytest.raises(UserError, match=words):
        run_node(op, *map(np.asarray, arrays), opset=16, **attrs)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("depth", [1, 3])
def test_one_hot(axis: int, depth: int) -> None:
    check_with_runtime("OneHot", 11, [i64(0, 2, -1), np.array(depth), f32(5, 7)], axis=axis)


def test_one_hot_of_nothing() -> None:
    assert run_node("OneHot", i64(0, 2), np.array(0), f32(5, 7)).shape == (2, 0)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("count", [1, 2])
def test_compress(axis: int | None, count: int) -> None:
    attrs: Any = {} if axis is None else {"axis": axis}
    check_with_runtime("Compress", 11, [X, np.array([False, True][-count:])], **attrs)


@pytest.mark.parametrize("index", [2, -3])
def test_the_last_indices_that_fit(index: int) -> None:
    np.testing.assert_array_equal(run_node("Gather", X, i64(index), axis=1), X[:, [index]])


def plain_scatter(cache: Any, update: Any, places: Any, axis: Any, circular: Any) -> Any:
    wanted = cache.copy()
    for at in np.ndindex(update.shape):
        to = list(at)
        to[axis] += 0 if places is None else int(places[at[0]])
        to[axis] %= cache.shape[axis] if circular else 1 << 30
        wanted[tuple(to)] = update[at]
    return wanted


@pytest.mark.parametrize("axis", [1, 2, -1, -2])
@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_caches_are_written_in_place(axis: int, circular: bool, given: bool) -> None:
    cache = np.zeros((2, 5, 6), "float32")
    shape = [2, 5, 6]
    shape[axis] = 3
    update = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    places = i64(0, 4 if circular else 2) if given else None
    found = run_node(
        "TensorScatter", cache, update, places, opset=24, axis=axis,
        mode="circular" if circular else "linear",
    )  # fmt: skip
    np.testing.assert_array_equal(found, plain_scatter(cache, update, places, axis % 3, circular))


@pytest.mark.parametrize("axis", [0, 3, -3, -4])
def test_caches_are_not_written_across_batches(axis: int) -> None:
    cache = np.zeros((2, 5, 6), "float32")
    with pytest.raises(UserError, match="along axis"):
        run_node("TensorScatter", cache, cache, i64(0, 0), opset=24, axis=axis)


@pytest.mark.parametrize("time", [0, 1])
def test_sequences_are_reversed(time: int) -> None:
    x = np.arange(24, dtype="float32").reshape(3, 4, 2)
    lengths = np.arange(x.shape[1 - time]) % x.shape[time] + 1
    check_with_runtime("ReverseSequence", 10, [x, lengths], time_axis=time, batch_axis=1 - time)
