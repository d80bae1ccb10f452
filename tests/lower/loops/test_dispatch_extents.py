"""Unrolled loops of open, small extents: a copy of what is around them for each extent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import build
from tileloom.expr import IntImm
from tileloom.lower.loops import dispatch_extents
from tileloom.script import from_source
from tileloom.tir import UNROLLED, For, PrimFunc, collect, run

TILE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    for t in range((n + 3) // 4):
        acc = T.decl_buffer((4,), "float32", scope="local")
        for i in T.unroll(T.min(n - t * 4, 4)):
            acc[i] = T.float32(1.0)
        for k in range(8):
            for i in T.unroll(T.min(n - t * 4, 4)):
                acc[i] = acc[i] + A[t * 4 + i, k]
        for i in T.unroll(T.min(n - t * 4, 4)):
            for k in range(8):
                B[t * 4 + i, k] = acc[i]
"""


def function(text: str) -> PrimFunc:
    func: Any = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def unrolled(func: PrimFunc) -> list[For]:
    return [loop for loop in collect(func.body, For) if loop.kind == UNROLLED]


def check(func: PrimFunc, *sizes: int) -> None:
    rng = np.random.default_rng(0)
    kernel = build(func)
    for n in sizes:
        a = rng.integers(-4, 5, (n, 8)).astype("float32")
        results = [np.zeros((n, 8), "float32") for _ in range(3)]
        run(func, a, results[0])
        run(dispatch_extents(func), a, results[1])
        kernel(a, results[2])
        assert results[0].any()
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])


def test_a_copy_for_each_height() -> None:
    """Four copies with three loops each, of constant extents; for 0 there are none."""
    func = function(TILE)
    loops = unrolled(dispatch_extents(func))
    extents = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
    assert sorted(extents) == sorted([1, 2, 3, 4] * 3) and len(extents) == len(loops)
    check(func, 1, 2, 3, 4, 5, 7, 8, 22)


def test_one_loop_alone() -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    for j in range(8):
        for i in T.unroll(T.min(n, 3)):
            B[i, j] = 1.0
            for k in range(8):
                B[i, j] = B[i, j] + A[i, k]
"""
    func = function(text)
    assert len(unrolled(dispatch_extents(func))) == 3
    check(func, 1, 2, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.min(n - t * 4, 4)", "n - t * 4"),  # nobody knows how much that is
        ("T.min(n - t * 4, 4)", "T.min(n - t * 4, 40)"),  # 40 copies are too many
    ],
)
def test_what_stays(old: str, new: str) -> None:
    func = function(TILE.replace(old, new))
    assert dispatch_extents(func) is func


def test_an_extent_that_depends_on_a_loop_within() -> None:
    """It is settled inside of that loop."""
    tail = """
        for k in range(8):
            for i in T.unroll(T.min(T.max(n - t * 4 - k % 3, 0), 4)):
                B[t * 4 + i, k] = acc[i]
"""
    head, _ = TILE.split("        for i in T.unroll(T.min(n - t * 4, 4)):\n            for k")
    func = function(head.rstrip() + tail)
    fixed = [
        e
        for e in (loop.extent for loop in unrolled(dispatch_extents(func)))
        if isinstance(e, IntImm)
    ]
    # The first two loops four times; the last one four times for each of them and where they are 0.
    assert len(fixed) == 4 * (2 + 4) + 4
    check(func, 1, 3, 4, 9)
