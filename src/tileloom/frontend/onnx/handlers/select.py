"""Picking and placing elements by index: gather, scatter, sort; shapes that depend on data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ....base.errors import IndexingError, ShapeError
from ....graph import ops
from ....graph.checks import Check, out_of_range, tuple_out_of_range
from ....graph.nodes import Graph, Tensor, as_extent
from ....graph.ops.common import normalize_axis
from ....graph.run import run
from ....graph.symbols import is_symbolic
from ..call import Call
from ..registry import handler
from ..values import Array, Value, constant_of, value_of


@handler("Gather")
def gather(call: Call) -> Value:
    axis = call.integer("axis", 0)
    data = call.inputs[0]
    if isinstance(data, np.ndarray):
        return _host_gather(data, call.array(1), axis)
    result = ops.gather(call.tensor(0), call.tensor(1), axis)
    _check_range(call, axis)
    return result


def _host_gather(data: Array, indices: Array, axis: int) -> Array:
    if not -data.ndim <= axis < data.ndim:
        raise ShapeError(f"axis {axis} is out of range")
    try:
        return np.asarray(np.take(data, indices, axis))
    except IndexError as error:
        raise IndexingError(str(error)) from None


def _check_range(call: Call, axis: int) -> None:
    """Have the program look whether indices of an axis are in range, as ONNX demands."""
    data, indices = call.tensor(0), call.tensor(1)
    extent = data.shape[axis]
    _check(call, [extent], out_of_range(indices, extent))


def _check_tuples(call: Call, batch: int) -> None:
    """The same of index tuples, whose first part is for the axis `batch`."""
    data, indices = call.tensor(0), call.tensor(1)
    extents = data.shape[batch : batch + indices.shape[-1]]
    _check(call, extents, tuple_out_of_range(indices, extents))


def _check(call: Call, extents: Sequence[int], wrong: Tensor | None) -> None:
    if wrong is None:
        return
    message = f"{call.op}: an index is out of range for {call.tensor(0).type}"
    error = partial(IndexingError, message, hint=f"the node makes {call.outputs[0]!r}")
    known = call.tensor(1).value is not None and not any(map(is_symbolic, extents))
    if not known:
        call.services.checks.append(Check(wrong, error))
    elif np.any(run(Graph([], [wrong]), [])[0]):
        raise error()


@handler("GatherElements")
def gather_elements(call: Call) -> Tensor:
    axis = call.integer("axis", 0)
    result = ops.gather_elements(call.tensor(0), call.tensor(1), axis)
    _check_range(call, axis)
    return result


@handler("GatherND")
def gather_nd(call: Call) -> Tensor:
    batch = call.integer("batch_dims", 0)
    result = ops.gather_nd(call.tensor(0), call.tensor(1), batch)
    _check_tuples(call, batch)
    return result


@handler("Scatter", "ScatterElements")
def scatter_elements(call: Call) -> Tensor:
    reduction = call.choice("reduction", "none", ("none", "add", "mul", "max", "min"))
    data, indices, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    axis = call.integer("axis", 0)
    result = ops.scatter_elements(data, indices, updates, axis, reduction)
    _check_range(call, axis)
    return result


@handler("ScatterND")
def scatter_nd(call: Call) -> Tensor:
    reduction = call.choice("reduction", "none", ("none", "add", "mul", "max", "min"))
    result = ops.scatter_nd(call.tensor(0), call.tensor(1), call.tensor(2), reduction)
    _check_tuples(call, 0)
    return result


@handler("TensorScatter")
def tensor_scatter(call: Call) -> Tensor:
    """Write `update` into a cache along an axis, at a place for each batch."""
    cache, update, places = call.tensor(0), call.tensor(1), call.optional(2)
    axis = call.integer("axis", -2)
    axis = axis + cache.ndim if axis < 0 else axis
    circular = call.choice("mode", "linear", ("linear", "circular")) == "circular"
    if not 0 < axis < cache.ndim or update.ndim != cache.ndim:
        raise ShapeError(f"cannot write {update.type} into {cache.type} along axis {axis}")
    along = ops.iota(update.shape, axis)
    if places is not None:
        starts = ops.reshape(ops.cast(places, "int64"), [-1] + [1] * (cache.ndim - 1))
        along = ops.add(along, starts)
    if circular:
        along = ops.mod(along, cache.shape[axis])
    return ops.scatter_elements(cache, along, update, axis, "none")


@handler("OneHot")
def one_hot(call: Call) -> Tensor:
    indices, depth, values = call.tensor(0), as_extent(call.extent(1)), call.tensor(2)
    axis = call.integer("axis", -1)
    rank = indices.ndim + 1
    if values.shape != (2,) or not -rank <= axis < rank or depth < 0:
        raise ShapeError(f"cannot make {values.type} one-hot of depth {depth} along axis {axis}")
    off, on = (ops.reshape(part, ()) for part in ops.split(values, [1, 1], 0))
    return ops.one_hot(ops.cast(indices, "int64"), depth, on, off, axis)


@handler("TopK")
def top_k(call: Call) -> tuple[Tensor, ...]:
    k = int(call.scalar(1)) if call.version >= 10 else call.integer("k")
    return ops.topk(call.tensor(0), k, call.integer("axis", -1), call.flag("largest", True))


@handler("CumSum", "CumProd")
def cumulative(call: Call) -> Tensor:
    operation = ops.cumsum if call.op == "CumSum" else ops.cumprod
    exclusive, reverse = call.flag("exclusive"), call.flag("reverse")
    return operation(call.tensor(0), int(call.scalar(1)), exclusive, reverse)


@handler("Trilu")
def trilu(call: Call) -> Tensor:
    k = int(call.scalar(1)) if call.has(1) else 0
    operation = ops.triu if call.flag("upper", True) else ops.tril
    return operation(call.tensor(0), k)


@handler("ReverseSequence")
def reverse_sequence(call: Call) -> Tensor:
    x, lengths = call.tensor(0), call.tensor(1)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if {time, batch} != {0, 1} or x.ndim < 2 or lengths.shape != (x.shape[batch],):
        raise ShapeError(f"lengths {lengths.type} along axes {time}, {batch} do not fit {x.type}")
    steps = ops.iota(x.shape, time)
    place = [-1 if k == batch else 1 for k in range(x.ndim)]
    limit = ops.reshape(ops.cast(lengths, "int64"), place)
    reversed_steps = ops.sub(ops.sub(limit, 1), steps)
    return ops.gather_elements(x, ops.where(ops.less(steps, limit), reversed_steps, steps), time)


# ---------------------------------------------------------------------------- shapes by data


def _constants(arrays: Sequence[Array]) -> tuple[Value, ...]:
    return tuple(value_of(array) for array in arrays)


@handler("NonZero")
def nonzero(call: Call) -> Value:
    return value_of(ops.fold("nonzero", [call.array(0)])[0])


@handler("Compress")
def compress(call: Call) -> Tensor:
    """A gather, once the condition is known: the data need not be."""
    x, condition = call.tensor(0), call.array(1)
    if condition.ndim != 1 or condition.dtype != np.bool_:
        raise ShapeError("the condition must be a bool vector")
    if "axis" not in call.attrs:
        x, axis = ops.reshape(x, (x.type.size,)), 0
    else:
        axis = call.integer("axis")
    if not -x.ndim <= axis < x.ndim or len(condition) > x.shape[axis]:
        raise ShapeError(f"a condition of {len(condition)} does not fit axis {axis} of {x.type}")
    return ops.gather(x, constant_of(np.flatnonzero(condition).astype(np.int64)), axis)


@handler("Unique")
def unique(call: Call) -> tuple[Value, ...]:
    attrs: dict[str, Any] = {"sorted": call.flag("sorted", True)}
    x = call.array(0)
    if "axis" in call.attrs:
        attrs["axis"] = normalize_axis(call.integer("axis"), x.ndim)
    return _constants(ops.fold("unique", [x], **attrs))


@handler("NonMaxSuppression")
def non_max_suppression(call: Call) -> Value:
    boxes, scores = call.array(0), call.array(1)
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4
    if not fits or boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
        raise ShapeError(f"boxes {boxes.shape} and scores {scores.shape} do not fit")
    attrs: dict[str, Any] = {"center_point_box": call.integer("center_point_box", 0)}
    names = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
    for index, name in enumerate(names, 2):
        if call.has(index):
            attrs[name] = call.scalar(index)
    return value_of(ops.fold("non_max_suppression", [boxes, scores], **attrs)[0])


@handler("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: Call) -> Tensor:
    x, picks = call.tensor(0), call.tensor(1)
    if x.ndim == 1:
        x = ops.reshape(x, (1, x.shape[0]))
    return ops.gather(x, ops.reshape(picks, (picks.type.size,)), -1)
