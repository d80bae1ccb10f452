"""Kernels that check their indices when they run."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import build, te
from tileloom import numpy as tnp
from tileloom.base.errors import OutOfBoundsError, UnsupportedError
from tileloom.base.settings import override
from tileloom.driver import show_stage
from tileloom.expr import Expr, Select, const
from tileloom.frontend.jit import Array
from tileloom.lower import lower
from tileloom.lower.analysis.guarded_accesses import accesses_in
from tileloom.lower.blocks.check_accesses import check_accesses
from tileloom.runtime import Kernel
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.target import target
from tileloom.tir import BufferLoad, PrimFunc, make_buffer, run

GATHER = """
from tileloom.script import tir as T

@T.prim_func
def gather(A: T.Buffer((16,), "float32"), I: T.Buffer((64,), "int32"),
           B: T.Buffer((64,), "float32")):
    for i in T.KIND(64):
        with T.block("b"):
            v = T.axis.spatial(64, i)
            B[v] = A[I[v]]
"""


def gather(kind: str) -> PrimFunc:
    func = from_source(GATHER.replace("KIND", kind))
    assert isinstance(func, PrimFunc)
    return func


def outside(kernel: Kernel, *args: np.ndarray[Any, Any] | int) -> str:
    with pytest.raises(OutOfBoundsError) as caught:
        kernel(*args)
    return str(caught.value)


@pytest.mark.parametrize("bad", [16, -1, 10**9, -(2**31)])
@pytest.mark.parametrize("kind", ["serial", "vectorized", "parallel", "unroll"])
def test_an_index_outside_is_found_in_loops_of_all_kinds(kind: str, bad: int) -> None:
    kernel = build(gather(kind), checked=True)
    a, b = np.arange(16, dtype="f4"), np.zeros(64, "f4")
    at = np.arange(64, dtype="i4") % 16
    kernel(a, at, b)
    assert b.tolist() == a[at].tolist()
    at[37] = bad
    text = outside(kernel, a, at, b)
    assert f"the index I[i] of axis 0 is {bad}, and A has 16 elements" in text
    assert "B[i] = A[I[i]]" in text and "^^^" in text


def test_a_store_outside_touches_nothing() -> None:
    @T.prim_func
    def func(n: T.int32, B: T.Buffer((8,), "int32")) -> None:
        for i in range(8):
            B[i + n] = i + 1

    memory = np.zeros(24, "i4")
    kernel = build(func, checked=True)
    assert "is 8, and B has 8" in outside(kernel, 3, memory[8:16])
    assert not memory[:8].any() and not memory[16:].any()
    assert memory[8:16].tolist() == [0, 0, 0, 1, 2, 3, 4, 5]
    assert "is -2" in outside(kernel, -2, memory[8:16])
    assert not memory[:8].any()


def test_vector_loops_stay_vector_loops() -> None:
    """Neighbours, under a guard that differs between lanes, from a place that is not known."""

    @T.prim_func
    def func(n: T.int32, A: T.Buffer((16,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        for i in T.vectorized(32):
            B[i] = T.if_then_else(i < 10, A[i + n], T.float32(0))

    flat = str(lower(func, checked=True))
    assert "T.Ramp" in flat or ":" in flat.split("T.check_index")[1]
    a, b = np.arange(16, dtype="f4"), np.ones(32, "f4")
    kernel = build(func, checked=True)
    kernel(6, a, b)
    assert b.tolist() == [*range(6, 16), *[0] * 22]
    assert "the index i + n of axis 0 is 16" in outside(kernel, 7, a, b)
    assert "is -1" in outside(kernel, -1, a, b)


def test_views_are_checked_against_themselves_and_their_sources() -> None:
    @T.prim_func
    def func(
        n: T.int32, m: T.int32, A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")
    ) -> None:
        for i in T.parallel(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                T.reads(A[0:16, 0:16])
                T.writes(B[v * 4 : v * 4 + 4, 0:16])
                V = T.match_buffer(A[v * 4 + m : v * 4 + m + 4, 0:16], (4, 16), offset_factor=1)
                for j, k in T.grid(4, 16):
                    B[v * 4 + j, k] = V[j + n, k]

    a, b = np.arange(256, dtype="f4").reshape(16, 16), np.zeros((16, 16), "f4")
    kernel = build(func, checked=True)
    kernel(0, 0, a, b)
    assert (a == b).all()
    assert "V[j + n, k]: the index j + n of axis 0 is 4, and V has 4" in outside(kernel, 1, 0, a, b)
    assert "is 16, and A has 16 elements" in outside(kernel, 0, 1, a, b)


def test_rows_are_checked_one_by_one() -> None:
    """The end of a row is not the beginning of the next."""

    @T.prim_func
    def func(n: T.int32, A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")) -> None:
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j + n]

    a = np.arange(32, dtype="i4").reshape(4, 8)
    kernel = build(func, checked=True)
    kernel(0, a, a.copy())
    assert "of axis 1 is 8" in outside(kernel, 1, a, a.copy())


def test_flat_code_and_unknown_sizes() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, by: T.int32) -> None:
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i * by]

    kernel = build(lower(func), checked=True)
    for n in (0, 1, 5, 1000):
        a, b = np.arange(n, dtype="f4"), np.zeros(n, "f4")
        kernel(a, b, 1)
        assert (a == b).all()
    assert f"is {2 * 500}, and A has 1000 elements" in outside(kernel, a, b, 2)


def test_vectors_of_a_flat_program() -> None:
    @T.prim_func
    def func(A: T.Buffer((19,), "int32"), n: T.int32, B: T.Buffer((16,), "int32")) -> None:
        B[0:16] = A[T.Ramp(n, 1, 16)]

    a, b = np.arange(19, dtype="i4"), np.zeros(16, "i4")
    kernel = build(func, checked=True)
    for n in (0, 3):
        kernel(a, n, b)
        assert b.tolist() == [*range(n, n + 16)]
    assert "is 19, and A has 19" in outside(kernel, a, 4, b)
    assert "is -1, and A has 19" in outside(kernel, a, -1, b)


def test_the_rest_of_a_loop_of_vectors_is_checked_where_it_is_wanted() -> None:
    @T.prim_func
    def func(a: T.handle, by: T.int32, B: T.Buffer((1,), "float32")) -> None:
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B[0] = T.float32(0)
        for i in T.serial(n, annotations={"vector_lanes": 4, "vector_parts": 2}):
            B[0] = B[0] + A[i + by]

    assert "Ramp" in str(lower(func, checked=True)).split("check_index")[1]
    kernel = build(func, checked=True)
    for n in (0, 1, 3, 4, 7, 8, 9, 13):
        a, b = np.arange(n, dtype="f4"), np.zeros(1, "f4")
        kernel(a, 0, b)
        assert b[0] == a.sum()
        if n:
            assert f"is {n}, and A has {n} elements" in outside(kernel, a, 1, b)


def test_one_load_for_all_lanes() -> None:
    @T.prim_func
    def func(
        n: T.int32,
        M: T.Buffer((8,), "int32"),
        A: T.Buffer((4,), "int32"),
        B: T.Buffer((8,), "int32"),
    ) -> None:
        for i in T.vectorized(8):
            B[i] = T.if_then_else(M[i] > 0, A[n], 0)

    kernel = build(func, checked=True)
    a, b, none, some = np.arange(4, dtype="i4"), np.ones(8, "i4"), np.zeros(8, "i4"), np.eye(8)[3]
    kernel(9, none, a, b)
    assert not b.any()
    assert "is 9, and A has 4" in outside(kernel, 9, some.astype("i4"), a, b)


def test_a_loop_that_waits_for_what_is_outside_ends() -> None:
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((4,), "int32")) -> None:
        while A[0] < 10:
            A[n] = A[0] + 1

    kernel = build(func, checked=True)
    a = np.zeros(4, "i4")
    kernel(0, a)
    assert a[0] == 10
    a[0] = 0
    assert "is 9, and A has 4" in outside(kernel, 9, a)


def test_conditions_of_loops_and_branches_are_checked() -> None:
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")) -> None:
        if A[n] > 0:
            B[0] = 1
        for i in range(A[n + 1]):
            B[i % 4] = i
        while A[n + 2] > B[1]:
            B[1] = B[1] + 1

    kernel = build(func, checked=True)
    kernel(0, np.ones(4, "i4"), np.zeros(4, "i4"))
    for n, bad in ((4, 4), (3, 4), (2, 4), (-1, -1)):
        assert f"is {bad}, and A has 4" in outside(kernel, n, np.ones(4, "i4"), np.zeros(4, "i4"))


def test_memory_of_a_kernel_that_stops_is_freed() -> None:
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((16,), "int32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((1 << 22,), "int32")
            for i in range(1 << 22):
                S[i] = n
            A[S[n]] = S[5]

    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        found = re.search(r"VmSize:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    kernel = build(func, checked=True)
    a = np.zeros(16, "i4")
    outside(kernel, 99, a)
    gc.collect()
    before = resident()
    for _ in range(20):
        outside(kernel, 99, a)
    assert resident() - before < 5 * (1 << 14)  # of 16 MiB each


def test_the_first_of_many_threads_is_reported() -> None:
    """Every worker fails; the kernel can be called again."""
    kernel = build(gather("parallel"), checked=True)
    a, b = np.arange(16, dtype="f4"), np.zeros(64, "f4")
    for _ in range(5):
        assert "is 99, and A has 16" in outside(kernel, a, np.full(64, 99, "i4"), b)
        kernel(a, np.zeros(64, "i4"), b)


def test_what_a_called_function_says_arrives() -> None:
    module = from_source("""
