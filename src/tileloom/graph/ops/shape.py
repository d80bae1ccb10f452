"""Views and rearrangements: reshape, transpose, broadcast_to, slice, concat.

The rest (`flip`, `tile`, `stack`, `split`, `depth_to_space`, ...) is built of these five.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base.errors import ShapeError
from ...expr import LT as Less
from ...expr import Expr, binary, const
from ..nodes import Tensor, TensorType, as_extent
from ..op import Array, Attrs, apply1
from ..symbols import bounds_of, is_symbolic, larger, smaller
from .common import (
    Types,
    broadcast_shapes,
    builder,
    compute_tensor,
    define,
    element,
    normalize_axes,
    normalize_axis,
    product,
    same_dtype,
)

# ---------------------------------------------------------------------------- reshape


def _infer_reshape(types: Types, attrs: Attrs) -> list[TensorType]:
    shape = tuple(attrs["shape"])
    result = TensorType(shape, types[0].dtype)
    if result.size != types[0].size:
        raise ShapeError(f"cannot reshape {types[0]} with {types[0].size} elements to {shape}")
    return [result]


def _groups(a: Sequence[int], b: Sequence[int]) -> list[tuple[range, range]]:
    """The finest way to cut both shapes into runs of dimensions with equal products."""
    result, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        first, second = i, j
        left, right = 1, 1
        while True:
            if left == right and (i > first or j > second):
                break
            if j >= len(b) or (i < len(a) and left <= right):
                left *= a[i]
                i += 1
            else:
                right *= b[j]
                j += 1
        result.append((range(first, i), range(second, j)))
    return result


def _compute_reshape(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    source, shape = inputs[0], types[0].shape
    inner = source.static_shape
    groups = _groups(inner, shape)

    def body(*index: Any) -> Expr:
        read: list[Any] = []
        for ins, outs in groups:
            read += _unflatten(_flatten([index[j] for j in outs], [shape[j] for j in outs]),
                               [inner[i] for i in ins])  # fmt: skip
        return source(*read)

    return [compute_tensor(types[0], body, "reshape")]


def _flatten(index: Sequence[Any], shape: Sequence[int]) -> Any:
    live = [(i, n) for i, n in zip(index, shape, strict=True) if n != 1]
    if not live:
        return const(0)
    flat = live[0][0]
    for i, extent in live[1:]:
        flat = flat * extent + i
    return flat


def _unflatten(flat: Any, shape: Sequence[int]) -> list[Any]:
    live = [k for k, extent in enumerate(shape) if extent != 1]
    result: list[Any] = [const(0)] * len(shape)
    below = product(shape)
    for position, k in enumerate(live):
        below //= shape[k]
        part = flat // below if below != 1 else flat
        result[k] = part % shape[k] if position else part
    return result


define(
    "reshape",
    "injective",
    _infer_reshape,
    lambda arrays, attrs, types: [arrays[0].reshape(types[0].shape)],
    _compute_reshape,
)


@builder
def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape; one extent may be -1."""
    wanted = [as_extent(extent) for extent in shape]
    if wanted.count(-1) == 1:
        rest = product([extent for extent in wanted if extent != -1])
        if rest == 0 or x.type.size % rest:
            raise ShapeError(f"cannot reshape {x.type} to {wanted}")
        wanted[wanted.index(-1)] = x.type.size // rest
    if tuple(wanted) == x.shape:
        return x
    return apply1("reshape", (x,), shape=tuple(wanted))


# ---------------------------------------------------------------------------- transpose


def _infer_transpose(types: Types, attrs: Attrs) -> list[TensorType]:
    perm, shape = attrs["perm"], types[0].shape
    if sorted(perm) != list(range(len(shape))):
        raise ShapeError(f"perm {list(perm)} is no permutation of the axes of {types[0]}")
    return [TensorType(tuple(shape[axis] for axis in perm), types[0].dtype)]


