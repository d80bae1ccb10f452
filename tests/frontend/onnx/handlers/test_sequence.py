"""Sequences: where items are put and taken, and how tensors are cut into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import model, run
from tileloom.base.errors import UserError

X = np.arange(12, dtype="float32").reshape(3, 4)


def result(lines: str, x: np.ndarray = X) -> Any:
    dims = ", ".join(map(str, x.shape))
    return run(model(f"agraph (float[{dims}] x) => (z) {{\n{lines}\n}}"), x)[0]


def number(name: str, value: int) -> str:
    return f"{name} = Constant <value_int = {value}> ()\n"


ROWS = "q = SplitToSequence <axis = 0, keepdims = 0> (x)\n"


@pytest.mark.parametrize("place", [-3, -1, 0, 1, 2])
def test_items_by_place(place: int) -> None:
    found = result(f"{ROWS}{number('k', place)}z = SequenceAt(q, k)")
    np.testing.assert_array_equal(found, X[place])


@pytest.mark.parametrize("place", [-4, 3])
def test_places_out_of_range(place: int) -> None:
    for line in ("z = SequenceAt(q, k)", "r = SequenceErase(q, k)\nz = SequenceLength(r)"):
        with pytest.raises(UserError, match=f"position {place} is out of range"):
            result(f"{ROWS}{number('k', place)}{line}")


@pytest.mark.parametrize("place", [-4, 4])
def test_places_to_insert_out_of_range(place: int) -> None:
    lines = f"{ROWS}{number('k', place)}i = SequenceAt(q, n)\nr = SequenceInsert(q, i, k)"
    with pytest.raises(UserError, match=f"position {place} is out of range"):
        result(f"{number('n', 0)}{lines}\nz = SequenceLength(r)")


@pytest.mark.parametrize("place", [-3, -1, 0, 1, 3, None])
def test_insert(place: int | None) -> None:
    given = "" if place is None else number("k", place)
    lines = f"{ROWS}{number('n', 0)}i = SequenceAt(q, n)\n{given}"
    lines += f"r = SequenceInsert(q, i{'' if place is None else ', k'})\n"
    found = result(f"{lines}z = ConcatFromSequence <axis = 0, new_axis = 1> (r)")
    wanted = list(X)
    wanted.insert(len(X) if place is None else place, X[0])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("place", [-3, -1, 0, 2, None])
def test_erase(place: int | None) -> None:
    given = "" if place is None else number("k", place)
    lines = f"{ROWS}{given}r = SequenceErase(q{'' if place is None else ', k'})\n"
    found = result(f"{lines}z = ConcatFromSequence <axis = -1, new_axis = 1> (r)")
    wanted = list(X)
    del wanted[-1 if place is None else place]
    np.testing.assert_array_equal(found, np.stack(wanted, -1))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_parts_of_one_size(axis: int, size: int) -> None:
    lines = f"{number('n', size)}q = SplitToSequence <axis = {axis}> (x, n)\n"
    count = -(-X.shape[axis] // size)
    assert int(result(f"{lines}z = SequenceLength(q)")) == count
    found = result(f"{lines}{number('k', count - 1)}z = SequenceAt(q, k)")
    np.testing.assert_array_equal(found, np.split(X, range(size, X.shape[axis], size), axis)[-1])
    found = result(f"{lines}z = ConcatFromSequence <axis = {axis}> (q)")
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("keep", [0, 1])
def test_parts_of_one_keep_their_axis_if_told(keep: int) -> None:
    lines = f"q = SplitToSequence <axis = 1, keepdims = {keep}> (x)\n{number('k', 2)}"
    found = result(f"{lines}z = SequenceAt(q, k)")
    np.testing.assert_array_equal(found, X[:, 2:3] if keep else X[:, 2])


def test_sizes_of_parts() -> None:
    lines = "s = Constant <value_ints = [1, 0, 3]> ()\nq = SplitToSequence <axis = 1> (x, s)\n"
    found = result(f"{lines}{number('k', 2)}z = SequenceAt(q, k)")
    np.testing.assert_array_equal(found, X[:, 1:])


def test_nothing_cannot_be_joined() -> None:
    with pytest.raises(UserError, match="the sequence is empty"):
        result("q = SequenceEmpty()\nz = ConcatFromSequence <axis = 0> (q)")
