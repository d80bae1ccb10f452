"""Operators as they were before opset 7, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import f32, one_node, run, run_node
from tileloom.base.errors import UserError

RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


X, ONES = normal(2, 3, 4), np.ones((2, 3), "float32")

#: Which part of a tensor of [2, 3, 4] a second operand is laid along, and its shape for NumPy.
BROADCASTS: list[tuple[tuple[int, ...], dict[str, int], tuple[int, ...]]] = [
    ((4,), {}, (4,)),
    ((3, 4), {}, (3, 4)),
    ((2, 3, 4), {}, (2, 3, 4)),
    ((2,), {"axis": 0}, (2, 1, 1)),
    ((3,), {"axis": 1}, (3, 1)),
    ((2, 3), {"axis": 0}, (2, 3, 1)),
    ((3, 4), {"axis": 1}, (3, 4)),
    ((4,), {"axis": -1}, (4,)),
    ((3,), {"axis": -2}, (3, 1)),
    ((2,), {"axis": -3}, (2, 1, 1)),
    ((1,), {"axis": 0}, (1, 1, 1)),
    ((), {}, ()),
]


@pytest.mark.parametrize(("shape", "attrs", "seen"), BROADCASTS)
def test_where_the_second_operand_lies(shape: Any, attrs: Any, seen: Any) -> None:
    b = normal(*shape)
    found = run_node("Sub", X, b, opset=6, broadcast=1, **attrs)
    np.testing.assert_array_equal(found, X - b.reshape(seen))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1,), (1, 1), ()])
def test_one_element_or_the_same_shape_needs_no_broadcast(shape: tuple[int, ...]) -> None:
    b = normal(*shape)
    np.testing.assert_array_equal(run_node("Mul", X, b, opset=6), X * b)


@pytest.mark.parametrize(
    ("op", "function", "kind"),
    [
        ("Add", np.add, "float32"),
        ("Div", np.divide, "float32"),
        ("Div", lambda a, b: np.trunc(a / b), "int32"),
        ("Pow", np.power, "float32"),
        ("Greater", np.greater, "float32"),
        ("Less", np.less, "float32"),
        ("Equal", np.equal, "int32"),
        ("And", np.logical_and, "bool"),
        ("Or", np.logical_or, "bool"),
        ("Xor", np.logical_xor, "bool"),
    ],
)
def test_binary_operators(op: str, function: Any, kind: str) -> None:
    a = np.array([[1, 2, 9], [7, 5, 3]]).astype(kind)
    b = np.array([2, 2, 4]).astype(kind)
    if kind == "bool":
        a, b = np.array([[1, 0, 1], [0, 0, 1]], "bool"), np.array([1, 0, 0], "bool")
    found = run_node(op, a, b, opset=6, broadcast=1)
    np.testing.assert_allclose(found, function(a, b), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "slopes"),
    [((2, 3), (3,)), ((2, 3, 4), (3,)), ((2, 3, 4, 2), (3,)), ((2, 3), (1,)), ((3,), (3,)),
     ((2, 3, 1), (1,))],
)  # fmt: skip
def test_slopes_belong_to_channels(shape: tuple[int, ...], slopes: tuple[int, ...]) -> None:
    x, slope = normal(*shape), normal(*slopes)
    wide = slope.reshape(-1, *[1] * (len(shape) - 2)) if slopes == (3,) else slope
    found = run_node("PRelu", x, slope, opset=6)
    np.testing.assert_allclose(found, np.where(x < 0, x * wide, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ({"shape": [4, 6]}, (4, 6)),
        ({"shape": [0, -1]}, (2, 12)),
        ({"shape": [0, 0, 0]}, (2, 3, 4)),
        ({"shape": [-1]}, (24,)),
        ({"shape": [1, 1, 0, 6]}, (1, 1, 4, 6)),
    ],
)
def test_reshape(attrs: Any, wanted: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(run_node("Reshape", X, opset=4, **attrs), X.reshape(wanted))


def test_a_dimension_to_copy_must_be_there() -> None:
    with pytest.raises(UserError, match="copies a dimension"):
        run_node("Reshape", X, opset=4, shape=[2, 3, 4, 0])


def test_pad() -> None:
    found = run_node("Pad", ONES, opset=1, paddings=[1, 0, 0, 2], value=5.0)
    np.testing.assert_array_equal(found, np.pad(ONES, [(1, 0), (0, 2)], constant_values=5))
    found = run_node("Pad", X[0], opset=1, paddings=[1, 0, 0, 2], mode="reflect")
    np.testing.assert_array_equal(found, np.pad(X[0], [(1, 0), (0, 2)], "reflect"))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_tile(axis: int, count: int) -> None:
    found = run_node("Tile", X, np.float32(count), np.float32(axis), opset=5)
    wanted = np.tile(X, [count if k == axis else 1 for k in range(3)])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("scales", [(1.0, 2.0), (3.0, 1.0), (2.0, 1.5)])
def test_upsample(scales: tuple[float, ...]) -> None:
    x = normal(1, 2, 3, 4)
    found = run_node("Upsample", x, opset=6, height_scale=scales[0], width_scale=scales[1])
    rows, columns = ((np.arange(int(n * s)) / s).astype(int) for n, s in zip(x.shape[2:], scales))
    np.testing.assert_array_equal(found, x[:, :, rows][..., columns])


def test_upsample_takes_images() -> None:
    for x in (normal(2, 3, 4), normal(1, 2, 3, 4, 5)):
        with pytest.raises(UserError, match="scales"):
            run_node("Upsample", x, opset=6, height_scale=2.0, width_scale=2.0)
    with pytest.raises(UserError, match="scales"):
        run_node("Upsample", normal(1, 1, 2, 2), opset=6, height_scale=2.0, width_scale=1e6)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 2, 3, 2)])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_global_norms(shape: tuple[int, ...], p: float) -> None:
    x = normal(*shape)
    found = run_node("GlobalLpPool", x, opset=1, p=p)
    wide = np.abs(x.astype("float64")) ** p
    wanted = wide.sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_default_norm_is_the_second() -> None:
    found = run_node("GlobalLpPool", X, opset=1)
    wide = X.astype("float64") ** 2
    np.testing.assert_allclose(found, np.sqrt(wide.sum(2, keepdims=True)), rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "arrays", "attrs"),
    [
        ("GlobalLpPool", [normal(2, 3)], {}),
        ("GlobalLpPool", [X], {"p": 1.5}),
        ("Dropout", [X], {}),
        ("BatchNormalization", [X, *[np.ones(3, "float32")] * 4], {}),
    ],
)
def test_what_is_not_supported(op: str, arrays: Any, attrs: Any) -> None:
    with pytest.raises(UserError, match="not support"):
        run_node(op, *arrays, opset=1 if op == "GlobalLpPool" else 6, **attrs)


def test_batch_normalization() -> None:
    scale, bias, mean, var = f32(1, 2, 3), f32(0, 1, -1), f32(0.5, 0, 1), f32(1, 4, 0.25)
    arrays = (X, scale, bias, mean, var)
    found = run_node("BatchNormalization", *arrays, opset=6, is_test=1, epsilon=0.5)
    s, b, m, v = (a.reshape(3, 1) for a in arrays[1:])
    np.testing.assert_allclose(found, (X - m) / np.sqrt(v + 0.5) * s + b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("opset", "attrs", "kind"),
    [(6, {"is_test": 1}, "float32"), (7, {}, "float32"), (9, {}, "float32"), (10, {}, "bool"),
     (11, {}, "bool"), (12, {}, "bool"), (13, {}, "bool")],
)  # fmt: skip
def test_what_dropout_keeps(opset: int, attrs: Any, kind: str) -> None:
    y, kept = run_node("Dropout", X, opset=opset, outputs=2, **attrs)
    np.testing.assert_array_equal(y, X)
    assert kept.dtype == kind and kept.shape == X.shape and kept.all()


@pytest.mark.parametrize(
    ("word", "kind"),
    [("FLOAT", "float32"), ("DOUBLE", "float64"), ("FLOAT16", "float16"), ("BOOL", "bool"),
     *((name.upper(), name) for name in ("int8", "int16", "int32", "int64")),
     *((name.upper(), name) for name in ("uint8", "uint16", "uint32", "uint64"))],
)  # fmt: skip
def test_types_are_words(word: Any, kind: Any) -> None:
    found = run_node("Cast", f32(0, 1, 100), opset=1, to=word)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, np.array([0, 1, 100]).astype(kind))


def test_a_word_that_is_no_type() -> None:
    with pytest.raises(UserError, match="'to'"):
        run_node("Cast", X, opset=1, to="COMPLEX")


@pytest.mark.parametrize("attrs", [{}, {"transA": 1}, {"transB": 1, "alpha": 0.5, "beta": 3.0}])
def test_gemm(attrs: dict[str, Any]) -> None:
    a = normal(3, 2) if attrs.get("transA") else normal(2, 3)
    b = normal(4, 3) if attrs.get("transB") else normal(3, 4)
    c = normal(2, 4)
    (found,) = run(one_node("Gemm", [a, b, c], 6, **attrs), a, b, c)
    left = a.T if attrs.get("transA") else a
    right = b.T if attrs.get("transB") else b
    wanted = attrs.get("alpha", 1) * left @ right + attrs.get("beta", 1) * c
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