def _compute_transpose(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    perm = attrs["perm"]
    place = [perm.index(axis) for axis in range(len(perm))]
    return [compute_tensor(types[0], lambda *i: inputs[0](*(i[k] for k in place)), "transpose")]


define(
    "transpose",
    "injective",
    _infer_transpose,
    lambda arrays, attrs, types: [arrays[0].transpose(attrs["perm"])],
    _compute_transpose,
)


@builder
def transpose(x: Tensor, perm: Sequence[int] | None = None) -> Tensor:
    """Axis k of the result is axis perm[k] of `x`; without `perm` the axes are reversed."""
    if perm is None:
        perm = range(x.ndim)[::-1]
    axes = tuple(normalize_axis(axis, x.ndim) for axis in perm)
    return x if axes == tuple(range(x.ndim)) else apply1("transpose", (x,), perm=axes)


# ---------------------------------------------------------------------------- broadcast_to


def _infer_broadcast(types: Types, attrs: Attrs) -> list[TensorType]:
    shape = tuple(attrs["shape"])
    if broadcast_shapes(types[0].shape, shape) != shape:
        raise ShapeError(f"{types[0]} does not broadcast to {list(shape)}")
    return [TensorType(shape, types[0].dtype)]


def _compute_broadcast(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    shape = types[0].shape
    return [compute_tensor(types[0], lambda *i: element(inputs[0], i, shape), "broadcast_to")]


define(
    "broadcast_to",
    "injective",
    _infer_broadcast,
    lambda arrays, attrs, types: [np.broadcast_to(arrays[0], types[0].shape)],
    _compute_broadcast,
)


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` repeated along new and unit dimensions."""
    wanted = tuple(map(as_extent, shape))
    return x if wanted == x.shape else apply1("broadcast_to", (x,), shape=wanted)


# ---------------------------------------------------------------------------- slice


def _infer_slice(types: Types, attrs: Attrs) -> list[TensorType]:
    starts, sizes, steps = attrs["starts"], attrs["sizes"], attrs["steps"]
    shape = types[0].shape
    if not len(starts) == len(sizes) == len(steps) == len(shape):
        raise ShapeError(f"needs a start, size and step for each dimension of {types[0]}")
    for axis, extent in enumerate(shape):
        if any(map(is_symbolic, (extent, starts[axis], sizes[axis]))):
            continue  # `strided_slice` has kept within it
        last = starts[axis] + (sizes[axis] - 1) * steps[axis]
        if sizes[axis] > 0 and not (0 <= starts[axis] < extent and 0 <= last < extent):
            raise ShapeError(f"leaves axis {axis} of {types[0]}: from {starts[axis]} to {last}")
    return [TensorType(tuple(sizes), types[0].dtype)]


def _reference_slice(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    index = [
        start + step * np.arange(size)
        for start, size, step in zip(attrs["starts"], attrs["sizes"], attrs["steps"], strict=True)
    ]
    return [arrays[0][np.ix_(*index)] if index else arrays[0]]


def _compute_slice(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    pairs = list(zip(attrs["starts"], attrs["steps"], strict=True))

    def body(*index: Any) -> Expr:
        return inputs[0](*(start + i * step for i, (start, step) in zip(index, pairs, strict=True)))

    return [compute_tensor(types[0], body, "slice")]


# A strided slice costs nothing in a kernel that computes with it.
define("slice", "injective", _infer_slice, _reference_slice, _compute_slice)


def _picked(extent: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The first of the positions that a slice picks, and how many there are."""
    if not any(map(is_symbolic, (extent, start, end))):
        picked = range(extent)[slice(start, end, step)]
        return (picked[0] if picked else 0), len(picked)
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    start, end = (place if place >= 0 else place + extent for place in (start, end))
    # Each is kept within one side only: beyond the other one there are no elements anyway.
    if step > 0:
        start, end = larger(low, start), smaller(high, end)
    else:
        start, end = smaller(high, start), larger(low, end)
    reach = end - start if step > 0 else start - end
    return start, larger(0, -(-reach // abs(step)))


@builder
def strided_slice(
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Tensor:
    """`x[start:end:step]` along axes, with Python's rules for negative and too large bounds."""
    chosen = range(len(starts)) if axes is None else axes
    strides = [1] * len(starts) if steps is None else steps
    for name, given in (("ends", ends), ("axes", chosen), ("steps", strides)):
        if len(given) != len(starts):
            raise ShapeError(f"strided_slice: {len(starts)} starts but {len(given)} {name}")
    normalize_axes(list(chosen), x.ndim)
    first, size, step = [0] * x.ndim, list(x.shape), [1] * x.ndim
    for axis, start, end, stride in zip(chosen, starts, ends, strides, strict=True):
        k = normalize_axis(axis, x.ndim)
        if stride == 0:
            raise ShapeError(f"slice: the step along axis {k} is 0")
        first[k], size[k] = _picked(x.shape[k], start, end, stride)
        step[k] = stride
    if tuple(size) == x.shape and all(stride == 1 for stride in step):
        return x
    return apply1("slice", (x,), starts=tuple(first), sizes=tuple(size), steps=tuple(step))


# ---------------------------------------------------------------------------- concat


def _infer_concat(types: Types, attrs: Attrs) -> list[TensorType]:
    kind, axis = same_dtype(types), attrs["axis"]
    first = types[0].shape
    for type_ in types:
        rest = [n for k, n in enumerate(type_.shape) if k != axis]
        if len(type_.shape) != len(first) or rest != [n for k, n in enumerate(first) if k != axis]:
            raise ShapeError(f"{types[0]} and {type_} differ in more than axis {axis}")
    total = sum(type_.shape[axis] for type_ in types)
    return [TensorType((*first[:axis], total, *first[axis + 1 :]), kind)]


def _compute_concat(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    axis = attrs["axis"]
    parts = [source for source in inputs if bounds_of(source.static_shape[axis])[1] > 0]
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + part.static_shape[axis])

    def body(*index: Any) -> Expr:
        def read(k: int) -> Expr:
            at = list(index)
            at[axis] = index[axis] - starts[k]
            value: Expr = parts[k](*at)
            return value

        result = read(len(parts) - 1)
        for k in reversed(range(len(parts) - 1)):
            inside = binary(Less, index[axis], starts[k + 1])
            result = te.if_then_else(inside, read(k), result)
        return result

    return [compute_tensor(types[0], body, "concat")]


define(
    "concat",
    "injective",
    _infer_concat,
    lambda arrays, attrs, types: [np.concatenate(arrays, attrs["axis"])],
    _compute_concat,
)


@builder
def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along an axis."""
    if not tensors:
        raise ShapeError("needs at least one tensor")
    k = normalize_axis(axis, tensors[0].ndim)
    return tensors[0] if len(tensors) == 1 else apply1("concat", tensors, axis=k)
