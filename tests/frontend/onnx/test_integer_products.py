"""Integer products with zero points: of everything, of rows, of columns; none of them widened."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import one_node, run_node
from tileloom.frontend.onnx import load

Array = np.ndarray[Any, Any]
BYTES = ("int8", "uint8")


def random(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    info = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, kind, endpoint=True)


def exact(a: Array, b: Array, p: Array | None, q: Array | None) -> Array:
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
