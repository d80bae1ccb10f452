"""Thread programs: each pass by the form of its result, the pipeline by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lower.gpu_programs import check_gpu, gpu_lower, row_sum, softmax, tiled_matmul
from lower.simt import SimulationError, simulate
from tileloom.base import Target
from tileloom.base.errors import UserError, VerifyError
from tileloom.driver import build
from tileloom.expr import IterVar, Range, Var, const
from tileloom.lower import lower
from tileloom.lower.lower_cross_thread_reduction import lower_cross_thread_reduction
from tileloom.lower.lower_opaque_block import allocate
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.lower.split_host_device import split_host_device
from tileloom.lower.thread_storage_sync import thread_storage_sync
from tileloom.lower.threads import is_sync, is_thread_loop
from tileloom.lower.unify_thread_binding import unify_thread_binding
from tileloom.lower.verify_gpu_code import GPULimits, verify_gpu_code
from tileloom.script import tir as T
from tileloom.tir import (
    Allocate,
    AttrStmt,
    Block,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    collect,
    make_buffer,
    pre_order,
    run,
    seq,
    verify_flat,
)


def calls(func, name: str) -> int:
    """How many statements call an operation."""
    return str(func).count(f"{name}")


def syncs(func) -> int:
    return sum(map(is_sync, pre_order(func.body)))


def product(A, B, C):
    return [A @ B]


# ---------------------------------------------------------------------------- reductions


@pytest.mark.parametrize(
    ("threads", "columns", "ty"),
    [(32, 32, 1), (32, 100, 1), (16, 16, 4), (64, 200, 1), (96, 96, 2), (7, 20, 3), (1, 5, 1),
     (24, 24, 2), (33, 50, 1), (128, 130, 1)],
)  # fmt: skip
def test_sums_over_threads(threads, columns, ty):
    flat = check_gpu(row_sum(threads, 2, columns, ty), lambda A, B: [A.sum(1) + 2])
    verify_flat(flat)
    assert calls(flat, "allreduce") == 0


def test_a_warp_needs_no_shared_memory():
    warp = gpu_lower(row_sum(32))
    assert (syncs(warp), calls(warp, "shuffle_down")) == (0, 5)
    assert all("shared" not in str(a.buffer_var.pointee) for a in collect(warp.body, Allocate))
    warps = gpu_lower(row_sum(128))
    assert (syncs(warps), calls(warps, "shuffle_down")) == (1, 5 + 2)
    odd = gpu_lower(row_sum(24, ty=2))
    assert calls(odd, "shuffle") == 0
    assert syncs(odd) == 6  # the stage is full, and 16, 8, 4, 2, 1 are left


def test_the_parts_of_a_reduction():
    func = lower_cross_thread_reduction(row_sum(32, columns=100))
    names = [block.name_hint for block in collect(func.body, Block)]
    assert names[-4:] == ["sum_start", "sum_part", "cross_thread", "sum_write_back"]
    (attr,) = (a for a in collect(func.body, AttrStmt) if a.attr_key == "reduce_scope")
    assert str(attr.node.identity[0]) == "T.float32(0.0)"
    # Without loops of its own and without a guard a thread has nothing to collect.
    func = row_sum(32)
    realize = func.body
    while not (hasattr(realize, "block") and realize.block.name_hint == "sum"):
        realize = getattr(realize, "body", None) or realize.block.body
    assert lower_cross_thread_reduction(func) is not func


@pytest.mark.parametrize("threads", [32, 96, 7])
def test_softmax(threads):
    def reference(A, B):
        e = np.exp(A - A.max(1, keepdims=True))
        return [e / e.sum(1, keepdims=True)]

    flat = check_gpu(softmax(2, 70, threads), reference)
    assert syncs(flat) >= 2


def test_reductions_that_cannot_cross_threads():
    @T.prim_func
    def over_blocks(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
        for k in T.thread_binding(8, thread="blockIdx.x"):
            with T.block("sum"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[vk]

    @T.prim_func
    def difference(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("sum"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = A[vk] - B[0]

    with pytest.raises(UserError, match="blocks of threads cannot combine"):
        lower_cross_thread_reduction(over_blocks)
    with pytest.raises(UserError, match="not by a sum, product, minimum or maximum"):
        lower_cross_thread_reduction(difference)


# ---------------------------------------------------------------------------- launches


def test_threads_are_launched_once():
    flat = check_gpu(tiled_matmul(), product)
    launches = [a.node.thread_tag for a in collect(flat.body, AttrStmt)]
    assert launches == ["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"C_local": 2, "A_shared": 32, "B_shared": 32}
    assert syncs(flat) == 2


def test_one_tag_has_one_extent():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = T.float32(1)
            for j in T.thread_binding(4, thread="threadIdx.x"):
                B[j] = T.float32(2)

    with pytest.raises(UserError, match=r"threadIdx.x with the extents 8 and 4"):
        unify_thread_binding(func)


def test_two_kernels_may_differ():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
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


def test_kernels_and_their_launch():
    flat = gpu_lower(tiled_matmul(scope="shared.dyn"))
    module = split_host_device(flat)
    host, kernel = module["func"], module["func_kernel"]
    (launch,) = collect(host.body, Evaluate)
    assert [str(arg) for arg in launch.value.args[4:]] == ["2", "2", "8", "4"]
    tags = ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"]
    assert kernel.attrs["tir.kernel_launch_params"] == tags
    assert kernel.attrs["dyn_shared_memory_bytes"] == 2 * 32 * 4
    assert kernel.attrs["tir.written"] == ["C"]
    verify_flat(kernel)


def test_wide_threads_become_narrow():
    @T.prim_func
    def func(
        A: T.Buffer((T.int64(6), T.int64(8)), "float32"),
        B: T.Buffer((T.int64(8), T.int64(6)), "float32"),
    ):
        for i in T.thread_binding(T.int64(6), thread="blockIdx.x"):
            for j in T.thread_binding(T.int64(8), thread="threadIdx.x"):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vj, vi] = A[vi, vj]

    flat = check_gpu(func, lambda A, B: [A.T])
    assert "int64" not in str(flat.body)


def test_grids_of_unknown_size():
    @T.prim_func
    def func(a: T.handle, b: T.handle, n: T.int32):
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
        simulate(flat, a, b, size)
        np.testing.assert_array_equal(b, a + 1)
    module = split_host_device(flat)
    (launch,) = collect(module["func"].body, Evaluate)
    assert str(launch.value.args[-2]) == "(n + 7) // 8"
    verify_flat(module)


# ---------------------------------------------------------------------------- barriers


def shared_program(write, read, between=None):
    """S[write(t)] = A[t]; B[t] = S[read(t)] on eight threads."""

    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        with T.block("root"):
            S = T.alloc_buffer((16,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                S[write(t)] = A[t]
                B[t] = S[read(t)]

    return func


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [
        (lambda t: t, lambda t: t, 0),
        (lambda t: t * 2, lambda t: t * 2, 0),
        (lambda t: t, lambda t: 7 - t, 1),
        (lambda t: t, lambda t: T.max(t - 1, 0), 1),
        (lambda t: t // 2, lambda t: t // 2, 1),
    ],
)
def test_barriers_between_threads(write, read, expected):
    assert syncs(gpu_lower(shared_program(write, read))) == expected


def test_the_simulator_sees_a_missing_barrier():
    passes = [step for step in GPU_PIPELINE if step is not thread_storage_sync]
    flat = gpu_lower(shared_program(lambda t: t, lambda t: 7 - t), passes)
    with pytest.raises(SimulationError, match="race"):
        simulate(flat, np.zeros(8, "f"), np.zeros(8, "f"))


def test_a_barrier_that_not_all_threads_reach():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 4:
                    S[t] = A[t]
                    B[t] = S[3 - t]

    with pytest.raises(VerifyError, match="a barrier is needed inside of the branch"):
        gpu_lower(func)


def test_barriers_in_uniform_branches_and_loops():
    """Neighbours' values, rounds and rounds; the branch is the same for all threads."""

    @T.prim_func
    def func(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 8), "float32")):
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for b in T.thread_binding(3, thread="blockIdx.x"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    S[t] = A[b, t]
                    for _k in range(3):
                        if b > 0:
                            B[b, t] = S[(t + 1) % 8]
                            S[t] = B[b, t]
                    B[b, t] = S[t]

    def reference(A, B):
        return [np.stack([A[0], np.roll(A[1], -3), np.roll(A[2], -3)])]

    check_gpu(func, reference)


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
def test_software_pipelines(stages, order, asynchronous):
    notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    if asynchronous:
        notes["software_pipeline_async_stages"] = [0]
    flat = check_gpu(tiled_matmul(annotations=notes), product)
    assert "software_pipeline" not in str(flat)
    assert (calls(flat, "ptx_wait_group") > 0) == asynchronous


def test_versions_of_pipelined_buffers():
    def versions(stages, order):
        notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
        flat = gpu_lower(tiled_matmul(annotations=notes))
        sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
        return sizes["A_shared"] // 32, sizes["B_shared"] // 32

    assert versions([0, 0, 0], [0, 1, 2]) == (1, 1)
    assert versions([0, 0, 1], [0, 1, 2]) == (2, 2)
    assert versions([0, 0, 1], [1, 2, 0]) == (1, 1)  # used before it is overwritten
    assert versions([0, 1, 2], [0, 1, 2]) == (3, 2)


def test_one_barrier_for_each_iteration_of_a_pipeline():
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
def test_pipelines_that_are_refused(stages, order, message):
    notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    with pytest.raises(UserError, match=message):
        gpu_lower(tiled_matmul(annotations=notes))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_pipeline_on_the_cpu(length, symbolic):
    """Any length, known or not; also shorter than the pipeline is deep."""

    def extent(m):
        return m if symbolic else length

    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), m: T.int32):
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


