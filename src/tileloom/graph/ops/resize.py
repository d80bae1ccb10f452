"""Resampling of a grid: nearest, linear or cubic, axis by axis (ONNX Resize).

Along each axis an output element is a weighted sum of a few input elements; positions and weights
depend on the shape only, so they are constants of the expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import ShapeError, UserError
from ..nodes import Tensor
from ..op import Array
from .binary import add, mul
from .choose import where
from .common import builder, check_dtype, constant
from .composite import build, define_composite
from .gather import gather
from .rearrange import repeat

_MODES = ("nearest", "linear", "cubic")
_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize", "tf_half_pixel_for_nn",
)  # fmt: skip

Axis = tuple[int, int, float, float, float]  # axis, output extent, scale, roi start, roi end


def coordinates(extent: int, axis: Axis, mode: str) -> Array:
    """Where along the input each output element lies."""
    _, size, scale, start, end = axis
    x = np.arange(size, dtype=np.float64)
    match mode:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            # The scale that the sizes give may differ from the one asked for: stay centred.
            adjusted = size / (scale * extent) if extent else 1.0
            return extent / 2 * (1 - adjusted) + (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if size > 1 else x * 0
        case "align_corners":
            # Of the exact scale, which the size may have been rounded down from.
            last = scale * extent - 1
            return x * ((extent - 1) / last) if size > 1 and last > 0 else x * 0
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "asymmetric":
            return x / scale
        case _:
            if size > 1:
                return start * (extent - 1) + x * (end - start) * (extent - 1) / (size - 1)
            return x + 0.5 * (start + end) * (extent - 1)


def _filter(distance: Array, mode: str, cubic: float) -> Any:
    """The weight of an input element at this distance."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    near = ((cubic + 2) * d - (cubic + 3)) * d * d + 1
    far = ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def taps(extent: int, axis: Axis, attrs: dict[str, Any]) -> tuple[Array, Array]:
    """Positions and weights, both [taps, outputs], along one axis."""
    x = coordinates(extent, axis, attrs["coordinates"])
    if attrs["mode"] == "nearest":
        place = _NEAREST[attrs["nearest"]](x)
        return np.clip(place, 0, extent - 1).astype(np.int64)[None], np.ones((1, len(x)))
    scale = min(axis[2], 1.0) if attrs["antialias"] else 1.0
    reach = (1 if attrs["mode"] == "linear" else 2) / scale
    first = np.floor(x) - np.ceil(reach) + 1
    place = first + np.arange(int(2 * np.ceil(reach)))[:, None]
    weights = _filter((place - x) * scale, attrs["mode"], attrs["cubic"])
    if attrs["exclude_outside"]:
        weights = np.where((place >= 0) & (place < extent), weights, 0.0)
    if attrs["exclude_outside"] or attrs["antialias"]:
        weights = weights / weights.sum(axis=0)
    return np.clip(place, 0, extent - 1).astype(np.int64), weights


def outside(extent: int, axis: Axis, attrs: dict[str, Any]) -> Array:
    """Which outputs lie outside the input and take the extrapolation value."""
    x = coordinates(extent, axis, attrs["coordinates"])
    crop = attrs["coordinates"] == "tf_crop_and_resize"
    result: Array = (x < 0) | (x > extent - 1) if crop else np.zeros(len(x), bool)
    return result


def _check(x: Tensor, attrs: dict[str, Any]) -> None:
    check_dtype(x.type, "any" if attrs["mode"] == "nearest" else "float")
    for name, allowed in {
        "mode": _MODES, "nearest": tuple(_NEAREST), "coordinates": COORDINATES,
    }.items():  # fmt: skip
        if attrs[name] not in allowed:
            raise UserError(f"unknown {name} {attrs[name]!r}", hint=f"one of {', '.join(allowed)}")
    for axis, size, *_ in attrs["axes"]:
        if x.shape[axis] == 0 and size:
            raise ShapeError(f"axis {axis} of {x.type} has no elements to resize")


