"""What nodes of ONNX models refuse: the operator, its inputs and attributes, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from frontend.onnx.helpers import one_node, run
from tileloom.base.errors import UserError


def ones(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.ones(shape, kind)


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


IMAGE, FILTER, ROWS = ones(1, 4, 5, 5), ones(2, 4, 3, 3), ones(3, 4)
TEXTS = np.array(["a", "b"], object)

CASES: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Conv", [IMAGE, FILTER], {"kernel_shape": [2, 2]}, "disagrees with the weight"),
    ("Conv", [IMAGE, FILTER], {"pads": [1, 1]}, "pads .* do not fit"),
    ("ConvTranspose", [ROWS, FILTER], {}, "the weight .* does not fit"),
    ("ConvTranspose", [IMAGE, ones(4, 2, 3, 3)], {"strides": [1]}, "need 2 entries each"),
    ("ConvTranspose", [IMAGE, ones(4, 2, 3, 3)], {"pads": [1]}, "pads .* do not fit"),
    ("ConvTranspose", [IMAGE, ones(4, 2, 3, 3)], {"output_shape": [7]}, "output_shape .* not fit"),
    ("DepthToSpace", [IMAGE], {"blocksize": 3}, "do not fill blocks of 3x3"),
    ("DepthToSpace", [ROWS], {"blocksize": 2}, "must have 4 dimensions"),
    ("SpaceToDepth", [IMAGE], {"blocksize": 2}, "are not blocks of 2x2"),
    ("Flatten", [ROWS], {"axis": 3}, "axis 3 is out of range"),
    ("Split", [ROWS, i64(1, 1)], {"axis": 0, "outputs": 2}, "do not"),
    ("Split", [ROWS], {"axis": 5, "outputs": 2}, "axis 5 is out of range"),
    ("Slice", [ROWS, i64(0, 0), i64(1)], {}, "differ in length"),
    ("EyeLike", [IMAGE], {}, "must be a matrix, not of 4 dimensions"),
    ("ConstantOfShape", [i64(-1)], {}, "negative extent in shape"),
    ("HannWindow", [np.array(-3)], {}, "unusable window size"),
    ("Gemm", [IMAGE, ROWS], {}, "must be matrices"),
    ("LayerNormalization", [ROWS, ones(4)], {"axis": 4}, "axis 4 is out of range"),
    ("GlobalAveragePool", [ROWS[0]], {}, "at least 3 dimensions|must have"),
    ("Gather", [ROWS, i64(0)], {"axis": 3}, "axis 3 is out of range"),
    ("Compress", [ROWS, ones(3)], {"axis": 0}, "must be a bool vector"),
    ("Compress", [ROWS, np.ones(5, bool)], {"axis": 0}, "a condition of 5 does not fit axis 0"),
    ("Compress", [ROWS, np.ones(3, bool)], {"axis": 4}, "does not fit axis 4"),
    ("ReverseSequence", [ROWS, i64(1)], {"time_axis": 0, "batch_axis": 1}, "do not fit"),
    ("Upsample", [IMAGE, ones(2)], {"opset": 9}, "2 scales for 4 dimensions|do not fit"),
    ("Resize", [IMAGE], {}, "neither scales nor sizes"),
    ("Resize", [IMAGE, None, None, i64(3)], {}, "sizes .* for 4 axes"),
    ("MaxUnpool", [IMAGE, ones(1, 4, 2, 2, kind="int64")], {"kernel_shape": [2, 2]}, "not fit"),
    ("DequantizeLinear", [ones(2, 3, kind="uint8"), ones(5)], {"axis": 1}, "does not fit"),
    ("DequantizeLinear", [ones(2, 3, kind="uint8"), ones(3)], {"axis": 7}, "axis 7 is out of"),
    ("RNN", [ROWS, ones(1, 5, 4), ones(1, 5, 5)], {"hidden_size": 5}, "unusable shapes"),
    ("LSTM", [ones(2, 3, 4), ones(1, 20, 4), ones(1, 20, 5), ones(1, 40), ones(7, kind="int32")],
     {"hidden_size": 5}, "sequence_lens .* does not fit"),
    ("GRU", [ones(2, 3, 4), ones(1, 15, 4), ones(1, 15, 5)],
     {"hidden_size": 5, "activations": ["Tanh"]}, "1 activations, 2 are needed"),
    ("RNN", [ones(2, 3, 4), ones(1, 5, 4), ones(1, 5, 5), None, None, ones(1, 2, 5)],
     {"hidden_size": 5}, "an initial state .* does not fit"),
    ("DFT", [ones(1, 4, 1)], {"axis": 5}, "axis 5 .* cannot be transformed|out of range"),
    ("STFT", [ones(1, 8, 1), np.array(9)], {}, "do not fit"),
    ("STFT", [ones(1, 8, 1), np.array(0)], {}, "steps of 0 do not fit"),
    ("MelWeightMatrix", [np.array(4), np.array(8), np.array(16), np.float32(1), np.float32(99)],
     {}, "above half of the sample rate"),
    ("MelWeightMatrix", [np.array(0), np.array(8), np.array(16), np.float32(1), np.float32(8)],
     {}, "unusable numbers of bins"),
    ("Unique", [ROWS], {"axis": 2, "outputs": 1}, "axis 2 is out of range"),
    ("Concat", [ROWS, ROWS], {"axis": 2}, "axis"),
    ("GridSample", [IMAGE, ones(1, 2, 2, 3)], {}, "fit|last"),
    ("RoiAlign", [IMAGE, ones(2, 3), i64(0, 0)], {}, "regions .* do not fit"),
    ("RoiAlign", [IMAGE, ones(2, 4), i64(0, 0)], {"output_height": 0}, "unusable output"),
    ("GroupNormalization", [IMAGE, ones(3), ones(3)], {"num_groups": 3, "opset": 21},
     "3 groups do not fit"),
    ("QuantizeLinear", [ROWS, ones(3)], {"axis": 1}, "does not fit"),
    ("TfIdfVectorizer", [ones(2, 2, 2, kind="int64")],
     {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF",
      "ngram_counts": [0], "ngram_indexes": [0], "pool_int64s": [1]}, "1 or 2 dimensions"),
    ("TfIdfVectorizer", [ones(3, kind="int64")],
     {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 2, "mode": "TF",
      "ngram_counts": [0], "ngram_indexes": [0], "pool_int64s": [1]}, "unusable gram lengths"),
    ("TfIdfVectorizer", [ones(3, kind="int64")],
     {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF",
      "ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [1]}, "2 ngram_indexes for 1"),
    ("StringNormalizer", [np.array([["a"], ["b"], ["c"]], object)], {}, "must be a list"),
    ("StringConcat", [TEXTS, np.array(["a", "b", "c"], object)], {"opset": 20}, "not broadcast"),
    ("DeformConv", [IMAGE, FILTER, ones(1, 3, 3, 3)], {"opset": 19}, "offsets .* do not fit"),
    ("CenterCropPad", [ROWS, i64(2)], {"opset": 18}, "sizes .* do not fit"),
    ("BitShift", [ones(2, kind="uint8"), ones(2, kind="uint8")], {"direction": "UP"}, "direction"),
    ("Dropout", [ROWS, np.float32(1.5)], {}, "dropout ratio|ratio"),
    ("OneHot", [i64(0), i64(3), ROWS], {}, "cannot make .* one-hot"),
    ("TopK", [ROWS, i64(9)], {"outputs": 2}, "9"),
    ("Trilu", [ROWS[0]], {}, "dimensions"),
    ("Tile", [ROWS, i64(2)], {}, "repeat|entries|dimensions"),
    ("Expand", [ROWS, i64(5, 5)], {}, "broadcast"),
    ("Einsum", [ROWS, ROWS], {"equation": "ij,jk->ik"}, "label 'j' stands for extents 4 and 3"),
    ("StringSplit", [ROWS], {"opset": 20, "outputs": 2}, "must hold strings"),
    ("StringConcat", [TEXTS, ROWS], {"opset": 20}, "must hold strings"),
    ("RegexFullMatch", [TEXTS], {"opset": 20, "pattern": "("}, "pattern"),
    ("Cast", [TEXTS], {"to": 6}, "is not a number of int32"),
    ("BitCast", [ROWS], {"opset": 26, "to": 11}, "differ in size"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "arrays", "attrs", "match"), CASES, ids=[f"{op}: {match}" for op, *_, match in CASES]
)
def test_refusals(op: str, arrays: list[Any], attrs: dict[str, Any], match: str) -> None:
    settings = {"opset": 17, **attrs}
    arrays = [array if array is None else np.asarray(array) for array in arrays]
    with pytest.raises(UserError, match=match) as raised:
        run(one_node(op, arrays, **settings), *(array for array in arrays if array is not None))
    assert f"node 'the_node' ({op}" in str(raised.value)
