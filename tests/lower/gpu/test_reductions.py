"""Reductions over threads, and launches: forms of results, and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import (
    calls,
    check_gpu,
    gpu_lower,
    product,
    row_sum,
    softmax,
    syncs,
    tiled_matmul,
)
from tileloom.base.errors import UserError, VerifyError
from tileloom.lower.analysis.threads import is_thread_loop
from tileloom.lower.gpu.lower_cross_thread_reduction import lower_cross_thread_reduction
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.lower.gpu.unify_thread_binding import unify_thread_binding
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.tir import (
    Allocate,
    AttrStmt,
    Block,
    Evaluate,
    PrimFunc,
    collect,
    pre_order,
    verify,
)

# ---------------------------------------------------------------------------- reductions


@pytest.mark.parametrize(
    ("threads", "columns", "ty"),
    [(32, 32, 1), (32, 100, 1), (16, 16, 4), (64, 200, 1), (96, 96, 2), (7, 20, 3), (1, 5, 1),
     (24, 24, 2), (33, 50, 1), (128, 130, 1)],
)  # fmt: skip
def test_sums_over_threads(threads: int, columns: int, ty: int) -> None:
    flat = check_gpu(row_sum(threads, 2, columns, ty), lambda A, B: [A.sum(1) + 2])
    verify(flat, "flat")
    assert calls(flat, "allreduce") == 0


def test_a_warp_needs_no_shared_memory() -> None:
    warp = gpu_lower(row_sum(32))
    assert (syncs(warp), calls(warp, "shuffle_down")) == (0, 5)
    assert all("shared" not in str(a.buffer_var.pointee) for a in collect(warp.body, Allocate))
    warps = gpu_lower(row_sum(128))
    assert (syncs(warps), calls(warps, "shuffle_down")) == (1, 5 + 2)
    odd = gpu_lower(row_sum(24, ty=2))
    assert calls(odd, "shuffle") == 0
    assert syncs(odd) == 2  # the stage is full, and 16 are left


def test_the_parts_of_a_reduction() -> None:
    func = lower_cross_thread_reduction(row_sum(32, columns=100))
    names = [block.name_hint for block in collect(func.body, Block)]
    assert names[-4:] == ["sum_start", "sum_part", "cross_thread", "sum_write_back"]
    (attr,) = (a for a in collect(func.body, AttrStmt) if a.attr_key == "reduce_scope")
    assert str(attr.node.identity[0]) == "T.float32(0.0)"
    # Without loops of its own and without a guard a thread has nothing to collect.
    func = row_sum(32)
    realize: Any = func.body
    while not (hasattr(realize, "block") and realize.block.name_hint == "sum"):
        realize = getattr(realize, "body", None) or realize.block.body
    assert lower_cross_thread_reduction(func) is not func


@pytest.mark.parametrize("threads", [32, 96, 7])
def test_softmax(threads: int) -> None:
    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        e = np.exp(A - A.max(1, keepdims=True))
        return [e / e.sum(1, keepdims=True)]

    flat = check_gpu(softmax(2, 70, threads), reference)
    assert syncs(flat) >= 2


@pytest.mark.parametrize("threads", [32, 64, 7])
def test_the_place_of_the_maximum(threads: int) -> None:
    """Two components that are combined together; of equal maxima any place will do."""
    steps = -(-50 // threads)

    @T.prim_func
    def func(
        A: T.Buffer((3, 50), "float32"),
        P: T.Buffer((3,), "int32"),
        M: T.Buffer((3,), "float32"),
    ) -> None:
        for i in T.thread_binding(3, thread="blockIdx.x"):
            for ko in range(steps):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("argmax"):
                        vi = T.axis.spatial(3, i)
                        vk = T.axis.reduce(50, ko * threads + ki)
                        T.where(ko * threads + ki < 50)
                        T.reads(A[vi, vk])
                        T.writes(P[vi], M[vi])
                        with T.init():
                            P[vi] = -1
                            M[vi] = T.min_value("float32")
                        place: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], vk)
                        most: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
                        P[vi] = place
                        M[vi] = most

    flat = check_gpu(func, lambda A, P, M: [A.argmax(1).astype("i4"), A.max(1)])
    assert calls(flat, "allreduce") == 0


@pytest.mark.parametrize("columns", [40, 64])
def test_conjunctions_and_disjunctions(columns: int) -> None:
    @T.prim_func
    def func(
        A: T.Buffer((3, columns), "bool"), B: T.Buffer((3,), "bool"), C: T.Buffer((3,), "bool")
    ) -> None:
        every = T.alloc_buffer((3,), "bool", scope="local")
        for i in T.thread_binding(3, thread="blockIdx.x"):
            for k in T.thread_binding(columns, thread="threadIdx.x"):
                with T.block("every"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        every[vi] = T.bool(True)
                    every[vi] = every[vi] and A[vi, vk]
            for k in T.thread_binding(columns, thread="threadIdx.x"):
                with T.block("some"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.bool(False)
                    C[vi] = C[vi] or A[vi, vk]
            for k in T.thread_binding(columns, thread="threadIdx.x"):
                with T.block("out"):
                    vi = T.axis.spatial(3, i)
                    T.where(k == columns - 1)
                    B[vi] = every[vi]

    a = np.ones((3, columns), bool)
    a[0, columns - 2], a[2] = False, False
    b, c = np.zeros(3, bool), np.zeros(3, bool)
    run_kernels(gpu_lower(func), a, b, c)
    assert b.tolist() == [False, True, False] and c.tolist() == [True, True, False]


def test_a_pair_in_registers_and_in_memory() -> None:
    """The place in every thread's own memory, the maximum in that of all."""

    @T.prim_func
    def func(
        A: T.Buffer((2, 40), "float32"), M: T.Buffer((2,), "float32"), B: T.Buffer((2,), "int32")
    ) -> None:
        place = T.alloc_buffer((2,), "int32", scope="local")
        for i in T.thread_binding(2, thread="blockIdx.x"):
            for k in T.thread_binding(40, thread="threadIdx.x"):
                with T.block("top"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        place[vi] = 2147483647
                        M[vi] = T.float32("-inf")
                    new_place: T.int32 = T.Select(M[vi] >= A[vi, vk], place[vi], vk)
                    new_top: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
                    place[vi] = new_place
                    M[vi] = new_top
            for k in T.thread_binding(40, thread="threadIdx.x"):
                with T.block("out"):
                    vi = T.axis.spatial(2, i)
                    T.where(k == 39)
                    B[vi] = place[vi]

    a = np.random.default_rng(0).standard_normal((2, 40)).astype("float32")
    m, b = np.zeros(2, "float32"), np.zeros(2, "int32")
    run_kernels(gpu_lower(func), a, m, b)
    assert np.array_equal(m, a.max(1)) and np.array_equal(b, a.argmax(1))


def test_reductions_that_cannot_cross_threads() -> None:
    @T.prim_func
    def over_blocks(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")) -> None:
        for k in T.thread_binding(8, thread="blockIdx.x"):
            with T.block("sum"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[vk]

    @T.prim_func
    def difference(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")) -> None:
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("sum"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = A[vk] - B[0]

    @T.prim_func
    def fused(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for f in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("sum"):
                vi = T.axis.spatial(4, f // 8)
                vk = T.axis.reduce(8, f % 8)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    with pytest.raises(UserError, match="its loop 'f' runs over results as well"):
        lower_cross_thread_reduction(fused)
    with pytest.raises(UserError, match="blocks of threads cannot combine"):
        lower_cross_thread_reduction(over_blocks)
    with pytest.raises(UserError, match="not by a sum, product, minimum, maximum"):
        lower_cross_thread_reduction(difference)


# ---------------------------------------------------------------------------- launches


def test_threads_are_launched_once() -> None:
    flat = check_gpu(tiled_matmul(), product)
    launches = [a.node.thread_tag for a in collect(flat.body, AttrStmt)]
    assert launches == ["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"C_local": 2, "A_shared": 32, "B_shared": 32}
    assert syncs(flat) == 2


def test_one_tag_has_one_extent() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = T.float32(1)
            for j in T.thread_binding(4, thread="threadIdx.x"):
                B[j] = T.float32(2)

    with pytest.raises(UserError, match=r"threadIdx.x with the extents 8 and 4"):
        unify_thread_binding(func)


def test_two_kernels_may_differ() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[i] = T.float32(1)
        for j in T.thread_binding(4, thread="threadIdx.x"):
            B[j] = A[j] + T.float32(2)

    unified = unify_thread_binding(func)
    assert sum(map(is_thread_loop, pre_order(unified.body))) == 2
    flat = check_gpu(func, lambda A, B: [np.full(4, 3, "f")])
    module = split_host_device(flat)
    assert list(module.functions) == ["func", "func_kernel", "func_kernel_1"]
    assert module["func_kernel_1"].attrs["thread_extent"] == {"threadIdx.x": 4}


def test_kernels_and_their_launch() -> None:
    flat = gpu_lower(tiled_matmul(scope="shared.dyn"))
    module = split_host_device(flat)
    host, kernel = module["func"], module["func_kernel"]
    launch: Any
    (launch,) = collect(host.body, Evaluate)
    assert [str(arg) for arg in launch.value.args[4:]] == ["2", "2", "8", "4"]
    tags = ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"]
    assert kernel.attrs["tir.kernel_launch_params"] == tags
    assert kernel.attrs["dyn_shared_memory_bytes"] == 2 * 32 * 4
    assert kernel.attrs["tir.written"] == ["C"]
    verify(kernel, "flat")


def test_wide_threads_become_narrow() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((T.int64(6), T.int64(8)), "float32"),
        B: T.Buffer((T.int64(8), T.int64(6)), "float32"),
    ) -> None:
        for i in T.thread_binding(T.int64(6), thread="blockIdx.x"):
            for j in T.thread_binding(T.int64(8), thread="threadIdx.x"):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vj, vi] = A[vi, vj]

    flat = check_gpu(func, lambda A, B: [A.T])
    assert "int64" not in str(flat.body)


def test_grids_of_unknown_size() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle, n: T.int32) -> None:
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.thread_binding((n + 7) // 8, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    T.where(i * 8 + j < n)
                    v = T.axis.spatial(n, i * 8 + j)
                    B[v] = A[v] + T.float32(1)

    flat = gpu_lower(func)
    for size in (1, 8, 21):
        a, b = np.arange(size, dtype="f"), np.zeros(size, "f")
        run_kernels(flat, a, b, size)
        np.testing.assert_array_equal(b, a + 1)
    module = split_host_device(flat)
    launch: Any
    (launch,) = collect(module["func"].body, Evaluate)
    assert str(launch.value.args[-2]) == "(n + 7) // 8"
    verify(module, "flat")


# ---------------------------------------------------------------------------- conditions around


def sums_of_some(rows: int, columns: int, wanted: int, whole: bool) -> PrimFunc:
    """Sums of some rows, a row of threads each; or one row over columns of threads."""

    @T.prim_func
    def func(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows,), "float32")) -> None:
        for ty in T.thread_binding(rows, thread="threadIdx.y"):
            if ty < wanted or whole:
                for tx in T.thread_binding(columns, thread="threadIdx.x"):
                    with T.block("sum"):
                        vi, vk = T.axis.remap("SR", [ty, tx])
                        T.reads(A[vi, vk])
                        T.writes(B[vi])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

    return func


@pytest.mark.parametrize("columns", [32, 64])
def test_a_reduction_that_some_rows_of_threads_make(columns: int) -> None:
    """A whole warp may exchange values where others do not; a barrier is for all."""

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.where(np.arange(4) < 3, A.sum(1), B)]

    if columns == 32:
        check_gpu(sums_of_some(4, columns, 3, False), reference)
    else:
        with pytest.raises(VerifyError, match="under a condition that they take differently"):
            gpu_lower(sums_of_some(4, columns, 3, False))
    check_gpu(sums_of_some(4, columns, 3, True), lambda A, B: [A.sum(1)])


def test_half_a_warp_is_not_enough() -> None:
    with pytest.raises(VerifyError, match="under a condition that they take differently"):
        gpu_lower(sums_of_some(4, 16, 3, False))
