"""int32 arithmetic that would overflow is done in int64; what fits is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import build
from tileloom.expr import substitute
from tileloom.lower import lower
from tileloom.lower.loops.widen_index_dtype import widen_index_dtype
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.tir import BufferStore, For, LetStmt, PrimFunc, collect, map_exprs, seq


def places(func: PrimFunc) -> list[str]:
    """The types of the places that are stored to, as flat code has them."""
    return [str(store.indices[0].dtype) for store in collect(lower(func).body, BufferStore)]


@pytest.mark.parametrize(("step", "expected"), [(30678337, "int32"), (30678338, "int64")])
def test_the_edge_of_a_product(step: int, expected: str) -> None:
    """70 * 30678337 is the last multiple of 70 steps below 2**31."""

    @T.prim_func
    def func(A: T.Buffer((T.int64(1 << 32),), "int8")) -> None:
        for i in range(71):
            A[i * step] = T.int8(1)

    (store,) = collect(widen_index_dtype(func).body, BufferStore)
    assert str(store.indices[0].dtype) == expected


def test_what_fits_is_the_very_same_function() -> None:
    @T.prim_func
    def func(A: T.Buffer((4096,), "int8"), n: T.int32) -> None:
        for i, j in T.grid(64, n):
            k: T.int32 = i * 64 + j % 64
            A[k] = T.Cast("int8", i * n)

    assert widen_index_dtype(func) is func


def test_parts_names_and_conditions() -> None:
    """(i * 2**20) // 2**20 is i, also where the product leaves 32 bits."""

    @T.prim_func
    def func(A: T.Buffer((4096,), "int32"), B: T.Buffer((4096,), "int32")) -> None:
        for i in range(4096):
            far: T.int32 = i * 1048576
            A[far // 1048576] = i
            if i * 1048576 >= 2147483647:
                B[T.min(i * 1048576, far) // 1048576] = 1

    a, b = np.zeros(4096, np.int32), np.zeros(4096, np.int32)
    build(func)(a, b)
    np.testing.assert_array_equal(a, np.arange(4096))
    np.testing.assert_array_equal(b, np.arange(4096) >= 2048)
    wide = widen_index_dtype(func)
    assert [str(let.var.dtype) for let in collect(wide.body, LetStmt)] == ["int64"]
    assert [str(loop.loop_var.dtype) for loop in collect(wide.body, For)] == ["int32"]


def test_values_are_cut_to_their_type() -> None:
    """What is stored as int32 wraps as int32 does, whatever it is computed in."""

    @T.prim_func
    def func(A: T.Buffer((5000,), "int32"), B: T.Buffer((5000,), "int64")) -> None:
        for i in range(5000):
            A[i] = i * 1103515245
            B[i] = T.Cast("int64", i * 1103515245)

    a, b = np.zeros(5000, np.int32), np.zeros(5000, np.int64)
    build(func)(a, b)
    exact = np.arange(5000, dtype=np.int64) * 1103515245
    np.testing.assert_array_equal(a, exact.astype(np.int32))
    np.testing.assert_array_equal(b, exact)


def test_computed_places_are_bounded_by_what_clamps_them() -> None:
    @T.prim_func
    def func(A: T.Buffer((T.int64(4900000000),), "int8"), I: T.Buffer((8,), "int32")) -> None:
        for i in range(8):
            A[T.max(T.min(I[i], 69999), 0) * 70000 + 3] = T.int8(1)

    assert places(func) == ["int64"]


def test_one_variable_in_loops_of_two_lengths() -> None:
    """A range holds for its own loop."""

    @T.prim_func
    def func(A: T.Buffer((T.int64(1 << 33),), "int8")) -> None:
        for i in range(4096):
            A[i * 1048576] = T.int8(1)
        for j in range(4):
            A[j * 1048576] = T.int8(2)

    first, second = collect(func.body, For)
    shared = first.loop_var
    renamed = map_exprs(second.body, lambda e: substitute(e, {second.loop_var: shared}))
    both = func.replace(body=seq(second.replace(loop_var=shared, body=renamed), first))
    kinds = [str(s.indices[0].dtype) for s in collect(widen_index_dtype(both).body, BufferStore)]
    assert kinds == ["int32", "int64"]


@pytest.mark.parametrize(
    ("start", "index", "kind"),
    [
        ('t = T.launch_thread("threadIdx.x", 71)', "t * 30678337", "int32"),
        ('t = T.launch_thread("threadIdx.x", 71)', "t * 30678338", "int64"),
        ('t = T.launch_thread("threadIdx.x", 71)', "(t - 70) * 30678338", "int64"),
        ('t = T.launch_thread("threadIdx.x", 71)', "(t - 70) * 30678337", "int32"),
        ('t = T.launch_thread("threadIdx.x", 1)', "(t + 1) * 2147483647", "int32"),
        ('t = T.launch_thread("threadIdx.x", 2)', "(t + 1) * 2147483647", "int64"),
        ('t = T.launch_thread("vthread.x", 71)', "t * 30678338", "int64"),
        ("for t in range(3, 71):", "(t - 73) * 30678337", "int32"),
        ("for t in range(3, 71):", "(t - 73) * 30678338", "int64"),
        ("for t in range(71):", "T.Select(t > 3, t, 0) * 30678338", "int64"),
        ("for t in range(71):", "T.if_then_else(t > 3, t * 30678338, 0) // 2", "int64"),
        ("for t in range(71):", "T.if_then_else(t > 3, t * 30678337, 0) // 2", "int32"),
        ("for t in range(71):", "n * 30678338", "int32"),
    ],
)
def test_ranges_of_threads_and_loops(start: str, index: str, kind: str) -> None:
    indent = "    " if start.endswith(":") else ""
    func = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((T.int64(1 << 33),), "int8"), n: T.int32):\n'
        f"    {start}\n    {indent}A[{index}] = T.int8(1)\n"
    )
    assert isinstance(func, PrimFunc)
    (store,) = collect(widen_index_dtype(func).body, BufferStore)
    assert str(store.indices[0].dtype) == kind
