"""Global memory that a thread reads twice, in straight lines and in sibling loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import check_gpu, gpu_lower
from tileloom import assembly
from tileloom.expr import post_order
from tileloom.lower.gpu.eliminate_common_loads import eliminate_common_loads
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.tir import Allocate, BufferLoad, IRModule, PrimFunc, collect, pre_order, stmt_exprs

BEFORE = GPU_PIPELINE[: GPU_PIPELINE.index(eliminate_common_loads)]


def reads(func: PrimFunc, name: str) -> int:
    """How many different loads of a buffer there are, each statement by itself."""
    return sum(
        isinstance(node, BufferLoad) and node.buffer.data.name == name
        for stmt in pre_order(func.body)
        for expr in stmt_exprs(stmt)
        for node in post_order(expr)
    )


def kept(func: PrimFunc) -> list[int]:
    """The sizes of the arrays that the pass makes."""
    found: Any = collect(eliminated(func).body, Allocate)
    return sorted(int(a.extents[0]) for a in found if a.buffer_var.name == "kept")


def eliminated(func: PrimFunc) -> PrimFunc:
    return gpu_lower(func, (*BEFORE, eliminate_common_loads))


def two_loops(
    n: int = 24,
    threads: int = 8,
    first: Callable[..., Any] = lambda k, t: k * 8 + t,
    second: Callable[..., Any] | None = None,
    more: Any = None,
) -> PrimFunc:
    """B[t] = the sum of some of A; C[..] = A + B[t], with a store of `more` in between."""
    other = second or first
    steps = -(-n // threads)

    @T.prim_func
    def func(
        A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((64,), "float32")
    ) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(threads, thread="threadIdx.x"):
            B[t] = T.float32(0)
            for k in range(steps):
                if k * threads + t < n:
                    B[t] = B[t] + A[first(k, t)]
            for j in range(steps):
                if j * threads + t < n:
                    C[other(j, t)] = A[other(j, t)] + B[t]

    return func


@pytest.mark.parametrize("n", [8, 17, 24, 31])
def test_sibling_loops_share_what_they_read(n: int) -> None:
    def reference(
        A: np.ndarray[Any, Any], B: np.ndarray[Any, Any], C: np.ndarray[Any, Any]
    ) -> list[np.ndarray[Any, Any]]:
        sums = np.array([A[t:n:8].sum() for t in range(8)], "f")
        want = C.copy()
        want[:n] = A[:n] + np.tile(sums, 8)[:n]
        return [sums, want]

    flat = check_gpu(two_loops(n), reference)
    assert "kept" in str(flat)
    flat = eliminated(two_loops(n))
    assert reads(flat, "A") == 1
    assert kept(two_loops(n)) == [-(-n // 8)]


def test_loads_in_a_row() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t] * T.float32(2)
            B[t] = B[t] + A[t]
            B[t] = B[t] + A[7 - t]

    check_gpu(func, lambda A, B: [3 * A + A[::-1]])
    assert reads(eliminated(func), "A") == 2
    assert kept(func) == [1]


def test_a_choice_is_kept_as_a_whole() -> None:
    """What it reads where the condition fails is outside of the buffer."""

    @T.prim_func
    def func(A: T.Buffer((5,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = T.if_then_else(t < 5, A[t], T.float32(1))
            B[t] = B[t] * T.if_then_else(t < 5, A[t], T.float32(1))

    check_gpu(func, lambda A, B: [np.concatenate([A * A, np.ones(3)])])
    flat = eliminated(func)
    assert reads(flat, "A") == 1
    assert str(flat).count("if_then_else") == 1


def test_values_that_are_not_numbers_stay() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            B[t] = B[t] + A[t]

    a = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1e38, -1e38], "f")
    b = np.zeros(8, "f")
    with np.errstate(over="ignore"):
        run_kernels(gpu_lower(func), a, b)
        np.testing.assert_array_equal(b, a + a)


def test_vectors() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(2):
                for v in T.vectorized(4):
                    B[k * 32 + t * 4 + v] = A[k * 32 + t * 4 + v]
            for k in range(2):
                for v in T.vectorized(4):
                    B[k * 32 + t * 4 + v] = B[k * 32 + t * 4 + v] * A[k * 32 + t * 4 + v]

    check_gpu(func, lambda A, B: [A * A])
    assert kept(func) == [8]
    assert reads(eliminated(func), "A") == 1


# ---------------------------------------------------------------------------- where it must not


def test_memory_that_the_kernel_writes_is_read_again() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            A[t] = T.float32(3)
            B[t] = B[t] + A[t]

    check_gpu(func, lambda A, B: [np.full(8, 3, "f"), A + 3])
    assert kept(func) == []


def test_memory_that_atomic_calls_write_is_read_again() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            T.evaluate(T.atomic_add(T.address_of(A[t]), 1))
            B[t] = B[t] + A[t]

    assert kept(func) == []


def test_buffers_that_may_be_one() -> None:
    func = two_loops()
    assert kept(func) == [3]
    assert kept(func.without_attr("tir.noalias")) == []


def test_conditions_of_the_first_that_the_second_has_not() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            if t < 4:
                B[t] = A[t]
            B[t] = A[t] + T.float32(1)

    check_gpu(func, lambda A, B: [A + 1])
    assert kept(func) == []


def test_conditions_that_memory_decides_are_no_place_to_keep() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            if B[t] > T.float32(0):
                B[t] = A[t] - T.float32(5)
            if B[t] > T.float32(0):
                B[t] = A[t] + T.float32(1)

    check_gpu(func, lambda A, B: [np.where(B > 0, A - 5, B)])
    assert kept(func) == []


@pytest.mark.parametrize(
    "second",
    [
        lambda k, t: (k + 1) % 3 * 8 + t,  # the same elements in another order
        lambda k, t: k * 8 + 7 - t,
        lambda k, t: k * 8 + t + 1,
    ],
)
def test_other_elements(second: Callable[..., Any]) -> None:
    assert kept(two_loops(second=second)) == []


def test_loops_that_begin_elsewhere() -> None:
    @T.prim_func
    def func(A: T.Buffer((24,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = T.float32(0)
            for k in range(2):
                B[t] = B[t] + A[k * 8 + t]
            for k in range(1, 3):
                B[t] = B[t] + A[k * 8 + t] * T.float32(2)

    check_gpu(func, lambda A, B: [A[:8] + 3 * A[8:16] + 2 * A[16:]])
    assert kept(func) == []


def test_too_many_registers() -> None:
    @T.prim_func
    def func(A: T.Buffer((512,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = T.float32(0)
            for k in range(17):
                B[t] = B[t] + A[k * 8 + t]
            for k in range(17):
                B[t] = B[t] + A[k * 8 + t]

    assert kept(func) == []


def test_gathers_read_again() -> None:
    """An index that is read is no constant: what it is read from may change."""

    @T.prim_func
    def func(
        A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")
    ) -> None:
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[I[t]]
            B[t] = B[t] + A[I[t]]

    flat = eliminated(func)
    assert reads(flat, "A") == 2


def test_twice_is_once() -> None:
    once = eliminated(two_loops())
    assert eliminate_common_loads(once) is once


def test_fewer_loads_in_ptx() -> None:
    module = IRModule({"main": two_loops(31)})
    ptx = assembly(module, "cuda -arch=sm_80")
    assert len(re.findall(r"ld\.global", ptx)) <= 5  # four of A, and one of B where it is kept
    assert ".local" not in ptx


def test_straight_lines_of_other_memory_are_left_to_llvm() -> None:
    """It sees that nothing comes between, also past stores elsewhere and a barrier."""

    @T.prim_func
    def func(
        A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")
    ) -> None:
        T.func_attr({"tir.noalias": True})
        with T.block("root"):
            S = T.alloc_buffer((64,), "float32", scope="shared")
            for t in T.thread_binding(64, thread="threadIdx.x"):
                S[t] = A[t]
                A[t] = A[t] + T.float32(1)
                B[t] = A[t] * S[63 - t]
                C[t] = A[t] + S[63 - t]

    assert kept(func) == []
    ptx = assembly(IRModule({"main": func}), "cuda -arch=sm_80")
    assert re.findall(r"ld\.(global|shared)", ptx) == ["global", "shared"]
