"""Loops in vectors do what they did before, lane by lane; and which of them become vectors."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tileloom.lower.vector.vectorize_loops import vectorize_loops
from tileloom.script import from_source, show
from tileloom.tir import PrimFunc
from tileloom.tir.run import run

HEAD = """@T.prim_func
def main(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32,
    I: T.Buffer((64,), "int32"), L: T.Buffer((64,), "bool"),
):
"""
VECTORS, LOOP = "vectors", "loop"


def program(body: str) -> PrimFunc:
    func = from_source(HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def arrays(n: int) -> list[Any]:
    """Small whole numbers, so that no order of adding rounds; I[k] is a place, or zero."""
    rng = np.random.default_rng(n + 5)
    places = rng.permutation(64).astype("int32")
    values = [rng.integers(-4, 5, 64).astype("float32") for _ in range(2)]
    return [*values, n, places, rng.integers(0, 2, 64).astype(bool)]


def check(func: PrimFunc, made: PrimFunc, sizes: Sequence[int]) -> None:
    """Both write the same, and neither touches memory that is not its own."""
    for n in sizes:
        before, after = arrays(n), arrays(n)
        run(func, *before)
        run(made, *after)
        for one, two in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=f"n = {n}")


def is_loop(made: PrimFunc, var: str) -> bool:
    return f"for {var} in" in show(made)


# ---------------------------------------------------------------------------- eight lanes

STORES = [
    ("A[i] = B[63 - i]", VECTORS),
    ("A[i * 2 + n] = B[i] + T.float32(i)", VECTORS),
    ("A[I[i]] = B[I[i + 8]]", VECTORS),
    ("A[i % 3 * 8 + i] = B[i // 3]", VECTORS),
    ("A[i] = B[(n * 8 + i) // 8 % 64] + B[(n * 8 + i) % 8]", VECTORS),
    ("A[i] = T.Cast('float32', T.Cast('int64', i * 3) - T.Cast('int64', n))", VECTORS),
    ("A[i] = T.Cast('float32', T.Cast('int8', i * 50))", VECTORS),
    ("A[i] = T.Cast('float32', L[i]) + T.Cast('float32', i < n)", VECTORS),
    ("A[i] = T.max(T.min(B[i], T.float32(i)), T.float32(n)) * T.float32(2)", VECTORS),
    ("A[i] = T.exp2(T.float32(i)) - T.float32(1)", VECTORS),
    ("A[n] = B[n + 1]", VECTORS),
    ("A[n] = B[i]", LOOP),
    ("A[n] = A[n] + T.float32(1)", LOOP),
    ("if i < n:\n    A[n] = B[n]", LOOP),
    ("A[i] = T.Select(L[i], B[i], T.float32(n))", VECTORS),
    ("L[i] = L[i] and i < n or B[i] > T.float32(0)", VECTORS),
    ("L[i] = not (L[i] or n < 3 and i != 2)", VECTORS),
    ("L[i] = n < 3 and L[n] or i < n", VECTORS),
    ("L[i] = n < 3 and L[i + n]", LOOP),  # lanes of it would be read for nothing
    ("L[i] = n < 3 or L[i + n]", LOOP),
    ("T.evaluate(0)\nA[i] = B[i]", VECTORS),
    ("L[i] = not (i < n) and not (B[i] < B[i + 8])", VECTORS),
    ("I[i] = i - n * i + (n - i) * 3", VECTORS),
    ("I[i] = i * i + (5 - i) * 2", VECTORS),
    ("x: T.int32 = i * 2\nA[x] = T.float32(x + n)", VECTORS),
    ("x: T.int32 = n * 2\nA[x + i] = T.float32(x + n)", VECTORS),
    ("x: T.float32 = B[i]\nA[i] = x * x\nB[i] = x + T.float32(1)", VECTORS),
    ("for j in range(n):\n    A[i * 8 + j % 8] = B[j]", VECTORS),
    ("for j in T.parallel(4):\n    A[i * 8 + j] = B[j]", VECTORS),
    ("for j in range(i):\n    A[i * 8 + j] = B[j]", LOOP),
    ("for j in range(i, i + 2):\n    A[j] = B[j]", LOOP),
    ("while A[i] < T.float32(4):\n    A[i] = A[i] + T.float32(1)", LOOP),
]
GUARDS = [
    # Lanes that a condition leaves out would read behind the end, or divide by zero.
    ("if i < n:\n    A[i] = B[i + 64 - n]", VECTORS),
    ("if i < n:\n    A[i] = B[64 - n]", VECTORS),
    ("if i + 1 <= n:\n    A[i] = B[64 - n]", VECTORS),
    ("if i > n:\n    A[i] = B[57 + n]", VECTORS),
    ("if i >= n:\n    A[i] = B[56 + n]", VECTORS),
    ("if n > i:\n    A[i] = B[64 - n]", VECTORS),
    ("if n >= i + 1:\n    A[i] = B[64 - n]", VECTORS),
    ("if n < i:\n    A[i] = B[57 + n]", VECTORS),
    ("if n <= i:\n    A[i] = B[56 + n]", VECTORS),
    ("if 7 - i < n:\n    A[i] = B[64 - n]", VECTORS),
    ("if 7 - i > n:\n    A[i] = B[57 + n]", VECTORS),
    ("if n <= 7 - i:\n    A[i] = B[56 + n]", VECTORS),
    ("if i * 2 < n * 2 + i:\n    A[i] = B[64 - n]", VECTORS),
    ("if i + n * 3 < i * 2 + 2 * n:\n    A[i] = B[57 + n]", VECTORS),
    ("if i < n:\n    A[i] = B[64 - n]\nelse:\n    A[i] = B[56 + n]", VECTORS),
    ("if i == n:\n    A[i] = B[0]\nelse:\n    A[i] = B[1]", VECTORS),
    ("if i != n:\n    A[i] = B[i]", VECTORS),
    ("if L[i]:\n    A[i] = B[i]\nelse:\n    B[i] = A[i + 8]", VECTORS),
    ("if L[i]:\n    L[i] = False\n    A[i] = B[i]", VECTORS),
    ("if n < 4:\n    A[i] = B[i]\nelse:\n    A[i] = B[i + 1]", VECTORS),
    ("if n < 4:\n    A[i] = B[i + 18 * n]", VECTORS),
    ("if i < n and B[i + 64 - n] > T.float32(0):\n    A[i] = B[i + 64 - n]", VECTORS),
    ("if n < 4 and i < n:\n    A[i] = B[i + 18 * n]", VECTORS),
    ("if n < 9 and i < n:\n    A[i] = B[64 - n]\nelse:\n    A[i] = T.float32(5)", VECTORS),
    ("if i < n and i > 1:\n    A[i] = B[64 - n]", VECTORS),
    ("if i < n and 3 < i + n:\n    A[i] = B[64 - n]\nelse:\n    A[i] = B[3]", VECTORS),
    ("if i < n:\n    if i > 2:\n        A[i] = B[64 - n]\n    B[i] = T.float32(7)", VECTORS),
    ("if i > 2:\n    A[i] = B[1]\n    if i < n:\n        A[i] = B[64 - n]", VECTORS),
    ("if i < n:\n    x: T.float32 = B[i + 64 - n]\n    A[i] = x", VECTORS),
    ("if i < n:\n    A[i] = B[64 - n]\nA[i + 8] = B[9]", VECTORS),
    ("if T.likely(i < n):\n    A[i] = B[i + 64 - n]", VECTORS),
    ("if I[i] > n:\n    A[I[i] - n] = B[I[i] - n - 1]", VECTORS),
    ("if i < n:\n    A[i] = T.float32(I[i] // n)", LOOP),
    ("if i < n:\n    A[i] = T.float32(9 // (I[i + 8] + 1))", LOOP),
    ("if i < n:\n    A[i] = T.float32((63 - i) // n)", VECTORS),
    ("if i < n:\n    A[i] = B[i * 5 % n]", VECTORS),
    ("if i < n:\n    A[i] = B[T.truncdiv(63 - i, n)]", VECTORS),
    ("if i < n:\n    A[i] = T.float32(T.truncmod(I[i], n))", LOOP),
    ("if i < n:\n    A[i] = T.float32(I[i] // 3 + I[i] % 4)", VECTORS),
    ("if i < n:\n    A[i] = B[i] / T.float32(n)", VECTORS),
    ("if I[i] != 0:\n    A[i] = T.float32(100 // I[i])", LOOP),
    ("if i < n:\n    for j in range(3):\n        A[i * 8 + j] = B[64 - n]", VECTORS),
    ("if i < n:\n    assert n > 0, 'n'\n    A[i] = B[i]", LOOP),
    ("assert n < 10, 'n'\nA[i] = B[i]", VECTORS),
]
CHOICES = [
    ("A[i] = T.if_then_else(i < n, B[i + 64 - n], T.float32(1))", VECTORS),
    ("A[i] = T.if_then_else(i >= n, T.float32(1), B[i + 64 - n])", VECTORS),
    ("A[i] = T.if_then_else(n > 0, B[64 - n], T.float32(1))", VECTORS),
    ("A[i] = T.if_then_else(n > 0, B[64 - n], B[i])", VECTORS),
    ("A[i] = T.if_then_else(i < n, B[64 - n], T.float32(1))", VECTORS),
    ("A[i] = T.if_then_else(i < n and n < 9, B[64 - n], T.float32(i))", VECTORS),
    ("A[i] = T.if_then_else(i < n and B[i + 64 - n] > T.float32(0), B[i], B[i + 1])", VECTORS),
    ("A[i] = T.if_then_else(i >= n or B[i + 64 - n] > T.float32(0), B[i], B[i + 1])", VECTORS),
    ("A[i] = T.if_then_else(n > 0 and B[64 - n] > T.float32(0), B[i], B[i + 1])", VECTORS),
    (
        "A[i] = T.if_then_else(n > 0 and B[i + 57 - T.min(n, 1)] > T.float32(0), B[i], B[i + 1])",
        LOOP,
    ),
    (
        "A[i] = T.if_then_else(n <= 0 or B[i + 57 - T.min(n, 1)] > T.float32(0), B[i], B[i + 1])",
        LOOP,
    ),
    ("A[i] = T.if_then_else(i < n, T.if_then_else(i > 1, B[64 - n], B[i]), B[i])", VECTORS),
    ("A[i] = T.if_then_else(I[i] == 0, T.float32(0), T.float32(100 // I[i]))", LOOP),
    ("if i < n:\n    A[i] = T.if_then_else(i > 1, B[64 - n], B[i]) + B[64 - n]", VECTORS),
    ("A[i] = T.if_then_else(i < n, B[64 - n], T.float32(1)) + B[T.min(n, 63)]", VECTORS),
]
MEMORY = [
    ("""
     S = T.allocate([2], "float32", "local")
     S_1 = T.decl_buffer((2,), data=S, scope="local")
     S_1[0] = B[i]
     S_1[1] = T.float32(i)
     A[i] = S_1[0] + S_1[1] * S_1[1]
     """, VECTORS),
    ("""
     S = T.allocate([4], "float32", "local")
     S_1 = T.decl_buffer((4,), data=S, scope="local")
     for j in range(4):
         S_1[j] = B[j]
     if i < n:
         S_1[i % 4] = T.float32(9)
     for j in range(4):
         A[i * 4 + j] = S_1[j]
     """, VECTORS),
    ("""
     S = T.allocate([2, 2], "float32", "local")
     S_1 = T.decl_buffer((2, 2), data=S, scope="local")
     S_1[1, 1] = B[i]
     A[i] = S_1[1, 1]
     """, LOOP),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), [*STORES, *GUARDS, *CHOICES, *MEMORY])
def test_eight_lanes(body: str, kind: str) -> None:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    func = program(f"for i in T.vectorized(8):\n{text}")
    made = vectorize_loops(func)
    check(func, made, (0, 1, 2, 3, 5, 7, 8, 9))
    assert is_loop(made, "i") is (kind == LOOP)
    assert "T.vectorized" not in show(made)


@pytest.mark.parametrize("low", ["0", "3", "n"])
@pytest.mark.parametrize("extent", [0, 1, 2, 7])
def test_lanes_from_another_start(low: str, extent: int) -> None:
    func = program(f"for i in T.vectorized({low}, {low} + {extent}):\n    A[i] = B[i * 2] + A[i]")
    made = vectorize_loops(func)
    check(func, made, (0, 4))
    assert not is_loop(made, "i")


# ---------------------------------------------------------------------------- strips

UPDATES = [
    "A[i * 2] = B[i]\nA[i * 2 + 1] = A[i * 2 + 1] + B[i]",
    "A[i] = B[i]\nA[i + 27] = B[i] + T.float32(1)",
    "A[i // 4 * 8 + i % 4] = A[i // 4 * 8 + i % 4] + B[i]",
    "z: T.int32 = i + n\nA[z] = A[z] + B[i]",
    "A[i * i % 8] = B[i]",
    "S[0] = S[0] + B[i]",
    "S[1] = B[i] + S[1]",
    "S[2] = T.max(S[2], B[i])",
    "S[2] = T.min(B[i], S[2])",
    "S[3] = S[3] * T.Select(B[i] > T.float32(0), T.float32(2), T.float32(1))",
    "S[0] = S[0] + B[i]\nS1[0] = T.max(S1[0], B[i])",
    "if B[i] > T.float32(0):\n    S[0] = S[0] + B[i]",
    "if B[i] > T.float32(0):\n    S[0] = S[0] + B[i]\nelse:\n    S1[0] = S1[0] + B[i]",
    "S[0] = S[0] + T.if_then_else(n > 2, B[i + n], T.float32(0))",
    "S[0] = S[0] + T.if_then_else(n > 2 and i > 3, B[i + n], T.float32(0))",
    "S[n] = S[n] + B[i]",
    "M[0] = M[0] and B[i] < T.float32(4)",
    "M[1] = B[i] > T.float32(3) or M[1]",
    "A[i] = B[i] * T.float32(2)",
    "A[i] = B[i]\nS[0] = S[0] + A[i]",
    "if i != n:\n    A[i] = B[i]",
    "x: T.float32 = B[i] * T.float32(2)\nS[0] = S[0] + x\nA[i] = x",
    "if i < n:\n    y: T.float32 = B[i + 5 - T.min(n, 5)]\n    A[i] = y",
    "S[0] = S[0] + B[i]\nS[1] = S[1] + A[i]",
]
ONE_BY_ONE = [
    "A[i] = B[i]\nA[i + 1] = B[i] + T.float32(1)",
    "A[i * 2] = B[i]\nA[i * 2 + 24] = B[i] + T.float32(1)",
    "A[30 - i * 2] = B[i]\nA[26 - i * 2] = B[i] + T.float32(1)",
    "A[i // 2] = A[i // 2] + B[i]",
    "A[i % 3] = A[i % 3] + B[i]",
    "A[i // 4 * 3 + i % 4] = A[i // 4 * 3 + i % 4] + B[i]",
    "x: T.int32 = i // 2\nA[x] = A[x] + B[i]",
    "S[0] = S[0] + B[i]\nS[n] = S[n] + A[i]",
    "S[0] = S[0] + B[i]\nA[i] = S[0]",
    "S[0] = S[0] - B[i]",
    "S[0] = B[i]",
    "S[0] = S[1] + B[i]",
    "S[0] = S[0] + S[0]",
    "S[0] = S1[0] + B[i]",
    "S[i] = S[0] + B[i]",
    "A[i + 1] = A[i]",
    "A[i] = A[i + 1]",
    "A[i] = B[i]\nA[i + 1] = B[i]\nS[0] = A[i]",
    "S[0] = S[0] + B[i]\nS[i] = B[i]",
    "S[T.Cast('int32', B[i]) + 4] = S[T.Cast('int32', B[i]) + 4] + B[i]",
]


def strips(update: str, extent: str, parts: int, low: int = 0) -> PrimFunc:
    notes = f'{{"vector_lanes": 4, "vector_parts": {parts}}}'
    text = textwrap.indent(update, "        ")
    func = from_source(f"""
