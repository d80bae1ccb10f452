"""Indices that leave their type, and divisors that are zero."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import build
from tileloom.base.target import target
from tileloom.lower import lower
from tileloom.script import from_source, parse
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels


def found(func, *args) -> KernelDefect:
    with pytest.raises(KernelDefect) as caught:
        build(func, "cuda", device="emulator")(*args)
    return caught.value


def test_an_index_that_wraps_around() -> None:
    """t * 2^16 * 2^16 is 0 in 32 bits, and anything in code that takes it not to overflow."""

    @T.prim_func
    def func(n: T.int32, A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        t = T.launch_thread("threadIdx.x", 64)
        B[t] = A[t * n * n + t]

    a, b = np.arange(64, dtype="i4"), np.zeros(64, "i4")
    defect = found(func, 1 << 16, a, b)
    assert defect.kind == "overflow" and "int32 does not hold" in str(defect)
    assert (0, 1) in defect.threads
    build(func, "cuda", device="emulator")(0, a, b)
    assert (a == b).all()


def test_hashes_of_data_wrap() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        t = T.launch_thread("threadIdx.x", 64)
        B[(A[t] + t) * 1000003 * 1000003 % 64] = t

    b = np.full(64, -1, "i4")
    build(func, "cuda", device="emulator")(np.zeros(64, "i4") + 77, b)
    places = (np.arange(64) + 77) * 1000003 * 1000003 % 64
    assert b[places].tolist() == list(range(64))


@pytest.mark.parametrize("how", ["T.floormod(t, n)", "T.floordiv(t, n)", "T.truncmod(A[t], n)"])
def test_a_divisor_of_zero(how: str) -> None:
    func = from_source(f"""
from tileloom.script import tir as T

@T.prim_func
def func(n: T.int32, A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    t = T.launch_thread("threadIdx.x", 64)
    B[t] = A[{how}]
""")
    a, b = np.arange(64, dtype="i4"), np.zeros(64, "i4")
    assert found(func, 0, a, b).kind == "division by zero"
    build(func, "cuda", device="emulator")(3, a, b)


def test_the_second_part_of_a_condition_is_not_evaluated_in_vain() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((5,), "float32"), B: T.Buffer((32,), "float32")):
    for t in T.thread_binding(32, "threadIdx.x"):
        if t < 5 and A[t] > 1.0:
            B[t] = 1.0
        if t >= 5 or A[t] > 3.0:
            B[t] = 2.0
""")
    b = np.zeros(32, "float32")
    run_kernels(lower(func, target("cuda -arch=sm_80")), np.arange(5, dtype="float32"), b)
    assert b.tolist() == [0, 0, 1, 1, 2] + [2] * 27
