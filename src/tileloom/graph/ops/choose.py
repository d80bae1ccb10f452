"""Choices and conversions: where, clip, cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import DTypeError
from ...expr import NE, Expr, binary, const
from ...expr import cast as cast_expr
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import maximum, minimum
from .common import (
    Operand,
    Types,
    broadcast_shapes,
    check_dtype,
    define,
    elementwise,
    operands,
    same_dtype,
)


def _infer_where(types: Types, attrs: Attrs) -> list[TensorType]:
    check_dtype(types[0], "bool", "the condition")
    kind = same_dtype(types[1:])
    return [TensorType(broadcast_shapes(*(type_.shape for type_ in types)), kind)]


define(
    "where",
    "elementwise",
    _infer_where,
    lambda arrays, attrs, types: [np.where(*arrays)],
    elementwise(te.select, "where"),
)


def _infer_cast(types: Types, attrs: Attrs) -> list[TensorType]:
    kind = dtype(attrs["dtype"])
    if kind.is_handle or kind.is_vector:
        raise DTypeError(f"tensors of {kind} do not exist")
    return [TensorType(types[0].shape, kind)]


def _reference_cast(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
    source, kind = arrays[0], types[0].dtype
    if kind.is_bool:
        return [source != 0]
    if kind.is_int and dtype(source.dtype).is_float:
        # Through int64, as negative floats have no defined conversion to unsigned integers.
        wide = np.uint64 if kind == "uint64" else np.int64
        return [source.astype(np.float64).astype(wide)]
    return [source]


def cast_value(x: Expr, kind: DType) -> Expr:
    """`x` converted as NumPy does: anything but 0 is True, NaN included."""
    if kind.is_bool:
        return x if x.dtype.is_bool else binary(NE, x, const(0, x.dtype))
    return cast_expr(kind, x)


def _compute_cast(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> Sequence[te.Tensor]:
    kind = types[0].dtype
    return elementwise(lambda x: cast_value(x, kind), "cast")(inputs, attrs, types)


define("cast", "elementwise", _infer_cast, _reference_cast, _compute_cast)


def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """`x` where the condition holds, else `y`."""
    return apply1("where", (condition, *operands(x, y)))


def cast(x: Tensor, dtype_: str) -> Tensor:
    """`x` converted to another type; the tensor itself if it has that type."""
    kind = dtype(dtype_)
    return x if x.dtype is kind else apply1("cast", (x,), dtype=kind)


def clip(x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    """min(max(x, low), high); a bound may be left out."""
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)
