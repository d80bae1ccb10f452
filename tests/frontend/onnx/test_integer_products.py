"""Integer products and convolutions with zero points, whose operands stay narrow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from frontend.onnx.helpers import one_node, run_node
from tileloom.frontend.onnx import load

Array = np.ndarray[Any, Any]
BYTES = ("int8", "uint8")


def random(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    info = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, kind, endpoint=True)


def exact(a: Array, b: Array, p: Any, q: Any) -> Any:
    """In int64; zero points of one dimension are of rows of a and of columns of b."""
    left, right = a.astype("int64"), b.astype("int64")
    if p is not None:
        left = left - (p[:, None] if p.ndim == 1 and p.size > 1 else p).astype("int64")
    if q is not None:
        right = right - q.astype("int64")
    return left @ right


@pytest.mark.parametrize(("left", "right"), list(product(BYTES, BYTES)))
def test_zero_points(left: str, right: str) -> None:
    a, b = random((11, 37), left, 0), random((37, 21), right, 1)
    for rows, columns in product((None, (), (1,), (11,)), (None, (), (1,), (21,))):
        if rows is None and columns is not None:
            continue
        p = None if rows is None else random(rows, left, 2)
        q = None if columns is None else random(columns, right, 3)
        given = [x for x in (a, b, p, q) if x is not None]
        got = run_node("MatMulInteger", *given, opset=10)
        assert np.array_equal(got, exact(a, b, p, q)), (rows, columns)


@pytest.mark.parametrize("shapes", [((37,), (37, 5)), ((4, 37), (37,)), ((2, 3, 37), (37, 9))])
def test_vectors_and_batches(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = random(shapes[0], "uint8", 0), random(shapes[1], "int8", 1)
    p, q = np.uint8(201), np.int8(-77)
    got = run_node("MatMulInteger", a, b, p, q, opset=10)
    assert np.array_equal(got, exact(a, b, p, q))


def test_zero_points_of_matrices() -> None:
    a, b = random((2, 4, 37), "uint8", 0), random((2, 37, 9), "int8", 1)
    p, q = random((2, 4, 1), "uint8", 2), random((2, 1, 9), "int8", 3)
    got = run_node("MatMulInteger", a, b, p, q, opset=10)
    assert np.array_equal(got, exact(a, b, p, q))


def test_results_are_scaled_and_rounded() -> None:
    a, b = random((13, 40), "uint8", 0), random((40, 18), "int8", 1)
    p, q, y = np.uint8(13), random((18,), "int8", 2), np.uint8(100)
    scales = np.float32(0.02), np.linspace(0.01, 0.02, 18, dtype=np.float32), np.float32(0.7)
    got = run_node("QLinearMatMul", a, scales[0], p, b, scales[1], q, scales[2], y, opset=10)
    want = np.rint(exact(a, b, p, q) * (scales[0] * scales[1] / scales[2])) + 100
    assert np.abs(got.astype(int) - np.clip(want, 0, 255)).max() <= 1


def test_operands_stay_narrow_in_machine_code() -> None:
    a, b, p, q = random((40, 64), "uint8", 0), random((64, 48), "int8", 1), np.uint8(9), np.int8(-3)
    proto = one_node("MatMulInteger", [a, b, p, q], 10)
    compiled = load(proto)
    [got] = compiled(a, b, p, q)
    assert np.array_equal(got, exact(a, b, p, q))
    [product] = [node for node in compiled.graph().nodes if node.op.kind == "matmul"]
    assert [t.dtype.bits for t in product.inputs] == [8, 8]


def convolved(
    x: Array, w: Array, p: Any, q: Any, stride: int, pads: Sequence[int], step: int, groups: int
) -> Array:
    """[N, O, H, W] in int64: inputs and weights less their zero points, padded with zeros."""
    top, left, bottom, right = pads
    wide = np.pad(x.astype("int64") - int(p), ((0, 0), (0, 0), (top, bottom), (left, right)))
    weight = w.astype("int64") - np.asarray(q, "int64").reshape(-1, 1, 1, 1)
    rows, columns = ((k - 1) * step + 1 for k in w.shape[2:])
    views = np.lib.stride_tricks.sliding_window_view(wide, (rows, columns), (2, 3))
    views = views[:, :, ::stride, ::stride, ::step, ::step]
    each, channels = w.shape[0] // groups, w.shape[1]
    parts = [
        np.einsum("nchwij,ocij->nohw", views[:, g * channels : (g + 1) * channels],
                  weight[g * each : (g + 1) * each])
        for g in range(groups)
    ]  # fmt: skip
    return np.concatenate(parts, 1)


#: Shapes of input and weight, stride, padding, dilation, groups.
CONVOLUTIONS = (
    ((1, 5, 13, 17), (7, 5, 3, 3), 1, (1, 1, 1, 1), 1, 1),
    ((2, 3, 11, 9), (4, 3, 3, 2), 2, (0, 2, 1, 0), 1, 1),
    ((1, 6, 14, 14), (8, 3, 3, 3), 1, (2, 2, 2, 2), 2, 2),
    ((1, 4, 8, 8), (4, 1, 3, 3), 1, (1, 1, 1, 1), 1, 4),
    ((3, 17, 7, 1), (33, 17, 1, 1), 1, (0, 0, 0, 0), 1, 1),
    ((1, 64, 20, 20), (20, 64, 3, 3), 1, (1, 1, 1, 1), 1, 1),
)


def constant_but_first(proto: Any, arrays: Sequence[Any]) -> Any:
    """The model with all of its inputs but the first as constants."""
    names = [value.name for value in proto.graph.input]
    given = [array for array in arrays if array is not None]
    del proto.graph.input[1:]
    for name, array in zip(names[1:], given[1:], strict=True):
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return proto


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize(("left", "right"), list(product(BYTES, BYTES)))
def test_convolutions_with_zero_points(left: str, right: str, case: Any) -> None:
    shape, kernel, stride, pads, step, groups = case
    x, w = random(shape, left, 0), random(kernel, right, 1)
    options = {"strides": [stride] * 2, "pads": pads, "dilations": [step] * 2, "group": groups}
    middle = np.array(128 if right == "uint8" else 0, right)
    for p, q in product((None, np.array(101, left)), (None, middle, random((), right, 3))):
        if p is None and q is not None:
            continue
        arrays = [x, w, p, q]
        want = convolved(x, w, 0 if p is None else p, 0 if q is None else q, *case[2:])
        proto = one_node("ConvInteger", arrays, 10, **options)
        given = [array for array in arrays if array is not None]
        assert np.array_equal(load(proto, target="reference")(*given)[0], want), (p, q)
        compiled = q is middle and shape[0] == 1
        proto = constant_but_first(proto, arrays)
        model = load(proto, target="cpu" if compiled else "reference")
        assert np.array_equal(model(x)[0], want), (p, q)
        [conv] = [node for node in model.graph().nodes if node.op.name == "conv"]
        if q is None or q is middle:
            assert [tensor.dtype.bits for tensor in conv.inputs] == [8, 8]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_are_scaled_and_rounded(case: Any) -> None:
    shape, kernel, stride, pads, step, groups = case
    count = kernel[0]
    x, w = random(shape, "uint8", 0), random(kernel, "int8", 1)
    p, q, bias = np.uint8(77), np.zeros(count, "int8"), np.arange(count, dtype="int32") * 9000
    scales = np.linspace(0.01, 0.02, count, dtype=np.float32)
    arrays = [x, np.float32(0.02), p, w, scales, q, np.float32(3), np.uint8(100), bias]
    options = {"strides": [stride] * 2, "pads": pads, "dilations": [step] * 2, "group": groups}
    proto = constant_but_first(one_node("QLinearConv", arrays, 10, **options), arrays)
    total = convolved(x, w, p, q, *case[2:]) + bias.reshape(-1, 1, 1)
    exact_ = np.rint(total * (np.float32(0.02) * scales / 3).reshape(-1, 1, 1)) + 100
    for target in ("reference", "cpu"):
        [got] = load(proto, target=target)(x)
        assert got.dtype == np.uint8
        assert np.abs(got.astype(int) - np.clip(exact_, 0, 255)).max() <= 1


def test_zero_points_of_each_output() -> None:
    x, w = random((1, 3, 9, 9), "uint8", 0), random((5, 3, 3, 3), "uint8", 1)
    p, q = np.uint8(200), np.array([0, 128, 255, 7, 130], "uint8")
    arrays = [x, np.float32(1), p, w, np.ones(5, "f"), q, np.float32(1e5), np.uint8(9)]
    proto = constant_but_first(one_node("QLinearConv", arrays, 10), arrays)
    want = np.rint(convolved(x, w, p, q, 1, (0, 0, 0, 0), 1, 1) / 1e5) + 9
    assert np.abs(load(proto)(x)[0].astype(int) - np.clip(want, 0, 255)).max() <= 1
