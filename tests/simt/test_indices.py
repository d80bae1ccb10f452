"""Indices that leave their type, and divisors that are zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tileloom import build
from tileloom.lower import lower
from tileloom.script import from_source, parse
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target

INDEXED = """
@T.prim_func
def func(n: T.int32, B: T.Buffer((64,), "int32")):
    t = T.launch_thread("threadIdx.x", 4)
    B[{index}] = {value}
"""


def found(func: Any, *args: Any) -> KernelDefect:
    with pytest.raises(KernelDefect) as caught:
        build(func, "cuda", device="emulator")(*args)
    return caught.value


def test_an_index_that_wraps_around() -> None:
    """t * 2^16 * 2^16 is 0 in 32 bits, and anything in code that takes it not to overflow."""

    @T.prim_func
    def func(n: T.int32, A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")) -> None:
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
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")) -> None:
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


@pytest.mark.parametrize(
    ("index", "kind", "threads"),
    [
        ("n * n", "overflow", range(4)),
        ("n * t * n", "overflow", range(1, 4)),
        ("(n * n + t) - n * n", "overflow", range(4)),
        ("t - n * 40000", "overflow", range(4)),
        ("n * (t - 3) * n", "overflow", range(3)),
        ("T.Cast('int64', n * n)", "overflow", range(4)),
        ("t + n * n // 7", "overflow", range(4)),
        ("t // (n - n)", "division by zero", range(4)),
        ("T.floormod(5, t)", "division by zero", [0]),
        ("T.truncdiv(5, t - 2)", "division by zero", [2]),
        ("T.Ramp(n * n, 1, 2)", "overflow", range(4)),
        ("T.Ramp(t // (n - n), 1, 2)", "division by zero", range(4)),
    ],
)  # fmt: skip
def test_parts_of_indices(index: str, kind: str, threads: Iterable[int]) -> None:
    value = "T.Broadcast(1, 2)" if "Ramp" in index else "1"
    with pytest.raises(KernelDefect) as caught:
        run_kernels(parse(INDEXED.format(index=index, value=value)), 65536, np.zeros(64, "i4"))
    assert caught.value.kind == kind
    assert caught.value.threads == [(0, t) for t in threads]
    assert ("compute the index in int64" in str(caught.value)) == (kind == "overflow")


@pytest.mark.parametrize(
    ("index", "places"),
    [
        ("T.Cast('int64', n) * T.Cast('int64', n) % 64 + T.Cast('int64', t)", [0, 1, 2, 3]),
        ("T.Cast('int32', T.Cast('uint32', n) * T.Cast('uint32', n)) + t", [0, 1, 2, 3]),
        ("T.Cast('int32', T.Cast('uint8', t + 255))", [255, 0, 1, 2]),
        ("T.min(n * 3 - 196600, t + 5)", [5, 6, 7, 8]),
        ("t * (2 + 4) // 3", [0, 2, 4, 6]),
        ("(0 - t) % 7 + T.truncmod(0 - t, 7) + 6", [6, 11, 9, 7]),
        ("T.Ramp(t * 16, t + 1, 2)", [0, 1, 16, 18, 32, 35, 48, 52]),
        ("T.Ramp(t * 16, 2, 2) + T.Broadcast(n - 65535, 2)", [1, 3, 17, 19, 33, 35, 49, 51]),
        ("T.Ramp(t * 16, 2, 4) * 2", [0, 4, 8, 12, 32, 36, 40, 44]),
    ],
)  # fmt: skip
def test_values_of_indices(index: str, places: list[int]) -> None:
    lanes = 4 if ", 4)" in index else 2 if "Ramp" in index else 1
    value = f"T.Broadcast(1, {lanes})" if lanes > 1 else "1"
    limit = "if t < 2:\n        " if lanes == 4 else ""
    text = INDEXED.format(index=index, value=value).replace("B[", f"{limit}B[")
    b = np.zeros(256, "i4")
    run_kernels(parse(text.replace("(64,)", "(256,)")), 65536, b)
    assert sorted({place % 256 for place in places}) == np.flatnonzero(b).tolist()
