"""Resampling in all modes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import check_with_evaluator, check_with_runtime, f32, i64, run_node
from tileloom.base.errors import UserError

RANDOM = np.random.default_rng(9)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


IMAGE = normal(2, 3, 7, 6)
REGION = f32(0, 0, 0.1, 0.2, 1, 1, 0.8, 1.2)
SCALES, SIZES = f32(1, 1, 1.5, 0.6), i64(9, 4)
ROIS = f32(0.5, 1, 5, 6, -2, -1, 1, 1, 0, 0, 9, 9).reshape(3, 4)
GRID = RANDOM.uniform(-1.7, 1.7, (2, 4, 5, 2)).astype("float32")
VOLUME = normal(1, 2, 3, 4, 5)
PLACES = RANDOM.uniform(-1.4, 1.4, (1, 2, 3, 2, 3)).astype("float32")


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_crop_and_resize"]
)
def test_coordinates(opset: int, mode: str, coordinates: str) -> None:
    region = REGION if coordinates == "tf_crop_and_resize" else None
    check_with_runtime(
        "Resize", opset, [IMAGE, region, SCALES], mode=mode, extrapolation_value=9.0,
        coordinate_transformation_mode=coordinates, nearest_mode="round_prefer_ceil",
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["align_corners", "half_pixel_symmetric"])
def test_coordinates_of_fractions(mode: str, coordinates: str) -> None:
    """The extents before they are rounded down count."""
    arrays = [IMAGE, None, f32(1, 1, 1.3, 0.6)]
    check_with_evaluator(
        "Resize", 19, arrays, mode=mode, coordinate_transformation_mode=coordinates
    )


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_which_neighbour_is_nearest(rounding: str) -> None:
    check_with_runtime("Resize", 13, [IMAGE, None, f32(1, 1, 2, 0.5)], nearest_mode=rounding)


@pytest.mark.parametrize(
    ("arrays", "attrs"),
    [
        ([IMAGE, None, f32(2, 0.5)], {"axes": [3, 2]}),
        ([IMAGE, None, None, SIZES], {"axes": [-1, -2]}),
        ([IMAGE, f32(0.1, 0.2, 0.9, 0.7), None, SIZES],
         {"axes": [3, 2], "coordinate_transformation_mode": "tf_crop_and_resize"}),
        ([IMAGE, None, None, SIZES], {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}),
        ([IMAGE, None, None, SIZES], {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}),
        ([IMAGE, None, f32(1, 1, 0.4, 0.7)], {"antialias": 1}),
        ([IMAGE, None, f32(1, 1, 0.4, 0.7)],
         {"mode": "cubic", "antialias": 1, "exclude_outside": 1}),
        ([IMAGE, None, f32(1, 1, 1.4, 1.7)],
         {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}),
    ],
)  # fmt: skip
def test_sizes_and_filters(arrays: Any, attrs: dict[str, Any]) -> None:
    check_with_runtime("Resize", 18, arrays, **{"mode": "linear", **attrs})


def test_scales_alone() -> None:
    for mode in ("nearest", "linear"):
        check_with_runtime("Resize", 10, [IMAGE, f32(1, 1, 2, 0.5)], mode=mode)


def test_sizes_of_nothing() -> None:
    found = run_node("Resize", IMAGE[:0], None, None, i64(0, 3, 4, 4), opset=13)
    assert found.shape == (0, 3, 4, 4)
    found = run_node("Resize", IMAGE, None, None, i64(2, 3, 0, 4), opset=13)
    assert found.shape == (2, 3, 0, 4)


@pytest.mark.parametrize(
    ("opset", "arrays", "attrs", "words"),
    [
        (10, [IMAGE, f32(1, 2)], {}, "scales .* do not fit"),
        (10, [IMAGE, f32(1, 1, np.inf, 1)], {}, "scales .* do not fit"),
        (10, [IMAGE, f32(1, 1, 0, 1)], {}, "scales .* do not fit"),
        (18, [IMAGE, None, f32(1, 1, 1, np.nan)], {}, "scales .* do not fit"),
        (18, [IMAGE, None, None, i64(1, 2)], {}, "sizes .* for 4 axes"),
        (18, [IMAGE, None, None, i64(-1, 2)], {"axes": [2, 3]}, "sizes .* for 2 axes"),
        (18, [IMAGE, f32(0, 1), None, i64(4, 2)],
         {"axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize"},
         "a region of 2 numbers for 2 axes"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit(opset: int, arrays: Any, attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        run_node("Resize", *arrays, opset=opset, **attrs)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids(mode: str, padding: str, corners: int) -> None:
    attrs: dict[str, Any] = {"padding_mode": padding, "align_corners": corners}
    check_with_runtime("GridSample", 16, [IMAGE, GRID], mode=mode, **attrs)
    if mode != "bicubic":
        name = mode.removeprefix("bi")
        check_with_runtime("GridSample", 20, [VOLUME, PLACES], mode=name, **attrs)


def test_grids_over_one_row() -> None:
    """Reflection between equal bounds."""
    x, grid = IMAGE[:, :, :1], GRID[:, :1]
    for corners in (0, 1):
        attrs: dict[str, Any] = {"padding_mode": "reflection", "align_corners": corners}
        check_with_runtime("GridSample", 16, [x, grid], mode="bilinear", **attrs)


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"output_height": 2, "output_width": 3},
        {"output_height": 3, "output_width": 2, "sampling_ratio": 2},
        {"output_height": 2, "output_width": 3, "mode": "max", "sampling_ratio": 1},
        {"output_height": 2, "output_width": 1, "spatial_scale": 0.5},
    ],
)
def test_regions(opset: int, attrs: dict[str, Any]) -> None:
    check_with_runtime("RoiAlign", opset, [IMAGE, ROIS, i64(0, 1, 1)], **attrs)


def test_regions_without_half_a_pixel() -> None:
    attrs: dict[str, Any] = {
        "coordinate_transformation_mode": "output_half_pixel",
        "output_height": 3,
    }
    check_with_runtime("RoiAlign", 16, [IMAGE, ROIS, i64(0, 1, 1)], **attrs)


@pytest.mark.parametrize("attrs", [{"output_height": 0}, {"output_width": 0},
                                   {"sampling_ratio": -1}])  # fmt: skip
def test_regions_of_nothing(attrs: Any) -> None:
    with pytest.raises(UserError, match="unusable output"):
        run_node("RoiAlign", IMAGE, ROIS, i64(0, 1, 1), opset=16, **attrs)
