"""Rearrangements built of reshape, transpose, broadcast_to, slice and concat."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ShapeError
from ..nodes import Tensor, as_extent
from ..symbols import larger, smaller
from .binary import greater_equal, less_equal, sub
from .choose import where
from .common import broadcast_shapes, builder, like, normalize_axes, normalize_axis, product
from .constants import iota
from .shape import broadcast_to, concat, reshape, strided_slice, transpose


@builder
def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Unit dimensions inserted so that they stand at these places of the result."""
    count = 1 if isinstance(axis, int) else len(axis)
    places = normalize_axes(axis, x.ndim + count)
    rest = iter(x.shape)
    return reshape(x, [1 if k in places else next(rest) for k in range(x.ndim + count)])


@builder
def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Unit dimensions removed: the named ones, or all."""
    unit = [k for k, extent in enumerate(x.shape) if extent == 1]
    places = unit if axis is None else list(normalize_axes(axis, x.ndim))
    for k in places:
        if k not in unit:
            raise ShapeError(f"axis {k} of {x.type} has extent {x.shape[k]}, not 1")
    return reshape(x, [extent for k, extent in enumerate(x.shape) if k not in places])


@builder
def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """Two dimensions: those before `axis` and those from it on; -1 is behind all of them."""
    k = normalize_axis(axis, x.ndim + 1)
    return reshape(x, [product(x.shape[:k]), product(x.shape[k:])])


@builder
def broadcast_arrays(*tensors: Tensor) -> list[Tensor]:
    """All tensors in the shape that they broadcast to."""
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return [broadcast_to(tensor, shape) for tensor in tensors]


@builder
def moveaxis(x: Tensor, source: int, destination: int) -> Tensor:
    """One axis moved to another place, the others in their order."""
    start, end = normalize_axis(source, x.ndim), normalize_axis(destination, x.ndim)
    order = [k for k in range(x.ndim) if k != start]
    order.insert(end, start)
    return transpose(x, order)


@builder
def swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    """Two axes exchanged."""
    a, b = normalize_axis(first, x.ndim), normalize_axis(second, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transpose(x, order)


@builder
def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order reversed along axes."""
    axes = normalize_axes(axis, x.ndim)
    count = len(axes)
    # The end lies before the first element, whatever the extent.
    ends = [-x.shape[k] - 1 for k in axes]
    return strided_slice(x, [-1] * count, ends, axes, [-1] * count) if x.type.size else x


@builder
def split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Pieces along an axis: this many (the last may be smaller), or of these sizes."""
    k = normalize_axis(axis, x.ndim)
    extent = x.shape[k]
    if isinstance(parts, int):
        if parts < 1:
            raise ShapeError(f"cannot cut into {parts} parts")
        size = -(-extent // parts)
        sizes = [larger(0, smaller(size, extent - n * size)) for n in range(parts)]
    else:
        sizes = [as_extent(size) for size in parts]
        if sum(sizes) != extent or any(size < 0 for size in sizes):
            raise ShapeError(f"sizes {sizes} do not add up to axis {k} of {x.type}")
    result, start = [], 0
    for size in sizes:
        result.append(strided_slice(x, [start], [start + size], [k]))
        start += size
    return result


@builder
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors along a new axis."""
    if not tensors:
        raise ShapeError("needs at least one tensor")
    k = normalize_axis(axis, tensors[0].ndim + 1)
    return concat([expand_dims(tensor, k) for tensor in tensors], k)


@builder
def unstack(x: Tensor, axis: int = 0) -> list[Tensor]:
    """The tensors along an axis, without it."""
    k = normalize_axis(axis, x.ndim)
    return [squeeze(part, k) for part in split(x, [1] * x.shape[k], k)]


