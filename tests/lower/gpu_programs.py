"""Thread programs, as schedules make them, and a check that lowering keeps what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom.lower.analysis.threads import is_sync
from tileloom.lower.pipeline import GPU_PIPELINE, Pass, run_passes
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.tir import PrimFunc, pre_order


def gpu_lower(func: PrimFunc, passes: Sequence[Pass] = GPU_PIPELINE) -> PrimFunc:
    """The function through the GPU pipeline, legal after every pass."""
    return run_passes(func, passes, check=True)


def check_gpu(
    func: PrimFunc, reference: Callable[..., Sequence[np.ndarray]], seed: int = 0
) -> PrimFunc:
    """The lowered function; on random arrays it gives what the reference gives."""
    rng = np.random.default_rng(seed)
    args = []
    for buffer in func.buffers:
        kind, shape = buffer.dtype.numpy, buffer.static_shape
        values = rng.uniform(-1, 1, shape) if kind.kind == "f" else rng.integers(-9, 9, shape)
        args.append(values.astype(kind))
    expected = reference(*[a.copy() for a in args])
    flat = gpu_lower(func)
    run_kernels(flat, *args)
    for have, want in zip(args[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    return flat


def row_sum(threads: int, rows: int = 3, columns: int = 0, ty: int = 1) -> PrimFunc:
    """B[i] = 2 + the sum of A[i, :], `threads` to a row, `ty` rows to a block."""
    n, m = rows * ty, columns or threads
    steps = -(-m // threads)

    @T.prim_func
    def func(A: T.Buffer((n, m), "float32"), B: T.Buffer((n,), "float32")) -> None:
        for io in T.thread_binding(rows, thread="blockIdx.x"):
            for ii in T.thread_binding(ty, thread="threadIdx.y"):
                for ko in range(steps):
                    for ki in T.thread_binding(threads, thread="threadIdx.x"):
                        with T.block("sum"):
                            vi = T.axis.spatial(n, io * ty + ii)
                            vk = T.axis.reduce(m, ko * threads + ki)
                            T.where(ko * threads + ki < m)
                            T.reads(A[vi, vk])
                            T.writes(B[vi])
                            with T.init():
                                B[vi] = T.float32(2)
                            B[vi] = B[vi] + A[vi, vk]

    return func


def softmax(rows: int, columns: int, threads: int) -> PrimFunc:
    """Row-wise softmax: two reductions over threads, their results in shared memory."""
    steps = -(-columns // threads)
    n, m = rows, columns

    @T.prim_func
    def func(A: T.Buffer((n, m), "float32"), B: T.Buffer((n, m), "float32")) -> None:
        top = T.alloc_buffer((n,), "float32", scope="shared")
        total = T.alloc_buffer((n,), "float32", scope="shared")
        for i in T.thread_binding(n, thread="blockIdx.x"):
            for ko in range(steps):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("top"):
                        vi = T.axis.spatial(n, i)
                        vk = T.axis.reduce(m, ko * threads + ki)
                        T.where(ko * threads + ki < m)
                        T.reads(A[vi, vk])
                        T.writes(top[vi])
                        with T.init():
                            top[vi] = T.min_value("float32")
                        top[vi] = T.max(top[vi], A[vi, vk])
            for ko in range(steps):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("total"):
                        vi = T.axis.spatial(n, i)
                        vk = T.axis.reduce(m, ko * threads + ki)
                        T.where(ko * threads + ki < m)
                        T.reads(A[vi, vk], top[vi])
                        T.writes(total[vi])
                        with T.init():
                            total[vi] = T.float32(0)
                        total[vi] = total[vi] + T.exp(A[vi, vk] - top[vi])
            for ko in range(steps):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("divide"):
                        vi = T.axis.spatial(n, i)
                        vk = T.axis.spatial(m, ko * threads + ki)
                        T.where(ko * threads + ki < m)
                        T.reads(A[vi, vk], top[vi], total[vi])
                        T.writes(B[vi, vk])
                        B[vi, vk] = T.exp(A[vi, vk] - top[vi]) / total[vi]

    return func


def tiled_matmul(
    n: int = 16,
    tile: int = 8,
    step: int = 4,
    annotations: dict[str, Any] | None = None,
    scope: str = "shared",
) -> PrimFunc:
    """C = A @ B, tiles of A and B in shared memory, C in registers; tile x tile / 2 threads."""
    half = tile // 2
    notes = annotations or {}

    @T.prim_func
    def func(
        A: T.Buffer((n, n), "float32"),
        B: T.Buffer((n, n), "float32"),
        C: T.Buffer((n, n), "float32"),
    ) -> None:
        A_shared = T.alloc_buffer((n, n), "float32", scope=scope)
        B_shared = T.alloc_buffer((n, n), "float32", scope=scope)
        C_local = T.alloc_buffer((n, n), "float32", scope="local")
        for by in T.thread_binding(n // tile, thread="blockIdx.y"):
            for bx in T.thread_binding(n // tile, thread="blockIdx.x"):
                for ty in T.thread_binding(half, thread="threadIdx.y"):
                    for tx in T.thread_binding(tile, thread="threadIdx.x"):
                        for u in range(2):
                            with T.block("start"):
                                vi = T.axis.spatial(n, by * tile + ty * 2 + u)
                                vj = T.axis.spatial(n, bx * tile + tx)
                                T.reads()
                                T.writes(C_local[vi, vj])
                                C_local[vi, vj] = T.float32(0)
                for ko in T.serial(n // step, annotations=notes):
                    for ty in T.thread_binding(half, thread="threadIdx.y"):
                        for tx in T.thread_binding(tile, thread="threadIdx.x"):
                            for f in range(tile * step // (half * tile)):
                                with T.block("A_shared"):
                                    at = T.meta_var((f * half + ty) * tile + tx)
                                    vi = T.axis.spatial(n, by * tile + at // step)
                                    vk = T.axis.spatial(n, ko * step + at % step)
                                    T.reads(A[vi, vk])
                                    T.writes(A_shared[vi, vk])
                                    A_shared[vi, vk] = A[vi, vk]
                    for ty in T.thread_binding(half, thread="threadIdx.y"):
                        for tx in T.thread_binding(tile, thread="threadIdx.x"):
                            for f in range(tile * step // (half * tile)):
                                with T.block("B_shared"):
                                    at = T.meta_var((f * half + ty) * tile + tx)
                                    vk = T.axis.spatial(n, ko * step + at // tile)
                                    vj = T.axis.spatial(n, bx * tile + at % tile)
                                    T.reads(B[vk, vj])
                                    T.writes(B_shared[vk, vj])
                                    B_shared[vk, vj] = B[vk, vj]
                    for ty in T.thread_binding(half, thread="threadIdx.y"):
                        for tx in T.thread_binding(tile, thread="threadIdx.x"):
                            for u, ki in T.grid(2, step):
                                with T.block("update"):
                                    vi = T.axis.spatial(n, by * tile + ty * 2 + u)
                                    vj = T.axis.spatial(n, bx * tile + tx)
                                    vk = T.axis.reduce(n, ko * step + ki)
                                    T.reads(C_local[vi, vj], A_shared[vi, vk], B_shared[vk, vj])
                                    T.writes(C_local[vi, vj])
                                    C_local[vi, vj] = (
                                        C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
                                    )
                for ty in T.thread_binding(half, thread="threadIdx.y"):
                    for tx in T.thread_binding(tile, thread="threadIdx.x"):
                        for u in range(2):
                            with T.block("finish"):
                                vi = T.axis.spatial(n, by * tile + ty * 2 + u)
                                vj = T.axis.spatial(n, bx * tile + tx)
                                T.reads(C_local[vi, vj])
                                T.writes(C[vi, vj])
                                C[vi, vj] = C_local[vi, vj]

    return func


def calls(func: PrimFunc, name: str) -> int:
    """How many statements call an operation."""
    return str(func).count(f"{name}")


def syncs(func: PrimFunc) -> int:
    return sum(map(is_sync, pre_order(func.body)))


def product(
    A: np.ndarray[Any, Any], B: np.ndarray[Any, Any], C: np.ndarray[Any, Any]
) -> list[np.ndarray[Any, Any]]:
    return [A @ B]


def virtual_program(kind: str) -> PrimFunc:
    """Neighbours' values of eight threads, for two virtual threads that differ in one step."""

    @T.prim_func
    def func(A: T.Buffer((4, 2, 8), "float32"), B: T.Buffer((4, 2, 8), "float32")) -> None:
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
