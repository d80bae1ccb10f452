"""Memory of the interpreter: flat rows, views, fresh patterns, vectors that are picked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import UserError
from tileloom.tir import run_support as support


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.arange(6).reshape(2, 3), range(6)),
        (np.arange(10)[::2], range(9)),
        (np.arange(12).reshape(3, 4)[:, :2], range(10)),
        (np.arange(12).reshape(3, 4).T, range(12)),
        (np.arange(6)[:0], []),
        (np.arange(12).reshape(3, 4)[1:2, ::3], range(4, 8)),
    ],
)
def test_flat_memory(array: Any, expected: Any) -> None:
    assert support.flat_memory(array).tolist() == list(expected)


def test_arrays_without_a_row() -> None:
    pairs = np.zeros(4, np.dtype([("a", "i4"), ("b", "i1")]))["a"]
    for array in (np.arange(4)[::-1], pairs):
        with pytest.raises(UserError, match="has no flat view"):
            support.flat_memory(array)


@pytest.mark.parametrize(
    ("kind", "shape", "strides", "offset", "expected"),
    [
        ("int32", (2, 3), None, 0, [[0, 1, 2], [3, 4, 5]]),
        ("int32", (2, 3), None, 4, [[4, 5, 6], [7, 8, 9]]),
        ("int32", (2, 2), (5, 2), 1, [[1, 3], [6, 8]]),
        ("int32", (3,), (0,), 2, [2, 2, 2]),
        ("int32", (), None, 7, 7),
        ("int32", (0, 3), None, 0, []),
        ("int32x4", (2,), None, 0, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("int32x4", (1,), None, 1, [[4, 5, 6, 7]]),
        ("int16", (4,), None, 2, [1, 0, 2, 0]),
    ],
)
def test_views(kind: str, shape: Any, strides: Any, offset: int, expected: Any) -> None:
    memory = np.arange(10, dtype="int32")
    found = support.view(memory, dtype(kind), shape, strides, offset, "A")
    assert found.tolist() == expected


def test_vectors_are_seen_as_their_elements() -> None:
    memory = np.arange(8, dtype="int32").reshape(2, 4)
    found = support.view(memory, dtype("int32"), (2, 3), None, 1, "A")
    assert found.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("kind", "shape", "offset"),
    [("int32", (11,), 0), ("int32", (10,), 1), ("int32", (2,), -1), ("int32x4", (3,), 0)],
)
def test_views_that_do_not_fit(kind: str, shape: Any, offset: int) -> None:
    with pytest.raises(UserError):
        support.view(np.arange(10, dtype="int32"), dtype(kind), shape, None, offset, "A")


@pytest.mark.parametrize(
    ("kind", "shape"), [("float16", (6,)), ("int32", (6,)), ("bool", (6,)), ("int32x4", (6, 4))]
)
def test_fresh_memory_shows(kind: str, shape: Any) -> None:
    found = support.allocate(dtype(kind), (2, 3))
    assert found.shape == shape and found.dtype == dtype(kind).numpy
    if dtype(kind).is_float:
        assert np.isnan(found).all()
    else:
        assert (found == (1 if kind == "bool" else np.int32(0xCDCDCDCD - (1 << 32)))).all()
    assert support.allocate(dtype(kind), (-2, 3)).size == 0


def test_vectors_are_picked_and_put_by_lanes() -> None:
    memory, where = np.arange(8) * 10, (np.array([1, 9, 3]),)
    mask = np.array([True, False, True])
    assert support.gather(memory, "A", where, mask).tolist() == [10, 0, 30]
    support.scatter(memory, "A", where, np.array([5, 6, 7]), mask)
    assert memory.tolist() == [0, 5, 20, 7, 40, 50, 60, 70]
    for bad in (8, -1):
        with pytest.raises(UserError, match="A"):
            support.gather(memory, "A", (np.array([1, bad, 3]),))
    written = memory < 60
    assert support.gather(memory, "A", (np.array([1, 2]),), None, written).tolist() == [5, 20]
    with pytest.raises(UserError):
        support.gather(memory, "A", (np.array([1, 6]),), None, written)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_least_and_greatest_keep_nan(kind: str) -> None:
    one, two, nan = (np.dtype(kind).type(v) for v in (1, 2, np.nan))
    for function, wanted in ((support.float_min, one), (support.float_max, two)):
        assert function(one, two) == wanted == function(two, one)
        assert np.isnan(function(one, nan)) and np.isnan(function(nan, one))


def test_shifts_are_checked() -> None:
    assert support.shift_left(3, 0) == 3 and support.shift_left(1, 255) == 1 << 255
    for count in (-1, 256):
        with pytest.raises(UserError, match=f"shift by {count}"):
            support.shift_left(1, count)


def reduced(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


LANES = [("int4", 4, True), ("uint4", 4, False), ("int8", 8, True), ("uint8", 8, False),
         ("int16", 16, True), ("int32", 32, True)]  # fmt: skip
VALUES = [0, 1, -1, 7, 8, -8, -9, 15, 16, 127, 128, -129, 255, 256, 65535, -65536]


@pytest.mark.parametrize(("name", "bits", "signed"), LANES)
def test_lanes_are_reduced_to_their_type(name: str, bits: int, signed: bool) -> None:
    kind = dtype(name).with_lanes(4)
    wanted = [reduced(value, bits, signed) for value in VALUES]
    found = support.wrap_lanes(np.array(VALUES, np.int64), kind)
    assert found.tolist() == wanted and found.dtype == support.lane_type(kind)
    cast = support.cast_lanes(dtype("int32").with_lanes(4), kind)
    assert cast(np.array(VALUES, np.int32)).tolist() == wanted
    truth = support.cast_lanes(kind, dtype("bool").with_lanes(4))
    assert truth(np.array([0, 1, 3, 0])).tolist() == [False, True, True, False]
    ends = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    whole = support.cast_lanes(dtype("float32").with_lanes(4), kind)
    given = [0.0, 1.9, -1.9, 1e30, -1e30, np.nan]
    assert whole(np.array(given, np.float32)).tolist() == [
        0, 1, max(-1, ends[0]), ends[1], ends[0], 0,
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "bits", "signed"), LANES)
def test_ramps_and_copies_of_any_type(name: str, bits: int, signed: bool) -> None:
    kind = dtype(name).with_lanes(4)
    for base, stride in ((0, 1), (3, 5), (7, -3), (1, 0)):
        wanted = [reduced(base + stride * k, bits, signed) for k in range(4)]
        assert support.ramp(4, kind)(base, reduced(stride, bits, signed)).tolist() == wanted
    copies = support.ramp(2, kind)(np.array([0, 1, 2]), np.array([3, 3, 3]))
    assert copies.tolist() == [0, 1, 2, 3, 4, 5]
    assert support.broadcast(3, kind)(np.array([1, 2])).tolist() == [1, 2, 1, 2, 1, 2]
    picked = support.shuffle((3, 0, 2), dtype(name).with_lanes(3))
    assert picked(np.array([4, 5]), np.array([6, 7])).tolist() == [7, 4, 6]


@pytest.mark.parametrize(("name", "bits", "signed"), LANES)
def test_quotients_of_lanes(name: str, bits: int, signed: bool) -> None:
    kind = dtype(name).with_lanes(3)
    divide = support.divide_lanes(lambda a, b: a // b, kind)
    low = -(1 << bits - 1) if signed else 0
    found = divide(np.array([7, 6, low]), np.array([2, 3, -1 if signed else 1]))
    assert found.tolist() == [3, 2, low]  # the least number has no opposite
    with pytest.raises(ZeroDivisionError):
        divide(np.array([1, 2, 3]), np.array([1, 0, 1]))
