"""Pooling with all that its attributes say, against ONNX Runtime and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import check_with_runtime, f32, i64, run_node

RANDOM = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


IMAGE = normal(2, 3, 7, 6)


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((2, 3, 5), [2]), ((2, 3, 7, 6), [2, 3]), ((2, 2, 3, 4, 3), [2, 2, 2])],
)
@pytest.mark.parametrize("order", [0, 1])
def test_where_the_maxima_stand(shape: tuple[int, ...], kernel: list[int], order: int) -> None:
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "storage_order": order,
        "strides": [2] * len(kernel),
    }
    check_with_runtime("MaxPool", 12, [normal(*shape)], 2, **attrs)


def test_places_in_column_major_order() -> None:
    """By hand: the image is [[0, 1, 2], [3, 4, 5]], the second channel starts at 6."""
    x = np.arange(12, dtype="float32").reshape(1, 2, 2, 3)
    _, places = run_node("MaxPool", x, outputs=2, kernel_shape=[1, 2], storage_order=1)
    assert places.tolist() == [[[[2, 4], [3, 5]], [[8, 10], [9, 11]]]]


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_windows_past_the_end(op: str, ceil_mode: int) -> None:
    attrs: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}
    check_with_runtime(op, 22, [IMAGE], ceil_mode=ceil_mode, **attrs)


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_means(count_include_pad: int) -> None:
    attrs: dict[str, Any] = {
        "kernel_shape": [3, 2],
        "strides": [1, 2],
        "pads": [1, 0, 2, 1],
        "dilations": [2, 1],
    }
    check_with_runtime("AveragePool", 19, [IMAGE], count_include_pad=count_include_pad, **attrs)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_norms(p: int) -> None:
    check_with_runtime("LpPool", 11, [IMAGE], kernel_shape=[2, 3], strides=[1, 2], p=p)
    check_with_runtime("GlobalLpPool", 2, [IMAGE], p=p)


def test_the_default_norm_is_the_second() -> None:
    check_with_runtime("LpPool", 11, [IMAGE], kernel_shape=[2, 3])
    check_with_runtime("GlobalLpPool", 2, [IMAGE])


SMALL = f32(1, 2, 3, 4).reshape(1, 1, 2, 2)
CORNERS = i64(5, 7, 13, 15).reshape(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("arrays", "attrs"),
    [
        ([SMALL, CORNERS], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ([SMALL, CORNERS, i64(1, 1, 4, 4)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ([normal(1, 2, 2), i64(1, 3, 4, 7).reshape(1, 2, 2)],
         {"kernel_shape": [2], "strides": [2]}),
        ([SMALL, i64(0, 2, 6, 8).reshape(1, 1, 2, 2)],
         {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ([SMALL, i64(0, 2, 6, 8).reshape(1, 1, 2, 2)],
         {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 0, 0, 2]}),
        ([SMALL, i64(0, 1, 3, 8).reshape(1, 1, 2, 2)], {"kernel_shape": [2, 2]}),
    ],
)  # fmt: skip
def test_unpooling(arrays: Any, attrs: Any) -> None:
    check_with_runtime("MaxUnpool", 11, arrays, **attrs)


def test_unpooling_into_a_larger_result() -> None:
    """Places count in the result that the window alone would make."""
    found = run_node(
        "MaxUnpool", SMALL, CORNERS, i64(1, 1, 5, 6), opset=11, kernel_shape=[2, 2], strides=[2, 2]
    )
    wanted = np.zeros((1, 1, 5, 6), "float32")
    wanted[0, 0, 1, 1], wanted[0, 0, 1, 3], wanted[0, 0, 3, 1], wanted[0, 0, 3, 3] = 1, 2, 3, 4
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3, 5), (1, 2, 3, 4, 2)])
def test_whole_images(op: str, shape: tuple[int, ...]) -> None:
    check_with_runtime(op, 13, [normal(*shape)])
