"""Views and rearrangements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ....graph.symbols import larger, smaller
from ..call import Call
from ..registry import aten, direct

_END = (1 << 63) - 1


@aten("view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim",
      "squeeze.dims", "unsqueeze.default")  # fmt: skip
def view(call: Call, x: Tensor, *about: Any) -> Tensor:
    """The same elements in another shape, which the trace knows."""
    if call.dtype is not x.dtype:
        raise UnsupportedError("bits seen as another type")
    return ops.reshape(x, call.shape)


aten("permute.default")(direct(ops.transpose))
aten("tril.default")(direct(ops.tril))
aten("triu.default")(direct(ops.triu))


@aten("transpose.int")
def transpose(call: Call, x: Tensor, first: int, second: int) -> Tensor:
    """Two dimensions exchanged."""
    return x if x.ndim == 0 else ops.swapaxes(x, first, second)


@aten("t.default")
def transposed_matrix(call: Call, x: Tensor) -> Tensor:
    """The transpose of a matrix."""
    return x if x.ndim < 2 else ops.swapaxes(x, 0, 1)


@aten("expand.default")
def expand(call: Call, x: Tensor, shape: Sequence[int], *, implicit: bool = False) -> Tensor:
    """Repeated along new and unit dimensions."""
    return ops.broadcast_to(x, call.shape)


@aten("slice.Tensor")
def cut(
    call: Call, x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """Every `step`-th element from start to end along a dimension."""
    return ops.strided_slice(x, [start or 0], [_END if end is None else end], [dim], [step])


@aten("select.int")
def select(call: Call, x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at an index, without the dimension."""
    place = index % x.shape[dim]
    return ops.reshape(ops.strided_slice(x, [place], [place + 1], [dim]), call.shape)


