"""Barriers in branches that threads take differently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import check_gpu, gpu_lower, syncs
from tileloom.base.errors import VerifyError
from tileloom.lower.analysis.threads import is_sync
from tileloom.lower.gpu.hoist_barriers import hoist_barriers
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import IfThenElse, PrimFunc, collect, pre_order, structural_equal


def inside_branches(func: PrimFunc) -> int:
    """Barriers under some branch."""
    branches = collect(func.body, IfThenElse)
    return sum(is_sync(node) for branch in branches for node in pre_order(branch))


def without_hoisting(func: PrimFunc) -> PrimFunc:
    return gpu_lower(func, [step for step in GPU_PIPELINE if step is not hoist_barriers])


def reversed_half() -> PrimFunc:
    """Four of eight threads turn their elements round through shared memory."""

    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 4:
                    S[t] = A[t]
                    B[t] = S[3 - t]

    return func


def test_a_branch_is_split_at_its_barriers() -> None:
    func = reversed_half()

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.concatenate([A[3::-1], B[4:]])]

    flat = check_gpu(func, reference)
    assert (syncs(flat), inside_branches(flat)) == (1, 0)
    assert len(collect(flat.body, IfThenElse)) == 2
    with pytest.raises(KernelDefect, match="barrier"):
        run_kernels(without_hoisting(func), np.zeros(8, "f"), np.zeros(8, "f"))


def test_both_sides() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            R = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 4:
                    S[t] = A[t]
                    B[t] = S[3 - t]
                else:
                    R[t] = A[t] * T.float32(2)
                    B[t] = R[11 - t]

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.concatenate([A[3::-1], 2 * A[:3:-1]])]

    flat = check_gpu(func, reference)
    assert (syncs(flat), inside_branches(flat)) == (2, 0)


def test_a_condition_that_the_branch_changes_is_evaluated_once() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                S[t] = T.float32(0)
                if A[t] > T.float32(0):
                    S[t] = A[t]
                    A[t] = T.float32(-1)
                    B[t] = S[(t + 1) % 8]

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        kept = np.where(A > 0, A, 0)
        return [np.where(A > 0, -1, A), np.where(A > 0, np.roll(kept, -1), B)]

    flat = check_gpu(func, reference)
    assert (syncs(flat), inside_branches(flat)) == (1, 0)
    assert str(flat).count("< A[threadIdx_x]") == 1


def test_through_loops_allocations_and_branches_that_all_take() -> None:
    @T.prim_func
    def func(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for b in T.thread_binding(2, thread="blockIdx.x"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    B[b, t] = A[b, t]
                    if t % 2 == 0:
                        for _k in range(3):
                            if b == 1:
                                S[t] = B[b, t]
                                if t < 6:
                                    B[b, t] = S[t + 2]

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        want = A.copy()
        for _ in range(3):
            want[1, 0:6:2] = want[1, 2:8:2].copy()
        return [want]

    flat = check_gpu(func, reference)
    assert syncs(flat) == 2
    for branch in collect(flat.body, IfThenElse):
        uniform = "threadIdx" not in str(branch.condition)
        assert uniform or not any(map(is_sync, pre_order(branch)))


def test_a_barrier_of_the_program() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 5:
                    B[t] = A[t]
                    T.tvm_storage_sync("shared")
                    B[t] = B[t] + T.float32(1)

    flat = check_gpu(func, lambda A, B: [np.where(np.arange(8) < 5, A + 1, B)])
    assert (syncs(flat), inside_branches(flat)) == (1, 0)


def test_what_stays() -> None:
    """Branches that all threads take alike keep their barriers; nothing changes twice."""

    @T.prim_func
    def func(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32"), n: T.int32) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for b in T.thread_binding(2, thread="blockIdx.x"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    if b < n:
                        S[t] = A[b, t]
                        B[b, t] = S[7 - t]

    before = without_hoisting(func)
    assert hoist_barriers(before) is before
    assert inside_branches(before) == 1


def test_a_loop_that_threads_run_differently_often() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for _k in range(t):
                    S[t] = A[t]
                    B[t] = S[7 - t]

    with pytest.raises(VerifyError, match="inside of the loop '_k', which not all threads"):
        gpu_lower(func)


def test_a_while_loop_that_threads_leave_at_different_times() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                while A[t] > T.float32(0):
                    S[t] = A[t]
                    B[t] = S[7 - t]
                    A[t] = A[t] - T.float32(1)

    with pytest.raises(VerifyError, match=r"while loop.*threads run it differently often"):
        gpu_lower(func)


def test_a_while_loop_that_all_threads_leave_together() -> None:
    @T.prim_func
    def func(n: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                while n > 0:
                    S[t] = A[t]
                    B[t] = S[7 - t]

    assert syncs(gpu_lower(func)) == 2


def test_a_loop_whose_end_only_some_threads_know() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int32")
    ) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 3:
                    for _k in range(N[0]):
                        S[t] = A[t]
                        B[t] = S[2 - t]

    with pytest.raises(VerifyError, match="what is around it only has a meaning there"):
        gpu_lower(func)


def test_twice_is_once() -> None:
    func = reversed_half()

    once = hoist_barriers(without_hoisting(func))
    assert structural_equal(hoist_barriers(once), once)
