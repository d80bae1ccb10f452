"""ONNX files and feeds that are wrong, through the public face: one clear error each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import UserError

onnx = pytest.importorskip("onnx")
parser = pytest.importorskip("onnx.parser")


def model(body: str, opset: int = 17) -> Any:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')


ADD = "f (float[2, n] a, float[2, n] b) => (float[2, n] c) { c = Add(a, b) }"
ONE = np.ones((2, 3), np.float32)
FILES = {
    "unknown op": (model("f (float[2] x) => (float[2] y) { y = Frobnicate(x) }"), "Frobnicate"),
    "opset too new": (model(ADD, 999), "opset"),
    "truncated": (model(ADD).SerializeToString()[:25], "ONNX"),
    "garbage": (b"\x00\x01garbage", "ONNX"),
    "empty": (b"", "ONNX"),
    "undefined name": (model("f (float[2] x) => (float[2] y) { y = Neg(z) }"), "z"),
    "not a model": (17, "int"),
    "missing file": ("/no/such/file.onnx", "no file"),
}


@pytest.mark.parametrize("what", FILES)
def test_files(what: str) -> None:
    source, words = FILES[what]
    with pytest.raises(UserError) as raised:
        tileloom.onnx.load(source)
    assert words in str(raised.value)


def test_the_node_of_an_unknown_op_is_named() -> None:
    text = "f (float[2] x) => (float[2] y) { [strange] y = Frobnicate(x) }"
    with pytest.raises(UserError, match="strange"):
        tileloom.onnx.load(model(text))


FEEDS = {
    "missing": ({"a": ONE}, "'b'"),
    "unknown": ({"a": ONE, "b": ONE, "d": ONE}, "'d'"),
    "type": ({"a": ONE, "b": ONE.astype("float64")}, "float64"),
    "rank": ({"a": ONE, "b": ONE[0]}, "[2, n]"),
    "fixed extent": ({"a": ONE[:1], "b": ONE[:1]}, "fixed to 2"),
    "symbol": ({"a": ONE, "b": ONE[:, :2].copy()}, "'n' is 3"),
    "object": ({"a": ONE, "b": {1, 2}}, "set"),
}


@pytest.mark.parametrize("what", FEEDS)
def test_feeds(what: str) -> None:
    feeds, words = FEEDS[what]
    with pytest.raises(UserError) as raised:
        tileloom.onnx.load(model(ADD)).run(None, feeds)
    assert words in str(raised.value)


def test_no_elements_and_strided_arrays_work() -> None:
    add = tileloom.onnx.load(model(ADD))
    nothing = np.zeros((2, 0), np.float32)
    assert add.run(None, {"a": nothing, "b": nothing})[0].shape == (2, 0)
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    np.testing.assert_array_equal(add.run(None, {"a": wide, "b": ONE})[0], wide + 1)


def test_wrong_outputs_and_dimensions() -> None:
    add = tileloom.onnx.load(model(ADD))
    with pytest.raises(UserError, match="'q'"):
        add.run(["q"], {"a": ONE, "b": ONE})
    with pytest.raises(UserError, match="'m'"):
        tileloom.onnx.load(model(ADD), shapes={"m": 3})