@aten("split.Tensor")
def split(call: Call, x: Tensor, size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of a size; the last may be smaller."""
    axis = dim % x.ndim
    return tuple(ops.split(x, [type_.shape[axis] for type_ in call.types], axis))


@aten("split_with_sizes.default")
def split_with_sizes(
    call: Call, x: Tensor, sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Pieces of these sizes."""
    return tuple(ops.split(x, sizes, dim))


@aten("as_strided.default")
def as_strided(
    call: Call, x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Tensor:
    """Any elements of a compact tensor, by strides."""
    traced = call.fakes[0]
    if not traced.is_contiguous():
        raise UnsupportedError("strides over a tensor that is not compact")
    start = 0 if offset is None else offset - traced.storage_offset()
    if product(call.shape) == 0:
        return ops.zeros(call.shape, x.dtype)
    flat = ops.reshape(x, [-1])
    last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if start < 0 or last >= x.type.size:
        raise UnsupportedError("memory outside the tensor")
    compact = [product(shape[k + 1 :]) for k in range(len(shape))]
    pairs = zip(shape, strides, compact, strict=True)
    if all(n == 1 or step == wanted for n, step, wanted in pairs):
        return ops.reshape(ops.strided_slice(flat, [start], [last + 1], [0]), shape)
    place = ops.constant(start)
    for k, step in enumerate(strides):
        line = ops.iota([n if j == k else 1 for j, n in enumerate(shape)], k)
        place = ops.add(place, ops.mul(line, step))
    return ops.gather(flat, place, 0)


@aten("diagonal.default")
def diagonal(call: Call, x: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """Elements whose two indices differ by the offset, as a last dimension."""
    a, b = first % x.ndim, second % x.ndim
    starts = [(a, -offset)] if offset < 0 else [(b, offset)]
    for axis, start in starts:
        start = smaller(start, x.shape[axis])
        x = ops.strided_slice(x, [start], [_END], [axis])
    if 0 in x.shape:
        return ops.zeros(call.shape, x.dtype)
    return ops.diagonal(x, a, b)


@aten("cat.default")
def cat(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One after another; empty tensors of one dimension are passed over."""
    real = [call.cast(t) for t in tensors if t.shape != (0,)]
    return ops.concat(real, dim) if real else ops.zeros(call.shape, call.dtype)


@aten("stack.default")
def stack(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Along a new dimension."""
    return ops.stack([call.cast(t) for t in tensors], dim)


@aten("repeat.default")
def repeat(call: Call, x: Tensor, counts: Sequence[int]) -> Tensor:
    """Repeated whole."""
    return ops.tile(x, counts) if product(call.shape) else ops.zeros(call.shape, call.dtype)


@aten("flip.default")
def flip(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    """The order reversed."""
    return ops.flip(x, dims) if dims and x.ndim else x


@aten("roll.default")
def roll(call: Call, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """What leaves at one end comes in at the other."""
    if not x.type.size:
        return x
    return ops.roll(x, shifts, dims) if dims else ops.roll(x, shifts[0])


@aten("constant_pad_nd.default")
def pad(call: Call, x: Tensor, pads: Sequence[int], value: Any = 0) -> Tensor:
    """Padded by a value; the amounts begin with the last dimension."""
    pairs = [(0, 0)] * x.ndim
    for k in range(len(pads) // 2):
        pairs[x.ndim - 1 - k] = (pads[2 * k], pads[2 * k + 1])
    kind = x.dtype
    fill = bool(value) if kind.is_bool else float(value) if kind.is_float else int(value)
    return ops.pad(x, pairs, value=fill)


@aten("unfold.default")
def unfold(call: Call, x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows along a dimension, as a last dimension."""
    if x.ndim == 0:
        return ops.reshape(x, call.shape)
    axis = dim % x.ndim
    count = call.shape[axis]
    starts = ops.mul(ops.iota((count, size), 0), step)
    places = ops.add(starts, ops.iota((count, size), 1))
    windows = ops.gather(x, places, axis)  # [..., count, size, ...]
    return ops.moveaxis(windows, axis + 1, x.ndim)


# ---------------------------------------------------------------------------- written views


@aten("slice_scatter.default")
def slice_scatter(
    call: Call, x: Tensor, source: Tensor, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Tensor:  # fmt: skip
    """The tensor with a slice of it replaced."""
    axis = dim % x.ndim
    extent = x.shape[axis]
    first, last, count = _picked(extent, start, end, step)
    source = ops.broadcast_to(call.cast(source), [
        count if k == axis else n for k, n in enumerate(x.shape)
    ])  # fmt: skip
    if count == 0:
        return x
    if step == 1:
        before = ops.strided_slice(x, [0], [first], [axis])
        after = ops.strided_slice(x, [last], [extent], [axis])
        pieces = [t for t in (before, source, after) if t.shape[axis] != 0]
        return ops.concat(pieces, axis)
    line = ops.iota([extent if k == axis else 1 for k in range(x.ndim)], axis)
    offset = ops.sub(line, first)
    inside = ops.logical_and(ops.equal(ops.mod(offset, step), 0), ops.greater_equal(offset, 0))
    inside = ops.logical_and(inside, ops.less(line, last))
    flat = ops.reshape(ops.floor_divide(offset, step), [extent])
    return ops.where(inside, ops.gather(source, ops.clip(flat, 0, count - 1), axis), x)


def _picked(extent: int, start: int | None, end: int | None, step: int) -> tuple[int, int, int]:
    """Where a slice begins and ends, and how many elements it has; of nothing 0."""

    def within(place: int) -> int:
        return larger(0, smaller(extent, place if place >= 0 else place + extent))

    first = within(0 if start is None else start)
    last = larger(first, within(extent if end is None else end))
    return first, last, -(-(last - first) // step)


@aten("select_scatter.default")
def select_scatter(call: Call, x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    """The tensor with the slice at an index replaced."""
    axis = dim % x.ndim
    line = ops.iota([x.shape[axis] if k == axis else 1 for k in range(x.ndim)], axis)
    here = ops.equal(line, index % x.shape[axis])
    return ops.where(here, ops.expand_dims(call.cast(source), axis), x)
