"""Convolution of [N, C, spatial...] with [O, C / groups, kernel...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import dtype
from ...base.errors import ShapeError
from ...expr import cast as cast_expr
from ...expr import const
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import add
from .common import Types, accumulate, check_rank, define, double, product, reduce_axes
from .composite import build, composite
from .matmul import PRODUCTS_IN_A_STEP, result_dtype
from .pad import pad
from .pool import Amounts, padded, patches, window_index
from .rearrange import flip
from .shape import reshape, strided_slice, transpose
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
        part = patches(x[:, group * depth : (group + 1) * depth], windows, outputs, 0)
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
    source = padded(x, windows, types[0].shape[2:], const(0, x.dtype))
    c, *ks = reduce_axes((depth, *kernel), product(x.static_shape), types[0].size)

    def value(n: Any, o: Any, *at: Any) -> Any:
        # With one channel in each group the channel follows from the output alone (depthwise).
        channel = c.var if groups == 1 else (o // count) * depth + c
        read = source(n, channel, *window_index(windows, at, ks))
        return cast_expr(wide, read) * cast_expr(wide, weight(o, c.var, *(k.var for k in ks)))

    return [accumulate(types[0], te.sum, value, [c, *ks], "conv")]


define("conv", "conv", _infer, _reference, _compute, steps=_steps)


def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, strides: Amounts = None,
    pads: Amounts = None, dilations: Amounts = None, groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:  # fmt: skip
    """The (cross-)correlation of `x` with `weight`; pads are (before..., after...)."""
    rank = max(x.ndim - 2, 0)
    result = apply1(
        "conv",
        (x, weight),
        strides=spread(strides, rank),
        pads=spread_pads(pads, rank),
        dilations=spread(dilations, rank),
        groups=int(groups),
        out_dtype=None if out_dtype is None else dtype(out_dtype),
    )
    return add_bias(result, bias)


def add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """A value for each channel (axis 1) added."""
    if bias is None:
        return x
    if bias.shape != (x.shape[1],):
        raise ShapeError(f"conv: the bias {bias.type} needs one value for each of {x.shape[1]}")
    return add(x, reshape(bias, [1, -1] + [1] * (x.ndim - 2)))


# ---------------------------------------------------------------------------- transposed


def _dilate(x: Tensor, strides: Sequence[int]) -> Tensor:
    """Zeros between the elements of the spatial dimensions."""
    for k, stride in enumerate(strides, 2):
        extent = x.shape[k]
        if stride == 1 or extent == 0:
            continue
        split = reshape(x, [*x.shape[: k + 1], 1, *x.shape[k + 1 :]])
        pads = [(0, 0)] * split.ndim
        pads[k + 1] = (0, stride - 1)
        joined = reshape(pad(split, pads), [*x.shape[:k], extent * stride, *x.shape[k + 1 :]])
        x = strided_slice(joined, [0], [(extent - 1) * stride + 1], [k])
    return x


def _conv_transpose(
    x: Tensor, weight: Tensor, *, strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int, output_padding: Sequence[int],
) -> Tensor:  # fmt: skip
    rank = x.ndim - 2
    check_rank(x.type, 3, "the input")
    if weight.ndim != x.ndim or weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ShapeError(f"the weight {weight.type} in {groups} groups does not fit {x.type}")
    depth, count, kernel = weight.shape[0] // groups, weight.shape[1], weight.shape[2:]
    mirrored = flip(reshape(weight, [groups, depth, count, *kernel]), range(3, 3 + rank))
    order = (0, 2, 1, *range(3, 3 + rank))
    turned = reshape(transpose(mirrored, order), [groups * count, depth, *kernel])
    spread_out = _dilate(x, strides)
    margins = [(0, 0), (0, 0)]
    for k in range(rank):
        reach = (kernel[k] - 1) * dilations[k]
        margins.append((reach - pads[k], reach - pads[rank + k] + output_padding[k]))
    return conv(pad(spread_out, margins), turned, dilations=dilations, groups=groups)


def _conv_transpose_reference(
    x: Array, weight: Array, *, strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int, output_padding: Sequence[int],
) -> Array:  # fmt: skip
    """Each input element adds the kernel, scaled by it, to the output."""
    rank, kernel = x.ndim - 2, weight.shape[2:]
    depth, count = weight.shape[0] // groups, weight.shape[1]
    full = [
        (x.shape[2 + k] - 1) * strides[k] + (kernel[k] - 1) * dilations[k] + 1 for k in range(rank)
    ]
    ends = [full[k] - pads[rank + k] + output_padding[k] for k in range(rank)]
    room = [max(full[k], ends[k]) for k in range(rank)]
    result = np.zeros((x.shape[0], groups * count, *room))
    for offset in np.ndindex(*kernel):
        rows = zip(offset, dilations, strides, x.shape[2:], strict=True)
        at = tuple(slice(o * d, o * d + (n - 1) * s + 1 if n else o * d, s) for o, d, s, n in rows)
        for g in range(groups):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * count, (g + 1) * count)
            part = np.tensordot(x[:, ins], weight[(ins, slice(None), *offset)], ([1], [0]))
            result[(slice(None), outs, *at)] += np.moveaxis(part, -1, 1)
    crop = tuple(slice(pads[k], ends[k]) for k in range(rank))
    return result[(slice(None), slice(None), *crop)]


composite("conv_transpose", _conv_transpose, _conv_transpose_reference)


def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, strides: Amounts = None,
    pads: Amounts = None, dilations: Amounts = None, groups: int = 1,
    output_padding: Amounts = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv`, with a weight of [C, O / groups, kernel...]."""
    rank = max(x.ndim - 2, 0)
    result = build(
        "conv_transpose",
        x,
        weight,
        strides=spread(strides, rank),
        pads=spread_pads(pads, rank),
        dilations=spread(dilations, rank),
        groups=int(groups),
        output_padding=spread(output_padding, rank, 0),
    )
    return add_bias(result, bias)