from tileloom.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(n: T.int32, A: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            T.evaluate(T.call_extern("int32", "inner", n, A.data))

    @T.prim_func
    def inner(n: T.int32, A: T.Buffer((4,), "int32")):
        A[n] = 1
""")
    kernels = build(module, checked=True)
    kernels["main"](2, np.zeros(4, "i4"))
    assert "A[n]: the index n of axis 0 is 4" in outside(kernels["main"], 4, np.zeros(4, "i4"))


def test_only_what_is_in_doubt_is_checked() -> None:
    A = te.placeholder((37, 5), name="A")
    inside = te.create_prim_func([A, te.compute((36, 5), lambda i, j: A[i + 1, j], name="Z")])
    assert check_accesses(inside) is inside
    assert "check_index" not in str(lower(gather("serial")))
    assert str(lower(gather("serial"), checked=True)).count("check_index") == 1
    assert "tileloom_fault" not in show_stage(gather("serial"), "llvm")


def test_the_interpreter_knows_checks() -> None:
    flat = lower(gather("vectorized"), checked=True)
    a, at, b = np.arange(16, dtype="f4"), np.arange(64, dtype="i4") % 16, np.zeros(64, "f4")
    run(flat, a, at, b)
    assert (b == a[at]).all()
    at[9] = 20
    with pytest.raises(OutOfBoundsError, match="is 20, and A has 16"):
        run(flat, a, at, b)


def test_the_setting_holds_for_functions_under_jit() -> None:
    x = np.random.default_rng(0).standard_normal((33, 17)).astype("f4")
    at = np.array([3, 0, 32], "i4")

    def program(x: Any, at: Array) -> tuple[Array, ...]:
        return tnp.exp(x - x.max(axis=1, keepdims=True)).sum(axis=0), x[at] * 2

    plain = tileloom.jit(program)(x, at)
    with override(check=True):
        checked = tileloom.jit(program)(x, at)
    for a, b in zip(plain, checked, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_checked_builds_have_their_own_place_in_the_cache() -> None:
    func = gather("serial")
    a, b, at = np.arange(16, dtype="f4"), np.zeros(64, "f4"), np.zeros(64, "i4")
    for checked in (True, False, True):
        build(func, checked=checked)(a, at, b)
    at[5] = 16
    outside(build(func, checked=True), a, at, b)
    with override(check=True):
        outside(build(func), a, at, b)


def test_kernels_for_gpus_check_nothing() -> None:
    assert str(lower(gather("serial"), target("cuda"), checked=True)).count("check_index") == 0
    with pytest.raises(UnsupportedError, match=r"emulator|GPU"):
        build(gather("serial"), "cuda", checked=True)


def test_choices_that_share_their_parts_are_walked_once() -> None:
    a = make_buffer((8,), "float32", "a")
    value: Expr = BufferLoad(a, [const(0)])
    for k in range(200):  # as a tree, more paths than there are atoms
        value = Select(value < const(float(k)), value + const(1.0), value * const(2.0))
    assert len(accesses_in([value])) == 1
