"""Elements at computed places in AKG's graphs: place by place in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg.build import single, tensor, values
from tileloom.akg import load
from tileloom.base.errors import UserError


def count(*shape: int) -> Any:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype="float32").reshape(shape)


def inputs(**arrays: Any) -> list[dict[str, Any]]:
    return [tensor(name, x.shape, str(x.dtype)) for name, x in arrays.items()]


def is_inside(place: Any, shape: Any) -> bool:
    return all(0 <= k < n for k, n in zip(place, shape))


# ---------------------------------------------------------------------------- one-hot


@pytest.mark.parametrize(
    ("places", "axis"),
    [
        ([0, 2, 5, -1, 3], None),
        ([0, 2, 5, -1, 3], 0),
        ([0, 2, 5, -1, 3], -2),
        ([[1, 4], [-7, 0], [2, 2]], 1),
        ([[1, 4], [-7, 0], [2, 2]], -3),
        (2, None),
        (2, 0),
    ],
)
@pytest.mark.parametrize(("depth", "made"), [(4, "float32"), (1, "int32"), (6, "float16")])
def test_one_hot(depth: int, made: str, places: Any, axis: int | None) -> None:
    places = np.asarray(places, "int64" if depth == 4 else "int32")
    hit = places[..., None] == np.arange(depth)
    wanted = np.moveaxis(np.where(hit, 3, -2), -1, -1 if axis is None else axis)
    literals = [tensor("on", (1,), value=3.0), tensor("off", (), value=-2.0)]
    made_ = single("OneHot", [*inputs(i=places), *literals], tensor("y", wanted.shape, made),
                   depth=depth, axis=axis)  # fmt: skip
    (found,) = values(made_, places)
    assert found.dtype == made
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [2, -3])
def test_one_hot_along_no_axis(axis: int) -> None:
    literals = [tensor("on", (1,), value=1.0), tensor("off", (1,), value=0.0)]
    made = single("OneHot", [tensor("i", (5,), "int32"), *literals], tensor("y", (5, 4)),
                  depth=4, axis=axis)  # fmt: skip
    with pytest.raises(UserError, match=f"attribute 'axis' has an unusable value {axis}"):
        load(made)


# ---------------------------------------------------------------------------- gathers


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("places", [1, [0, 4, -1, 3, 2, 9], [[1, 0], [-2, 5]], [[3]]])
def test_gathered_along_an_axis(places: Any, axis: int | None) -> None:
    data, places = count(3, 4, 5), np.asarray(places, "int32")
    along = 0 if axis is None else axis % 3
    wanted = np.zeros((*data.shape[:along], *places.shape, *data.shape[along + 1 :]), "float32")
    for at in np.ndindex(*places.shape):
        k = int(places[at])
        if 0 <= k < data.shape[along]:
            wanted[(slice(None),) * along + at] = np.take(data, k, along)
    made = single("Gather", inputs(x=data, i=places), tensor("y", wanted.shape), axis=axis)
    np.testing.assert_array_equal(values(made, data, places)[0], wanted)


@pytest.mark.parametrize(
    "places",
    [
        [0],
        [2, 3],
        [1, 2, 3],
        [[0], [2], [3], [-1]],
        [[0, 3], [2, 4], [3, 0], [-1, 1], [1, -1]],
        [[[0, 0, 0], [2, 3, 1]], [[2, 3, 2], [2, 4, 1]]],
    ],
)
def test_gathered_by_parts_of_an_index(places: Any) -> None:
    data, places = count(3, 4, 2), np.asarray(places, "int32")
    depth = places.shape[-1]
    wanted = np.zeros((*places.shape[:-1], *data.shape[depth:]), "float32")
    for at in np.ndindex(*places.shape[:-1]):
        if is_inside(places[at], data.shape):
            wanted[at] = data[tuple(places[at])]
    made = single("GatherNd", inputs(x=data, i=places), tensor("y", wanted.shape))
    np.testing.assert_array_equal(values(made, data, places)[0], wanted)


# ---------------------------------------------------------------------------- scatters


@pytest.mark.parametrize(
    "places",
    [
        [0, 2, 2, 3, -1],
        [[0], [2], [2], [3], [-1]],
        [[0, 3], [2, 1], [2, 1], [0, 4], [3, 0], [-1, 0], [0, -1]],
        [[[0], [1]], [[1], [5]]],
        [[[0, 0], [1, 3]], [[1, 3], [2, -4]]],
    ],
)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_what_is_added_at_places(places: Any, kind: str) -> None:
    data, places = count(3, 4), np.asarray(places, kind)
    listed = places if places.ndim > 1 else places[:, None]
    updates = 100 * count(*listed.shape[:-1], *data.shape[listed.shape[-1] :])
    wanted = data.copy()
    for at in np.ndindex(*listed.shape[:-1]):
        if is_inside(listed[at], data.shape):
            wanted[tuple(listed[at])] += updates[at]
    made = single("TensorScatterAdd", inputs(x=data, i=places, u=updates), tensor("y", data.shape))
    np.testing.assert_array_equal(values(made, data, places, updates)[0], wanted)


@pytest.mark.parametrize("ids", [[0, 2, 2, -1, 3, 4], [[0, 1], [3, 3], [9, -3]]])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
@pytest.mark.parametrize("attrs", [{}, {"num_segments": 4}])
def test_sums_of_segments(ids: Any, rest: tuple[int, ...], attrs: dict[str, int]) -> None:
    places = np.asarray(ids, "int32")
    data = count(*places.shape, *rest)
    wanted = np.zeros((4, *rest), "float32")
    for at in np.ndindex(*places.shape):
        if 0 <= places[at] < 4:
            wanted[places[at]] += data[at]
    made = single("UnsortedSegmentSum", inputs(x=data, i=places), tensor("y", wanted.shape),
                  **attrs)  # fmt: skip
    np.testing.assert_array_equal(values(made, data, places)[0], wanted)


def test_a_number_of_segments_must_be_said_somewhere() -> None:
    made = single("UnsortedSegmentSum", [tensor("x", (3,)), tensor("i", (3,), "int32")],
                  tensor("y", ()))  # fmt: skip
    with pytest.raises(UserError, match="attribute 'num_segments' is missing"):
        load(made)