@builder
def tile(x: Tensor, repeats: Sequence[int]) -> Tensor:
    """`x` repeated whole, this often along each axis."""
    counts = [1] * (x.ndim - len(repeats)) + [as_extent(n) for n in repeats]
    shape = [1] * (len(counts) - x.ndim) + list(x.shape)
    if any(n < 0 for n in counts):
        raise ShapeError(f"negative repeats {counts}")
    spread = reshape(x, [part for extent in shape for part in (1, extent)])
    wide = [part for n, extent in zip(counts, shape, strict=True) for part in (n, extent)]
    return reshape(
        broadcast_to(spread, wide), [n * extent for n, extent in zip(counts, shape, strict=True)]
    )


@builder
def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Each element (or each slice along an axis) this often in a row."""
    if axis is None:
        x, axis = reshape(x, [-1] if x.type.size else [0]), 0
    k = normalize_axis(axis, x.ndim)
    if repeats < 0:
        raise ShapeError(f"negative repeats {repeats}")
    before, after = x.shape[: k + 1], x.shape[k + 1 :]
    spread = broadcast_to(reshape(x, [*before, 1, *after]), [*before, repeats, *after])
    return reshape(spread, [*x.shape[:k], x.shape[k] * repeats, *after])


@builder
def roll(x: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes, the shifts and axes broadcast; what leaves comes in behind."""
    if axis is None:
        return reshape(roll(reshape(x, [x.type.size]), shift, 0), x.shape)
    axes, shifts = ([v] if isinstance(v, int) else list(v) for v in (axis, shift))
    if len(axes) == 1:
        axes *= len(shifts)
    elif len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) != len(shifts):
        raise ShapeError(f"{len(shifts)} shifts along {len(axes)} axes")
    for k, amount in zip(axes, shifts, strict=True):
        extent = x.shape[normalize_axis(k, x.ndim)]
        cut = -amount % extent if extent else 0
        if cut:
            x = concat(
                [strided_slice(x, [cut], [extent], [k]), strided_slice(x, [0], [cut], [k])], k
            )
    return x


@builder
def depth_to_space(x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """Channels moved into blocks of pixels (ONNX; "DCR" or "CRD")."""
    n, c, h, w = x.shape
    if block < 1 or c % (block * block):
        raise ShapeError(f"{c} channels do not fill blocks of {block}x{block}")
    depth = c // (block * block)
    if mode == "DCR":
        parts = transpose(reshape(x, [n, block, block, depth, h, w]), (0, 3, 4, 1, 5, 2))
    else:
        parts = transpose(reshape(x, [n, depth, block, block, h, w]), (0, 1, 4, 2, 5, 3))
    return reshape(parts, [n, depth, h * block, w * block])


@builder
def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of pixels moved into channels (ONNX)."""
    n, c, h, w = x.shape
    if block < 1 or h % block or w % block:
        raise ShapeError(f"{h}x{w} pixels are not blocks of {block}x{block}")
    parts = reshape(x, [n, c, h // block, block, w // block, block])
    return reshape(
        transpose(parts, (0, 3, 5, 1, 2, 4)), [n, c * block * block, h // block, w // block]
    )


def _triangle(x: Tensor, k: int, upper: bool) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"{'triu' if upper else 'tril'}: needs two dimensions, got {x.type}")
    rows, columns = x.shape[-2:]
    distance = sub(iota((1, columns), 1, "int32"), iota((rows, 1), 0, "int32"))
    keep = greater_equal(distance, k) if upper else less_equal(distance, k)
    return where(keep, x, like(0, x))


def tril(x: Tensor, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal, zeros elsewhere."""
    return _triangle(x, k, upper=False)


def triu(x: Tensor, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal, zeros elsewhere."""
    return _triangle(x, k, upper=True)


@builder
def diagonal(x: Tensor, first: int = -2, second: int = -1) -> Tensor:
    """The elements whose two indices agree, as a new last axis."""
    a, b = normalize_axis(first, x.ndim), normalize_axis(second, x.ndim)
    rest = [k for k in range(x.ndim) if k not in (a, b)]
    x = transpose(x, [*rest, a, b])
    rows, columns = x.shape[-2:]
    size = min(rows, columns)
    flat = reshape(x, [*x.shape[:-2], rows * columns])
    return strided_slice(flat, [0], [size * (columns + 1)], [-1], [columns + 1])
