"""Quantised numbers by the formulas of the ONNX standard, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from frontend.onnx.helpers import run_node

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
NUMBERS = {kind: k for k, kind in enumerate(("", "float32", "uint8", "int8", "uint16", "int16"))}
SHAPE = (3, 5, 4)

#: The axis, the block, and the shape of scales and zero points.
PLACES = [
    (None, 0, ()), (None, 0, (1,)), (0, 0, (3,)), (1, 0, (5,)), (-1, 0, (4,)), (-3, 0, (3,)),
    (1, 2, (3, 3, 4)), (-2, 3, (3, 2, 4)), (2, 4, (3, 5, 1)), (0, 0, (2, 5, 4)),
]  # fmt: skip


def spread(part: Any, axis: int | None, block: int) -> Any:
    """A scale or zero point for each element."""
    if part.size == 1:
        return part.reshape(())
    assert axis is not None
    if part.ndim == 1:
        return part.reshape([-1 if k == axis % 3 else 1 for k in range(3)])
    extent = SHAPE[axis]
    each = block or -(-extent // part.shape[axis])
    return np.repeat(part, each, axis).take(range(extent), axis)


def given(kind: str, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Numbers, scales that are powers of two, so that quotients are exact, and zero points."""
    rng = np.random.default_rng(len(shape))
    low, high = LIMITS[kind]
    x = (rng.integers(-(high - low), high - low, SHAPE) * 0.25).astype("float32")
    scale = np.exp2(rng.integers(-2, 3, shape)).astype("float32")
    return x, scale, np.asarray(rng.integers(low // 2, high // 2, shape)).astype(kind)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(("axis", "block", "shape"), PLACES)
def test_to_integers_and_back(
    kind: str, axis: int | None, block: int, shape: tuple[int, ...]
) -> None:
    """Halves go to the even number, and what does not fit to the nearest that does."""
    x, scale, zero = given(kind, shape)
    attrs: dict[str, Any] = {} if axis is None else {"axis": axis}
    attrs |= {"block_size": block} if block else {}
    factor, point = spread(scale, axis, block), spread(zero, axis, block).astype("int64")
    codes = np.clip(np.rint(x / factor) + point, *LIMITS[kind]).astype(kind)
    found = run_node("QuantizeLinear", x, scale, zero, opset=21, **attrs)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, codes)
    found = run_node("DequantizeLinear", codes, scale, zero, opset=21, **attrs)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, (codes.astype("int64") - point) * factor)


@pytest.mark.parametrize("kind", LIMITS)
def test_without_zero_points(kind: str) -> None:
    """Unsigned bytes, unless the type is given."""
    x, scale, _ = given(kind, (5,))
    factor = scale[:, None]
    codes = np.clip(np.rint(x / factor), *LIMITS[kind]).astype(kind)
    found = run_node("QuantizeLinear", x, scale, opset=21, output_dtype=NUMBERS[kind])
    np.testing.assert_array_equal(found, codes)
    if kind == "uint8":
        np.testing.assert_array_equal(run_node("QuantizeLinear", x, scale, opset=13), codes)
    found = run_node("DequantizeLinear", codes, scale, opset=21)
    np.testing.assert_array_equal(found, codes * factor)


def test_sums_are_dequantised_exactly() -> None:
    """Differences of int32 do not wrap around, nor are they rounded before they are scaled."""
    x = np.array([2**31 - 1, -(2**31), 16_777_217, 5], "int32")
    scale, zero = np.array(2.0, "float32"), np.array(1, "int32")
    found = run_node("DequantizeLinear", x, scale, zero, opset=13)
    np.testing.assert_array_equal(found, ((x.astype("int64") - 1).astype("float32") * 2))
    assert found[2] == 2 * 16_777_216


@pytest.mark.parametrize(
    ("low", "high"), [(-3.0, 5.0), (2.0, 7.0), (-9.0, -1.0), (0.0, 0.0), (-1.0, 0.0), (-1e-3, 1e3)]
)
def test_scales_that_are_found(low: float, high: float) -> None:
    """From the least to the greatest, zero among them."""
    x = np.linspace(low, high, 13).astype("float32")
    codes, scale, zero = run_node("DynamicQuantizeLinear", x, opset=11, outputs=3)
    least, greatest = np.float32(min(low, 0)), np.float32(max(high, 0))
    step = (greatest - least) / np.float32(255)
    assert scale == step and (codes.dtype, zero.dtype) == ("uint8", "uint8")
    divisor = step or np.float32(1)
    point = np.rint(np.clip(-least / divisor, 0, 255))
    assert zero == point
    np.testing.assert_array_equal(codes, np.clip(np.rint(x / divisor) + point, 0, 255))


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_of_quantised_numbers(rows: bool, columns: bool, batch: tuple[int, ...]) -> None:
    """With a scale and zero point of each row, of each column, or of all."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 256, (*batch, 3, 6)).astype("uint8")
    b = rng.integers(-128, 128, (6, 4)).astype("int8")
    p = rng.integers(0, 256, 3 if rows else ()).astype("uint8")
    q = rng.integers(-9, 9, 4 if columns else ()).astype("int8")
    s = np.exp2(rng.integers(-8, -4, p.shape)).astype("float32")
    t = np.exp2(rng.integers(-6, -3, q.shape)).astype("float32")
    own = (slice(None), None) if rows else ()
    whole = (a.astype("int64") - p[own]) @ (b.astype("int64") - q)
    got = run_node("MatMulInteger", a, b, p, q, opset=10)
    np.testing.assert_array_equal(got, whole)
    out_scale, out_zero = np.array(0.5, "float32"), np.array(3, "int8")
    got = run_node("QLinearMatMul", a, s, p, b, t, q, out_scale, out_zero, opset=10)
    wanted = np.rint(whole * (s[own] * t / out_scale)) + 3
    np.testing.assert_array_equal(got, np.clip(wanted, -128, 127))
