"""Ops whose shapes depend on data: folded on constants, refused in graphs."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.op import apply


@pytest.mark.parametrize("name", ["nonzero", "unique", "compress", "non_max_suppression"])
def test_they_are_refused_in_graphs(name) -> None:
    x = Tensor(tensor_type((3,), "float32"), "x")
    with pytest.raises(UnsupportedError, match=f"{name}: the shape of the result depends"):
        apply(name, [x])


def test_nonzero() -> None:
    assert ops.fold("nonzero", [np.array([[1, 0], [1, 1]])])[0].tolist() == [[0, 1, 1], [0, 0, 1]]
    assert ops.fold("nonzero", [np.array(5)])[0].shape == (0, 1)
    assert ops.fold("nonzero", [np.array(0)])[0].shape == (0, 0)


def test_unique() -> None:
    x = np.array([2, 1, 1, 3, 4, 3])
    found = [part.tolist() for part in ops.fold("unique", [x])]
    assert found == [[1, 2, 3, 4], [1, 0, 3, 4], [1, 0, 0, 2, 3, 2], [2, 1, 2, 1]]
    found = [part.tolist() for part in ops.fold("unique", [x], sorted=False)]
    assert found == [[2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1]]
    rows = ops.fold("unique", [np.array([[1, 0], [1, 0], [2, 3]])], axis=0)[0]
    assert rows.tolist() == [[1, 0], [2, 3]]


def test_compress() -> None:
    x = np.arange(6).reshape(3, 2)
    assert ops.fold("compress", [x, np.array([False, True, True])], axis=0)[0].tolist() == [
        [2, 3], [4, 5],
    ]  # fmt: skip
    assert ops.fold("compress", [x, np.array([True, False, True])])[0].tolist() == [0, 2]


@pytest.mark.parametrize("centred", [0, 1])
def test_non_max_suppression_keeps_the_best_of_overlapping_boxes(centred) -> None:
    corners = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [1, 11, 0, 10.1]]])
    middle = np.array(
        [[[0.5, 0.5, 1, 1], [0.6, 0.5, 1, 1], [10.5, 0.5, 1, 1], [10.55, 0.5, 0.9, 1]]]
    )
    scores = np.array([[[0.9, 0.75, 0.6, 0.95]]])
    attrs = {"iou_threshold": 0.5, "center_point_box": centred}
    boxes = middle if centred else corners
    found = ops.fold("non_max_suppression", [boxes, scores], max_output_boxes_per_class=3, **attrs)
    assert found[0].tolist() == [[0, 0, 3], [0, 0, 0]]
    few = ops.fold("non_max_suppression", [boxes, scores], max_output_boxes_per_class=1, **attrs)
    assert few[0].tolist() == [[0, 0, 3]]
    high = ops.fold("non_max_suppression", [boxes, scores], max_output_boxes_per_class=9,
                    score_threshold=0.92, **attrs)  # fmt: skip
    assert high[0].tolist() == [[0, 0, 3]]
