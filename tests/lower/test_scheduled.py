"""CPU programs as schedules leave them, through every pass and as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom.lower import lower
from tileloom.script import tir as T
from tileloom.tir import Allocate, DeclBuffer, For, IfThenElse, PrimFunc, collect, run
from tower import check_compiled


def verified(func: PrimFunc, expected: Callable[..., Any], seed: int = 0) -> PrimFunc:
    """The flat form; interpreted after each pass and compiled it gives what NumPy gives."""
    rng = np.random.default_rng(seed)
    args = []
    for buffer in func.buffers:
        kind, shape = buffer.dtype.numpy, buffer.static_shape
        floats = kind.kind == "f"
        values = rng.uniform(-1, 1, shape) if floats else rng.integers(-9, 9, shape)
        args.append(values.astype(kind))
    check_compiled(func, args, lambda *a: expected(*a), rtol=2e-5, atol=2e-5)
    return lower(func)


def sizes(func: PrimFunc) -> dict[str, int]:
    return {a.buffer_var.name: int(a.extents[0]) for a in collect(func.body, Allocate)}


def test_tensorized_blocks() -> None:
    """A micro kernel over views with strides and offsets of their own."""

    @T.prim_func
    def func(
        A: T.Buffer((12, 8), "float32"),
        B: T.Buffer((8, 16), "float32"),
        C: T.Buffer((12, 16), "float32"),
    ) -> None:
        for io, jo in T.grid(3, 2):
            with T.block("C_init_o"):
                vio, vjo = T.axis.remap("SS", [io, jo])
                T.reads()
                T.writes(C[vio * 4 : vio * 4 + 4, vjo * 8 : vjo * 8 + 8])
                for ii, jj in T.grid(4, 8):
                    with T.block("C_init"):
                        vi, vj = T.axis.remap("SS", [ii, jj])
                        T.reads()
                        T.writes(C[vio * 4 + vi, vjo * 8 + vj])
                        C[vio * 4 + vi, vjo * 8 + vj] = T.float32(0)
            for ko in range(4):
                with T.block("C_update_o"):
                    vio, vjo, vko = T.axis.remap("SSR", [io, jo, ko])
                    T.reads(
                        C[vio * 4 : vio * 4 + 4, vjo * 8 : vjo * 8 + 8],
                        A[vio * 4 : vio * 4 + 4, vko * 2 : vko * 2 + 2],
                        B[vko * 2 : vko * 2 + 2, vjo * 8 : vjo * 8 + 8],
                    )
                    T.writes(C[vio * 4 : vio * 4 + 4, vjo * 8 : vjo * 8 + 8])
                    sa, sb, sc = T.int32(), T.int32(), T.int32()
                    A_1 = T.match_buffer(
                        A[vio * 4 : vio * 4 + 4, vko * 2 : vko * 2 + 2],
                        (4, 2),
                        strides=(sa, 1),
                        offset_factor=1,
                    )
                    B_1 = T.match_buffer(
                        B[vko * 2 : vko * 2 + 2, vjo * 8 : vjo * 8 + 8],
                        (2, 8),
                        strides=(sb, 1),
                        offset_factor=1,
                    )
                    C_1 = T.match_buffer(
                        C[vio * 4 : vio * 4 + 4, vjo * 8 : vjo * 8 + 8],
                        (4, 8),
                        strides=(sc, 1),
                        offset_factor=1,
                    )
                    for i, k in T.grid(4, 2):
                        for j in T.vectorized(8):
                            C_1[i, j] = C_1[i, j] + A_1[i, k] * B_1[k, j]

    flat = verified(func, lambda A, B, C: A @ B)
    assert not collect(flat.body, Allocate)


@pytest.mark.parametrize(("n", "tile"), [(16, 4), (13, 4), (5, 8), (1, 4)])
def test_caches_in_parallel_loops(n: int, tile: int) -> None:
    """Each iteration of the parallel loop has its own copies; tiles do not fit."""
    steps = -(-n // tile)

    @T.prim_func
    def func(A: T.Buffer((n, 12), "float32"), B: T.Buffer((n, 12), "float32")) -> None:
        A_local = T.alloc_buffer((n, 12), "float32", scope="local")
        B_local = T.alloc_buffer((n, 12), "float32", scope="local")
        for io in T.parallel(steps):
            for a0, a1 in T.grid(tile, 12):
                with T.block("A_local"):
                    T.where(io * tile + a0 < n)
                    v0 = T.axis.spatial(n, io * tile + a0)
                    v1 = T.axis.spatial(12, a1)
                    T.reads(A[v0, v1])
                    T.writes(A_local[v0, v1])
                    A_local[v0, v1] = A[v0, v1] * T.float32(2)
            for ii, j in T.grid(tile, 12):
                with T.block("B_local"):
                    T.where(io * tile + ii < n)
                    vi = T.axis.spatial(n, io * tile + ii)
                    vj = T.axis.spatial(12, j)
                    T.reads(A_local[vi, 11 - vj])
                    T.writes(B_local[vi, vj])
                    B_local[vi, vj] = A_local[vi, 11 - vj] + T.float32(1)
            for a0, a1 in T.grid(tile, 12):
                with T.block("B_global"):
                    T.where(io * tile + a0 < n)
                    v0 = T.axis.spatial(n, io * tile + a0)
                    v1 = T.axis.spatial(12, a1)
                    T.reads(B_local[v0, v1])
                    T.writes(B[v0, v1])
                    B[v0, v1] = B_local[v0, v1]

    flat = verified(func, lambda A, B: A[:, ::-1] * 2 + 1)
    assert all(size <= min(tile, n) * 12 for size in sizes(flat).values())
    if steps > 1:
        (loop,) = (f for f in collect(flat.body, For) if f.kind == "parallel")
        assert len(collect(loop, Allocate)) == len(collect(flat.body, Allocate)) > 0


def test_rfactor_in_parallel() -> None:
    @T.prim_func
    def func(A: T.Buffer((5, 64), "float32"), B: T.Buffer((5,), "float32")) -> None:
        B_rf = T.alloc_buffer((8, 5), "float32")
        for ko in T.parallel(8):
            for i, ki in T.grid(5, 8):
                with T.block("B_rf"):
                    vko, vi, vki = T.axis.remap("SSR", [ko, i, ki])
                    T.reads(A[vi, vko * 8 + vki])
                    T.writes(B_rf[vko, vi])
                    with T.init():
                        B_rf[vko, vi] = T.float32(0)
                    B_rf[vko, vi] = B_rf[vko, vi] + A[vi, vko * 8 + vki]
        for i, ko in T.grid(5, 8):
            with T.block("B"):
                vko, vi = T.axis.remap("RS", [ko, i])
                T.reads(B_rf[vko, vi])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + B_rf[vko, vi]

    flat = verified(func, lambda A, B: A.sum(1))
    assert sizes(flat) == {"B_rf": 40}


def test_decomposed_reduction_with_a_parallel_outer_loop() -> None:
    @T.prim_func
    def func(A: T.Buffer((9, 33), "int32"), B: T.Buffer((9,), "int32")) -> None:
        for i in T.parallel(9):
            with T.block("B_init"):
                vi = T.axis.spatial(9, i)
                T.writes(B[vi])
                B[vi] = -2147483648
            for ko, ki in T.grid(5, 8):
                with T.block("B_update"):
                    T.where(ko * 8 + ki < 33)
                    vi = T.axis.spatial(9, i)
                    vk = T.axis.reduce(33, ko * 8 + ki)
                    T.reads(B[vi], A[vi, vk])
                    T.writes(B[vi])
                    B[vi] = T.max(B[vi], A[vi, vk])

    verified(func, lambda A, B: A.max(1))


@pytest.mark.parametrize("n", [16, 15, 7])
def test_compute_at_with_predicates(n: int) -> None:
    """Two stencils, the first computed for each tile of the second, with a halo."""
    tile = 4
    steps = -(-n // tile)

    @T.prim_func
    def func(A: T.Buffer((n + 4,), "int32"), C: T.Buffer((n,), "int32")) -> None:
        B = T.alloc_buffer((n + 2,), "int32")
        for io in T.parallel(steps):
            for ax in range(tile + 2):
                with T.block("B"):
                    T.where(io * tile + ax < n + 2)
                    v = T.axis.spatial(n + 2, io * tile + ax)
                    T.reads(A[v : v + 3])
                    T.writes(B[v])
                    B[v] = A[v] + A[v + 1] * 3 + A[v + 2]
            for ii in T.vectorized(tile):
                with T.block("C"):
                    T.where(io * tile + ii < n)
                    v = T.axis.spatial(n, io * tile + ii)
                    T.reads(B[v : v + 3])
                    T.writes(C[v])
                    C[v] = B[v] - B[v + 2]

    def expected(A: np.ndarray[Any, Any], C: np.ndarray[Any, Any]) -> Any:
        B = A[:-2] + A[1:-1] * 3 + A[2:]
        return B[:-2] - B[2:]

    flat = verified(func, expected)
    assert sizes(flat) == {"B": tile + 2}


def test_padding() -> None:
    """A padded copy, its zeros written apart from its middle, and a convolution of it."""

    @T.prim_func
    def func(A: T.Buffer((7, 7), "float32"), C: T.Buffer((7, 7), "float32")) -> None:
        P = T.alloc_buffer((9, 9), "float32")
        for i, j in T.grid(9, 9):
            with T.block("P_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(P[vi, vj])
                P[vi, vj] = T.float32(0)
        for i, j in T.grid(7, 7):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(P[vi + 1, vj + 1])
                P[vi + 1, vj + 1] = A[vi, vj]
        for i, j, u, v in T.grid(7, 7, 3, 3):
            with T.block("C"):
                vi, vj, vu, vv = T.axis.remap("SSRR", [i, j, u, v])
                T.reads(P[vi + vu, vj + vv])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + P[vi + vu, vj + vv]

    def expected(A: np.ndarray[Any, Any], C: np.ndarray[Any, Any]) -> Any:
        P = np.pad(A, 1)
        return sum(P[u : u + 7, v : v + 7] for u in range(3) for v in range(3))

    verified(func, expected)


def test_padding_by_a_choice() -> None:
    @T.prim_func
    def func(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")) -> None:
        for io in range(2):
            for ii in T.vectorized(8):
                with T.block("B"):
                    v = T.axis.spatial(16, io * 8 + ii)
                    T.reads(A[v - 3])
                    T.writes(B[v])
                    B[v] = T.if_then_else(v >= 3 and v < 13, A[v - 3], T.float32(-1))

    verified(func, lambda A, B: np.pad(A, 3, constant_values=-1))


def test_storage_align() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32")) -> None:
        S = T.alloc_buffer((8, 6), "float32")
        for i, j in T.grid(8, 6):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(S[vi, vj])
                T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
                S[vi, vj] = A[vi, vj]
        for i, j in T.grid(6, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(S[vj, vi])
                T.writes(B[vi, vj])
                B[vi, vj] = S[vj, vi]

    flat = verified(func, lambda A, B: A.T)
    assert sizes(flat) == {"S": 7 * 9 + 6}


def test_a_transformed_layout() -> None:
    """B lives in tiles of 4 by 4, the last of them padded."""

    @T.prim_func
    def func(A: T.Buffer((6, 10), "int32"), C: T.Buffer((6, 10), "int32")) -> None:
        B = T.alloc_buffer((2, 3, 4, 4), "int32")
        for i, j in T.grid(6, 10):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi // 4, vj // 4, vi % 4, vj % 4])
                B[vi // 4, vj // 4, vi % 4, vj % 4] = A[vi, vj] * 3
        for io, jo in T.grid(2, 3):
            for ii in range(4):
                for jj in T.vectorized(4):
                    with T.block("C"):
                        T.where(io * 4 + ii < 6 and jo * 4 + jj < 10)
                        vi = T.axis.spatial(6, io * 4 + ii)
                        vj = T.axis.spatial(10, jo * 4 + jj)
                        T.reads(B[vi // 4, vj // 4, vi % 4, vj % 4])
                        T.writes(C[vi, vj])
                        C[vi, vj] = B[vi // 4, vj // 4, vi % 4, vj % 4] + 1

    flat = verified(func, lambda A, C: A * 3 + 1)
    assert sizes(flat) == {"B": 96}


def test_a_rolling_buffer() -> None:
    """Three rows of B stand for all of them, each overwritten when it is no longer needed."""

    @T.prim_func
    def func(A: T.Buffer((10, 6), "int32"), C: T.Buffer((8, 6), "int32")) -> None:
        B = T.alloc_buffer((3, 6), "int32")
        for i in range(8):
            for r, j in T.grid(3, 6):
                with T.block("B"):
                    T.where(i == 0 or r == 2)
                    T.block_attr({"rolling": 1})
                    vi = T.axis.opaque(10, i + r)
                    vj = T.axis.spatial(6, j)
                    T.reads(A[vi, vj])
                    T.writes(B[vi % 3, vj])
                    B[vi % 3, vj] = A[vi, vj] * 2
            for j, r in T.grid(6, 3):
                with T.block("C"):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    T.reads(B[(vi + vr) % 3, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + B[(vi + vr) % 3, vj]

    flat = verified(func, lambda A, C: 2 * (A[:-2] + A[1:-1] + A[2:]))
    assert sizes(flat) == {"B": 18}
    outer = collect(flat.body, For)[0]
    assert outer.loop_var.name == "i" and not collect(outer, Allocate)


def test_annotations_that_ask_for_unrolled_code() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")) -> None:
        with T.block("root"):
            for i in T.serial(
                16,
                annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1},
            ):
                for k in range(4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        T.reads(A[vi * 4 + vk])
                        T.writes(B[vi])
                        T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi * 4 + vk]

    flat = verified(func, lambda A, B: A.reshape(16, 4).sum(1))
    assert len(collect(flat.body, For)) <= 1


def test_fused_and_split_loops() -> None:
    """One parallel loop over all tiles, the indices recovered by division."""

    @T.prim_func
    def func(A: T.Buffer((9, 5, 7), "float32"), B: T.Buffer((7, 9, 5), "float32")) -> None:
        for f0 in T.parallel(79):
            for f1 in T.vectorized(4):
                with T.block("B"):
                    T.where(f0 * 4 + f1 < 315)
                    v0 = T.axis.spatial(7, (f0 * 4 + f1) // 45)
                    v1 = T.axis.spatial(9, (f0 * 4 + f1) % 45 // 5)
                    v2 = T.axis.spatial(5, (f0 * 4 + f1) % 5)
                    T.reads(A[v1, v2, v0])
                    T.writes(B[v0, v1, v2])
                    B[v0, v1, v2] = A[v1, v2, v0]

    verified(func, lambda A, B: A.transpose(2, 0, 1))


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_matmul_with_caches_and_a_tail(n: int) -> None:
    """Reads cached in vectors, the result written back; also with nothing to sum."""
    m, k = 6, n

    @T.prim_func
    def func(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, 8), "float32"),
        C: T.Buffer((m, 8), "float32"),
    ) -> None:
        C_local = T.alloc_buffer((m, 8), "float32", scope="local")
        A_local = T.alloc_buffer((m, k), "float32", scope="local")
        for io in T.parallel(2):
            for ko in range((k + 2) // 3):
                for a0, a1 in T.grid(3, 3):
                    with T.block("A_local"):
                        T.where(ko * 3 + a1 < k)
                        v0 = T.axis.spatial(m, io * 3 + a0)
                        v1 = T.axis.spatial(k, ko * 3 + a1)
                        T.reads(A[v0, v1])
                        T.writes(A_local[v0, v1])
                        A_local[v0, v1] = A[v0, v1]
                for ii, ki in T.grid(3, 3):
                    for j in T.vectorized(8):
                        with T.block("C"):
                            T.where(ko * 3 + ki < k)
                            vi = T.axis.spatial(m, io * 3 + ii)
                            vj = T.axis.spatial(8, j)
                            vk = T.axis.reduce(k, ko * 3 + ki)
                            T.reads(A_local[vi, vk], B[vk, vj])
                            T.writes(C_local[vi, vj])
                            with T.init():
                                C_local[vi, vj] = T.float32(0)
                            C_local[vi, vj] = C_local[vi, vj] + A_local[vi, vk] * B[vk, vj]
            for ii in range(3):
                for j in T.vectorized(8):
                    with T.block("C_write"):
                        vi = T.axis.spatial(m, io * 3 + ii)
                        vj = T.axis.spatial(8, j)
                        T.reads(C_local[vi, vj])
                        T.writes(C[vi, vj])
                        C[vi, vj] = C_local[vi, vj]

    if n == 0:  # the init is part of a block that never runs; lowering gives it all the same
        c = np.full(m * 8, np.nan, "f")
        run(lower(func), np.zeros(0, "f"), np.zeros(0, "f"), c)
        assert not c.any()
        return
    flat = verified(func, lambda A, B, C: A @ B)
    assert sizes(flat).get("C_local") == 24
    assert {str(branch.condition) for branch in collect(flat.body, IfThenElse)} <= {
        f"ko < {n // 3}"
    }


def test_stages_in_a_row_share_memory() -> None:
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), E: T.Buffer((16,), "float32")) -> None:
        B = T.alloc_buffer((16,), "float32")
        C = T.alloc_buffer((16,), "float32")
        D = T.alloc_buffer((16,), "float32")
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + T.float32(1)
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = B[15 - v] * T.float32(2)
        for i in range(16):
            with T.block("D"):
                v = T.axis.spatial(16, i)
                D[v] = C[15 - v] - T.float32(3)
        for i in range(16):
            with T.block("E"):
                v = T.axis.spatial(16, i)
                E[v] = D[15 - v] * D[v]

    def expected(A: np.ndarray[Any, Any], E: np.ndarray[Any, Any]) -> Any:
        D = (A + 1) * 2 - 3
        return D * D[::-1]

    flat = verified(func, expected)
    assert sizes(flat) == {"B": 16, "C": 16}  # D stands where B was
    assert len(collect(flat.body, DeclBuffer)) == 3


def test_a_block_in_a_block() -> None:
    """Blockized: the outer block's variables are used by the inner one."""

    @T.prim_func
    def func(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")) -> None:
        for io, jo in T.grid(2, 4):
            with T.block("outer"):
                vio, vjo = T.axis.remap("SS", [io, jo])
                T.reads(A[vjo * 2 : vjo * 2 + 2, vio * 4 : vio * 4 + 4])
                T.writes(B[vio * 4 : vio * 4 + 4, vjo * 2 : vjo * 2 + 2])
                S = T.alloc_buffer((8, 8), "int32")
                for x, y in T.grid(2, 4):
                    with T.block("load"):
                        vx = T.axis.spatial(8, vjo * 2 + x)
                        vy = T.axis.spatial(8, vio * 4 + y)
                        T.reads(A[vx, vy])
                        T.writes(S[vx, vy])
                        S[vx, vy] = A[vx, vy] + 1
                for x, y in T.grid(4, 2):
                    with T.block("store"):
                        vx = T.axis.spatial(8, vio * 4 + x)
                        vy = T.axis.spatial(8, vjo * 2 + y)
                        T.reads(S[vy, vx])
                        T.writes(B[vx, vy])
                        B[vx, vy] = S[vy, vx]

    flat = verified(func, lambda A, B: A.T + 1)
    assert sizes(flat) == {"S": 8}


def test_programs_of_several_types() -> None:
    """Lower types in memory, wider ones in registers; int64 loops."""

    @T.prim_func
    def func(A: T.Buffer((4, 32), "int8"), B: T.Buffer((4,), "int32")) -> None:
        W = T.alloc_buffer((T.int64(4), T.int64(32)), "int32")
        for i, k in T.grid(T.int64(4), T.int64(32)):
            with T.block("W"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi, vk])
                T.writes(W[vi, vk])
                W[vi, vk] = T.Cast("int32", A[vi, vk])
        for i in T.parallel(T.int64(4)):
            for k in range(T.int64(32)):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(W[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + W[vi, vk] * W[vi, vk]

    verified(func, lambda A, B: (A.astype("i4") ** 2).sum(1, dtype="i4"))
