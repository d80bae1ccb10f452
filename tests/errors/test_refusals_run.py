"""What kernels and the interpreter refuse of the arrays that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedule.common import parse
from tileloom import build
from tileloom.base.errors import ArgumentError
from tileloom.tir import run

PLAIN = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + 1.0
""")
SIZES = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, n), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi, 0] + 1.0
""")
FOUR = np.ones(4, "float32")


def test_masked_arrays() -> None:
    masked: Any = np.ma.masked_array(FOUR, [True, False, False, False])
    with pytest.raises(ArgumentError, match="masked arrays are not supported"):
        build(PLAIN)(masked, FOUR.copy())


def test_results_that_cannot_be_written() -> None:
    result = FOUR.copy()
    result.flags.writeable = False
    with pytest.raises(ArgumentError, match="is written by the kernel, but the array is read-only"):
        build(PLAIN)(FOUR, result)
    assert (result == 1).all()


@pytest.mark.parametrize(
    ("shape", "interpreted", "compiled"),
    [
        ((4, 3), r"'A' has shape \(n, n\), got \(4, 3\)", "n is 3 here, but 4 by axis 0"),
        ((3, 4), r"'A' has shape \(n, n\), got \(3, 4\)", "n is 4 here, but 3 by axis 0"),
        ((4,), "covers elements 0 to 15 of memory that holds 4", r"shape \(n, n\), got shape"),
    ],
)
def test_shapes_that_disagree_in_a_size(
    shape: tuple[int, ...], interpreted: str, compiled: str
) -> None:
    result = np.zeros(4, "float32")
    with pytest.raises(ArgumentError, match=interpreted):
        run(SIZES, np.ones(shape, "float32"), result, 4)
    with pytest.raises(ArgumentError, match=compiled):
        build(SIZES)(np.ones(shape, "float32"), result, 4)
    assert not result.any()
    build(SIZES)(np.ones((4, 4), "float32"), result, 4)
    assert (result == 2).all()