def virtual_program(kind: str):
    @T.prim_func
    def func(A: T.Buffer((4, 2, 8), "float32"), B: T.Buffer((4, 2, 8), "float32")):
        with T.block("root"):
            for b in T.thread_binding(4, thread="blockIdx.x"):
                for v in T.thread_binding(2, thread=kind):
                    for t in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("one"):
                            vb, vv, vt = T.axis.remap("SSS", [b, v, t])
                            T.reads(A[vb, vv, vt])
                            T.writes(B[vb, vv, vt])
                            S = T.alloc_buffer((8,), "float32", scope="shared")
                            L = T.alloc_buffer((1,), "float32", scope="local")
                            L[0] = T.float32(0)
                            for k in range(3):
                                S[vt] = A[vb, vv, vt] + T.Cast("float32", k)
                                L[0] = L[0] + S[(vt + k) % 8]
                            if vv == 1:
                                L[0] = L[0] * T.float32(2)
                            B[vb, vv, vt] = L[0]

    return func


def test_virtual_threads():
    def reference(A, B):
        total = sum(np.roll(A, -k, axis=2) + k for k in range(3))
        return [total * np.array([1, 2])[None, :, None]]

    flat = check_gpu(virtual_program("vthread.x"), reference)
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"S": 16, "L": 2}  # each virtual thread has its own
    (loop,) = (f for f in collect(flat.body, For) if f.loop_var.name == "k")
    assert syncs(flat) == sum(map(is_sync, pre_order(loop))) == 2  # for both at once


