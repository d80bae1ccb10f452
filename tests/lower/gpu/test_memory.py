"""Device memory: merging, limits, and copies by all threads."""

from __future__ import annotations

from typing import Any

import pytest

from lower.gpu_programs import (
    check_gpu,
    gpu_lower,
    product,
    row_sum,
    softmax,
    syncs,
    tiled_matmul,
    virtual_program,
)
from tileloom import build
from tileloom.base.errors import UserError
from tileloom.lower.gpu.verify_gpu_code import verify_gpu_code
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.target import Target
from tileloom.target.limits import GPULimits
from tileloom.tir import (
    Allocate,
    BufferStore,
    PrimFunc,
    collect,
)

# ---------------------------------------------------------------------------- memory


def test_dynamic_shared_memory_is_one_allocation() -> None:
    flat = check_gpu(tiled_matmul(scope="shared.dyn"), product)
    dynamic = [a for a in collect(flat.body, Allocate) if a.buffer_var.pointee[1] == "shared.dyn"]  # type: ignore[index]
    assert [(a.dtype, int(a.extents[0])) for a in dynamic] == [("uint8", 256)]
    assert syncs(flat) == 2
    notes = {
        "software_pipeline_stage": [0, 0, 1],
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_async_stages": [0],
    }
    check_gpu(tiled_matmul(scope="shared.dyn", annotations=notes), product)


def test_limits() -> None:
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


def launches(shared: int = 16, **extents: int) -> PrimFunc:
    """A kernel with these numbers of blocks and threads, and so many bytes of shared memory."""
    body = "".join(
        f"    {tag[0]}{tag[-1]} = T.launch_thread('{tag[:-2]}.{tag[-1]}', {n})\n"
        for tag, n in extents.items()
    )
    func = from_source(
        "from tileloom.script import tir as T\n@T.prim_func\n"
        "def f(A: T.Buffer((1,), 'uint8'), B: T.Buffer((1,), 'uint8')):\n"
        f"{body}"
        "    with T.block('b'):\n"
        f"        S = T.alloc_buffer(({shared},), 'uint8', scope='shared')\n"
        f"        S[0] = A[0]\n        S[{shared} - 1] = A[0]\n"
        f"        B[0] = S[0] + S[{shared} - 1]\n"
    )
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(
    ("program", "arch", "reason"),
    [
        ({"threadIdx_x": 2048}, "sm_80", "2048 threads in a block, at most 1024"),
        ({"threadIdx_x": 64, "threadIdx_y": 32}, "sm_90", "2048 threads in a block, at most 1024"),
        ({"threadIdx_z": 65}, "sm_80", "65 threads of threadIdx.z, at most 64"),
        ({"blockIdx_y": 70000}, "sm_80", "70000 blocks of blockIdx.y, at most 65535"),
        ({"blockIdx_z": 65536}, "sm_80", "65536 blocks of blockIdx.z, at most 65535"),
        ({"shared": 200 << 10, "threadIdx_x": 1}, "sm_80", "204800 bytes of shared memory, at "),
        ({"shared": 100 << 10, "threadIdx_x": 1}, "sm_86", "102400 bytes of shared memory, at "),
    ],
)
def test_what_cannot_be_launched_is_not_built(
    program: dict[str, int], arch: str, reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        build(launches(**program), f"cuda -arch={arch}", device="emulator")


def test_what_is_just_within_limits_is_built() -> None:
    for program in (
        {"threadIdx_x": 16, "threadIdx_z": 64},
        {"blockIdx_x": 70000, "blockIdx_y": 65535},
        {"shared": 163 << 10, "threadIdx_x": 1},
    ):
        build(launches(**program), "cuda -arch=sm_80", device="emulator")


def test_limits_of_a_target() -> None:
    target = Target("cuda", "sm_90", max_threads=512, shared_memory=1000)
    limits = GPULimits.of(target)
    assert (limits.max_threads_per_block, limits.max_shared_memory_per_block) == (512, 1000)


def test_every_store_is_legal_after_each_pass() -> None:
    flat = gpu_lower(softmax(3, 40, 32))
    assert all(len(store.indices) == 1 for store in collect(flat.body, BufferStore))


# ---------------------------------------------------------------------------- copies


def copied_matmul(notes: dict[str, Any], scope: str = "shared") -> PrimFunc:
    """C = A @ B on 8 by 4 threads; tiles come by `read_at`, the result goes by `write_at`."""

    @T.prim_func
    def func(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ) -> None:
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
def test_copies_by_all_threads(vector_bytes: int, local_stage: int) -> None:
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


def test_a_copy_that_is_none() -> None:
    notes = {"auto_copy": 1}

    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("no"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            T.block_attr(notes)
            for i in range(8):
                B[i] = A[i] + T.float32(1)

    with pytest.raises(UserError, match="block 'no' is annotated 'auto_copy'"):
        gpu_lower(func)


@pytest.mark.parametrize("pipeline", [False, True])
def test_copies_through_registers(pipeline: bool) -> None:
    """The fetch of the next tile and the store of this one are statements of their own."""
    loop = {}
    if pipeline:
        loop = {
            "software_pipeline_stage": [0, 1, 1],
            "software_pipeline_order": [2, 0, 1],
        }
    notes = {"tir.manifest_shared_memory_local_stage": 1}

    @T.prim_func
    def func(A: T.Buffer((5, 32), "float32"), B: T.Buffer((5, 32), "float32")) -> None:
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


def test_memory_of_a_kernel_is_not_the_hosts() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for i in range(8):
                with T.block("S"):
                    v = T.axis.spatial(8, i)
                    S[v] = A[v]
            for i in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = S[v]

    with pytest.raises(UserError, match="'S', memory of one kernel, is used outside of its"):
        gpu_lower(func)


def test_pointers_to_merged_memory_are_not_passed_on() -> None:
    """Whoever gets one would have to know where in the one allocation it is."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    for x in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("B"):
            vx = T.axis.spatial(32, x)
            S = T.alloc_buffer((32,), scope="shared.dyn")
            R = T.alloc_buffer((32,), scope="shared.dyn")
            S[vx] = A[vx]
            R[vx] = S[vx]
            T.evaluate(T.call_extern("int32", "known_to_others", S.data))
            A[vx] = R[vx]
""")
    with pytest.raises(UserError, match="the pointer to dynamic shared memory S is passed on"):
        gpu_lower(func)
