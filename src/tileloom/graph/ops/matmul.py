"""Matrix products. One canonical op: [batch..., M, K] x [batch..., K, N], batches broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import DTypeError, ShapeError
from ...base.panels import pack_panels
from ...expr import cast as cast_expr
from ...expr import intrin
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .common import (
    Types,
    accumulate,
    broadcast_shapes,
    builder,
    check_dtype,
    check_rank,
    define,
    double,
    element,
    flipped_by,
    multiplied,
    product,
    reduce_axes,
    same_dtype,
)
from .shape import reshape

#: Terms of a product that NumPy's library computes in the time of one elementwise step.
PRODUCTS_IN_A_STEP = 32


def result_dtype(types: Types, attrs: Attrs) -> DType:
    """The type of a product of two tensors: the attribute `out_dtype`, or the operands' type.

    With `out_dtype` the operands may differ (uint8 times int8 into int32).
    """
    wanted = attrs.get("out_dtype")
    if wanted is None:
        kind = same_dtype(types)
        check_dtype(types[0], "number", "the operands")
        return kind
    kind = dtype(wanted)
    for type_ in types:
        check_dtype(type_, "number", "the operands")
        if type_.dtype.is_float != kind.is_float or type_.dtype.bits > kind.bits:
            raise DTypeError(f"a product of {type_.dtype} values does not fit {kind}")
    return kind


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    for what, type_ in zip(("the left operand", "the right operand"), types, strict=True):
        check_rank(type_, 2, what)
    kind = result_dtype(types, attrs)
    a, b = (list(type_.shape) for type_ in types)
    if attrs["transpose_a"]:
        a[-2:] = a[-1], a[-2]
    if attrs["transpose_b"]:
        b[-2:] = b[-1], b[-2]
    if a[-1] != b[-2]:
        raise ShapeError(f"{types[0]} and {types[1]} do not fit: {a[-1]} columns, {b[-2]} rows")
    return [TensorType((*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]), kind)]


def _reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    kind = types[0].dtype
    a, b = (double(x) if kind.is_float else x.astype(kind.numpy) for x in arrays)
    if attrs.get("flips"):
        a = a + flipped_by(dtype(arrays[0].dtype))
    a = a.swapaxes(-1, -2) if attrs["transpose_a"] else a
    b = b.swapaxes(-1, -2) if attrs["transpose_b"] else b
    return [a @ b]


def _steps(types: Types, attrs: Attrs, outputs: Types) -> int:
    depth: int = types[0].shape[-2 if attrs["transpose_a"] else -1]
    terms = outputs[0].size * depth // PRODUCTS_IN_A_STEP
    return terms + sum(type_.size for type_ in (*types, *outputs))


def _compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    a, b = inputs
    wide = te.accumulator(types[0].dtype)
    depth = a.static_shape[-2 if attrs["transpose_a"] else -1]
    (k,) = reduce_axes([depth], product(a.static_shape), product(b.static_shape), types[0].size)
    shape = types[0].shape
    offset = flipped_by(a.dtype) if attrs.get("flips") and not attrs.get("dot") else 0

    def source(*index: Any) -> Any:
        *batch, i, j = index
        left = (k.var, i) if attrs["transpose_a"] else (i, k.var)
        right = (j, k.var) if attrs["transpose_b"] else (k.var, j)
        x = _read(a, batch, left, shape[:-2])
        y = _read(b, batch, right, shape[:-2])
        if offset:
            x = cast_expr(wide, x) + offset
        return multiplied(attrs, wide, x, y)

    return [accumulate(types[0], te.sum, source, [k], "matmul")]


def _read(x: te.Tensor, batch: Sequence[Any], at: Sequence[Any], shape: Sequence[int]) -> Any:
    """The element of a batch that may be broadcast; the last two indices are as given."""
    inner = x.static_shape
    return element(x, [*batch, *at], [*shape, *inner[-2:]])


define("matmul", "matmul", _infer, _reference, _compute, steps=_steps)


# A right operand in the order in which a product's inner loop reads it: see `graph/pack.py`.


def _packed_infer(types: Types, attrs: Attrs) -> list[TensorType]:
    left, panels = types
    check_rank(left, 2, "the left operand")
    if len(panels.shape) != 3:
        raise ShapeError(f"packed panels have three dimensions, not {panels}")
    count, depth, width = panels.shape
    columns = attrs["columns"]
    if not (count - 1) * width < columns <= count * width:
        raise ShapeError(f"{panels} cannot hold {columns} columns")
    kind, own = panels.dtype, left.shape[-2 if attrs["transpose_a"] else -1]
    if attrs.get("words_of") is not None:
        kind = dtype(attrs["words_of"])
        if own > depth * _parts(kind) or panels.dtype.bits != _WORD_BITS:
            raise ShapeError(f"{panels} cannot hold {own} rows of {kind}")
        depth = own
    right = TensorType((depth, columns), kind)
    return _infer([left, right], {**attrs, "transpose_b": False})


_WORD_BITS = 32


def _parts(kind: DType) -> int:
    """How many elements a word holds."""
    return _WORD_BITS // kind.bits


def _packed_reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    left, panels = arrays
    right = panels.swapaxes(0, 1).reshape(panels.shape[1], -1)[:, : attrs["columns"]]
    if attrs.get("words_of") is not None:
        depth = left.shape[-2 if attrs["transpose_a"] else -1]
        rows = np.ascontiguousarray(right.T).view(dtype(attrs["words_of"]).numpy)
        right = rows[:, :depth].T
    return _reference([left, right], {**attrs, "transpose_b": False}, types)


def _packed_compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    left, panels = inputs
    _, depth, width = panels.static_shape
    if attrs.get("words_of") is not None:
        depth = left.static_shape[-2 if attrs["transpose_a"] else -1]

    def element(k: Any, j: Any) -> Any:
        if attrs.get("words_of") is None:
            return panels[j // width, k, j % width]
        kind = dtype(attrs["words_of"])
        parts = _parts(kind)
        word = panels[j // width, k // parts, j % width]
        bits = intrin.bitwise_and(word >> (k % parts * kind.bits), (1 << kind.bits) - 1)
        return intrin.reinterpret(str(kind), cast_expr(f"uint{kind.bits}", bits))

    right = te.compute((depth, attrs["columns"]), element, name="unpacked")
    return _compute([left, right], {**attrs, "transpose_b": False}, types)


def packed_type(kind: DType, parts: int) -> DType:
    """The element type of panels: words, where a word holds several elements.

    >>> packed_type(dtype("int8"), 4), packed_type(dtype("float32"), 1)
    ('int32', 'float32')
    """
    return kind if parts == 1 else dtype("int32")


def _infer_panels(types: Types, attrs: Attrs) -> list[TensorType]:
    check_rank(types[0], 2, "a matrix to pack")
    columns, depth = types[0].shape if attrs["transposed"] else types[0].shape[::-1]
    parts, width = attrs["parts"], attrs["width"]
    if parts > 1:
        depth = -(-depth // (parts * attrs["unit"])) * attrs["unit"]
    shape = (-(-columns // width), depth, width)
    return [TensorType(shape, packed_type(types[0].dtype, parts))]


def _pack(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    how = (attrs[name] for name in ("transposed", "width", "parts", "unit"))
    return [pack_panels(arrays[0], *how)]


define("pack_panels", "opaque", _infer_panels, _pack)
define("packed_matmul", "matmul", _packed_infer, _packed_reference, _packed_compute, steps=_steps)


@builder
def matmul(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
) -> Tensor:
    """The matrix product as `numpy.matmul` defines it, for one dimension and for batches too.

    The transposes are those of the last two dimensions. `out_dtype` accumulates and answers in
    a wider type.
    """
    for what, x in (("left", a), ("right", b)):
        if x.ndim == 0:
            raise ShapeError(f"the {what} operand has no dimensions")
    row, column = a.ndim == 1, b.ndim == 1
    left = reshape(a, (1, a.shape[0])) if row else a
    right = reshape(b, (b.shape[0], 1)) if column else b
    attrs: dict[str, Any] = {
        "transpose_a": bool(transpose_a and not row),
        "transpose_b": bool(transpose_b and not column),
        "out_dtype": None if out_dtype is None else dtype(out_dtype),
    }
    try:
        result = apply1("matmul", (left, right), **attrs)
    except ShapeError as error:
        if row or column:
            raise ShapeError(f"{a.type} and {b.type} do not fit") from error
        raise
    shape = list(result.shape)
    if column:
        del shape[-1]
    if row:
        del shape[len(shape) - (1 if column else 2)]
    return reshape(result, shape)
