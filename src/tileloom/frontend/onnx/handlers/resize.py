"""Resampling: Resize, GridSample, RoiAlign."""

from __future__ import annotations

import math

import numpy as np

from ....base.errors import ShapeError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ....graph.ops.resize import COORDINATES
from ..call import Call
from ..registry import handler
from .rearrange import scaled_extents


@handler("Resize", since=10)
def resize_by_scales(call: Call) -> Tensor:
    x = call.tensor(0)
    scales = [float(s) for s in call.array(1).reshape(-1)]
    sizes = scaled_extents(x.shape, _fitting(x, scales))
    mode = call.choice("mode", "nearest", ("nearest", "linear"))
    return ops.resize(x, sizes, mode, "asymmetric", scales=scales, nearest="floor")


def _fitting(x: Tensor, scales: list[float]) -> list[float]:
    if len(scales) != x.ndim or not all(math.isfinite(s) and s > 0 for s in scales):
        raise ShapeError(f"scales {scales} do not fit {x.type}")
    return scales


@handler("Resize", since=11)
def resize(call: Call) -> Tensor:
    x = call.tensor(0)
    axes = [axis % max(x.ndim, 1) for axis in call.ints("axes", list(range(x.ndim)))]
    sizes, scales = _sizes(call, x, axes)
    coordinates = call.choice("coordinate_transformation_mode", "half_pixel", COORDINATES)
    roi = None
    if coordinates == "tf_crop_and_resize":
        roi = _roi(call, x, axes)
    return ops.resize(
        x,
        sizes,
        call.choice("mode", "nearest", ("nearest", "linear", "cubic")),
        coordinates,
        scales=scales,
        nearest=call.text("nearest_mode", "round_prefer_floor"),
        cubic=call.number("cubic_coeff_a", -0.75),
        exclude_outside=call.flag("exclude_outside"),
        antialias=call.flag("antialias"),
        extrapolation=call.number("extrapolation_value", 0.0),
        roi=roi,
    )


def _roi(call: Call, x: Tensor, axes: list[int]) -> list[float]:
    given = [float(v) for v in call.array(1).reshape(-1)]
    if len(given) != 2 * len(axes):
        raise ShapeError(f"a region of {len(given)} numbers for {len(axes)} axes")
    roi = [0.0] * x.ndim + [1.0] * x.ndim
    for k, axis in enumerate(axes):
        roi[axis], roi[axis + x.ndim] = given[k], given[k + len(axes)]
    return roi


def _sizes(call: Call, x: Tensor, axes: list[int]) -> tuple[list[int], list[float] | None]:
    scales = call.array(2).reshape(-1) if call.has(2) else np.zeros(0)
    if scales.size:
        if len(scales) != len(axes):
            raise ShapeError(f"{len(scales)} scales for {len(axes)} axes")
        full = [1.0] * x.ndim
        for axis, scale in zip(axes, scales):
            full[axis] = float(scale)
        _fitting(x, full)
        return scaled_extents(x.shape, full), full
    if not call.has(3):
        raise ShapeError("neither scales nor sizes are given")
    wanted = call.extents(3)
    if len(wanted) != len(axes) or any(size < 0 for size in wanted):
        raise ShapeError(f"sizes {wanted} for {len(axes)} axes")
    policy = call.choice(
        "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller")
    )
    sizes = list(x.shape)
    if policy == "stretch":
        for axis, size in zip(axes, wanted):
            sizes[axis] = size
        return sizes, [1.0 if m == n or n == 0 else m / n for n, m in zip(x.shape, sizes)]
    pick = min if policy == "not_larger" else max
    scale = pick(size / x.shape[axis] for axis, size in zip(axes, wanted))
    full = [1.0] * x.ndim
    for axis in axes:
        sizes[axis] = math.floor(x.shape[axis] * scale + 0.5)
        full[axis] = scale
    return sizes, full


# ---------------------------------------------------------------------------- GridSample


@handler("GridSample")
def grid_sample(call: Call) -> Tensor:
    x, grid = call.tensor(0), call.tensor(1)
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != x.ndim or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"a grid {grid.type} does not fit {x.type}")
    known = ("bilinear", "linear", "nearest", "bicubic", "cubic")
    mode = call.choice("mode", "linear", known).removeprefix("bi")
    padding = call.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = call.flag("align_corners")
    kind = x.dtype
    places = []
    for k in range(rank):
        part = ops.strided_slice(grid, [rank - 1 - k], [rank - k], [-1])
        line = ops.cast(ops.reshape(part, (x.shape[0], -1)), kind)
        places.append(_unnormalize(line, x.shape[2 + k], corners))
    result = sample(x, places, mode, padding, corners)
    return ops.reshape(result, (*x.shape[:2], *grid.shape[1:-1]))


