"""What the handlers refuse and in which words: the sentence tells which check it was."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from frontend.onnx.helpers import model, run, run_node
from tileloom.base.errors import UserError


def x(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.ones(shape, kind)


def i(*values: Any) -> np.ndarray:
    return np.array(values, "int64")


IMAGE, WEIGHT = x(1, 2, 5, 5), x(4, 2, 3, 3)
S = np.float32(0.5)

#: An operator, the opset, its inputs, its attributes, and a part of the message.
CASES: list[tuple[str, int, list[Any], dict[str, Any], str]] = [
    # ------------------------------------------------------------------ windows
    ("MaxPool", 17, [x(1, 2)], {"kernel_shape": [2]}, r"a kernel of \[2\] does not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2]}, r"a kernel of \[2\] does not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 0]}, r"a kernel of \[2, 0\] does not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "strides": [1]}, "strides .* do not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "strides": [1, 0]}, "strides .* do not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "dilations": [1]}, "dilations .* do not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "dilations": [0, 1]}, "dilations .* do not"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "pads": [0, 1]}, "pads .* do not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "pads": [0, 1, -1, 0]}, "pads .* do not fit"),
    ("MaxPool", 17, [IMAGE], {"kernel_shape": [2, 2], "auto_pad": "ODD"}, "auto_pad"),
    ("Conv", 17, [IMAGE, WEIGHT], {"kernel_shape": [3, 2]}, "disagrees with the weight"),
    ("ConvTranspose", 17, [x(1, 2, 5), x(2, 4, 3, 3)], {}, "does not fit"),
    ("ConvTranspose", 17, [IMAGE, x(2, 4, 3, 3)], {"strides": [1]}, "need 2 entries each"),
    ("ConvTranspose", 17, [IMAGE, x(2, 4, 3, 3)], {"pads": [1, 1]}, "pads .* do not fit"),
    ("ConvTranspose", 17, [IMAGE, x(2, 4, 3, 3)], {"output_shape": [9]}, "output_shape .* does"),
    ("DeformConv", 19, [x(1, 2, 5), x(2, 2, 3), x(1, 6, 3)], {}, "deformable convolution of"),
    ("DeformConv", 19, [IMAGE, WEIGHT, x(1, 17, 3, 3)], {}, "offsets .* do not fit"),
    ("DeformConv", 19, [IMAGE, WEIGHT, x(1, 54, 3, 3)], {"offset_group": 3}, "offsets .* do not"),
    ("Col2Im", 18, [x(1, 4, 9), i(4, 4), i(2)], {}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(1, 5, 9), i(4, 4), i(2, 2)], {}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(4, 9), i(4, 4), i(2, 2)], {}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(1, 4, 9), i(4, 0), i(2, 2)], {}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(1, 4, 9), i(4, 4), i(2, 2)], {"strides": [1]}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(1, 4, 9), i(4, 4), i(2, 2)], {"pads": [1, 1]}, "blocks of .* do not fit"),
    ("Col2Im", 18, [x(1, 4, 8), i(4, 4), i(2, 2)], {}, r"8 blocks, but \[3, 3\] fit into"),
    ("MaxUnpool", 11, [IMAGE, i(1).reshape(1, 1, 1, 1)], {"kernel_shape": [2, 2]}, "does not fit"),
    ("MaxUnpool", 11, [x(1, 1, 2, 2), np.zeros((1, 1, 2, 2), "int64")], {"kernel_shape": [2]},
     "does not fit"),
    ("MaxUnpool", 11, [x(1, 1, 2, 2), np.zeros((1, 1, 2, 2), "int64")],
     {"kernel_shape": [2, 2], "strides": [2]}, "does not fit"),
    ("MaxUnpool", 11, [x(1, 1, 2, 2), np.zeros((1, 1, 2, 2), "int64")],
     {"kernel_shape": [2, 2], "pads": [0, 0]}, "does not fit"),
    ("RoiAlign", 16, [x(1, 2, 5), x(1, 4), i(0)], {}, "regions .* do not fit"),
    ("RoiAlign", 16, [IMAGE, x(1, 5), i(0)], {}, "regions .* do not fit"),
    ("RoiAlign", 16, [IMAGE, x(4), i(0)], {}, "regions .* do not fit"),
    ("RoiAlign", 16, [IMAGE, x(1, 4), i(0, 0)], {}, "regions .* do not fit"),
    ("GridSample", 20, [x(1, 2), x(1, 2)], {}, "a grid .* does not fit"),
    ("GridSample", 20, [IMAGE, x(1, 3, 2)], {}, "a grid .* does not fit"),
    ("GridSample", 20, [IMAGE, x(1, 3, 3, 3)], {}, "a grid .* does not fit"),
    ("GridSample", 20, [IMAGE, x(2, 3, 3, 2)], {}, "a grid .* does not fit"),
    # ------------------------------------------------------------------ shapes
    ("Split", 18, [x(6)], {"axis": 1}, "axis 1 is out of range for 1"),
    ("Split", 18, [x(6)], {"axis": -2}, "axis -2 is out of range for 1"),
    ("Split", 18, [x(6)], {"num_outputs": 0}, "cannot split into 0 parts"),
    ("Split", 18, [x(6), i(2, 3)], {}, "do not make up dimension 0"),
    ("Split", 18, [x(6), i(8, -2)], {}, "do not make up dimension 0"),
    ("SplitToSequence", 17, [x(6)], {"axis": 1}, "axis 1 is out of range for 1"),
    ("SplitToSequence", 17, [x(6)], {"axis": -2}, "axis -2 is out of range for 1"),
    ("SplitToSequence", 17, [x(6), np.int64(0)], {}, "cannot split into parts of 0"),
    ("SplitToSequence", 17, [x(6), i(2, 3)], {}, "do not make up dimension 0"),
    ("SplitToSequence", 17, [x(6), i(8, -2)], {}, "do not make up dimension 0"),
    ("Slice", 17, [x(6), i(0, 0), i(3)], {}, "differ in length"),
    ("Slice", 17, [x(6), i(0), i(3), i(0, 0)], {}, "differ in length"),
    ("Slice", 17, [x(6), i(0), i(3), i(0), i(1, 1)], {}, "differ in length"),
    ("Slice", 17, [x(6), i(0), i(3), i(1)], {}, r"axes \[1\] are out of range"),
    ("Slice", 17, [x(6), i(0), i(3), i(-2)], {}, r"axes \[-2\] are out of range"),
    ("Slice", 17, [x(6), i(0), i(3), i(0), i(0)], {}, "a step is 0"),
    ("Tile", 17, [x(6), i(1, 2)], {}, "repeats .* do not fit"),
    ("Tile", 17, [x(6), i(-1)], {}, "repeats .* do not fit"),
    ("Pad", 17, [x(6), i(1)], {}, "pads .* do not fit"),
    ("Pad", 18, [x(6), i(1, 1), None, i(1)], {}, "pads .* do not fit"),
    ("Pad", 18, [x(6), i(1, 1), None, i(-2)], {}, "pads .* do not fit"),
    ("Pad", 17, [x(6), i(1, 1)], {"mode": "odd"}, "mode"),
    ("CenterCropPad", 18, [x(6), i(1, 1)], {}, "sizes .* do not fit"),
    ("CenterCropPad", 18, [x(6), i(1)], {"axes": [1]}, "sizes .* do not fit"),
    ("CenterCropPad", 18, [x(6), i(1)], {"axes": [-2]}, "sizes .* do not fit"),
    ("Upsample", 7, [x(2, 2)], {"scales": [1.0]}, "1 scales for 2 dimensions"),
    ("Resize", 10, [x(2, 2), x(1)], {}, "scales .* do not fit"),
    ("Resize", 10, [x(2), np.array([-1], "float32")], {}, "scales .* do not fit"),
    ("Resize", 10, [x(2), np.array([np.inf], "float32")], {}, "scales .* do not fit"),
    ("Resize", 18, [x(2, 2), None, x(1)], {}, "1 scales for 2 axes"),
    ("Resize", 18, [x(2, 2)], {}, "neither scales nor sizes are given"),
    ("Resize", 18, [x(2, 2), None, None, i(4)], {}, "sizes .* for 2 axes"),
    ("Resize", 18, [x(2, 2), None, None, i(4, -1)], {}, "sizes .* for 2 axes"),
    ("ReverseSequence", 17, [x(2, 3), i(1, 1)], {}, "lengths .* do not fit"),
    ("ReverseSequence", 17, [x(3), i(1, 1)], {}, "lengths .* do not fit"),
    ("ReverseSequence", 17, [x(2, 3), i(1, 1, 1)], {"time_axis": 1, "batch_axis": 2},
     "lengths .* do not fit"),
    ("Unique", 17, [x(3)], {"axis": 1}, "axis 1 is out of range for 1"),
    ("Unique", 17, [x(3)], {"axis": -2}, "axis -2 is out of range for 1"),
    ("NonMaxSuppression", 17, [x(1, 2, 3), x(1, 1, 2)], {}, "boxes .* do not fit"),
    ("NonMaxSuppression", 17, [x(1, 2, 4), x(2, 1, 2)], {}, "boxes .* do not fit"),
    ("NonMaxSuppression", 17, [x(1, 2, 4), x(1, 1, 3)], {}, "boxes .* do not fit"),
    ("NonMaxSuppression", 17, [x(2, 4), x(1, 2)], {}, "boxes .* do not fit"),
    # ------------------------------------------------------------------ quantities
    ("QuantizeLinear", 17, [x(2, 3), x(2)], {}, r"does not fit axis 1 of \[2, 3\]"),
    ("QuantizeLinear", 17, [x(2, 3), x(2)], {"axis": 2}, "axis 2 is out of range for 2"),
    ("QuantizeLinear", 17, [x(2, 3), x(2)], {"axis": -3}, "axis -3 is out of range for 2"),
    ("QuantizeLinear", 21, [x(2, 4, 3), x(2, 2)], {"block_size": 2}, r"does not fit \[2, 4, 3\]"),
    ("QuantizeLinear", 21, [x(2), S, np.int8(0)], {"output_dtype": 2}, "uint8 disagrees with"),
    ("QuantizeLinear", 21, [x(2), S], {"output_dtype": 9}, "cannot quantise to bool"),
    ("BitCast", 26, [x(3)], {"to": 11}, "float32 and float64 differ in size"),
    ("Range", 17, [np.int64(0), np.int64(3), np.int64(0)], {}, "has no end"),
    ("Range", 17, [np.float32(0), np.float32(np.inf), np.float32(1)], {}, "has no end"),
    ("Range", 17, [np.int64(0), np.int64(1 << 40), np.int64(1)], {}, "is too large"),
    ("HannWindow", 17, [np.int64(-1)], {}, "unusable window size -1"),
    ("HannWindow", 17, [np.int64(1 << 40)], {}, "unusable window size"),
    ("Add", 6, [x(2, 3), x(3)], {}, "no broadcast is asked for"),
    ("Add", 6, [x(2, 3), x(3)], {"broadcast": 1, "axis": 2}, "does not fit .* at axis 2"),
    ("Add", 6, [x(2, 3), x(3)], {"broadcast": 1, "axis": -3}, "does not fit .* at axis -1"),
    ("Add", 6, [x(3), x(2, 3)], {"broadcast": 1}, "does not fit .* at axis"),
    ("Tile", 5, [x(2, 3), np.float32(2), np.float32(2)], {}, "cannot repeat axis 2"),
    ("Tile", 5, [x(2, 3), np.float32(2), np.float32(-1)], {}, "cannot repeat axis -1"),
    ("Tile", 5, [x(2, 3), np.float32(-2), np.float32(0)], {}, "cannot repeat axis 0"),
    ("Upsample", 6, [x(2, 3)], {"height_scale": 2.0, "width_scale": 2.0}, "scales .* do not fit"),
    ("Upsample", 6, [IMAGE], {"height_scale": 2.0, "width_scale": 0.0}, "scales .* do not fit"),
    ("Gemm", 17, [x(2, 2, kind="int32"), x(2, 2, kind="int32")], {"alpha": 0.5},
     "a factor of 0.5 for integers"),
    ("GroupNormalization", 21, [IMAGE, x(2), x(2)], {"num_groups": 3}, "3 groups do not fit"),
    ("GroupNormalization", 21, [IMAGE, x(2), x(2)], {"num_groups": 0}, "0 groups do not fit"),
    ("GroupNormalization", 21, [x(2, 2), x(2), x(2)], {"num_groups": 2}, "2 groups do not fit"),
    ("STFT", 17, [x(1, 8, 1), np.int64(0), x(4)], {}, "steps of 0 do not fit"),
    ("STFT", 17, [x(1, 8, 3), np.int64(2), x(4)], {}, "steps of 2 do not fit"),
    ("STFT", 17, [x(8), np.int64(2), x(4)], {}, "steps of 2 do not fit"),
    ("STFT", 17, [x(1, 8, 1), np.int64(2), x(9)], {}, "frames of 9 do not fit"),
    ("STFT", 17, [x(1, 8, 1), np.int64(2), None, np.int64(0)], {}, "frames of 0 do not fit"),
    ("STFT", 17, [x(1, 8, 1), np.int64(2), x(4), np.int64(5)], {}, "does not fit frames of 5"),
    ("MelWeightMatrix", 17, [np.int64(0), np.int64(8), np.int64(8), S, S], {}, "unusable numbers"),
    ("MelWeightMatrix", 17, [np.int64(4), np.int64(0), np.int64(8), S, S], {}, "unusable numbers"),
    ("MelWeightMatrix", 17, [np.int64(4), np.int64(8), np.int64(0), S, S], {}, "unusable numbers"),
    ("MelWeightMatrix", 17, [np.int64(4), np.int64(8), np.int64(8), S, -S], {}, "unusable numbers"),
    ("MelWeightMatrix", 17, [np.int64(4), np.int64(8), np.int64(8), -S, S], {}, "unusable numbers"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "attrs", "words"),
    CASES,
    ids=[f"{k}-{case[0]}" for k, case in enumerate(CASES)],
)
def test_what_is_refused(
    op: str, opset: int, arrays: list[Any], attrs: dict[str, Any], words: str
) -> None:
    given = [None if array is None else np.asarray(array) for array in arrays]
    with pytest.raises(UserError, match=words):
        run_node(op, *given, opset=opset, **attrs)


def test_limits_that_are_not_refused() -> None:
    """The nearest arguments that are right."""
    assert run_node("Slice", x(6), i(0), i(3), i(-1)).shape == (3,)
    assert run_node("Split", x(6), opset=18, axis=-1, num_outputs=1).shape == (6,)
    assert run_node("HannWindow", np.asarray(np.int64(0))).shape == (0,)
    assert run_node("Tile", x(6), i(0)).shape == (0,)
    assert run_node("Pad", x(6), i(1, 1), None, i(-1), opset=18).shape == (8,)
    signal = x(1, 8, 1)
    assert run_node("STFT", signal, np.asarray(np.int64(1)), x(8)).shape == (1, 1, 5, 2)
    assert run_node("STFT", signal, np.asarray(np.int64(3)), x(2)).shape == (1, 3, 2, 2)
    assert run_node("STFT", x(1, 8, 2), np.asarray(np.int64(3)), x(2), onesided=0).shape == (
        1, 3, 2, 2,
    )  # fmt: skip
    assert run_node("Upsample", IMAGE, opset=6, height_scale=2.0, width_scale=1.5).shape == (
        1, 2, 10, 7,
    )  # fmt: skip
    assert run_node("Add", x(2, 3), x(2), opset=6, broadcast=1, axis=0).shape == (2, 3)
    assert run_node("Add", x(2, 3), x(1), opset=6).shape == (2, 3)
    assert run_node("QuantizeLinear", x(2, 3), x(2), axis=-2).shape == (2, 3)


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(0, 5, 1), (5, 0, -1), (5, 0, 1), (0, 5, -1), (0, 7, 3), (1, 7, 3), (7, -2, -4), (3, 3, 1)],
)
def test_ranges(start: int, limit: int, delta: int) -> None:
    for kind in ("int64", "float32", "int16"):
        parts = (np.array(value, kind) for value in (start, limit, delta))
        found = run_node("Range", *parts)
        assert np.array_equal(found, np.arange(start, limit, delta).astype(kind))


@pytest.mark.parametrize("name", ["BlackmanWindow", "HammingWindow", "HannWindow"])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(name: str, size: int, periodic: int) -> None:
    angle = 2 * np.pi * np.arange(size) / max(1, size if periodic else size - 1)
    wanted = {
        "BlackmanWindow": 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle),
        "HammingWindow": 25 / 46 - 21 / 46 * np.cos(angle),
        "HannWindow": 0.5 - 0.5 * np.cos(angle),
    }[name]
    found = run_node(name, np.asarray(np.int64(size)), periodic=periodic, output_datatype=11)
    np.testing.assert_allclose(found, wanted, atol=1e-7)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str) -> None:
    values = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 0.3], "float32")
    exponent = np.floor(np.log2(values))
    rest = values / 2**exponent
    exponent += {"up": rest > 1, "down": 0, "nearest": rest >= 1.5}[mode]
    found = run_node("Cast", values, opset=24, to=24, round_mode=mode)
    assert found.dtype == ml_dtypes.float8_e8m0fnu
    np.testing.assert_array_equal(found.astype("float32"), 2.0**exponent)


@pytest.mark.parametrize(("deep", "right"), [(50, True), (51, False)])
def test_functions_that_call_functions(deep: int, right: bool) -> None:
    own = 'opset_import: ["": 17, "own": 1], domain: "own"'
    functions = "\n".join(
        f"<{own}> f{k} (a) => (b) {{ b = {f'own.f{k + 1}' if k < deep - 1 else 'Neg'}(a) }}"
        for k in range(deep)
    )
    text = "agraph (float[3] x) => (float[3] y) { y = own.f0(x) }"
    proto = model(text, extra=', "own": 1', functions=functions)
    if right:
        assert run(proto, x(3))[0].tolist() == [-1, -1, -1]
        return
    for _ in range(2):
        with pytest.raises(UserError, match="nested more than 50 deep"):
            run(proto, x(3))