@T.prim_func
def main(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32,
    S: T.Buffer((64,), "float32"), S1: T.Buffer((4,), "float32"), M: T.Buffer((2,), "bool"),
):
    for i in T.serial({low}, {low} + {extent}, annotations={notes}):
{text}
""")
    assert isinstance(func, PrimFunc)
    return func


def check_strips(func: PrimFunc, made: PrimFunc, n: int) -> None:
    results = []
    for one in (func, made):
        a, b, _, _, _ = arrays(0)
        sums = [
            np.arange(64, dtype="float32") % 7,
            np.ones(4, "float32"),
            np.asarray([True, False]),
        ]
        run(one, a, b, n, *sums)
        results.append([a, b, *sums])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=f"n = {n}")


@pytest.mark.parametrize("update", UPDATES)
def test_strips(update: str) -> None:
    for extent, parts, low in (
        ("1", 1, 0), ("2", 2, 0), ("3", 1, 5), ("4", 2, 0), ("5", 2, 0), ("8", 2, 2), ("13", 2, 0),
        ("27", 3, 1), ("19", 1, 0),
    ):  # fmt: skip
        func = strips(update, extent, parts, low)
        made = vectorize_loops(func)
        check_strips(func, made, 4)
        assert "vector_lanes" not in show(made)
        assert extent == "1" or re.search(r"T\.Ramp|\[[^]]*:", show(made))


@pytest.mark.parametrize("update", [u for u in UPDATES[4:] if "n" not in u])
@pytest.mark.parametrize("parts", [1, 3])
def test_strips_of_unknown_length(update: str, parts: int) -> None:
    func = strips(update, "n", parts, 2)
    made = vectorize_loops(func)
    for n in (0, 1, 3, 4, 5, 7, 8, 11, 12, 17, 25):
        check_strips(func, made, n)


@pytest.mark.parametrize("update", ONE_BY_ONE)
def test_what_depends_on_other_iterations_stays_a_loop(update: str) -> None:
    func = strips(update, "13", 2)
    made = vectorize_loops(func)
    check_strips(func, made, 4)
    assert is_loop(made, "i") and "T.Ramp" not in show(made)
    assert "vector_lanes" not in show(made) and "vector_parts" not in show(made)


# ---------------------------------------------------------------------------- tiles

TILES = [
    ("B[i * 20 + j] = A[j * 20 + i]", True),
    ("B[i * 20 + j] = A[j * 20 + i + 3] * T.float32(2)", True),
    ("B[i * 20 + j] = A[j * 20 + i] + A[i * 20 + j]", True),
    ("B[i * 20 + j] = A[j * 20 + i] + A[j * 20 + i + 1]", True),
    ("B[i * 20 + j] = A[j * 20 + i]\nC[i * 20 + j] = A[j * 20 + i] + T.float32(j)", True),
    ("B[i * 20 + j] = B[i * 20 + j] + A[j * 20 + i]", True),
    ("B[j * 20 + i] = A[j * 20 + i]", True),
    ("B[i * 20 + j] = A[i * 20 + j]", False),
    ("B[i * 20 + j] = A[i + 20]", False),
    ("B[i * 20 + j] = A[i + j]", False),
    ("B[i * 20 + j] = A[j * 20 + i * 2]", False),
    ("B[i * 20 + j] = A[j * 20 + i // 2]", False),
    ("B[i * 20 + j] = A[j * 20 + i + i * j % 3]", False),
    ("if i < j:\n    B[i * 20 + j] = A[j * 20 + i]", False),
    ("C[i] = C[i] + A[j * 20 + i]", False),
    ("C[j] = C[j] + A[j * 20 + i]", False),
    ("B[i * 20 + j] = B[j * 20 + i]", False),
]


def tiles(update: str, rows: str, columns: str, low: int) -> PrimFunc:
    text = textwrap.indent(update, "            ")
    func = from_source(f"""