def _whole_factor(extent: int, place: Array) -> int:
    """n if each element is repeated n times in a row, else 0."""
    count = len(place) // extent if extent else 0
    return count if np.array_equal(place, np.arange(extent).repeat(count)) else 0


def _resize(x: Tensor, **attrs: Any) -> Tensor:
    _check(x, attrs)
    for axis in attrs["axes"]:
        k, extent = axis[0], x.shape[axis[0]]
        place, weights = taps(extent, axis, attrs)
        column = [-1 if j == k else 1 for j in range(x.ndim)]
        beyond = outside(extent, axis, attrs)
        factor = _whole_factor(extent, place[0]) if attrs["mode"] == "nearest" else 0
        if factor:
            x = repeat(x, factor, k)
        elif attrs["mode"] == "nearest":
            x = gather(x, constant(place[0]), k)
        else:
            live = [n for n in range(len(place)) if weights[n].any()] or [0]
            parts = [
                mul(gather(x, constant(place[n]), k), constant(weights[n].reshape(column), x.dtype))
                for n in live
            ]
            x = parts[0]
            for part in parts[1:]:
                x = add(x, part)
        if beyond.any():
            x = where(constant(~beyond.reshape(column)), x, attrs["extrapolation"])
    return x


def _reference(x: Array, **attrs: Any) -> Array:
    for axis in attrs["axes"]:
        k, extent = axis[0], x.shape[axis[0]]
        place, weights = taps(extent, axis, attrs)
        if attrs["mode"] == "nearest":
            x = np.take(x, place[0], k)
        else:
            matrix = np.zeros((axis[1], extent))
            for row, column in zip(place, weights, strict=True):
                np.add.at(matrix, (np.arange(axis[1]), row), column)
            x = np.moveaxis(np.tensordot(matrix, x, ([1], [k])), 0, k)
        beyond = outside(extent, axis, attrs)
        x[tuple(slice(None) if j != k else beyond for j in range(x.ndim))] = attrs["extrapolation"]
    return x


define_composite("resize", _resize, _reference)


@builder
def resize(
    x: Tensor,
    sizes: Sequence[int],
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    *,
    scales: Sequence[float] | None = None,
    nearest: str = "round_prefer_floor",
    cubic: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    extrapolation: float = 0.0,
    roi: Sequence[float] | None = None,
) -> Tensor:
    """`x` resampled to `sizes` (one for each dimension).

    Args:
        x: the tensor.
        sizes: the shape of the result.
        mode: "nearest", "linear" or "cubic".
        coordinates: ONNX's `coordinate_transformation_mode`.
        scales: the exact scales, if they differ from the quotients of the sizes.
        nearest: ONNX's `nearest_mode`.
        cubic: the coefficient a of cubic interpolation.
        exclude_outside: whether elements outside get no weight.
        antialias: whether the filter grows when shrinking.
        extrapolation: the value outside, for "tf_crop_and_resize".
        roi: starts, then ends, for "tf_crop_and_resize".
    """
    if len(sizes) != x.ndim or any(size < 0 for size in sizes):
        raise ShapeError(f"needs one size for each dimension of {x.type}: {list(sizes)}")
    axes = []
    for k, (extent, size) in enumerate(zip(x.shape, sizes, strict=True)):
        scale = size / extent if scales is None and extent else (scales or [1.0] * x.ndim)[k]
        start, end = (0.0, 1.0) if roi is None else (roi[k], roi[x.ndim + k])
        if extent != size or float(scale) != 1.0 or (start, end) != (0.0, 1.0):
            axes.append((k, int(size), float(scale), float(start), float(end)))
    return build(
        "resize", x, axes=tuple(axes), mode=mode, coordinates=coordinates, nearest=nearest,
        cubic=float(cubic), exclude_outside=bool(exclude_outside), antialias=bool(antialias),
        extrapolation=float(extrapolation),
    )  # fmt: skip
