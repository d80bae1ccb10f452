"""Operators across opsets and in odd shapes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from frontend.onnx.helpers import check_with_runtime, f32, i64, run_node
from tileloom.base.errors import UserError
from tileloom.frontend.onnx.handlers.conversion import convert_array

pytest.importorskip("onnxruntime")
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


X = normal(2, 3, 5)
IMAGE = normal(2, 3, 7, 6)
CASES: list[tuple[str, int, list[Any], dict[str, Any]]] = [
    # What changed its meaning or moved from an attribute to an input.
    ("Softmax", 11, [X], {}),
    ("Softmax", 12, [X], {"axis": 0}),
    ("Softmax", 12, [X], {"axis": -1}),
    ("Softmax", 13, [X], {"axis": 1}),
    ("LogSoftmax", 11, [X], {"axis": 2}),
    ("LogSoftmax", 13, [X], {"axis": 0}),
    ("Hardmax", 11, [X], {}),
    ("Hardmax", 13, [X], {"axis": 1}),
    ("Clip", 7, [X], {"min": -0.5}),
    ("Clip", 10, [X], {"max": 0.5, "min": -0.5}),
    ("Clip", 11, [X, None, np.float32(0.25)], {}),
    ("Clip", 13, [X, np.float32(0.5), np.float32(-0.5)], {}),
    ("Slice", 9, [X], {"starts": [0, -3], "ends": [1, 100], "axes": [0, 2]}),
    ("Slice", 10, [X, i64(0, -1), i64(2, -100), i64(0, 2), i64(1, -2)], {}),
    ("Slice", 13, [X, i64(4), i64(0), i64(-1), i64(-1)], {}),
    ("Slice", 13, [X, i64(-100), i64(100)], {}),
    ("Slice", 13, [X, i64(3), i64(1), i64(2)], {}),
    ("Pad", 10, [X], {"pads": [0, 1, 0, 0, 0, 2], "value": 3.0}),
    ("Pad", 10, [X], {"pads": [0, 0, 2, 0, 0, 1], "mode": "reflect"}),
    ("Pad", 11, [X, i64(0, 1, 0, 1, 0, 2)], {"mode": "edge"}),
    ("Pad", 13, [X, i64(1, 0, -1, 0, 0, 2), np.float32(7)], {}),
    ("Pad", 18, [X, i64(1, 2), None, i64(-1)], {}),
    ("Squeeze", 11, [normal(1, 3, 1)], {"axes": [0]}),
    ("Squeeze", 13, [normal(1, 3, 1), i64(-1)], {}),
    ("Squeeze", 13, [normal(1, 3, 1)], {}),
    ("Unsqueeze", 11, [X], {"axes": [0, 4]}),
    ("Unsqueeze", 13, [X, i64(-1, 0)], {}),
    ("ReduceSum", 12, [X], {"axes": [1], "keepdims": 0}),
    ("ReduceSum", 13, [X, i64(-1, 0)], {}),
    ("ReduceSum", 13, [X], {"noop_with_empty_axes": 1}),
    ("ReduceMean", 17, [X], {"axes": [-1]}),
    ("ReduceMean", 18, [X, i64(1)], {"keepdims": 0}),
    ("ReduceMean", 17, [np.arange(7, dtype=np.int32)], {}),
    ("ReduceL2", 17, [X], {"axes": [0, 2]}),
    ("ReduceMax", 18, [X, i64(0)], {}),
    ("TopK", 9, [X], {"k": 2, "outputs": 2}),
    ("TopK", 10, [X, i64(3)], {"outputs": 2, "axis": 1}),
    ("TopK", 11, [X, i64(1)], {"outputs": 2, "largest": 0, "axis": 0}),
    ("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    ("Upsample", 9, [IMAGE, f32(1, 1, 2, 2)], {"mode": "linear"}),
    ("Resize", 10, [IMAGE, f32(1, 1, 0.5, 1.5)], {"mode": "linear"}),
    ("Resize", 13, [IMAGE, None, f32(1, 1, 2, 2)], {"coordinate_transformation_mode": "asymmetric",
                                                     "nearest_mode": "floor"}),
    ("Resize", 13, [IMAGE, None, None, i64(2, 3, 5, 4)], {"mode": "linear"}),
    ("Resize", 13, [IMAGE, None, None, i64(2, 3, 9, 11)], {"mode": "cubic"}),
    ("Dropout", 7, [X], {}),
    ("Dropout", 13, [X], {}),
    ("BatchNormalization", 9, [IMAGE, f32(1, 2, 3), f32(0, 1, 0), f32(0, 0, 1), f32(1, 2, 1)], {}),
    ("BatchNormalization", 15, [IMAGE, f32(1, 2, 3), f32(0, 1, 0), f32(0, 0, 1), f32(1, 2, 1)], {}),
    ("Split", 11, [X], {"split": [1, 4], "axis": 2, "outputs": 2}),
    ("Split", 13, [X, i64(2, 3)], {"axis": -1, "outputs": 2}),
    ("Split", 18, [X], {"axis": -1, "outputs": 3, "num_outputs": 3}),
    ("Gemm", 7, [normal(3, 4), normal(3, 5), normal(5)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", 13, [normal(4, 3), normal(5, 3)], {"transB": 1}),
    # Windows.
    ("Conv", 11, [IMAGE, normal(4, 3, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
    ("Conv", 11, [IMAGE, normal(4, 3, 2, 2)], {"auto_pad": "SAME_LOWER"}),
    ("Conv", 11, [normal(1, 4, 9), normal(6, 2, 3), normal(6)], {"group": 2, "dilations": [2]}),
    ("Conv", 11, [normal(1, 2, 4, 4, 4), normal(3, 2, 2, 2, 2)], {"pads": [1, 0, 0, 0, 1, 0]}),
    ("ConvTranspose", 11, [IMAGE, normal(3, 2, 3, 3)], {"strides": [2, 2], "output_padding": [1, 0],
                                                         "pads": [1, 0, 0, 1]}),
    ("ConvTranspose", 11, [normal(1, 4, 5), normal(4, 2, 3), normal(4)], {"group": 2}),
    ("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "outputs": 2}),
    ("MaxPool", 12, [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    ("AveragePool", 11, [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 11, [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1],
                                  "count_include_pad": 1, "strides": [2, 2]}),
    ("LpPool", 11, [IMAGE], {"kernel_shape": [2, 2], "p": 3}),
    ("GlobalLpPool", 2 + 5, [IMAGE], {"p": 2}),
    ("LRN", 13, [IMAGE], {"size": 3}),
    # Odd shapes.
    ("MatMul", 13, [normal(7), normal(7)], {}),
    ("MatMul", 13, [normal(3, 1, 2, 5), normal(4, 5, 1)], {}),
    ("MatMul", 13, [normal(2, 0), normal(0, 3)], {}),
    ("Concat", 13, [normal(2, 0), normal(2, 3)], {"axis": 1}),
    ("Reshape", 14, [normal(0, 3), i64(3, 0)], {"allowzero": 1}),
    ("Expand", 13, [normal(3, 1), i64(2, 1, 4)], {}),
    ("Tile", 13, [X, i64(1, 2, 0)], {}),
    ("Transpose", 13, [X], {}),
    ("Flatten", 13, [X], {"axis": -1}),
    ("Flatten", 13, [X], {"axis": 0}),
    ("Gather", 13, [X, np.array([[0, -1]])], {"axis": 2}),
    ("GatherElements", 13, [X, RANDOM.integers(-3, 3, (2, 2, 5))], {"axis": 1}),
    ("GatherND", 13, [X, np.array([[[1], [0]], [[2], [-1]]])], {"batch_dims": 1}),
    ("ScatterElements", 13, [X, np.array([[[4]], [[-1]]]), normal(2, 1, 1)], {"axis": -1}),
    ("ScatterND", 16, [X, np.array([[0, 1], [0, 1]]), normal(2, 5)], {"reduction": "add"}),
    ("OneHot", 11, [np.array([0, -1, 5]), np.array(3), f32(0, 2)], {"axis": 0}),
    ("CumSum", 14, [X, np.array(-1)], {"exclusive": 1, "reverse": 1}),
    ("Trilu", 14, [X, np.array(-1)], {"upper": 0}),
    ("EyeLike", 9, [normal(3, 5)], {"k": -1, "dtype": 7}),
    ("ReverseSequence", 10, [normal(4, 3, 2), i64(1, 4, 2)], {}),
    ("DepthToSpace", 13, [normal(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 13, [normal(1, 2, 4, 6)], {"blocksize": 2}),
    ("InstanceNormalization", 7, [IMAGE, f32(1, 2, 3), f32(0, 1, 0)], {}),
    ("LayerNormalization", 17, [X, normal(3, 5), normal(3, 5)], {"axis": 1, "outputs": 3}),
    ("MeanVarianceNormalization", 13, [IMAGE], {}),
    ("LpNormalization", 7, [X], {"p": 1}),
    ("Einsum", 12, [normal(2, 3, 4), normal(2, 4, 5)], {"equation": "bij,bjk->bki"}),
    ("Mod", 13, [f32(5, -5, 5.5), f32(3, 3, -2)], {"fmod": 1}),
    ("Mod", 13, [i64(5, -5, 5, -5), i64(3, 3, -3, -3)], {}),
    ("Div", 13, [i64(7, -7, 7), i64(2, 2, -2)], {}),
    ("Pow", 13, [i64(2, 3, -2), f32(2, 3, 3)], {}),
    ("Pow", 13, [f32(2, 3, 4), i64(2, 3, -1)], {}),
    ("Pow", 13, [i64(3, 7, -5), i64(39, 22, 27)], {}),
    ("Max", 13, [f32(1, np.nan, 3), f32(2, 2, np.nan)], {}),
    ("IsInf", 10, [f32(np.inf, -np.inf, np.nan, 1)], {"detect_negative": 0}),
    ("BitShift", 11, [np.array([1, 8], np.uint8), np.array([3, 2], np.uint8)],
     {"direction": "RIGHT"}),
    ("Gelu", 20, [X], {"approximate": "tanh"}),
    ("GroupNormalization", 21, [normal(2, 4, 3), f32(1, 2, 3, 4), f32(0, 1, 0, 1)],
     {"num_groups": 2}),
    ("GridSample", 16, [IMAGE, RANDOM.uniform(-1.2, 1.2, (2, 4, 5, 2)).astype(np.float32)],
     {"mode": "bicubic", "padding_mode": "reflection"}),
    ("RoiAlign", 16, [IMAGE, f32(0, 0, 4, 5, 1, 1, 2, 2).reshape(2, 4), i64(0, 1)],
     {"output_height": 2, "output_width": 3}),
    ("STFT", 17, [normal(1, 16, 1), np.array(4), None, np.array(8)], {}),
    ("Col2Im", 18, [normal(1, 8, 6), i64(3, 4), i64(2, 2)], {}),
    ("Col2Im", 18, [normal(1, 8, 6), i64(1, 5), i64(2, 2)],
     {"pads": [1, 0, 1, 1], "strides": [1, 2]}),
    ("Col2Im", 18, [normal(1, 2, 6), i64(2, 3), i64(1, 1)], {}),
    # Quantised.
    ("QuantizeLinear", 13, [X * 100, np.float32(0.7), np.uint8(128)], {}),
    ("QuantizeLinear", 13, [X, f32(0.1, 0.2, 0.3), np.array([1, -2, 3], np.int8)], {"axis": 1}),
    ("DequantizeLinear", 13, [RANDOM.integers(-128, 127, (2, 3), np.int8), f32(1, 2, 3),
                              np.array([0, 5, -5], np.int8)], {"axis": 1}),
    ("DequantizeLinear", 21, [RANDOM.integers(0, 255, (4, 3), np.uint8), normal(2, 3)],
     {"axis": 0, "block_size": 2}),
    ("DynamicQuantizeLinear", 11, [normal(3, 4)], {"outputs": 3}),
    ("MatMulInteger", 10, [RANDOM.integers(0, 255, (2, 3), np.uint8),
                           RANDOM.integers(-128, 127, (3, 4), np.int8), np.uint8(7)], {}),
    ("ConvInteger", 10, [RANDOM.integers(0, 255, (1, 2, 5, 5), np.uint8),
                         RANDOM.integers(0, 255, (3, 2, 3, 3), np.uint8), np.uint8(9)],
     {"pads": [1, 1, 1, 1]}),
    # Recurrent: all directions, with peepholes, clipping and unequal lengths.
    ("RNN", 14, [normal(4, 2, 3), normal(1, 5, 3), normal(1, 5, 5), normal(1, 10)],
     {"hidden_size": 5, "outputs": 2, "direction": "reverse", "activations": ["Relu"]}),
    ("GRU", 14, [normal(4, 2, 3), normal(2, 15, 3), normal(2, 15, 5), normal(2, 30),
                 np.array([4, 2], np.int32)],
     {"hidden_size": 5, "outputs": 2, "direction": "bidirectional", "linear_before_reset": 1}),
    ("GRU", 14, [normal(3, 2, 3), normal(1, 15, 3), normal(1, 15, 5)],
     {"hidden_size": 5, "outputs": 2, "clip": 0.5}),
    ("LSTM", 14, [normal(4, 2, 3), normal(1, 20, 3), normal(1, 20, 5), normal(1, 40), None,
                  normal(1, 2, 5), normal(1, 2, 5), normal(1, 15)],
     {"hidden_size": 5, "outputs": 3}),
    ("LSTM", 14, [normal(4, 2, 3), normal(2, 20, 3), normal(2, 20, 5), None,
                  np.array([3, 1], np.int32)],
     {"hidden_size": 5, "outputs": 3, "direction": "bidirectional"}),
    ("TfIdfVectorizer", 9, [np.array([[2, 5, 4, 5, 4], [5, 5, 1, 2, 0]])],
     {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
      "ngram_counts": [0, 2], "ngram_indexes": [3, 1, 0], "pool_int64s": [2, 5, 5, 4],
      "weights": [0.5, 2.0, 4.0]}),
    ("TfIdfVectorizer", 9, [np.array([[2, 5, 4, 5, 4], [5, 5, 1, 2, 0]])],
     {"mode": "IDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
      "ngram_counts": [0, 2], "ngram_indexes": [3, 1, 0], "pool_int64s": [2, 5, 5, 4],
      "weights": [0.5, 2.0, 4.0]}),
    ("TfIdfVectorizer", 9, [np.array([[2, 5, 4, 5, 4], [5, 5, 1, 2, 0]])],
     {"mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
      "ngram_counts": [0, 2], "ngram_indexes": [3, 1, 0], "pool_int64s": [2, 5, 5, 4],
      "weights": [0.5, 2.0, 4.0]}),
    # The first axis counted from the end, and the place behind the last.
    ("Compress", 11, [X, np.array([True, False])], {"axis": -3}),
    ("Unique", 11, [normal(2, 3)], {"axis": -2, "outputs": 4}),
    ("Gather", 13, [X, np.array([[0, 1]])], {"axis": -3}),
    ("GatherElements", 13, [X, np.array([[[0]]])], {"axis": -3}),
    ("ScatterElements", 13, [X, np.array([[[1]]]), normal(1, 1, 1)], {"axis": -3}),
    ("Softmax", 11, [X], {"axis": -3}),
    ("LogSoftmax", 13, [X], {"axis": -3}),
    ("Hardmax", 13, [X], {"axis": -3}),
    ("LayerNormalization", 17, [X, normal(2, 3, 5)], {"axis": -3}),
    ("LpNormalization", 1, [X], {"axis": -3, "p": 2}),
    ("Flatten", 13, [X], {"axis": -3}),
    ("Flatten", 13, [X], {"axis": 3}),
    ("Split", 13, [X, i64(1, 1)], {"axis": -3, "outputs": 2}),
    ("OneHot", 11, [np.array([0, 1]), np.array(3), f32(0, 2)], {"axis": -2}),
    ("CumSum", 14, [X, np.array(-3)], {}),
    ("TopK", 11, [X, i64(1)], {"outputs": 2, "axis": -3}),
    ("ArgMax", 13, [X], {"axis": -3}),
    ("Unsqueeze", 13, [X, i64(-4, 3)], {}),
    ("CenterCropPad", 18, [X, i64(4)], {"axes": [-3]}),
    ("QuantizeLinear", 13, [normal(2, 3), f32(1, 2), np.array([1, 2], np.uint8)], {"axis": -2}),
    ("Concat", 13, [X, X], {"axis": -3}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c[0]}-{c[1]}" for k, c in enumerate(CASES)])
def test_agrees_with_onnx_runtime(case: Any) -> None:
    op, opset, arrays, options = case
    attrs = dict(options)
    outputs = attrs.pop("outputs", 1)
    arrays = [None if array is None else np.asarray(array) for array in arrays]
    check_with_runtime(op, opset, arrays, outputs, **attrs)


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "attrs"),
    [
        ("Reshape", 13, [X, i64(7)], {}),
        ("Reshape", 13, [X, i64(-1, -1)], {}),
        ("Reshape", 13, [normal(0, 3), i64(0, -1)], {}),
        ("Transpose", 13, [X], {"perm": [0, 0, 1]}),
        ("Transpose", 13, [X], {"perm": [0, 1]}),
        ("Concat", 13, [X, X], {"axis": 3}),
        ("Concat", 13, [X, IMAGE], {"axis": 0}),
        ("Gather", 13, [X, i64(0)], {"axis": 9}),
        ("Slice", 13, [X, i64(0), i64(1), i64(0), i64(0)], {}),
        ("Slice", 13, [X, i64(0), i64(1), i64(7)], {}),
        ("Squeeze", 13, [X, i64(0)], {}),
        ("Tile", 13, [X, i64(2, 2)], {}),
        ("Expand", 13, [X, i64(4, 4)], {}),
        ("Split", 13, [X, i64(1, 1)], {"axis": 2}),
        ("Split", 13, [X, i64(-1, 6)], {"axis": 2}),
        ("Split", 13, [X, i64(2, 3)], {"axis": 3}),
        ("Split", 18, [X], {"axis": 2, "num_outputs": 0}),
        ("Pad", 13, [X, i64(1, 2, 3)], {}),
        ("Pad", 13, [X, i64(0, 0, -9, 0, 0, 0)], {}),
        ("Conv", 11, [IMAGE, normal(4, 2, 3, 3)], {}),
        ("Conv", 11, [IMAGE, normal(4, 3, 9, 9)], {}),
        ("Conv", 11, [IMAGE, normal(4, 3, 3, 3)], {"strides": [0, 1]}),
        ("Conv", 11, [IMAGE, normal(4, 3, 3, 3)], {"group": 0}),
        ("Conv", 11, [IMAGE, normal(4, 3, 3, 3)], {"auto_pad": "FULL"}),
        ("MaxPool", 12, [IMAGE], {"kernel_shape": [3]}),
        ("Col2Im", 18, [normal(1, 8, 5), i64(3, 4), i64(2, 2)], {}),
        ("Col2Im", 18, [normal(1, 7, 6), i64(3, 4), i64(2, 2)], {}),
        ("Col2Im", 18, [normal(8, 6), i64(3, 4), i64(2, 2)], {}),
        ("Col2Im", 18, [normal(1, 8, 6), i64(3, 4), i64(4)], {}),
        ("Col2Im", 18, [normal(1, 8, 6), i64(3, 4), i64(2, 2)], {"pads": [1, 1]}),
        ("Col2Im", 18, [normal(1, 8, 0), i64(0, 4), i64(2, 2)], {}),
        ("Col2Im", 18, [normal(1, 8, 0), i64(3, 4), i64(2, 0)], {}),
        ("MaxPool", 12, [X], {"kernel_shape": [0]}),
        ("GlobalLpPool", 2, [normal(2, 3)], {}),
        ("GlobalLpPool", 1, [X], {"p": 2.5}),
        ("Softmax", 13, [X], {"axis": 3}),
        ("TopK", 11, [X, i64(9)], {}),
        ("OneHot", 11, [i64(0), i64(-3), f32(0, 1)], {}),
        ("Einsum", 12, [X, X], {"equation": "ijk,ij->"}),
        ("Einsum", 12, [X], {"equation": "i"}),
        ("Resize", 13, [IMAGE, None, f32(1, 1, 2)], {}),
        ("Resize", 13, [IMAGE, None, f32(1, 1, 0, 1)], {}),
        ("Range", 13, [i64(0)[0], i64(5)[0], i64(0)[0]], {}),
        ("LSTM", 14, [normal(4, 2, 3), normal(1, 20, 3), normal(1, 19, 5)], {}),
        ("LSTM", 14, [normal(4, 2, 3), normal(1, 20, 3), normal(1, 20, 5)],
         {"activations": ["A"] * 3}),
        ("Add", 13, [X, np.ones(5)], {}),
        ("Add", 13, [X, normal(4)], {}),
        ("MatMul", 13, [normal(2, 3), normal(4, 5)], {}),
        ("Cast", 13, [X], {"to": 999}),
        ("DepthToSpace", 13, [normal(1, 6, 2, 3)], {"blocksize": 2}),
    ],
)  # fmt: skip
def test_refuses(op: str, opset: int, arrays: Any, attrs: Any) -> None:
    given = [None if array is None else np.asarray(array) for array in arrays]
    with pytest.raises(UserError, match=op):
        run_node(op, *given, opset=opset, **attrs)


@pytest.mark.parametrize("extent", [6, 5])
def test_blocks_of_a_scale_without_their_size(extent: int) -> None:
    x, scale = normal(2, extent) * 50, np.array([[0.5, 1, 2], [4, 0.25, 8]], np.float32)
    factor = np.repeat(scale, 2, 1)[:, :extent]
    codes = np.clip(np.round(x / factor), -128, 127).astype(np.int8)
    zero = np.zeros((2, 3), np.int8)
    found = run_node("QuantizeLinear", x, scale, zero, opset=21, axis=1)
    np.testing.assert_array_equal(found, codes)
    found = run_node("DequantizeLinear", codes, scale, opset=21, axis=1)
    np.testing.assert_array_equal(found, codes * factor)


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (np.int64, [2**53 - 1, -(2**24) - 1, 7.9], [2**53 - 1, -(2**24) - 1, 7]),
        (np.int32, [2**24 + 1, -(2**31)], [2**24 + 1, -(2**31)]),
        (ml_dtypes.uint4, [15.9, 17, -1, 2**40 + 3], [15, 1, 15, 3]),
        (np.object_, [0.1, 0.1 + 0.2], ["0.1", "0.30000000000000004"]),
    ],
)
def test_doubles_keep_their_digits(kind: Any, values: Any, wanted: Any) -> None:
    found = convert_array(np.array(values, np.float64), np.dtype(kind))
    assert found.dtype == kind and found.tolist() == wanted


def test_powers_of_integers_are_exact() -> None:
    found = run_node("Pow", i64(3, 7, -5), i64(39, 22, 27), opset=13)
    assert found.tolist() == [3**39, 7**22, (-5) ** 27]
