"""Software pipelines, double buffers and virtual threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import (
    calls,
    check_gpu,
    gpu_lower,
    product,
    syncs,
    tiled_matmul,
    virtual_program,
)
from tileloom.base.errors import UserError
from tileloom.driver import build
from tileloom.expr import ExprLike, Var, const
from tileloom.lower import lower
from tileloom.lower.analysis.threads import is_sync
from tileloom.lower.gpu.inject_ptx_async_copy import inject_ptx_async_copy
from tileloom.script import tir as T
from tileloom.tir import (
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    PrimFunc,
    collect,
    pre_order,
    run,
)

# ---------------------------------------------------------------------------- pipelines


@pytest.mark.parametrize(
    ("stages", "order"),
    [
        ([0, 0, 1], [0, 1, 2]),
        ([0, 0, 1], [1, 2, 0]),
        ([0, 0, 3], [2, 1, 0]),
        ([0, 1, 2], [0, 1, 2]),
        ([0, 0, 7], [0, 1, 2]),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_software_pipelines(stages: list[int], order: list[int], asynchronous: bool) -> None:
    notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    if asynchronous:
        notes["software_pipeline_async_stages"] = [0]
    flat = check_gpu(tiled_matmul(annotations=notes), product)
    assert "software_pipeline" not in str(flat)
    assert (calls(flat, "ptx_wait_group") > 0) == asynchronous


def test_versions_of_pipelined_buffers() -> None:
    def versions(stages: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
        flat = gpu_lower(tiled_matmul(annotations=notes))
        sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
        return sizes["A_shared"] // 32, sizes["B_shared"] // 32

    assert versions([0, 0, 0], [0, 1, 2]) == (1, 1)
    assert versions([0, 0, 1], [0, 1, 2]) == (2, 2)
    assert versions([0, 0, 1], [1, 2, 0]) == (1, 1)  # used before it is overwritten
    assert versions([0, 1, 2], [0, 1, 2]) == (3, 2)


def test_one_barrier_for_each_iteration_of_a_pipeline() -> None:
    notes = {"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]}
    flat = gpu_lower(tiled_matmul(annotations=notes))
    (loop,) = (f for f in collect(flat.body, For) if f.loop_var.name == "ko")
    assert sum(map(is_sync, pre_order(loop))) == 1


@pytest.mark.parametrize(
    ("stages", "order", "message"),
    [
        ([0, 0], [0, 1], "has 3 statements"),
        ([0, 0, 1], [0, 1, 1], "the orders all different"),
        ([1, 0, 0], [0, 1, 2], "would overtake statement 0"),
        ([0, 0, 0], [1, 2, 0], "would overtake statement 0"),
    ],
)
def test_pipelines_that_are_refused(stages: list[int], order: list[int], message: str) -> None:
    notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    with pytest.raises(UserError, match=message):
        gpu_lower(tiled_matmul(annotations=notes))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_pipeline_on_the_cpu(length: int, symbolic: bool) -> None:
    """Any length, known or not; also shorter than the pipeline is deep."""

    def extent(m: Var) -> ExprLike:
        return m if symbolic else length

    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), m: T.int32) -> None:
        for k in T.serial(
            extent(m),
            annotations={
                "software_pipeline_stage": [0, 2],
                "software_pipeline_order": [1, 0],
                "software_pipeline_async_stages": [0],
            },
        ):
            with T.block("both"):
                vk = T.axis.spatial(8, k)
                T.reads(A[vk, 0:4])
                T.writes(B[vk, 0:4])
                S = T.alloc_buffer((4,), "float32")
                for i in range(4):
                    with T.block("load"):
                        vi = T.axis.spatial(4, i)
                        T.reads(A[vk, vi])
                        T.writes(S[vi])
                        S[vi] = A[vk, vi] * T.float32(2)
                for i in range(4):
                    with T.block("store"):
                        vi = T.axis.spatial(4, i)
                        T.reads(S[3 - vi])
                        T.writes(B[vk, vi])
                        B[vk, vi] = S[3 - vi]

    flat = lower(func)
    kernel = build(func)
    a, b = np.arange(32, dtype="f").reshape(8, 4), np.zeros((8, 4), "f")
    run(flat, a.reshape(-1), b.reshape(-1), length)
    expected = np.zeros((8, 4), "f")
    expected[:length] = a[:length, ::-1] * 2
    np.testing.assert_array_equal(b, expected)
    b[:] = 0
    kernel(a, b, length)
    np.testing.assert_array_equal(b, expected)


# ---------------------------------------------------------------------------- virtual threads


def test_virtual_threads() -> None:
    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        total = sum(np.roll(A, -k, axis=2) + k for k in range(3))
        return [total * np.array([1, 2])[None, :, None]]

    flat = check_gpu(virtual_program("vthread.x"), reference)
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"S": 16, "L": 2}  # each virtual thread has its own
    (loop,) = (f for f in collect(flat.body, For) if f.loop_var.name == "k")
    assert syncs(flat) == sum(map(is_sync, pre_order(loop))) == 2  # for both at once


def test_copies_inside_of_thread_loops() -> None:
    """As `compute_at` leaves them: tiles are fetched by thread loops within thread loops."""

    @T.prim_func
    def func(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ) -> None:
        C_local = T.alloc_buffer((16, 16), scope="local")
        A_shared = T.alloc_buffer((16, 24), scope="shared")
        B_shared = T.alloc_buffer((24, 16), scope="shared")
        for by in T.thread_binding(2, thread="blockIdx.y"):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for vy in T.thread_binding(2, thread="vthread.y"):
                    for ty in T.thread_binding(4, thread="threadIdx.y"):
                        for tx in T.thread_binding(4, thread="threadIdx.x"):
                            for x in range(2):
                                with T.block("C_init"):
                                    vi = T.axis.spatial(16, by * 8 + vy * 4 + ty)
                                    vj = T.axis.spatial(16, bx * 8 + tx * 2 + x)
                                    T.reads()
                                    T.writes(C_local[vi, vj])
                                    C_local[vi, vj] = T.float32(0.0)
                            for ko in range(3):
                                for f0 in range(4):
                                    for f1 in T.thread_binding(4, thread="threadIdx.y"):
                                        for f2 in T.thread_binding(4, thread="threadIdx.x"):
                                            with T.block("A_shared"):
                                                v0 = T.axis.spatial(16, by * 8 + f0 * 2 + f1 // 2)
                                                v1 = T.axis.spatial(24, ko * 8 + f1 % 2 * 4 + f2)
                                                T.reads(A[v0, v1])
                                                T.writes(A_shared[v0, v1])
                                                A_shared[v0, v1] = A[v0, v1]
                                for f0 in range(4):
                                    for f1 in T.thread_binding(4, thread="threadIdx.y"):
                                        for f2 in T.thread_binding(4, thread="threadIdx.x"):
                                            with T.block("B_shared"):
                                                v0 = T.axis.spatial(24, ko * 8 + f0 * 2 + f1 // 2)
                                                v1 = T.axis.spatial(16, bx * 8 + f1 % 2 * 4 + f2)
                                                T.reads(B[v0, v1])
                                                T.writes(B_shared[v0, v1])
                                                B_shared[v0, v1] = B[v0, v1]
                                for ki, x in T.grid(8, 2):
                                    with T.block("C"):
                                        vi = T.axis.spatial(16, by * 8 + vy * 4 + ty)
                                        vj = T.axis.spatial(16, bx * 8 + tx * 2 + x)
                                        vk = T.axis.reduce(24, ko * 8 + ki)
                                        T.reads(C_local[vi, vj], A_shared[vi, vk], B_shared[vk, vj])
                                        T.writes(C_local[vi, vj])
                                        C_local[vi, vj] = (
                                            C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
                                        )
                            for x in range(2):
                                with T.block("C_local"):
                                    v0 = T.axis.spatial(16, by * 8 + vy * 4 + ty)
                                    v1 = T.axis.spatial(16, bx * 8 + tx * 2 + x)
                                    T.reads(C_local[v0, v1])
                                    T.writes(C[v0, v1])
                                    C[v0, v1] = C_local[v0, v1]

    flat = check_gpu(func, product)
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"C_local": 4, "A_shared": 64, "B_shared": 64}
    assert syncs(flat) == 2


@pytest.mark.parametrize(("in_flight", "count"), [(None, 0), (2, 2)])
def test_waits_for_copies_under_way(in_flight: int | None, count: int) -> None:
    body: Any = Evaluate(const(1))
    if in_flight is not None:
        body = AttrStmt(const(0), "async_wait_inflight_count", const(in_flight), body)
    wait = AttrStmt(const(0), "async_wait_queue_scope", const(0), body)
    func = inject_ptx_async_copy(PrimFunc((), wait))
    assert str(func.body).strip() == f"T.ptx_wait_group({count})"


def test_double_buffers() -> None:
    def program(note: bool) -> PrimFunc:
        notes = {"double_buffer_scope": 0} if note else {}

        @T.prim_func
        def func(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")) -> None:
            with T.block("root"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    for k in range(6):
                        with T.block("step"):
                            vk, vt = T.axis.remap("SS", [k, t])
                            T.reads(A[vk, vt])
                            T.writes(B[vk, vt])
                            S = T.alloc_buffer((8,), "float32", scope="shared")
                            with T.block("fill"):
                                T.reads(A[vk, vt])
                                T.writes(S[vt])
                                T.block_attr(notes)
                                S[vt] = A[vk, vt]
                            with T.block("use"):
                                T.reads(S[0:8])
                                T.writes(B[vk, vt])
                                B[vk, vt] = S[(vt + 1) % 8]

        return func

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.roll(A, -1, axis=1)]

    plain, doubled = check_gpu(program(False), reference), check_gpu(program(True), reference)
    sizes = [int(collect(func.body, Allocate)[0].extents[0]) for func in (plain, doubled)]
    assert sizes == [8, 16]
    assert "double_buffer_scope" not in str(doubled)
    loops = [collect(func.body, For)[0] for func in (plain, doubled)]
    assert [sum(map(is_sync, pre_order(loop))) for loop in loops] == [2, 1]
