"""Convolution of [N, C, spatial...] with [O, C / groups, kernel...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import DTypeError, ShapeError
from ...base.panels import pack_words
from ...expr import cast, const, intrin
from ...expr.dot_ops import WORD_BITS
from ..in_words import in_words
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import add
from .common import (
    Types,
    accumulate,
    check_rank,
    define,
    double,
    flipped_by,
    multiplied,
    product,
    reduce_axes,
)
from .matmul import PRODUCTS_IN_A_STEP, result_dtype
from .pool import Amounts, padded, patches, window_index
from .shape import reshape
from .windows import Windows, spread, spread_pads


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    x, weight = types
    check_rank(x, 3, "the input")
    if len(weight.shape) != len(x.shape):
        raise ShapeError(f"the weight {weight} needs as many dimensions as the input {x}")
    windows, groups = Windows.of(attrs, weight.shape[2:]), attrs["groups"]
    windows.check(len(x.shape) - 2)
    channels, outputs = x.shape[1], weight.shape[0]
    if groups < 1 or channels % groups or outputs % groups:
        raise ShapeError(f"{groups} groups do not divide {channels} and {outputs} channels")
    if weight.shape[1] * groups != channels:
        raise ShapeError(
            f"the weight {weight} takes {weight.shape[1] * groups} channels in {groups} groups, "
            f"the input {x} has {channels}"
        )
    shape = (x.shape[0], outputs, *windows.outputs(x.shape[2:]))
    return [TensorType(shape, result_dtype(types, attrs))]


def _reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    kind, groups = types[0].dtype, attrs["groups"]
    x, weight = (double(v) if kind.is_float else v.astype(kind.numpy) for v in arrays)
    windows = Windows.of(attrs, weight.shape[2:])
    outputs = types[0].shape[2:]
    depth, count = weight.shape[1], weight.shape[0] // groups
    result = np.zeros(types[0].shape, x.dtype)
    for group in range(groups):
        part = patches(x[:, group * depth : (group + 1) * depth], windows, outputs, around(attrs))
        if attrs.get("flips"):
            part = part + flipped_by(dtype(arrays[0].dtype))
        kernel = weight[group * count : (group + 1) * count]
        axes = [1, *range(part.ndim - windows.rank, part.ndim)]
        total = np.tensordot(part, kernel, (axes, list(range(1, kernel.ndim))))
        result[:, group * count : (group + 1) * count] = np.moveaxis(total, -1, 1)
    return [result]


def _steps(types: Types, attrs: Attrs, outputs: Types) -> int:
    count, *kernel = types[1].shape
    terms: int = outputs[0].size * product(kernel)
    windows: int = terms // max(
        1, count // attrs["groups"]
    )  # each in memory, for all outputs at once
    moved = sum(type_.size for type_ in (*types, *outputs))
    return terms // PRODUCTS_IN_A_STEP + windows + moved


def _compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    x, weight = inputs
    kernel = weight.static_shape[2:]
    windows, groups = Windows.of(attrs, kernel), attrs["groups"]
    depth, count = weight.static_shape[1], weight.static_shape[0] // groups
    wide = te.accumulator(types[0].dtype)
    source = padded(x, windows, types[0].shape[2:], const(around(attrs), x.dtype))
    c, *ks = reduce_axes((depth, *kernel), product(x.static_shape), types[0].size)
    offset = flipped_by(x.dtype) if attrs.get("flips") and not attrs.get("dot") else 0

    only = [extent == 1 for extent in types[0].shape[2:]]  # one window is read in one piece

    def value(n: Any, o: Any, *places: Any) -> Any:
        at = [const(0) if one else place for one, place in zip(only, places, strict=True)]
        # With one channel in each group the channel follows from the output alone (depthwise).
        channel = c.var if groups == 1 else (o // count) * depth + c
        read = source(n, channel, *window_index(windows, at, ks))
        if offset:
            read = cast(wide, read) + offset
        return multiplied(attrs, wide, read, weight(o, c.var, *(k.var for k in ks)))

    return [accumulate(types[0], te.sum, value, [c, *ks], "conv")]


def around(attrs: Attrs) -> int:
    """What the padding is of: 0, but for bytes whose zero point is another number."""
    return int(attrs.get("pad_value", 0))


define("conv", "conv", _infer, _reference, _compute, steps=_steps)


# Weights whose channels are in words, as dot products read them: see `graph/pack.py`.


def _unpacked(types: Types, attrs: Attrs) -> TensorType:
    """The type of weights that are given in words."""
    x, weight = types
    kind, channels = dtype(attrs["words_of"]), x.shape[1] // attrs["groups"]
    if weight.dtype != "int32" or -(-channels * kind.bits // WORD_BITS) != weight.shape[1]:
        raise ShapeError(f"{weight} does not hold {channels} channels of {kind}")
    return TensorType((weight.shape[0], channels, *weight.shape[2:]), kind)


def _packed_infer(types: Types, attrs: Attrs) -> list[TensorType]:
    check_rank(types[1], 3, "the weight")
    return _infer([types[0], _unpacked(types, attrs)], attrs)


def _packed_reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    x, words = arrays
    last = np.ascontiguousarray(np.moveaxis(words, 1, -1)).view(dtype(attrs["words_of"]).numpy)
    weight = np.moveaxis(last[..., : x.shape[1] // attrs["groups"]], -1, 1)
    return _reference([x, weight], attrs, types)


def _packed_compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    if attrs.get("words_of") is None:
        return _compute(inputs, attrs, types)
    x, words = inputs
    kind = dtype(attrs["words_of"])
    parts = WORD_BITS // kind.bits
    outputs, _, *window = words.static_shape

    def element(o: Any, c: Any, *at: Any) -> Any:
        bits = words(o, c // parts, *at) >> (c % parts * kind.bits)
        part = intrin.bitwise_and(bits, (1 << kind.bits) - 1)
        return intrin.reinterpret(str(kind), cast(f"uint{kind.bits}", part))

    shape = (outputs, x.static_shape[1] // attrs["groups"], *window)
    return _compute([x, te.compute(shape, element, name="unpacked")], attrs, types)


def _infer_words(types: Types, attrs: Attrs) -> list[TensorType]:
    check_rank(types[0], 3, "weights to pack")
    outputs, channels, *window = types[0].shape
    return [TensorType((outputs, -(-channels // attrs["parts"]), *window), dtype("int32"))]


def _words_reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    return [pack_words(arrays[0], attrs["parts"])]


def _words_compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    return [in_words(inputs[0], 1, types[0].shape[1], attrs["parts"])]


define("pack_words", "injective", _infer_words, _words_reference, _words_compute)
define("packed_conv", "conv", _packed_infer, _packed_reference, _packed_compute, steps=_steps)


def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, strides: Amounts = None,
    pads: Amounts = None, dilations: Amounts = None, groups: int = 1,
    out_dtype: str | None = None, pad_value: int = 0,
) -> Tensor:  # fmt: skip
    """The (cross-)correlation of `x` with `weight`; pads are (before..., after...).

    Integers may be padded with another value than 0: the zero point of quantised numbers.
    """
    rank = max(x.ndim - 2, 0)
    if pad_value and not _holds(x.dtype, pad_value):
        raise DTypeError(f"conv: a padding of {pad_value} does not fit {x.type}")
    result = apply1(
        "conv",
        (x, weight),
        strides=spread(strides, rank),
        pads=spread_pads(pads, rank),
        dilations=spread(dilations, rank),
        groups=int(groups),
        out_dtype=None if out_dtype is None else dtype(out_dtype),
        **({"pad_value": pad_value} if pad_value else {}),
    )
    return add_bias(result, bias)


def _holds(kind: DType, value: int) -> bool:
    if not kind.is_int:
        return False
    low = 0 if kind.is_unsigned else -(1 << (kind.bits - 1))
    return low <= value < low + (1 << kind.bits)


def add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """A value for each channel (axis 1) added."""
    if bias is None:
        return x
    if bias.shape != (x.shape[1],):
        raise ShapeError(f"conv: the bias {bias.type} needs one value for each of {x.shape[1]}")
    return add(x, reshape(bias, [1, -1] + [1] * (x.ndim - 2)))
