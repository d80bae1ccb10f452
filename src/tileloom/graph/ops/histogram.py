"""How often each number occurs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base import dtype
from ...base.errors import ShapeError
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .common import Types, builder, check_dtype, define


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    check_dtype(types[0], "integer")
    if len(types[0].shape) != 1:
        raise ShapeError(f"bincount counts the elements of a vector, not {types[0]}")
    if attrs["length"] < 1:
        raise ShapeError(f"bincount counts into {attrs['length']} bins", hint="one at least")
    return [TensorType((attrs["length"],), dtype("int32"))]


def _count(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    x, length = arrays[0], attrs["length"]
    inside = x[(x >= 0) & (x < length)].astype(np.int64)
    return [np.bincount(inside, minlength=length).astype(np.int32)]


define("bincount", "opaque", _infer, _count)


@builder
def bincount(x: Tensor, length: int) -> Tensor:
    """`result[k]` is how many elements of x are `k`, as int32; others count nowhere."""
    return apply1("bincount", (x,), length=int(length))