def _unnormalize(place: Tensor, extent: int, corners: bool) -> Tensor:
    if corners:
        return ops.mul(ops.add(place, 1.0), (extent - 1) / 2)
    return ops.mul(ops.sub(ops.mul(ops.add(place, 1.0), float(extent)), 1.0), 0.5)


def sample(x: Tensor, places: list[Tensor], mode: str, padding: str, corners: bool) -> Tensor:
    """Tensor-product interpolation; all taps of all axes are combined."""
    extents = tuple(int(extent) for extent in x.shape[2:])
    if mode != "cubic":
        places = [_into(p, n, padding, corners) for p, n in zip(places, extents)]
    taps = [_taps(place, mode) for place in places]
    flat = ops.reshape(x, (*x.shape[:2], product(extents)))
    total: Tensor | None = None
    for choice in np.ndindex(*[len(line) for line in taps]):
        index: Tensor | None = None
        weight: Tensor | None = None
        for k, pick in enumerate(choice):
            place, share = taps[k][pick]
            place = _into(place, extents[k], padding, corners)
            inside = ops.logical_and(
                ops.greater_equal(place, 0.0), ops.less_equal(place, float(extents[k] - 1))
            )
            bounded = ops.cast(ops.clip(place, 0.0, float(extents[k] - 1)), "int64")
            share = ops.where(inside, share, 0.0)
            index = bounded if index is None else ops.add(ops.mul(index, extents[k]), bounded)
            weight = share if weight is None else ops.mul(weight, share)
        if index is None or weight is None:
            continue
        shape = (flat.shape[0], flat.shape[1], index.shape[1])
        wide = ops.broadcast_to(ops.expand_dims(index, 1), shape)
        part = ops.mul(ops.gather_elements(flat, wide, 2), ops.expand_dims(weight, 1))
        total = part if total is None else ops.add(total, part)
    return flat if total is None else total


def _into(place: Tensor, extent: int, padding: str, corners: bool) -> Tensor:
    if padding == "border":
        return ops.clip(place, 0.0, float(extent - 1))
    if padding == "zeros":
        return place
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    span = high - low
    if span <= 0:
        return ops.mul(place, 0.0)
    offset = ops.abs(ops.sub(place, low))
    turns = ops.floor(ops.div(offset, span))
    rest = ops.sub(offset, ops.mul(turns, span))
    odd = ops.equal(ops.mod(turns, 2.0), 1.0)
    reflected = ops.add(ops.where(odd, ops.sub(span, rest), rest), low)
    return ops.clip(reflected, 0.0, float(extent - 1)) if not corners else reflected


def _taps(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor]]:
    if mode == "nearest":
        return [(ops.round(place), ops.full_like(place, 1.0))]
    low = ops.floor(place)
    rest = ops.sub(place, low)
    if mode == "linear":
        return [(low, ops.sub(1.0, rest)), (ops.add(low, 1.0), rest)]
    return [
        (ops.add(low, float(k)), _cubic(ops.abs(ops.sub(rest, float(k))))) for k in range(-1, 3)
    ]


def _cubic(d: Tensor, a: float = -0.75) -> Tensor:
    """Keys' kernel at a distance below 2."""
    near = ops.add(ops.mul(ops.mul(ops.sub(ops.mul(d, a + 2), a + 3), d), d), 1.0)
    far = ops.mul(ops.sub(ops.mul(ops.add(ops.mul(ops.sub(d, 5.0), d), 8.0), d), 4.0), a)
    return ops.where(ops.less_equal(d, 1.0), near, far)


# ---------------------------------------------------------------------------- RoiAlign


@handler("RoiAlign")
def roi_align(call: Call) -> Tensor:
    x, rois, batch = call.tensor(0), call.tensor(1), call.tensor(2)
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 4 or batch.shape != rois.shape[:1]:
        raise ShapeError(f"regions {rois.type} and {batch.type} do not fit {x.type}")
    half = "half_pixel" if call.version >= 16 else "output_half_pixel"
    mode = call.text("coordinate_transformation_mode", half)
    shift = 0.5 if mode == "half_pixel" else 0.0
    high, wide = call.integer("output_height", 1), call.integer("output_width", 1)
    ratio, scale = call.integer("sampling_ratio", 0), call.number("spatial_scale", 1.0)
    if high < 1 or wide < 1 or ratio < 0:
        raise ShapeError(f"unusable output {high} by {wide} with sampling ratio {ratio}")
    box = ops.sub(ops.mul(rois, scale), shift)
    left, top, right, bottom = (ops.squeeze(p, 1) for p in ops.split(box, [1] * 4, 1))
    if ratio == 0:
        return _adaptive_roi_align(call, (left, top, right, bottom), shift, (high, wide))
    ys = _roi_places(top, bottom, high, ratio, shift)
    xs = _roi_places(left, right, wide, ratio, shift)
    return _roi_pool(call, x, batch, ys, xs, (high, wide), (ratio, ratio))


