"""Moving elements: reshape, transpose, slice, pad, concatenate, tile, split."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import broadcast_shapes, normalize_axis, product
from ....graph.symbols import is_symbolic, smaller
from ..call import Call
from ..extents import DECIDES, cells_of, tensor_of
from ..registry import handler
from ..values import Array, Value


def _either(call: Call, graph: Callable[[Tensor], Any], host: Callable[[Array], Any]) -> Value:
    """Apply to a tensor, or to a value that lives on the host (strings, four-bit integers)."""
    value = call.inputs[0]
    result: Value = host(value) if isinstance(value, np.ndarray) else graph(call.tensor(0))
    return result


@handler("Identity")
def identity(call: Call) -> Value:
    return call.inputs[0]


@handler("Shape")
def shape(call: Call) -> Tensor:
    extents = list(shape_of(call, 0))
    start = call.integer("start", 0)
    end = call.integer("end", len(extents))
    picked = extents[start:end]
    return tensor_of(cells_of(picked, (len(picked),)))


@handler("Size")
def size(call: Call) -> Tensor:
    return ops.extent(product(shape_of(call, 0)))


def shape_of(call: Call, index: int) -> Sequence[int]:
    """The shape of an input, wherever it lives."""
    value = call.inputs[index] if index < len(call.inputs) else None
    return value.shape if isinstance(value, np.ndarray) else call.tensor(index).shape


# ---------------------------------------------------------------------------- reshaping


@handler("Reshape", since=5)
def reshape(call: Call) -> Value:
    old, wanted = list(shape_of(call, 0)), call.extents(1)
    if not call.flag("allowzero"):
        copied = [k for k, extent in enumerate(wanted) if DECIDES.is_zero(extent)]
        if any(k >= len(old) for k in copied):
            raise ShapeError(f"shape {wanted} copies a dimension that {old} does not have")
        wanted = [old[k] if k in copied else extent for k, extent in enumerate(wanted)]
    new = resolve_shape(old, wanted)
    return _either(call, lambda x: ops.reshape(x, new), lambda x: x.reshape(new))


def resolve_shape(old: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The shape with a -1 replaced by what is left."""
    total = product(old)
    known = product([extent for extent in wanted if extent != -1])
    free = list(wanted).count(-1)
    fits = total == known if not free else known != 0 and total % known == 0
    if free > 1 or any(extent < -1 for extent in wanted) or not fits:
        raise ShapeError(f"cannot reshape {list(old)} to {list(wanted)}")
    return [total // known if extent == -1 else extent for extent in wanted]


@handler("Flatten")
def flatten(call: Call) -> Tensor:
    return as_matrix(call.tensor(0), call.integer("axis", 1))


def as_matrix(x: Tensor, axis: int) -> Tensor:
    """Two dimensions: those before an axis and those from it on."""
    if not -x.ndim <= axis <= x.ndim:
        raise ShapeError(f"axis {axis} is out of range for {x.ndim} dimensions")
    cut = axis % x.ndim if axis < 0 else axis
    return ops.reshape(x, (product(x.shape[:cut]), product(x.shape[cut:])))


@handler("Squeeze")
def squeeze(call: Call) -> Value:
    axes = call.optional_integers(1) if call.version >= 13 else call.optional_ints("axes")
    if axes is None:
        axes = [k for k, n in enumerate(shape_of(call, 0)) if DECIDES.is_zero(n - 1)]
    picked = tuple(axes)
    return _either(call, lambda x: ops.squeeze(x, picked), lambda x: np.squeeze(x, picked))


@handler("Unsqueeze")
def unsqueeze(call: Call) -> Value:
    axes = tuple(call.integers(1) if call.version >= 13 else call.ints("axes"))
    return _either(call, lambda x: ops.expand_dims(x, axes), lambda x: np.expand_dims(x, axes))


@handler("Expand")
def expand(call: Call) -> Tensor:
    x = call.tensor(0)
    return ops.broadcast_to(x, broadcast_shapes(x.shape, call.extents(1)))


@handler("Transpose")
def transpose(call: Call) -> Value:
    perm = call.optional_ints("perm")
    return _either(call, lambda x: ops.transpose(x, perm), lambda x: x.transpose(perm))


@handler("DepthToSpace")
def depth_to_space(call: Call) -> Tensor:
    mode = call.choice("mode", "DCR", ("DCR", "CRD"))
    x = call.tensor(0)
    rank_four(x)
    return ops.depth_to_space(x, call.integer("blocksize"), mode)


@handler("SpaceToDepth")
def space_to_depth(call: Call) -> Tensor:
    mode = call.choice("mode", "DCR", ("DCR", "CRD"))
    x, block = call.tensor(0), call.integer("blocksize")
    n, c, h, w = rank_four(x)
    if mode == "DCR":
        return ops.space_to_depth(x, block)
    if block < 1 or h % block or w % block:
        raise ShapeError(f"block size {block} does not divide {list(x.shape)}")
    split = ops.reshape(x, (n, c, h // block, block, w // block, block))
    moved = ops.transpose(split, (0, 1, 3, 5, 2, 4))
    return ops.reshape(moved, (n, c * block * block, h // block, w // block))


def rank_four(x: Tensor) -> tuple[int, int, int, int]:
    """The extents of a tensor that must have four."""
    if x.ndim != 4:
        raise ShapeError(f"the input must have 4 dimensions, not {x.ndim}")
    n, c, h, w = x.shape
    return n, c, h, w


# ---------------------------------------------------------------------------- pieces


@handler("Concat")
def concat(call: Call) -> Value:
    axis = call.integer("axis", 1 if call.version < 4 else None)
    if any(isinstance(value, np.ndarray) for value in call.inputs):
        return np.concatenate([call.array(k) for k in range(len(call.inputs))], axis)
    return ops.concat(call.tensors(), axis)


@handler("Split")
def split(call: Call) -> tuple[Value, ...]:
    sizes = call.optional_extents(1) if call.version >= 13 else call.optional_ints("split")
    x, axis = call.tensor(0), call.integer("axis", 0)
    normalize_axis(axis, x.ndim)
    extent = x.shape[axis]
    if sizes is None:
        count = call.integer("num_outputs", len(call.outputs))
        if count < 1:
            raise UserError(f"cannot split into {count} parts")
        part = -(-extent // count)
        starts = [smaller(k * part, extent) for k in range(count + 1)]
    else:
        starts = list(accumulate(sizes, initial=0))
        if starts[-1] != extent or any(size < 0 for size in sizes):
            raise ShapeError(f"parts of {sizes} do not make up dimension {axis} of {list(x.shape)}")
    return tuple(ops.strided_slice(x, [a], [b], [axis]) for a, b in pairwise(starts))


@handler("Slice")
def slice_(call: Call) -> Value:
    if call.version >= 10:
        starts, ends = call.extents(1), call.extents(2)
        axes, steps = call.optional_integers(3), call.optional_integers(4)
    else:
        starts, ends = call.ints("starts"), call.ints("ends")
        axes, steps = call.optional_ints("axes"), None
    rank = len(shape_of(call, 0))
    picked = list(range(len(starts))) if axes is None else axes
    strides = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(picked) == len(strides):
        raise UserError(
            f"starts {starts}, ends {ends}, axes {picked}, steps {strides} differ in length"
        )
    if any(not -rank <= axis < rank for axis in picked):
        raise ShapeError(f"axes {picked} are out of range for {rank} dimensions")
    if 0 in strides:
        raise UserError("a step is 0")
    for axis, end in zip(picked, ends):
        _decide_end(shape_of(call, 0)[axis], end)

    def host(x: Array) -> Array:
        index = [slice(None)] * rank
        for start, end, axis, step in zip(starts, ends, picked, strides):
            stop = None if step < 0 and end < -x.shape[axis] else end
            index[axis] = slice(start, stop, step)
        return x[tuple(index)]

    return _either(call, lambda x: ops.strided_slice(x, starts, ends, picked, strides), host)


def _decide_end(extent: int, end: int) -> None:
    """Make up the mind whether a slice ends before its dimension does.

    The smaller of both would be right too, but equal to nothing: of a table of 512 rows those up to
    `n` are taken so that there are `n`.
    """
    if is_symbolic(end) and DECIDES.not_negative(end):
        DECIDES.not_negative(extent - end)


@handler("Tile", since=6)
def tile(call: Call) -> Tensor:
    x, repeats = call.tensor(0), call.extents(1)
    if len(repeats) != x.ndim or any(count < 0 for count in repeats):
        raise ShapeError(f"repeats {repeats} do not fit {x.type}")
    return ops.tile(x, repeats)


def scaled_extents(shape: Sequence[int], scales: Sequence[float]) -> list[int]:
    """Extents times factors, rounded down; whole factors leave extents without a number so."""
    return [
        n * int(s) if float(s).is_integer() else math.floor(int(n) * s)
        for n, s in zip(shape, scales)
    ]


@handler("Upsample", since=7)
def upsample_attribute(call: Call) -> Tensor:
    scales = call.numbers("scales") if call.version < 9 else call.array(1).tolist()
    x = call.tensor(0)
    if len(scales) != x.ndim:
        raise ShapeError(f"{len(scales)} scales for {x.ndim} dimensions")
    sizes = scaled_extents(x.shape, scales)
    mode = call.choice("mode", "nearest", ("nearest", "linear", "bilinear"))
    mode = mode.removeprefix("bi")
    return ops.resize(x, sizes, mode, "asymmetric", scales=scales, nearest="floor")


# ---------------------------------------------------------------------------- padding

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@handler("Pad", since=2)
def pad_attributes(call: Call) -> Tensor:
    x = call.tensor(0)
    return pad_by(call, x, call.ints("pads"), list(range(x.ndim)), call.number("value", 0.0))


@handler("Pad", since=11)
def pad(call: Call) -> Tensor:
    x = call.tensor(0)
    axes = call.optional_integers(3)
    value = call.scalar(2) if call.has(2) and shape_of(call, 2) != (0,) else 0
    return pad_by(call, x, call.extents(1), list(range(x.ndim)) if axes is None else axes, value)


def pad_by(call: Call, x: Tensor, pads: list[int], axes: list[int], value: Any) -> Tensor:
    """Pads before all axes, then after all."""
    mode = _PAD_MODES[call.choice("mode", "constant", tuple(_PAD_MODES))]
    if len(pads) != 2 * len(axes) or any(not -x.ndim <= axis < x.ndim for axis in axes):
        raise ShapeError(f"pads {pads} along axes {axes} do not fit {x.type}")
    amounts = [(0, 0)] * x.ndim
    for k, axis in enumerate(axes):
        amounts[axis] = (pads[k], pads[k + len(axes)])
    return ops.pad(x, amounts, mode, value)


@handler("CenterCropPad")
def center_crop_pad(call: Call) -> Tensor:
    x, wanted = call.tensor(0), call.extents(1)
    axes = call.ints("axes", list(range(x.ndim)))
    if len(axes) != len(wanted) or any(not -x.ndim <= axis < x.ndim for axis in axes):
        raise ShapeError(f"sizes {wanted} of axes {axes} do not fit {x.type}")
    amounts = [(0, 0)] * x.ndim
    for axis, extent in zip(axes, wanted):
        missing = extent - x.shape[axis]
        before = missing // 2 if missing > 0 else -(-missing // 2)
        amounts[axis] = (before, missing - before)
    return ops.pad(x, amounts, "constant", 0)
