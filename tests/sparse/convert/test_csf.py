"""Tensors as compressed fibers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import INDEX_TYPES, Matrix, matrices
from tileloom.base import UserError
from tileloom.base.errors import IndexingError, ShapeError
from tileloom.sparse.convert import CsfStructure, csf, dcsr

Places = list[tuple[int, ...]]


def places_of(tensor: CsfStructure, roots: int | None = None) -> Places:
    """The coordinates of the leaves, by descending from the root."""
    nodes: Places = [()] if roots is None else [(root,) for root in range(roots)]
    for indptr, indices in tensor.levels:
        assert len(indptr) == len(nodes) + 1
        nodes = [
            (*node, int(indices[child]))
            for place, node in enumerate(nodes)
            for child in range(int(indptr[place]), int(indptr[place + 1]))
        ]
    return nodes


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tuple[int, ...], Places, Any]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    place = st.tuples(*(st.integers(0, extent - 1) for extent in shape))
    places = draw(st.lists(place, max_size=12, unique=True))
    return shape, places, draw(st.sampled_from(INDEX_TYPES))


def coordinates(places: Places, dimensions: int, dtype: Any) -> list[Any]:
    return [np.array([place[axis] for place in places], dtype) for axis in range(dimensions)]


@given(tensors(), st.data())
def test_leaves_are_the_elements(
    tensor: tuple[tuple[int, ...], Places, Any], data: st.DataObject
) -> None:
    shape, places, dtype = tensor
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    coords = coordinates(places, len(shape), dtype)
    made = csf(coords, shape, order)
    permuted = [tuple(place[axis] for axis in order) for place in places]
    assert places_of(made) == sorted(permuted)
    assert [permuted[source] for source in made.source] == sorted(permuted)
    for indptr, indices in made.levels:
        assert indptr.dtype == indices.dtype == np.dtype(dtype)
    if len(shape) > 1:
        rooted = csf(coords, shape, order, dense_root=True)
        assert places_of(rooted, shape[order[0]]) == sorted(permuted)


@given(matrices())
def test_of_a_matrix_it_is_dcsr(matrix: Matrix) -> None:
    shape = (matrix.shape[0] + 1, matrix.shape[1] + 1)
    made = csf([matrix.rows, matrix.indices], shape)
    ordered = dcsr(matrix.indptr, matrix.indices[made.source])
    assert made.levels[0][1].tolist() == ordered.rows.tolist()
    assert made.levels[1][0].tolist() == ordered.indptr.tolist()
    assert made.levels[1][1].tolist() == ordered.indices.tolist()


def test_extents_beyond_one_key(rng: np.random.Generator) -> None:
    extent = 1 << 40
    coords = [rng.choice(rng.integers(0, extent, 6), 60) for _ in range(3)]
    places = sorted(set(zip(*(axis.tolist() for axis in coords))))
    made = csf(coordinates(places[::-1], 3, np.int64), (extent,) * 3)
    assert places_of(made) == places
    assert made.source.tolist() == list(range(len(places)))[::-1]


def test_refusals() -> None:
    refused: list[tuple[Any, type[UserError], str]] = [
        (lambda: csf([], ()), UserError, "coords is empty"),
        (lambda: csf([[0]], (1, 2)), ShapeError, "it has 1 dimensions"),
        (lambda: csf([[0], [2]], (1, 2)), IndexingError, r"coords\[1\]\[0\] = 2 is out of range"),
        (lambda: csf([[0], [0, 1]], (1, 2)), ShapeError, "different lengths"),
        (lambda: csf([[0], [1]], (1, 2), [0, 0]), UserError, r"order is \(0, 0\)"),
        (lambda: csf([[0, 1, 0], [1, 1, 1]], (2, 2)), UserError, "elements 0 and 2 have the same"),
        (lambda: csf([[0]], (1,), dense_root=True), UserError, "has no levels"),
    ]
    for call, kind, text in refused:
        with pytest.raises(kind, match=text):
            call()
