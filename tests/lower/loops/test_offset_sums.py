"""Sums of dot products of bytes in offset binary, as machine code, interpreted and as text."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from tileloom import build
from tileloom.lower.loops import offset_sums
from tileloom.script import parse
from tileloom.tir import PrimFunc, run

HEAD = """
@T.prim_func
def main(A: T.Buffer((24,), "int32"), B: T.Buffer((192,), "int32"), C: T.Buffer((96,), "int32")):
"""
TILE = """
for k in range(6):
    for r in T.unroll(3):
        for j in T.vectorized(16):
            C[r * 16 + j] = C[r * 16 + j] + T.dot_o8{kind}(0, A[r * 6 + k], B[k * 16 + j])
"""


def function(body: str) -> PrimFunc:
    func = parse(HEAD + textwrap.indent(body, "    "))
    assert isinstance(func, PrimFunc)
    return func


def words() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-(2**31), 2**31, n).astype("int32") for n in (24, 192, 96))
    a[:3], b[:2] = (-1, 0, -0x7F7F7F80), (-0x7F7F7F80, 0x7F7F7F7F)
    return [a, b, c]


def check(func: PrimFunc) -> None:
    """The same results: of the program as it was, of the new one, and of machine code."""
    want, *others = (words() for _ in range(3))
    run(func, *want)
    run(offset_sums(func), *others[0])
    build(func)(*others[1])
    for got in others:
        np.testing.assert_array_equal(got[2], want[2])


@pytest.mark.parametrize(("kind", "plain"), [("s8", "dot_u8s8"), ("u8", "dot_s8u8")])
def test_rows_have_the_sums_of_columns_in_common(kind: str, plain: str) -> None:
    func = function(TILE.format(kind=kind))
    check(func)
    made = offset_sums(func).script()
    assert "dot_o8" not in made and made.count(plain) == 2
    assert 'T.allocate([16], "int32"' in made


def test_one_sum_for_each_part_of_the_columns() -> None:
    """In the order of the loops, whichever of them the right factor knows."""
    func = function("""
for k in range(2):
    for v in T.unroll(3):
        for r in range(2):
            for j in T.vectorized(16):
                C[r * 48 + v * 16 + j] = (
                    C[r * 48 + v * 16 + j]
                    + T.dot_o8s8(0, A[r * 6 + k], B[k * 48 + v * 16 + j])
                )
""")
    check(func)
    assert 'T.allocate([48], "int32"' in offset_sums(func).script()


@pytest.mark.parametrize(
    "body",
    [
        # It is not the sum of one element that the loop makes.
        "for k in range(6):\n    C[k] = C[k] + T.dot_o8s8(0, A[k], B[k])\n",
        # What it adds to is a factor.
        "for k in range(6):\n    C[1] = C[1] + T.dot_o8s8(0, A[k], C[k])\n",
        # Nothing is added to what was there.
        "for k in range(6):\n    C[1] = C[2] + T.dot_o8s8(0, A[k], B[k])\n",
        # How many sums there are depends on the step.
        "for k in range(6):\n    for r in range(k):\n"
        "        C[r] = C[r] + T.dot_o8s8(0, A[r], B[k])\n",
        "for k in range(6):\n    for r in range(4):\n        for q in range(r):\n"
        "            C[r * 4 + q] = C[r * 4 + q] + T.dot_o8s8(0, A[r], B[k * 4 + q])\n",
        # There is no end to the columns.
        "for k in range(1):\n    for j in range(150):\n"
        "        C[j // 2] = C[j // 2] + T.dot_o8s8(0, A[k], B[j])\n",
    ],
)
def test_what_stays_as_it_is(body: str) -> None:
    func = function(body)
    assert offset_sums(func) is func
    check(func)


def test_other_statements_in_the_loop() -> None:
    func = function("""
for k in range(6):
    C[0] = C[0] + T.dot_o8s8(0, A[k], B[k])
    C[1] = C[1] + 1
""")
    assert offset_sums(func) is func
    check(func)
