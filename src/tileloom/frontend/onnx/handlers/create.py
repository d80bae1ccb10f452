"""Tensors from nothing, or from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.symbols import at_least, is_symbolic, larger
from ..call import Call
from ..elements import graph_dtype, is_graph_type
from ..registry import handler
from ..values import Value, as_object_array, constant_of, value_of

#: A constant may not be made larger than this many elements by a file of a few bytes.
_MOST_CONSTANT = 1 << 28


@handler("Constant")
def constant(call: Call) -> Value:
    if "sparse_value" in call.attrs:
        return call.unsupported("attribute 'sparse_value'")
    value = call.constant("value")
    if value is not None:
        return value_of(value)
    if "value_float" in call.attrs:
        return constant_of(np.array(call.number("value_float"), np.float32))
    if "value_int" in call.attrs:
        return constant_of(np.array(call.integer("value_int"), np.int64))
    if "value_floats" in call.attrs:
        return constant_of(np.array(call.numbers("value_floats"), np.float32))
    if "value_ints" in call.attrs:
        return constant_of(np.array(call.ints("value_ints"), np.int64))
    if "value_string" in call.attrs:
        return as_object_array([call.text("value_string")], ())
    if "value_strings" in call.attrs:
        return as_object_array(call.texts("value_strings"))
    raise UserError("the constant has no value")


@handler("ConstantOfShape")
def constant_of_shape(call: Call) -> Value:
    value = call.constant("value")
    if value is None:
        value = np.zeros(1, np.float32)
    if value.size != 1:
        raise UserError(f"attribute 'value' must have one element, not {value.size}")
    if not is_graph_type(value.dtype):
        return _host_full(call.integers(0), value.reshape(()))
    return ops.broadcast_to(constant_of(value.reshape(())), call.extents(0))


def _host_full(shape: list[int], value: np.ndarray) -> np.ndarray:
    if any(extent < 0 for extent in shape) or np.prod(shape, dtype=object) > _MOST_CONSTANT:
        raise UserError(f"unusable shape {shape}")
    return np.full(shape, value)


@handler("EyeLike")
def eye_like(call: Call) -> Tensor:
    x = call.tensor(0)
    if x.ndim != 2:
        raise UserError(f"the input must be a matrix, not of {x.ndim} dimensions")
    kind = graph_dtype(call.integer("dtype")) if "dtype" in call.attrs else x.dtype
    rows = ops.iota(x.shape, 0)
    columns = ops.iota(x.shape, 1)
    diagonal = ops.equal(ops.add(rows, call.integer("k", 0)), columns)
    return ops.cast(diagonal, kind)


@handler("Range")
def range_(call: Call) -> Tensor:
    start, limit, delta = (call.extent(k) for k in range(3))
    kind = call.tensor(0).dtype
    numbers = [n for n in (start, limit, delta) if not is_symbolic(n)]
    if delta == 0 or not np.isfinite(numbers).all():
        raise UserError(f"Range from {start} to {limit} in steps of {delta} has no end")
    count = _steps(start, limit, delta)
    if at_least(count, _MOST_CONSTANT + 1):
        raise UserError(f"Range of {count} elements is too large")
    wide = "int64" if kind.is_int else "float64" if kind == "float64" else "float32"
    steps = ops.cast(ops.iota((count,), 0), wide)
    return ops.cast(ops.add(ops.mul(steps, delta), start), kind)


def _steps(start: Any, limit: Any, delta: Any) -> int:
    whole = [n for n in (start, limit, delta) if is_symbolic(n) or n == int(n)]
    if len(whole) < 3 or not any(map(is_symbolic, whole)):
        start, limit, delta = (int(n) if is_symbolic(n) else n for n in (start, limit, delta))
        return max(int(np.ceil((limit - start) / delta)), 0)
    start, limit = (n if is_symbolic(n) else int(n) for n in (start, limit))
    step = int(delta)
    reach = limit - start if step > 0 else start - limit
    return larger(0, -(-reach // abs(step)))


@handler("BlackmanWindow", "HammingWindow", "HannWindow")
def window(call: Call) -> Tensor:
    size = call.scalar(0)
    if not 0 <= size <= _MOST_CONSTANT:
        raise UserError(f"unusable window size {size}")
    kind = graph_dtype(call.integer("output_datatype", 1))
    period = size if call.flag("periodic", True) else size - 1
    angle = np.arange(size) * (2 * np.pi / max(period, 1))
    if call.op == "BlackmanWindow":
        values = 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)
    elif call.op == "HammingWindow":
        values = 25 / 46 - 21 / 46 * np.cos(angle)
    else:
        values = 0.5 - 0.5 * np.cos(angle)
    return constant_of(values.astype(kind.numpy))