def _roi_places(low: Tensor, up: Tensor, bins: int, ratio: int, shift: float) -> Tensor:
    """Sample places [rois, bins * ratio] along one axis."""
    length = ops.sub(up, low)
    if not shift:
        length = ops.maximum(length, 1.0)
    steps = (np.arange(bins * ratio) + 0.5) / (bins * ratio)
    line = ops.constant(steps.reshape(1, -1), low.dtype)
    return ops.add(ops.expand_dims(low, 1), ops.mul(ops.expand_dims(length, 1), line))


def _roi_pool(
    call: Call,
    x: Tensor,
    batch: Tensor,
    ys: Tensor,
    xs: Tensor,
    bins: tuple[int, int],
    ratios: tuple[int, int],
) -> Tensor:
    count, (n, c, h, w) = ys.shape[0], x.shape
    rows = ops.expand_dims(ys, 2)
    columns = ops.expand_dims(xs, 1)
    samples: Tensor | None = None
    best: Tensor | None = None
    pictures = ops.gather(ops.reshape(x, (n, c, h * w)), batch, 0)
    outside = _outside(rows, h), _outside(columns, w)
    for i, row_share in _clamped_taps(rows, h):
        for j, column_share in _clamped_taps(columns, w):
            index = ops.reshape(ops.add(ops.mul(i, w), j), (count, 1, -1))
            index = ops.broadcast_to(index, (count, c, index.shape[2]))
            found = ops.gather_elements(pictures, index, 2)
            share = ops.mul(row_share, column_share)
            share = ops.where(ops.logical_or(*outside), 0.0, share)
            part = ops.mul(found, ops.reshape(share, (count, 1, -1)))
            samples = part if samples is None else ops.add(samples, part)
            best = part if best is None else ops.maximum(best, part)
    largest = call.choice("mode", "avg", ("avg", "max")) == "max"
    chosen = best if largest else samples
    if chosen is None:
        raise ShapeError("no samples")
    shape = (count, c, bins[0], ratios[0], bins[1], ratios[1])
    grid = ops.reshape(chosen, shape)
    return ops.max(grid, (3, 5)) if largest else ops.mean(grid, (3, 5))


def _outside(place: Tensor, extent: int) -> Tensor:
    return ops.logical_or(ops.less(place, -1.0), ops.greater(place, float(extent)))


def _clamped_taps(place: Tensor, extent: int) -> list[tuple[Tensor, Tensor]]:
    """The two neighbours and their shares; beyond the last element there is only that."""
    bounded = ops.clip(place, 0.0, float(extent - 1))
    low = ops.floor(bounded)
    rest = ops.sub(bounded, low)
    up = ops.minimum(ops.add(low, 1.0), float(extent - 1))
    return [(ops.cast(low, "int64"), ops.sub(1.0, rest)), (ops.cast(up, "int64"), rest)]


def _adaptive_roi_align(
    call: Call, box: tuple[Tensor, ...], shift: float, bins: tuple[int, int]
) -> Tensor:
    """As many samples as a bin has pixels: the boxes must be known."""
    regions, scale = call.array(1).astype(np.float64), call.number("spatial_scale", 1.0)
    left, top, right, bottom = (box[k] for k in range(4))
    results = []
    x, batch = call.tensor(0), call.tensor(2)
    for k, region in enumerate(regions * scale):
        extents = region[2:] - region[:2]
        extents = extents if shift else np.maximum(extents, 1.0)
        across = max(math.ceil(extents[0] / bins[1]), 1)
        down = max(math.ceil(extents[1] / bins[0]), 1)
        one = [ops.strided_slice(edge, [k], [k + 1], [0]) for edge in (left, top, right, bottom)]
        ys = _roi_places(one[1], one[3], bins[0], down, shift)
        xs = _roi_places(one[0], one[2], bins[1], across, shift)
        which = ops.strided_slice(batch, [k], [k + 1], [0])
        results.append(_roi_pool(call, x, which, ys, xs, bins, (down, across)))
    return ops.concat(results, 0)
