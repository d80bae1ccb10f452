"""Ops whose result shapes depend on the data.

Their types cannot be inferred, so no graph holds them: a frontend calls `reference` on constants.
Each takes (arrays, attributes) and returns arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError
from ..nodes import TensorType
from ..op import REGISTRY, Array, Attrs, Op, register
from .common import Types, widen

Evaluate = Callable[[Sequence[Array], Attrs], Sequence[Array]]


def _dynamic(name: str, evaluate: Evaluate) -> None:
    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        raise UnsupportedError(
            f"the shape of the result depends on the data of {', '.join(map(str, types))}",
            hint="only constants can be folded through this op",
        )

    register(Op(name, "opaque", infer, lambda arrays, attrs, types: evaluate(arrays, attrs)))


def fold(name: str, arrays: Sequence[Array], **attrs: Any) -> list[Array]:
    """The results of a data-dependent op on constants.

    >>> fold("nonzero", [np.array([0, 3, 4])])
    [array([[1, 2]])]
    """
    return list(REGISTRY[name].reference(arrays, attrs, ()))


def _nonzero(arrays: Sequence[Array], attrs: Attrs) -> list[Array]:
    found = np.argwhere(arrays[0])  # of a 0-d array: one empty row, or none
    return [np.ascontiguousarray(found.T, np.int64)]


def _unique(arrays: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Values, first places, inverse and counts; sorted, or in order of appearance."""
    axis = attrs.get("axis")
    x = arrays[0].reshape(-1) if axis is None else arrays[0]
    along = 0 if axis is None else axis
    values, first, inverse, counts = np.unique(
        widen(x), return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    inverse = inverse.reshape(-1)
    if not attrs.get("sorted", True):
        order = np.argsort(first)
        values = np.take(values, order, along)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [values.astype(x.dtype), *(part.astype(np.int64) for part in (first, inverse, counts))]


def _compress(arrays: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.compress(arrays[1], arrays[0], axis=attrs.get("axis"))]


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others, as (y1, x1, y2, x2)."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = np.prod(box[2:] - box[:2]) + areas - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0.0)


def _corners(boxes: Array, centred: bool) -> Array:
    if centred:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], axis=-1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _non_max_suppression(arrays: Sequence[Array], attrs: Attrs) -> list[Array]:
    """ONNX NonMaxSuppression: rows of (batch, class, box), best scores first."""
    boxes = _corners(arrays[0].astype(np.float64), attrs.get("center_point_box", 0) == 1)
    scores, limit = arrays[1], attrs.get("max_output_boxes_per_class", 0)
    threshold, least = attrs.get("iou_threshold", 0.0), attrs.get("score_threshold")
    rows = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        line = scores[batch, kind]
        order = [i for i in np.argsort(-line, kind="stable") if least is None or line[i] > least]
        chosen: list[int] = []
        for i in order:
            if len(chosen) >= limit:
                break
            if not chosen or (_overlap(boxes[batch, i], boxes[batch, chosen]) <= threshold).all():
                chosen.append(int(i))
        rows += [(batch, kind, i) for i in chosen]
    return [np.array(rows, np.int64).reshape(-1, 3)]


_dynamic("nonzero", _nonzero)
_dynamic("unique", _unique)
_dynamic("compress", _compress)
_dynamic("non_max_suppression", _non_max_suppression)
