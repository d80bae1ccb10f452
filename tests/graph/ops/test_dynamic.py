"""Ops whose shapes depend on data: folded on constants, refused in graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.op import apply


@pytest.mark.parametrize("name", ["nonzero", "unique", "compress", "non_max_suppression"])
def test_they_are_refused_in_graphs(name: str) -> None:
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
def test_non_max_suppression_keeps_the_best_of_overlapping_boxes(centred: int) -> None:
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


def plain_suppression(
    boxes: Any, scores: Any, limit: Any, overlap: Any, least: Any
) -> list[list[int]]:
    """Box by box and in floats: (y1, x1, y2, x2), of which the corners may be swapped."""
    found = []
    for n, kind in np.ndindex(*scores.shape[:2]):
        kept: list[int] = []
        for i in sorted(range(len(boxes[n])), key=lambda i: -scores[n, kind, i]):
            (a, b, c, d), beside = boxes[n][i], []
            low, high = (min(a, c), min(b, d)), (max(a, c), max(b, d))
            for j in kept:
                (e, f, g, h) = boxes[n][j]
                start, end = (min(e, g), min(f, h)), (max(e, g), max(f, h))
                tall, wide = (max(0, min(high[k], end[k]) - max(low[k], start[k])) for k in (0, 1))
                area = (high[0] - low[0]) * (high[1] - low[1])
                both = area + (end[0] - start[0]) * (end[1] - start[1]) - tall * wide
                beside.append(tall * wide / both if both else 0)
            if (
                len(kept) < limit
                and scores[n, kind, i] > least
                and max(beside, default=-1) <= (overlap)
            ):
                kept.append(i)
        found += [[n, kind, i] for i in kept]
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_non_max_suppression_box_by_box(seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = rng.integers(0, 6, (2, 7, 4)).astype("float64")
    scores = rng.permutation(2 * 3 * 7).reshape(2, 3, 7) / 42
    for overlap, least in ((0.0, 0.0), (0.2, 0.3), (0.5, 0.5), (1.0, -1.0)):
        found = ops.fold(
            "non_max_suppression", [boxes, scores], max_output_boxes_per_class=limit,
            iou_threshold=overlap, score_threshold=least,
        )[0]  # fmt: skip
        assert found.tolist() == plain_suppression(boxes, scores, limit, overlap, least)
        assert found.dtype == np.int64 and found.shape[1] == 3


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("kind", ["int32", "float16"])
def test_unique_parts_make_up_the_whole(
    axis: int | None, in_order: bool, kind: str, rng: np.random.Generator
) -> None:
    x = rng.integers(0, 2, (5, 3)).astype(kind)
    found = ops.fold("unique", [x], axis=axis, sorted=in_order)
    values, first, inverse, counts = found
    along, whole = (0, x.reshape(-1)) if axis is None else (axis, x)
    assert values.dtype == kind and {part.dtype for part in found[1:]} == {np.dtype("int64")}
    np.testing.assert_array_equal(np.take(values, inverse, along), whole)
    np.testing.assert_array_equal(np.take(whole, first, along), values)
    np.testing.assert_array_equal(np.bincount(inverse), counts)
    assert [int(np.flatnonzero(inverse == k)[0]) for k in range(len(first))] == first.tolist()
    if not in_order:
        assert first.tolist() == sorted(first.tolist())
    else:
        lines = [line.reshape(-1).tolist() for line in np.moveaxis(values, along, 0)]
        assert lines == sorted(lines)
