"""The workloads compute what their names say, with other parameters than the usual ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.compat.tvm import te
from tileloom.compat.tvm.meta_schedule.testing import te_workload
from tileloom.tir import PrimFunc, run


def results(tensors: Any, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    func = te.create_prim_func(tensors)
    assert isinstance(func, PrimFunc)
    shape = func.buffers[-1].static_shape
    assert shape is not None
    result = np.zeros(shape, "float32")
    run(func, *inputs, result)
    return result


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape))
    return ((np.arange(size, dtype="float32") * 7) % 11 - 5).reshape(shape)


def convolved(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], stride: int, padding: int, dilation: int
) -> np.ndarray[Any, Any]:
    """Channels last; `w` is (height, width, inner, outer)."""
    x = np.pad(x, [(0, 0), (padding,) * 2, (padding,) * 2, (0, 0)])
    kernel = w.shape[0]
    size = (x.shape[1] - dilation * (kernel - 1) - 1) // stride + 1
    result = np.zeros((x.shape[0], size, size, w.shape[3]), "float32")
    for a in range(kernel):
        for b in range(kernel):
            rows = slice(a * dilation, a * dilation + stride * (size - 1) + 1, stride)
            columns = slice(b * dilation, b * dilation + stride * (size - 1) + 1, stride)
            result += x[:, rows, columns] @ w[a, b]
    return result


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 1, 1), (1, 2, 2), (3, 0, 2)])
def test_convolutions(stride: int, padding: int, dilation: int) -> None:
    x, w = numbers(1, 9, 9, 3), numbers(3, 3, 3, 4)
    about = 1, 9, 9, 3, 4, 3, stride, padding, dilation
    expected = convolved(x, w, stride, padding, dilation)
    np.testing.assert_allclose(results(te_workload.conv2d_nhwc(*about), x, w), expected)
    bias, offset, scale = numbers(4), numbers(4) + 2, numbers(4) + 1
    found = results(te_workload.conv2d_nhwc_bn_relu(*about), x, w, bias, offset, scale)
    np.testing.assert_allclose(found, np.maximum((expected + bias) * scale + offset, 0))


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 1, 1), (1, 2, 2)])
def test_depthwise_convolutions(stride: int, padding: int, dilation: int) -> None:
    x, w = numbers(1, 9, 9, 3), numbers(1, 3, 3, 3)
    tensors = te_workload.depthwise_conv2d_nhwc(1, 9, 9, 3, 3, stride, padding, dilation)
    alone = [
        convolved(x[..., c : c + 1], w[0, :, :, c, None, None], stride, padding, dilation)
        for c in range(3)
    ]
    np.testing.assert_allclose(results(tensors, x, w), np.concatenate(alone, -1))


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(4, 2, 1), (3, 2, 0), (3, 1, 1), (5, 3, 1), (4, 3, 0)]
)
def test_transposed_convolutions(kernel: int, stride: int, padding: int) -> None:
    """Each element spreads the kernel over the result, of which the rim is cut off."""
    x, w = numbers(1, 4, 4, 2), numbers(kernel, kernel, 2, 3)
    tensors = te_workload.conv2d_transpose_nhwc(1, 4, 4, 2, 3, kernel, stride, padding)
    size = 3 * stride + kernel
    whole = np.zeros((1, size, size, 3), "float32")
    for i in range(4):
        for j in range(4):
            at = i * stride, j * stride
            spread = np.einsum("c,hwco->hwo", x[0, i, j], w)
            whole[0, at[0] : at[0] + kernel, at[1] : at[1] + kernel] += spread
    expected = whole[:, padding : size - padding, padding : size - padding]
    np.testing.assert_allclose(results(tensors, x, w), expected)
