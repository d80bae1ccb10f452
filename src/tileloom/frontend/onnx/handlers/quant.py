"""Quantised arithmetic: exact integer products, and conversions between scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import DTypeError, ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import normalize_axis
from ..call import Call
from ..elements import integer_range, is_float, is_graph_type, is_integer, numpy_type
from ..registry import handler
from ..values import Array, Value, value_of
from .conv import convolve
from .conversion import convert_array


def along(x: Sequence[int], part: Tensor, axis: int, block: int = 0) -> Tensor:
    """A scale or zero point of `x`, shaped so that it broadcasts: per tensor, axis, or block."""
    rank = len(x)
    if part.type.size == 1 and part.ndim <= 1:
        return ops.reshape(part, (1,) * rank)
    normalize_axis(axis, rank)
    if part.ndim == 1:
        if part.shape[0] != x[axis]:
            raise ShapeError(f"a scale of {part.type} does not fit axis {axis} of {list(x)}")
        return ops.reshape(part, [-1 if k == axis % rank else 1 for k in range(rank)])
    if part.ndim != rank:
        raise ShapeError(f"a scale of {part.type} does not fit {list(x)}")
    size = block or -(-x[axis] // max(part.shape[axis], 1))
    repeated = ops.repeat(part, size, axis % rank)
    return ops.strided_slice(repeated, [0], [x[axis]], [axis])


# ---------------------------------------------------------------------------- QuantizeLinear


@handler("QuantizeLinear")
def quantize_linear(call: Call) -> Value:
    x, scale = call.tensor(0), call.tensor(1)
    kind = _quantized_type(call)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    precision = call.integer("precision", 0)
    wide = numpy_type(precision).name if precision else _precision(x, scale)
    factor = along(x.shape, ops.cast(scale, wide), axis, block)
    scaled = ops.div(ops.cast(x, wide), factor)
    if is_float(kind):
        return _quantize_to_float(call, scaled, kind)
    zero: Tensor | int = 0
    if call.has(2):
        zero = along(x.shape, _zero_point(call, 2, wide), axis, block)
    low, high = integer_range(kind)
    # NaN has no quantised value; ONNX leaves it open.
    rounded = ops.add(ops.round(scaled), zero)
    bounded = ops.clip(rounded, float(low), float(high))
    return _narrow(call, bounded, kind)


def _precision(x: Tensor, scale: Tensor) -> str:
    """Products of narrow floats are made in float32."""
    return "float64" if "float64" in (x.dtype, scale.dtype) else "float32"


def _zero_point(call: Call, index: int, kind: str) -> Tensor:
    value = call.inputs[index]
    if isinstance(value, np.ndarray):
        return ops.constant(value.astype(np.float32), kind)
    return ops.cast(call.tensor(index), kind)


def _quantized_type(call: Call) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(np.uint8)
    number = call.integer("output_dtype", 0)
    if number:
        kind = numpy_type(number)
    if call.has(2):
        value = call.inputs[2]
        found = value.dtype if isinstance(value, np.ndarray) else call.tensor(2).dtype.numpy
        if number and found != kind:
            raise DTypeError(
                f"output_dtype {kind.name} disagrees with the zero point's {found.name}"
            )
        kind = found
    if not is_integer(kind) and not is_float(kind):
        raise DTypeError(f"cannot quantise to {kind.name}")
    return kind


def _quantize_to_float(call: Call, scaled: Tensor, kind: np.dtype[Any]) -> Value:
    array = call.services.array_of(scaled)
    return value_of(convert_array(array, kind, call.flag("saturate", True)))


def _narrow(call: Call, bounded: Tensor, kind: np.dtype[Any]) -> Value:
    if is_graph_type(kind):
        return ops.cast(bounded, kind.name)
    return value_of(convert_array(call.services.array_of(bounded), kind))


# ---------------------------------------------------------------------------- DequantizeLinear


@handler("DequantizeLinear")
def dequantize_linear(call: Call) -> Value:
    value, scale = call.inputs[0], call.tensor(1)
    number = call.integer("output_dtype", 0)
    kind = numpy_type(number).name if number else scale.dtype
    x = _numbers(value) if isinstance(value, np.ndarray) else call.tensor(0)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    wide = "float64" if scale.dtype == "float64" else "float32"
    whole = x.dtype.is_int
    if call.has(2) and whole:
        x = ops.cast(x, "int64" if x.dtype.bits >= 32 else "int32")
        zero = call.inputs[2]
        point = _numbers(zero) if isinstance(zero, np.ndarray) else call.tensor(2)
        x = ops.sub(x, along(x.shape, ops.cast(point, x.dtype), axis, block))
    factor = along(x.shape, ops.cast(scale, wide), axis, block)
    return ops.cast(ops.mul(ops.cast(x, wide), factor), kind)


def _numbers(array: Array) -> Tensor:
    """A constant of a type the graph lacks, in one that holds its values."""
    if is_integer(array.dtype):
        return ops.constant(array.astype(np.int8 if array.dtype.name[0] == "i" else np.uint8))
    if is_float(array.dtype):
        return ops.constant(array.astype(np.float32))
    raise DTypeError(f"cannot dequantise {array.dtype}")


@handler("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call) -> tuple[Tensor, ...]:
    x = call.tensor(0)
    high = ops.maximum(ops.max(x, empty_ok=True), 0.0)
    low = ops.minimum(ops.min(x, empty_ok=True), 0.0)
    span = ops.div(ops.sub(high, low), 255.0)
    scale = ops.where(ops.equal(span, 0.0), 1.0, span)
    zero = ops.round(ops.clip(ops.div(ops.neg(low), scale), 0.0, 255.0))
    quantized = ops.clip(ops.add(ops.round(ops.div(x, scale)), zero), 0.0, 255.0)
    return ops.cast(quantized, "uint8"), span, ops.cast(zero, "uint8")


# ---------------------------------------------------------------------------- integer products


def _shifted(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """`x` - zero point in int32."""
    wide = ops.cast(x, "int32")
    if zero is None:
        return wide
    if zero.ndim > 1 or zero.type.size == 1:
        point = zero if zero.type.size != 1 else ops.reshape(zero, ())
        return ops.sub(wide, ops.cast(point, "int32"))
    return ops.sub(wide, along(x.shape, ops.cast(zero, "int32"), axis))


def _integer_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """The product of `a` - its zero point and `b` - its zero point in int32, which wraps around.

    (a - p) (b - q) = a b - p (1 b) - (a 1) q + p (1 1) q with rows and columns of ones: so the
    operands stay as narrow as they are.
    """
    points = [zero for zero in (a_zero, b_zero) if zero is not None]
    narrow = all(x.ndim > 1 and x.dtype.bits == 8 for x in (a, b))
    if not narrow or any(zero.ndim > 1 and zero.type.size != 1 for zero in points):
        rows = -2 if a.ndim > 1 else -1
        return ops.matmul(_shifted(a, a_zero, rows), _shifted(b, b_zero, -1))
    total = ops.matmul(a, b, out_dtype="int32")
    p, q = _point(a, a_zero, -2), _point(b, b_zero, -1)
    if p is not None:
        of_columns = ops.sum(ops.cast(b, "int32"), -2, keepdims=True)
        total = ops.sub(total, ops.mul(p, of_columns))
    if q is not None:
        of_rows = ops.sum(ops.cast(a, "int32"), -1, keepdims=True)
        if p is not None:
            of_rows = ops.sub(of_rows, ops.mul(p, ops.constant(a.shape[-1], "int32")))
        total = ops.sub(total, ops.mul(of_rows, q))
    return total


def _point(x: Tensor, zero: Tensor | None, axis: int) -> Tensor | None:
    """The zero point of the rows (-2) or of the columns (-1) of matrices in int32; None for 0."""
    if zero is None or (zero.value is not None and not zero.value.any()):
        return None
    wide = ops.cast(zero, "int32")
    if zero.type.size == 1:
        return ops.reshape(wide, (1, 1))
    return ops.reshape(along(x.shape, wide, axis), (-1, 1) if axis == -2 else (1, -1))


@handler("MatMulInteger")
def matmul_integer(call: Call) -> Tensor:
    return _integer_product(call.tensor(0), call.tensor(1), call.optional(2), call.optional(3))


def _integer_convolution(
    call: Call,
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None,
    weight_zero: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """The convolution of `x` and `weight` less their zero points in int32, which wraps around.

    Where the input's zero point p is known and the weight fits bytes without its own, both stay
    bytes: the padding becomes p, and what p adds is p times the sum of an output's weights.
    """
    point, narrow = _known_point(x_zero), _less_its_point(weight, weight_zero)
    if point is None or narrow is None or x.dtype.bits != 8:
        return convolve(call, _shifted(x, x_zero, 1), _shifted(weight, weight_zero, 0), bias)
    total = convolve(call, x, narrow, bias, "int32", point)
    if point == 0:
        return total
    sums = ops.sum(ops.cast(narrow, "int32"), tuple(range(1, narrow.ndim)))
    extra = ops.mul(sums, ops.constant(point, "int32"))
    return ops.sub(total, ops.reshape(extra, (-1, *[1] * (narrow.ndim - 2))))


def _known_point(zero: Tensor | None) -> int | None:
    """A zero point that is one number and known, 0 where there is none; None for others."""
    if zero is None:
        return 0
    if zero.value is None or zero.type.size != 1:
        return None
    return int(zero.value.reshape(()))


def _less_its_point(weight: Tensor, zero: Tensor | None) -> Tensor | None:
    """A weight of bytes less its zero points as bytes, if that is known to fit."""
    if weight.dtype.bits != 8:
        return None
    if zero is None or (zero.value is not None and not zero.value.any()):
        return weight
    if weight.value is None or zero.value is None or zero.ndim > 1:
        return None
    points = zero.value.astype(np.int32).reshape(-1, *[1] * (weight.ndim - 1))
    if len(points) not in (1, weight.shape[0]):
        return None
    shifted = weight.value.astype(np.int32) - points
    for kind in ("int8", "uint8"):
        narrow = shifted.astype(kind)
        if np.array_equal(narrow, shifted):
            return ops.constant(narrow)
    return None


@handler("ConvInteger")
def conv_integer(call: Call) -> Tensor:
    return _integer_convolution(
        call, call.tensor(0), call.tensor(1), call.optional(2), call.optional(3)
    )


@handler("QLinearMatMul")
def qlinear_matmul(call: Call) -> Tensor:
    a, b, y_zero = call.tensor(0), call.tensor(3), call.tensor(7)
    rows = -2 if a.ndim > 1 else -1
    product = _integer_product(a, b, call.tensor(2), call.tensor(5))
    a_scale = along(a.shape, ops.cast(call.tensor(1), "float32"), rows)
    b_scale = along(b.shape, ops.cast(call.tensor(4), "float32"), -1)
    y_scale = ops.cast(call.tensor(6), "float32")
    factor = ops.div(ops.mul(_drop(a_scale, product), _drop(b_scale, product)), y_scale)
    return _requantize(product, factor, y_zero)


def _drop(scale: Tensor, product: Tensor) -> Tensor:
    """A scale with no more dimensions than the product."""
    if scale.ndim <= product.ndim:
        return scale
    return ops.reshape(scale, scale.shape[scale.ndim - product.ndim :])


def _requantize(product: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    if not zero.dtype.is_int or zero.type.size != 1:
        raise UserError(f"an output zero point of {zero.type}")
    low, high = integer_range(zero.dtype.numpy)
    scaled = ops.round(ops.mul(ops.cast(product, "float32"), factor))
    moved = ops.add(scaled, ops.reshape(ops.cast(zero, "float32"), ()))
    return ops.cast(ops.clip(moved, float(low), float(high)), zero.dtype)


@handler("QLinearConv")
def qlinear_conv(call: Call) -> Tensor:
    x, weight = call.tensor(0), call.tensor(3)
    points = call.tensor(2), call.tensor(5)
    product = _integer_convolution(call, x, weight, *points, call.optional(8))
    scale = ops.mul(ops.reshape(call.tensor(1), ()), call.tensor(4))
    factor = ops.div(scale, ops.reshape(call.tensor(6), ()))
    return _requantize(product, along(product.shape, factor, 1), call.tensor(7))
