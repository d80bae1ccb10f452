"""Arrays of a thread are registers: no index into them is left to the run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import check_gpu, gpu_lower
from tileloom import assembly
from tileloom.lower.gpu.unroll_register_loops import unroll_register_loops
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.script import tir as T
from tileloom.tir import For, IRModule, PrimFunc, collect


def program(size: int, other: int = 0) -> PrimFunc:
    """exp(exp(A)), through an array of each thread; and a loop that has nothing to do with it."""

    @T.prim_func
    def func(A: T.Buffer((size * 8,), "float32"), B: T.Buffer((size * 8,), "float32")) -> None:
        with T.block("root"):
            L = T.alloc_buffer((size,), "float32", scope="local")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for k in range(size):
                    L[k] = T.exp(T.exp(A[k * 8 + t]))
                for k in range(size):
                    B[k * 8 + t] = L[size - 1 - k]
                for k in range(other):
                    B[t] = B[t] + T.Cast("float32", k)

    return func


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_no_array_in_memory(size: int) -> None:
    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.exp(np.exp(A)).reshape(size, 8)[::-1].reshape(-1)]

    flat = check_gpu(program(size), reference)
    assert not collect(flat.body, For)
    ptx = assembly(IRModule({"main": program(size)}), "cuda -arch=sm_80")
    assert not re.search(r"\b(ld|st)\.local", ptx)


def test_without_it_llvm_leaves_arrays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for the pass: when this fails, LLVM does it as well."""
    rest = [step for step in GPU_PIPELINE if step is not unroll_register_loops]
    monkeypatch.setattr("tileloom.lower.pipeline.GPU_PIPELINE", rest)
    ptx = assembly(IRModule({"main": program(16)}), "cuda -arch=sm_80")
    assert re.search(r"\b(ld|st)\.local", ptx)


def test_other_loops_and_long_ones_stay() -> None:
    assert len(collect(gpu_lower(program(4, other=10)).body, For)) == 1
    assert len(collect(gpu_lower(program(600)).body, For)) == 2


def test_nests_up_to_a_limit() -> None:
    def matrix(side: int) -> PrimFunc:
        @T.prim_func
        def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
            with T.block("root"):
                L = T.alloc_buffer((side, side), "float32", scope="local")
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    for i, j in T.grid(side, side):
                        L[i, j] = A[t]
                    B[t] = L[0, 0]

        return func

    assert len(collect(gpu_lower(matrix(8)).body, For)) == 0
    assert len(collect(gpu_lower(matrix(32)).body, For)) == 1  # the inner one is written out


def test_a_loop_on_the_cpu_stays() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            L = T.alloc_buffer((8,), "float32", scope="local")
            for k in range(8):
                L[k] = A[k]
            for k in range(8):
                B[k] = L[7 - k]

    assert unroll_register_loops(func) is func


def test_numbers_of_fragments_and_names() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            L = T.alloc_buffer((8,), "float32", scope="local")
            F = T.alloc_buffer((1024,), "float32", scope="wmma.accumulator")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for n in range(4):
                    T.evaluate(
                        T.tvm_fill_fragment(F.data, 16, 16, 16, n, T.float32(0), dtype="handle")
                    )
                for k in range(8):
                    at: T.int32 = 7 - k
                    L[at] = A[k]
                if t < 8:
                    B[t] = L[0]

    assert not collect(gpu_lower(func).body, For)


def test_elements_that_nobody_uses_cost_nothing() -> None:
    """Every fourth element of an array of a thread: no index has to be divided."""

    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        with T.block("root"):
            L = T.alloc_buffer((16,), "float32", scope="local")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for k in range(4):
                    L[k * 4] = T.exp(A[k * 8 + t])
                for k in range(4):
                    B[k * 8 + t] = L[12 - k * 4]

    check_gpu(func, lambda A, B: [np.exp(A).reshape(4, 8)[::-1].reshape(-1)])
    ptx = assembly(IRModule({"main": func}), "cuda -arch=sm_80")
    assert ".local" not in ptx