def test_copies_inside_of_thread_loops():
    """As `compute_at` leaves them: tiles are fetched by thread loops within thread loops."""

    @T.prim_func
    def func(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
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


def test_double_buffers():
    def program(note):
        notes = {"double_buffer_scope": 0} if note else {}

        @T.prim_func
        def func(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
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

    def reference(A, B):
        return [np.roll(A, -1, axis=1)]

    plain, doubled = check_gpu(program(False), reference), check_gpu(program(True), reference)
    sizes = [int(collect(func.body, Allocate)[0].extents[0]) for func in (plain, doubled)]
    assert sizes == [8, 16]
    assert "double_buffer_scope" not in str(doubled)
    loops = [collect(func.body, For)[0] for func in (plain, doubled)]
    assert [sum(map(is_sync, pre_order(loop))) for loop in loops] == [2, 1]


# ---------------------------------------------------------------------------- memory


def test_dynamic_shared_memory_is_one_allocation():
    flat = check_gpu(tiled_matmul(scope="shared.dyn"), product)
    dynamic = [a for a in collect(flat.body, Allocate) if a.buffer_var.pointee[1] == "shared.dyn"]
    assert [(a.dtype, int(a.extents[0])) for a in dynamic] == [("uint8", 256)]
    assert syncs(flat) == 2
    notes = {
        "software_pipeline_stage": [0, 0, 1],
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_async_stages": [0],
    }
    check_gpu(tiled_matmul(scope="shared.dyn", annotations=notes), product)


def test_limits():
    flat = gpu_lower(tiled_matmul())
    assert verify_gpu_code(flat) == []
    small = GPULimits(max_threads_per_block=16, max_shared_memory_per_block=100)
    assert verify_gpu_code(flat, small) == [
        "32 threads in a block, at most 16",
        "256 bytes of shared memory, at most 100",
    ]
    assert verify_gpu_code(flat, GPULimits(max_local_memory_per_thread=7, max_kernels=0)) == [
        "8 bytes of local memory, at most 7",
        "1 kernels, at most 0",
    ]
    virtual = virtual_program("vthread.x")
    assert verify_gpu_code(virtual, GPULimits(max_vthread=1)) == ["2 virtual threads, at most 1"]
    wide = row_sum(2048)
    assert verify_gpu_code(wide)[0] == "2048 threads in a block, at most 1024"


def test_limits_of_a_target():
    target = Target("cuda", "sm_90", max_threads=512, shared_memory=1000)
    limits = GPULimits.of(target)
    assert (limits.max_threads_per_block, limits.max_shared_memory_per_block) == (512, 1000)


def test_every_store_is_legal_after_each_pass():
    flat = gpu_lower(softmax(3, 40, 32))
    assert all(len(store.indices) == 1 for store in collect(flat.body, BufferStore))


# ---------------------------------------------------------------------------- copies


def copied_matmul(notes: dict, scope: str = "shared") -> PrimFunc:
    """C = A @ B on 8 by 4 threads; tiles come by `read_at`, the result goes by `write_at`."""

    @T.prim_func
    def func(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
        A_shared = T.alloc_buffer((16, 24), "float32", scope=scope)
        B_shared = T.alloc_buffer((24, 16), "float32", scope=scope)
        C_local = T.alloc_buffer((16, 16), "float32", scope="local")
        for by in T.thread_binding(2, thread="blockIdx.y"):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for ko in range(2):
                    with T.block("A_shared"):
                        v0, v1 = T.axis.remap("SS", [by, ko])
                        T.reads(A[v0 * 8 : v0 * 8 + 8, v1 * 12 : v1 * 12 + 12])
                        T.writes(A_shared[v0 * 8 : v0 * 8 + 8, v1 * 12 : v1 * 12 + 12])
                        T.block_attr(notes)
                        for x, y in T.grid(8, 12):
                            A_shared[v0 * 8 + x, v1 * 12 + y] = A[v0 * 8 + x, v1 * 12 + y]
                    with T.block("B_shared"):
                        v0, v1 = T.axis.remap("SS", [ko, bx])
                        T.reads(B[v0 * 12 : v0 * 12 + 12, v1 * 8 : v1 * 8 + 8])
                        T.writes(B_shared[v0 * 12 : v0 * 12 + 12, v1 * 8 : v1 * 8 + 8])
                        T.block_attr(notes)
                        for x, y in T.grid(12, 8):
                            B_shared[v0 * 12 + x, v1 * 8 + y] = B[v0 * 12 + x, v1 * 8 + y]
                    for ty in T.thread_binding(4, thread="threadIdx.y"):
                        for tx in T.thread_binding(8, thread="threadIdx.x"):
                            for u, ki in T.grid(2, 12):
                                with T.block("update"):
                                    vi = T.axis.spatial(16, by * 8 + ty * 2 + u)
                                    vj = T.axis.spatial(16, bx * 8 + tx)
                                    vk = T.axis.reduce(24, ko * 12 + ki)
                                    T.reads(A_shared[vi, vk], B_shared[vk, vj])
                                    T.writes(C_local[vi, vj])
                                    with T.init():
                                        C_local[vi, vj] = T.float32(0)
                                    C_local[vi, vj] = (
                                        C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
                                    )
                for ty in T.thread_binding(4, thread="threadIdx.y"):
                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("C_local"):
                            v0 = T.axis.spatial(8, by * 4 + ty)
                            v1 = T.axis.spatial(16, bx * 8 + tx)
                            T.reads(C_local[v0 * 2 : v0 * 2 + 2, v1])
                            T.writes(C[v0 * 2 : v0 * 2 + 2, v1])
                            T.block_attr({"auto_copy": 1})
                            for x in range(2):
                                C[v0 * 2 + x, v1] = C_local[v0 * 2 + x, v1]

    return func


@pytest.mark.parametrize("vector_bytes", [0, 4, 8, 16, 32])
@pytest.mark.parametrize("local_stage", [0, 1])
def test_copies_by_all_threads(vector_bytes, local_stage):
    notes = {"auto_copy": 1, "vector_bytes": vector_bytes, "local_stage": local_stage}
    flat = check_gpu(copied_matmul(notes), product)
    assert "auto_copy" not in str(flat)
    widest = max(
        store.value.dtype.lanes
        for store in collect(flat.body, BufferStore)
        if store.buffer.name.startswith("A_shared")
    )
    assert widest == max(1, min(vector_bytes, 16) // 4)  # 12 columns are no multiple of 8
    assert syncs(flat) == 2
    assert ("A_shared_local" in str(flat)) == bool(local_stage)


def test_a_copy_that_is_none():
    notes = {"auto_copy": 1}

    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        with T.block("no"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            T.block_attr(notes)
            for i in range(8):
                B[i] = A[i] + T.float32(1)

    with pytest.raises(UserError, match="block 'no' is annotated 'auto_copy'"):
        gpu_lower(func)


@pytest.mark.parametrize("pipeline", [False, True])
def test_copies_through_registers(pipeline):
    """The fetch of the next tile and the store of this one are statements of their own."""
    loop = {}
    if pipeline:
        loop = {
            "software_pipeline_stage": [0, 1, 1],
            "software_pipeline_order": [2, 0, 1],
        }
    notes = {"tir.manifest_shared_memory_local_stage": 1}

    @T.prim_func
    def func(A: T.Buffer((5, 32), "float32"), B: T.Buffer((5, 32), "float32")):
        S = T.alloc_buffer((5, 32), "float32", scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for k in T.serial(5, annotations=loop):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    for x in T.vectorized(4):
                        with T.block("S"):
                            v0 = T.axis.spatial(5, k + b)
                            v1 = T.axis.spatial(32, t * 4 + x)
                            T.reads(A[v0, v1])
                            T.writes(S[v0, v1])
                            T.block_attr(notes)
                            S[v0, v1] = A[v0, v1]
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    for x in range(4):
                        with T.block("B"):
                            v0 = T.axis.spatial(5, k + b)
                            v1 = T.axis.spatial(32, t * 4 + x)
                            T.reads(S[v0, 31 - v1])
                            T.writes(B[v0, v1])
                            B[v0, v1] = S[v0, 31 - v1]

    flat = check_gpu(func, lambda A, B: [A[:, ::-1]])
    sizes = {a.buffer_var.name: int(a.extents[0]) for a in collect(flat.body, Allocate)}
    assert sizes == {"S": 32, "S_local": 4}


# ---------------------------------------------------------------------------- random programs

_INDICES = {
    "own": lambda t, k: t,
    "next": lambda t, k: (t + 1) % 8,
    "pair": lambda t, k: t // 2,
    "mirror": lambda t, k: 7 - t,
    "far": lambda t, k: t + 8,
    "turn": lambda t, k: k % 2 * 8 + t,
    "other": lambda t, k: (k + 1) % 2 * 8 + 7 - t,
    "row": lambda t, k: t + k * 8,
    "strided": lambda t, k: t * 3 + k,
    "one": lambda t, k: k,
    "slide": lambda t, k: t + k % 2,
}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_accesses_are_kept_apart(data):
    """Stores and loads at random places, in loops, never race once barriers are in."""
    S = make_buffer((32,), "int32", "S", scope="shared")
    out = make_buffer((8,), "int32", "out")
    t = Var("t")
    size = data.draw(st.integers(2, 3))

    def leaf(k):
        index = data.draw(st.sampled_from(sorted(_INDICES)))
        at = _INDICES[index](t, k)
        if data.draw(st.booleans()):
            only = index in ("pair", "one")  # else threads would write one element at once
            store = BufferStore(S, t + k, (at,))
            return IfThenElse(t % 8 == 0, store) if only else store
        return BufferStore(out, out[t] + S[at], (t,))

    def block(depth, k):
        parts = []
        for _ in range(data.draw(st.integers(1, 3))):
            if depth and data.draw(st.integers(0, 2)) == 0:
                var = Var("k")
                low = const(data.draw(st.integers(0, 1)))
                parts.append(For(var, low, const(size), "serial", block(depth - 1, var)))
            else:
                parts.append(leaf(k))
        return seq(*parts)

    axis = IterVar(Range(0, 8), t, 1, "threadIdx.x")
    body = AttrStmt(axis, "thread_extent", const(8), allocate(S, block(2, const(0))))
    p = Var("p", "handle")
    func = thread_storage_sync(PrimFunc((p,), body, {p: out}))
    simulate(func, np.zeros(8, "i"))
