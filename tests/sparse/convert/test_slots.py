"""Values to the slots of a format, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileloom.base import UserError
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.base.settings import override
from tileloom.sparse.convert import Slots
from tileloom.sparse.convert.chunks import for_chunks


def slots(*source: int, count: int = 3) -> Slots:
    return Slots(np.array(source), count)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("trailing", [(), (2,), (0,), (2, 3)])
def test_values_follow_their_elements(dtype: Any, trailing: tuple[int, ...]) -> None:
    part = Slots(np.array([[2, -1], [-1, 0]], np.int32), 3)
    data = (np.arange(3 * int(np.prod(trailing))).reshape(3, *trailing) + 1).astype(dtype)
    values = part.values(data)
    assert values.shape == (2, 2, *trailing)
    assert values.dtype == data.dtype
    np.testing.assert_array_equal(values[0, 0], data[2])
    np.testing.assert_array_equal(values[1, 1], data[0])
    np.testing.assert_array_equal(values[0, 1], np.zeros(trailing, dtype))
    back = part.scatter(values)
    np.testing.assert_array_equal(back[[0, 2]], data[[0, 2]])
    np.testing.assert_array_equal(back[1], np.zeros(trailing, dtype))


def test_padding_is_filled() -> None:
    assert slots(1, -1).values(np.array([1, 2, 3]), fill=-7).tolist() == [2, -7]
    lowest = slots(1, -1).values(np.array([1.0, 2.0, 3.0], np.float32), fill=-np.inf)
    assert lowest.tolist() == [2.0, -np.inf]
    assert np.isnan(slots(-1).values(np.zeros(3), fill=np.nan)).all()


@pytest.mark.parametrize("fill", [0.5, np.nan, 300, -1, "x", 1 << 70, [0, 1]])
def test_a_fill_of_another_type_is_refused(fill: Any) -> None:
    with pytest.raises(DTypeError, match="is no value of type uint8"):
        slots(-1).values(np.zeros(3, np.uint8), fill=fill)


def test_an_input_without_elements() -> None:
    empty = Slots(np.full((2, 2), -1), 0)
    assert empty.values(np.zeros((0, 3)), fill=5).tolist() == np.full((2, 2, 3), 5).tolist()
    assert empty.scatter(np.ones((2, 2, 3))).shape == (0, 3)
    assert empty.padding == 1.0
    assert slots(count=0).padding == 0.0
    assert slots(2, -1, 0, 1).padding == 0.25


def test_elements_in_no_slot_stay() -> None:
    out = np.array([7.0, 8.0, 9.0])
    assert slots(2, -1).scatter(np.array([1.0, 2.0]), out) is out
    assert out.tolist() == [7.0, 8.0, 1.0]


def test_shapes_and_types_that_do_not_fit() -> None:
    part = slots(2, -1)
    refused: list[tuple[Any, type[UserError], str]] = [
        (lambda: part.values(np.zeros(2)), ShapeError, r"data has shape \(2,\).* 3 elements"),
        (lambda: part.values(np.array(3.0)), ShapeError, r"data has shape"),
        (lambda: part.scatter(np.zeros(3)), ShapeError, r"values have shape \(3,\)"),
        (lambda: part.scatter(np.zeros(2), np.zeros(2)), ShapeError, r"out has shape \(2,\)"),
        (lambda: part.scatter(np.zeros(2), np.zeros(3, int)), DTypeError, "do not fit into int64"),
    ]
    for call, kind, text in refused:
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.usefixtures("small_chunks")
def test_many_chunks(rng: np.random.Generator) -> None:
    count = 2003
    source = np.concatenate((rng.permutation(count), np.full(100, -1)))
    rng.shuffle(source)
    part = Slots(source.astype(np.int32), count)
    data = rng.random((count, 4), np.float32)
    values = part.values(data[:, ::-1], fill=2)
    back = part.scatter(values)
    expected = np.where((source >= 0)[:, None], data[source, ::-1], np.float32(2))
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(back, data[:, ::-1])


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_chunk_raises_is_raised(threads: int) -> None:
    def work(begin: int, end: int) -> None:
        if begin == 7:
            raise ValueError("seven")

    with override(num_threads=threads), pytest.raises(ValueError, match="seven"):
        for_chunks(work, np.arange(20))
