"""Padding, strides and offsets of convolutions, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import check_with_evaluator, check_with_runtime, run_node
from tileloom.base.errors import UserError

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


IMAGE = normal(2, 3, 7, 6)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(mode: str) -> None:
    weight = normal(2, 3, 3, 4)
    check_with_runtime("Conv", 11, [IMAGE, weight], auto_pad=mode, strides=[1, 3])
    check_with_runtime("Conv", 11, [IMAGE, weight], auto_pad=mode, strides=[4, 2])
    transposed: dict[str, Any] = {"auto_pad": mode, "strides": [2, 1]}
    check_with_runtime("ConvTranspose", 11, [IMAGE, normal(3, 2, 3, 2)], **transposed)
    pooled: dict[str, Any] = {"auto_pad": mode, "strides": [1, 3], "kernel_shape": [2, 4]}
    check_with_runtime("MaxPool", 12, [IMAGE], **pooled)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_automatic_padding_of_dilated_windows(mode: str, stride: int, dilation: int) -> None:
    x, weight = np.arange(1, 9, dtype="float32").reshape(1, 1, 8), f32_range(4)
    found = run_node(
        "Conv", x, weight, opset=11, auto_pad=mode, strides=[stride], dilations=[dilation]
    )
    count = -(-8 // stride)
    total = max(0, (count - 1) * stride + 3 * dilation + 1 - 8)
    low = total // 2 if mode == "SAME_UPPER" else -(-total // 2)
    line = np.pad(x[0, 0], (low, total - low))
    wanted = [
        line[k * stride : k * stride + 3 * dilation + 1 : dilation] @ weight[0, 0]
        for k in range(count)
    ]
    np.testing.assert_allclose(found[0, 0], wanted)


def f32_range(count: int) -> np.ndarray:
    return np.arange(1, count + 1, dtype="float32").reshape(1, 1, count)


@pytest.mark.parametrize(
    "attrs",
    [
        {"output_shape": [14, 13], "strides": [2, 2]},
        {"output_shape": [14, 13], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"output_shape": [9, 8]},
        {"dilations": [2, 1], "strides": [3, 1], "output_padding": [1, 0], "pads": [2, 1, 1, 0]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    ],
)
def test_transposed(attrs: dict[str, Any]) -> None:
    check_with_runtime("ConvTranspose", 11, [IMAGE, normal(3, 2, 3, 3)], **attrs)


def test_transposed_along_one_and_three_axes() -> None:
    check_with_runtime("ConvTranspose", 11, [normal(1, 2, 4), normal(2, 2, 3)], pads=[1, 0])
    check_with_runtime(
        "ConvTranspose", 11, [normal(1, 2, 2, 3, 2), normal(2, 1, 2, 1, 2), normal(1)],
        strides=[1, 2, 1],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "attrs"),
    [
        ([(2, 3, 7, 6), (4, 3, 2, 2), (2, 8, 6, 5)], {}),
        ([(1, 4, 5, 5), (4, 2, 3, 3), (1, 36, 3, 3), (4,), (1, 18, 3, 3)],
         {"group": 2, "offset_group": 2}),
        ([(2, 3, 7, 6), (2, 3, 2, 2), (2, 8, 4, 3)],
         {"strides": [2, 2], "pads": [1, 0, 0, 1], "dilations": [1, 2]}),
        ([(1, 2, 1, 3), (1, 2, 1, 2), (1, 4, 1, 2)], {}),
    ],
)  # fmt: skip
def test_deformable(shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> None:
    check_with_runtime("DeformConv", 19, [normal(*shape) for shape in shapes], **attrs)


@pytest.mark.parametrize(
    ("weight", "attrs", "offset"),
    [((4, 3, 2, 2), {}, (1, 8, 6, 5)), ((4, 2, 2, 2), {}, (2, 8, 6, 5)),
     ((4, 1, 2, 2), {"group": 2}, (2, 8, 6, 5)), ((5, 1, 2, 2), {"group": 3}, (2, 8, 6, 5)),
     ((4, 3, 2, 2), {"offset_group": 0}, (2, 8, 6, 5)),
     ((4, 3, 2, 2), {"offset_group": 2}, (2, 16, 6, 5)),
     ((4, 3, 2, 2), {"group": 0}, (2, 8, 6, 5))],
)  # fmt: skip
def test_deformable_convolutions_that_do_not_fit(
    weight: tuple[int, ...], attrs: Any, offset: tuple[int, ...]
) -> None:
    with pytest.raises(UserError, match=r"DeformConv.*do(es)? not fit"):
        run_node("DeformConv", IMAGE, normal(*weight), normal(*offset), opset=19, **attrs)


@pytest.mark.parametrize(
    ("image", "block", "channels", "attrs"),
    [
        ([5], [2], 4, {"strides": [1]}),
        ([4, 5], [2, 3], 12, {"pads": [1, 0, 0, 2], "strides": [1, 2]}),
        ([5, 5], [2, 2], 4, {"dilations": [2, 3]}),
        ([2, 3, 3], [1, 2, 2], 8, {"strides": [1, 1, 1]}),
    ],
)
def test_blocks_to_images(image: list[int], block: list[int], channels: int, attrs: Any) -> None:
    rank = len(image)
    pads, rates = attrs.get("pads", [0] * 2 * rank), attrs.get("dilations", [1] * rank)
    steps = attrs.get("strides", [1] * rank)
    count = 1
    for k, n in enumerate(image):
        room = n + pads[k] + pads[k + rank] - rates[k] * (block[k] - 1) - 1
        count *= room // steps[k] + 1
    arrays = [normal(2, channels, count), np.array(image), np.array(block)]
    check = check_with_runtime if rank <= 2 else check_with_evaluator
    check("Col2Im", 18, arrays, **attrs)


@pytest.mark.parametrize(
    ("shapes", "attrs", "words"),
    [
        ([(1, 2), (2, 3)], {}, "does not fit"),
        ([(1, 2, 5, 5), (2, 3, 3)], {}, "does not fit"),
        ([(1, 2, 5), (2, 3, 3)], {"pads": [0, 0, 0]}, r"pads \[0, 0, 0\] do not fit"),
        ([(1, 2, 5), (2, 3, 3)], {"dilations": [1, 1]}, "need 1 entries"),
        ([(1, 2, 5), (2, 3, 3)], {"output_padding": [1, 1]}, "need 1 entries"),
    ],
)
def test_transposed_convolutions_that_do_not_fit(
    shapes: list[tuple[int, ...]], attrs: Any, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        run_node("ConvTranspose", *(normal(*shape) for shape in shapes), **attrs)
