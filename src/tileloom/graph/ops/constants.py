"""Tensors from nothing: constants, fills, counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import InternalError
from ...expr import const
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .common import (
    Scalar,
    Types,
    builder,
    compute_tensor,
    constant,
    define,
    extent,
    fill,
    normalize_axis,
)
from .shape import broadcast_to

__all__ = ["arange", "constant", "extent", "eye", "full", "full_like", "iota", "ones", "zeros"]


def _infer_constant(types: Types, attrs: Attrs) -> list[TensorType]:
    value: Array = attrs["value"]
    return [TensorType(value.shape, dtype(value.dtype))]


def _compute_constant(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    value = attrs["value"].reshape(-1)
    if not (value == value[0]).all() and value.size != 1:
        raise InternalError("only a constant with one value has a compute rule; others are data")
    return [fill(types[0], value[0].item(), "constant")]


define(
    "constant",
    "injective",
    _infer_constant,
    lambda arrays, attrs, types: [attrs["value"]],
    _compute_constant,
)


def _infer_iota(types: Types, attrs: Attrs) -> list[TensorType]:
    return [TensorType(tuple(attrs["shape"]), dtype(attrs["dtype"]))]


def _reference_iota(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    shape, axis = types[0].shape, attrs["axis"]
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return [np.broadcast_to(line, shape)]


def _compute_iota(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    kind, axis = types[0].dtype, attrs["axis"]
    return [compute_tensor(types[0], lambda *i: i[axis].astype(kind), "iota")]


define("iota", "injective", _infer_iota, _reference_iota, _compute_iota)


def _infer_extent(types: Types, attrs: Attrs) -> list[TensorType]:
    return [TensorType((), dtype(attrs["dtype"]))]


def _compute_extent(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    return [
        compute_tensor(types[0], lambda: const(attrs["value"]).astype(types[0].dtype), "extent")
    ]


define(
    "extent",
    "injective",
    _infer_extent,
    lambda arrays, attrs, types: [np.asarray(int(attrs["value"]))],
    _compute_extent,
)


@builder
def iota(shape: Sequence[int], axis: int = 0, dtype_: str = "int64") -> Tensor:
    """The index along one axis."""
    return apply1("iota", (), shape=tuple(shape), axis=normalize_axis(axis, len(shape)),
                  dtype=dtype(dtype_))  # fmt: skip


def arange(start: Scalar, stop: Scalar, step: Scalar = 1, dtype_: str = "int64") -> Tensor:
    """`start, start + step, ...` up to `stop`, as a constant."""
    return constant(np.arange(start, stop, step), dtype_)


def full(shape: Sequence[int], value: Scalar, dtype_: str = "float32") -> Tensor:
    """A tensor of one value."""
    return broadcast_to(constant(value, dtype_), shape)


def full_like(x: Tensor, value: Scalar, dtype_: str | None = None) -> Tensor:
    """A tensor of one value with the shape, and unless given the type, of another."""
    return full(x.shape, value, dtype_ or x.dtype)


def zeros(shape: Sequence[int], dtype_: str = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, 0, dtype_)


def ones(shape: Sequence[int], dtype_: str = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, 1, dtype_)


def eye(
    rows: int, columns: int | None = None, k: int = 0, dtype_: str | DType = "float32"
) -> Tensor:
    """Ones on the k-th diagonal, as a constant."""
    return constant(np.eye(rows, columns, k), dtype_)
