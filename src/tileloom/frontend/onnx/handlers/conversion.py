"""Conversions of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..elements import float_maximum, integer_range, is_float, is_graph_type, is_integer, numpy_type
from ..registry import handler
from ..values import Array, Value, as_object_array, value_of


@handler("Cast", since=6)
def cast(call: Call) -> Value:
    return convert(call, numpy_type(call.integer("to")), call.flag("saturate", True))


@handler("CastLike")
def cast_like(call: Call) -> Value:
    like = call.inputs[1] if len(call.inputs) > 1 else None
    if isinstance(like, Tensor):
        kind: np.dtype[Any] = like.dtype.numpy
    elif isinstance(like, np.ndarray):
        kind = like.dtype
    else:
        raise UserError("input 1 must be a tensor")
    return convert(call, kind, call.flag("saturate", True))


def convert(call: Call, kind: np.dtype[Any], saturate: bool = True) -> Value:
    """Input 0 in another type; on the host where the graph lacks one of the types."""
    value = call.inputs[0]
    if isinstance(value, Tensor) and is_graph_type(kind):
        return ops.cast(value, kind.name)
    return value_of(convert_array(call.array(0), kind, saturate, call))


def convert_array(
    array: Array, kind: np.dtype[Any], saturate: bool = True, call: Call | None = None
) -> Array:
    """An array in any type that ONNX knows."""
    if array.dtype == kind:
        return array
    if array.dtype == np.dtype(object):
        return _parse(array, kind)
    if kind == np.dtype(object):
        return as_object_array([_text(item) for item in array.reshape(-1)], array.shape)
    wide = (
        array.astype(np.float32) if is_float(array.dtype) and array.dtype != np.float64 else array
    )
    with np.errstate(all="ignore"):
        if kind.name == "float8_e8m0fnu":
            mode = call.text("round_mode", "up") if call is not None else "up"
            return _to_e8m0(wide.astype(np.float32), saturate, mode).view(kind)
        if is_float(kind):
            return _to_float(wide, kind, saturate)
        if is_integer(kind) and kind.name in ("int4", "uint4", "int2", "uint2"):
            return _to_packed(wide, kind)
        return wide.astype(np.int64).astype(kind) if array.dtype.kind == "V" else wide.astype(kind)


def _to_packed(array: Array, kind: np.dtype[Any]) -> Array:
    """Integers of a few bits take the low bits."""
    low, high = integer_range(kind)
    span = high - low + 1
    whole = np.trunc(array.astype(np.float64)).astype(np.int64)
    return ((whole - low) % span + low).astype(kind)


def _to_float(array: Array, kind: np.dtype[Any], saturate: bool) -> Array:
    if kind.name.startswith("float8") or kind.name.startswith(("float4", "float6")):
        wide = array.astype(np.float32)
        most = float_maximum(kind)
        if saturate or kind.name.startswith(("float4", "float6")):
            return np.where(np.isnan(wide), wide, np.clip(wide, -most, most)).astype(kind)
    return array.astype(kind)


def _to_e8m0(array: Array, saturate: bool, mode: str) -> Array:
    """Powers of two alone, as bytes of a biased exponent."""
    bits = array.view(np.uint32)
    exponent = ((bits >> 23) & 0xFF).astype(np.int64)
    mantissa = (bits & 0x7FFFFF).astype(np.int64)
    if mode == "up":
        exponent += mantissa > 0
    elif mode == "nearest":
        exponent += mantissa >= 0x400000
    elif mode != "down":
        raise UserError(f"attribute 'round_mode' is {mode!r}; known are up, down, nearest")
    limit = 254 if saturate else 255
    exponent = np.minimum(exponent, limit)
    exponent = np.where(np.isnan(array), 255, exponent)
    return exponent.astype(np.uint8)


def _parse(array: Array, kind: np.dtype[Any]) -> Array:
    items = array.reshape(-1).tolist()
    try:
        if is_float(kind):
            numbers = np.array([float(item) for item in items], np.float64)
        elif kind == np.bool_:
            numbers = np.array([bool(int(item)) for item in items], np.bool_)
        else:
            numbers = np.array([int(item) for item in items])
        return numbers.astype(kind).reshape(array.shape)
    except (ValueError, OverflowError) as error:
        raise UserError(f"a string is not a number of {kind.name}: {error}") from None


def _text(item: Any) -> str:
    if isinstance(item, (np.floating, float)) or is_float(np.asarray(item).dtype):
        number = float(item)
        if np.isinf(number):
            return "INF" if number > 0 else "-INF"
        return "NaN" if np.isnan(number) else str(item)
    return str(int(item))


@handler("BitCast")
def bit_cast(call: Call) -> Value:
    kind = numpy_type(call.integer("to"))
    array = call.array(0)
    if kind == np.dtype(object) or array.dtype == np.dtype(object):
        raise UserError("strings have no bits")
    if array.dtype.itemsize != kind.itemsize:
        raise UserError(f"{array.dtype.name} and {kind.name} differ in size")
    return value_of(np.ascontiguousarray(array).reshape(array.shape).view(kind))
