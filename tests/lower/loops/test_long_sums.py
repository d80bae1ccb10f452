"""Sums of whole numbers come out exactly the same in runs; and which loops are cut into them."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from tileloom.base.sums import COMPENSATED
from tileloom.lower.loops.compensate_sums import compensate_sums
from tileloom.lower.loops.long_sums import _steps
from tileloom.script import from_source, show
from tileloom.tir import For, PrimFunc, collect
from tileloom.tir.run import run

HEAD = """@T.prim_func
def main(
    A: T.Buffer((4096,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32,
    I: T.Buffer((4,), "int32"), D: T.Buffer((64,), "float64"),
):
"""
LOCAL = """acc = T.allocate([8], "float32", "local")
acc_1 = T.decl_buffer((8,), data=acc, scope="local")
for z in range(8):
    acc_1[z] = T.float32(0)
{}
for z in range(8):
    C[z] = acc_1[z]"""


def program(body: str) -> PrimFunc:
    func = from_source(HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func.with_attr(COMPENSATED, True)


def results(func: PrimFunc, n: int) -> list[Any]:
    rng = np.random.default_rng(1)
    a, c = rng.integers(-8, 9, 4096).astype("float32"), np.arange(64, dtype="float32")
    args = [a, c, n, np.asarray([1, 3, 0, 2], "int32"), np.arange(64, dtype="float64")]
    run(func, *args)
    return args


K = "for k in range(200):\n"
J = "    for j in range(4):\n"
CUT = [
    f"{K}    C[3] = C[3] + A[k]",
    "for k in range(7, 207):\n    C[3] = A[k] + C[3]",
    "for k in range(193):\n    C[n] = C[n] + A[k] * A[k]",
    f"{K}    C[0] = C[0] + A[k]\n    C[1] = C[1] + A[k + 1]",
    f"{K}    C[0] = C[0] + A[k]\n    D[1] = D[1] + T.float64(A[k])",
    f"{K}    C[0] = C[0] + A[k]\n    C[0] = C[0] + A[k + 9]",
    f"{K}    C[0] = C[0] + A[k]\n    C[9] = A[k]\nC[9] = T.float32(1)"
    .replace("C[9] = A[k]\n", "D[9] = T.float64(A[k])\n"),
    f"{K}    for j in range(5):\n        C[j] = C[j] + A[k * 5 + j]",
    f"{K}    for j in range(17):\n        C[j] = C[j] + A[k * 17 + j]",
    f"{K}{J}        C[j * 4:j * 4 + 4] = "
    "C[j * 4:j * 4 + 4] + A[k * 16 + j * 4:k * 16 + j * 4 + 4]",
    f"{K}    C[0:4] = C[0:4] + A[k * 4:k * 4 + 4]",
    f"{K}    C[0:4] = C[0:4] + A[k * 4:k * 4 + 4]\n"
    "    C[4:8] = C[4:8] + A[k * 4 + 4:k * 4 + 8]",
    "for i in range(3):\n    for k in range(200):\n        C[i] = C[i] + A[i * 200 + k]",
    "for k in range(20):\n    for j in range(10):\n        C[0] = C[0] + A[k * 10 + j]",
    "for k in range(3):\n    for j in range(100):\n        C[0] = C[0] + A[k * 100 + j]",
    f"{K}    for i in range(3):\n        for j in range(2):\n"
    "            C[i * 2 + j] = C[i * 2 + j] + A[k * 6 + i * 2 + j]",
    "for k in range(20):\n    for i in range(3):\n        for j in range(20):\n"
    "            C[i] = C[i] + A[k * 60 + i * 20 + j]",
    "for k in range(n):\n    C[3] = C[3] + A[k]",
    "for k in range(n):\n    for j in range(3):\n        C[j] = C[j] + A[k * 3 + j]",
    f"{K}    x: T.float32 = A[k] * T.float32(2)\n    C[3] = C[3] + x",
    LOCAL.format(f"{K}    if A[k] > T.float32(0):\n"
                 "        acc_1[2] = acc_1[2] + A[k]"),
    LOCAL.format(f"{K}    if A[k] > T.float32(0):\n"
                 "        acc_1[2] = acc_1[2] + A[k]\n"
                 "    else:\n        acc_1[7] = acc_1[7] + A[k]"),
    LOCAL.format(f"{K}    for j in range(8):\n        if k > j:\n"
                 "            acc_1[j] = acc_1[j] + A[k * 8 + j]"),
    LOCAL.format(f"{K}    for j in range(4):\n"
                 "        acc_1[j * 2] = acc_1[j * 2] + A[k * 8 + j]"),
    LOCAL.format(f"{K}{J}"
                 "        acc_1[j] = acc_1[j] + A[k + j]\n"
                 "    for j in range(4):\n        acc_1[j + 4] = acc_1[j + 4] + A[k + j]"),
]  # fmt: skip
LEFT = [
    "for k in range(128):\n    C[3] = C[3] + A[k]",
    f"{K}    C[3] = C[3] - A[k]",
    f"{K}    C[3] = T.max(C[3], A[k])",
    f"{K}    C[3] = C[4] + A[k]",
    f"{K}    C[3] = C[3] + C[3]",
    f"{K}    C[3] = C[3] + A[k]\n    D[0] = T.float64(C[3])",
    f"{K}    C[3] = C[3] + A[k]\n    C[5] = A[k]",
    f"{K}    C[I[1]] = C[I[1]] + A[k]",
    f"{K}    C[k // 4] = C[k // 4] + A[k]",
    f"{K}    x: T.int32 = k % 2\n    C[x] = C[x] + A[k]",
    f"{K}    if A[k] > T.float32(0):\n        C[3] = C[3] + A[k]",
    f"{K}{J}        if k > j:\n            C[j] = C[j] + A[k]",
    f"{K}{J}        C[j * 2] = C[j * 2] + A[k + j]",
    f"{K}    for j in range(1, 4):\n        C[j] = C[j] + A[k + j]",
    f"{K}{J}        C[7 - j] = C[7 - j] + A[k + j]",
    f"{K}    for j in range(n % 4 + 1):\n        C[j] = C[j] + A[k + j]",
    f"{K}    C[0] = C[0] + A[k]\n    C[n] = C[n] + A[k]",
    f"{K}    C[0:4] = C[0:4] + A[k * 4:k * 4 + 4]\n"
    "    C[3:7] = C[3:7] + A[k * 4 + 4:k * 4 + 8]",
    f"{K}    C[0:8:2] = C[0:8:2] + A[k * 4:k * 4 + 4]",
    f"{K}    while I[0] > 0:\n        C[3] = C[3] + A[k]\n        I[0] = I[0] - 1",
    "for k in T.parallel(200):\n    D[0] = T.float64(1)",
    f"{K}    I[0] = I[0] + 1",
    LOCAL.format(f"{K}{J}        if k > j:\n"
                 "            acc_1[n % 2 + j] = acc_1[n % 2 + j] + A[k * 8 + j]"),
]  # fmt: skip


@pytest.mark.parametrize("body", CUT)
@pytest.mark.parametrize("n", [0, 9, 300])
def test_sums_in_runs(body: str, n: int) -> None:
    if n not in (0, 9) and "[n]" in body:
        n = 63
    func = program(body)
    made = compensate_sums(func)
    assert "lost" in show(made)
    for one, two in zip(results(func, n), results(made, n), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("body", LEFT)
def test_what_is_not_cut(body: str) -> None:
    func = program(body)
    made = compensate_sums(func)
    assert made is func
    results(func, 9)


@pytest.mark.parametrize(
    ("body", "extents"),
    [
        ("for k in range(1024):\n    C[3] = C[3] + A[k]", [32, 32]),
        ("for k in range(200):\n    C[3] = C[3] + A[k]", [8, 25]),
        ("for k in range(180):\n    C[3] = C[3] + A[k]", [6, 30]),
        ("for k in range(193):\n    C[3] = C[3] + A[k]", [7, None]),
        ("for k in range(16):\n    for j in range(16):\n        C[0] = C[0] + A[k * 16 + j]",
         [8, 2, 16]),
        ("for k in range(4):\n    for j in range(64):\n        C[0] = C[0] + A[k * 64 + j]",
         [4, 64]),
        ("for k in range(3):\n    for j in range(80):\n        C[0] = C[0] + A[k * 80 + j]",
         [3, 2, 40]),
    ],
)  # fmt: skip
def test_lengths_of_runs(body: str, extents: list[int | None]) -> None:
    """A run has 16 to 64 additions, as near to 32 as the extent can be divided."""
    found = [loop.extent for loop in collect(compensate_sums(program(body)).body, For)]
    assert [getattr(extent, "value", None) for extent in found] == extents


@pytest.mark.parametrize(
    ("extent", "wanted", "steps"),
    [(None, 32, 32), (64, 32, 64), (65, 32, 32), (66, 32, 33), (96, 32, 32), (200, 32, 25),
     (201, 32, 32), (100, 10, 10), (99, 10, 9), (98, 10, 7), (21, 10, 7), (20, 10, 20), (2, 1, 2),
     (3, 1, 1)],
)  # fmt: skip
def test_steps_of_a_run(extent: int | None, wanted: int, steps: int) -> None:
    """All of few; else the nearest divisor within a factor of two; else what is wanted."""
    assert _steps(extent, wanted) == steps