@T.prim_func
def main(
    A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32"),
    C: T.Buffer((512,), "float32"), n: T.int32, m: T.int32,
):
    for i in T.serial({low}, {low} + {rows}, annotations={{"vector_tile": 4}}):
        for j in T.serial({low}, {low} + {columns}, annotations={{"vector_lanes": 4}}):
{text}
""")
    assert isinstance(func, PrimFunc)
    return func


def check_tiles(func: PrimFunc, made: PrimFunc, n: int, m: int) -> None:
    results = []
    for one in (func, made):
        rng = np.random.default_rng(0)
        a, b, c = (rng.integers(-9, 9, 512).astype("float32") for _ in range(3))
        run(one, a, b, c, n, m)
        results.append([a, b, c])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=f"n = {n}, m = {m}")


@pytest.mark.parametrize(("update", "transposed"), TILES)
@pytest.mark.parametrize(
    ("rows", "columns", "low"),
    [("4", "4", 0), ("8", "11", 1), ("5", "16", 0), ("3", "9", 0), ("n", "m", 1)],
)
def test_tiles(update: str, transposed: bool, rows: str, columns: str, low: int) -> None:
    func = tiles(update, rows, columns, low)
    made = vectorize_loops(func)
    sizes = [(0, 0)] if rows != "n" else [(0, 5), (5, 0), (4, 4), (9, 6), (3, 10), (8, 3)]
    for n, m in sizes:
        check_tiles(func, made, n, m)
    assert ("transposed" in show(made)) is (transposed and rows != "3")
    assert "vector_tile" not in show(made)
