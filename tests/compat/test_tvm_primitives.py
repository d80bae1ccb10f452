"""Before and after of single steps, written as TVM's users write such tests."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.compat.tvm import tir
from tileloom.compat.tvm.script import tir as T
from tileloom.compat.tvm.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)
from tileloom.schedule import Schedule


@T.prim_func
def chain(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16))
    C = T.match_buffer(c, (32, 16))
    for i, j in T.grid(32, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def computed_at(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16))
    C = T.match_buffer(c, (32, 16))
    for i in T.serial(0, 32):
        for ax0 in T.serial(16):
            with T.block("B"):
                vi = T.axis.S(32, i)
                vj = T.axis.S(16, ax0)
                B[vi, vj] = A[vi, vj] * 2.0
        for j in T.serial(0, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def computed_at_with_unit_loops(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16))
    C = T.match_buffer(c, (32, 16))
    for i, j in T.grid(32, 16):
        for ax0, ax1 in T.grid(1, 1):
            with T.block("B"):
                vi = T.axis.S(32, i + ax0)
                vj = T.axis.S(16, j + ax1)
                B[vi, vj] = A[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def inlined(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    C = T.match_buffer(c, (32, 16))
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0 + 1.0


@T.prim_func
def cached(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    C = T.match_buffer(c, (32, 16))
    B = T.alloc_buffer((32, 16))
    A_shared = T.alloc_buffer((32, 16), scope="shared")
    for ax0, ax1 in T.grid(32, 16):
        with T.block("A_shared"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_shared[v0, v1] = A[v0, v1]
    for i, j in T.grid(32, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_shared[vi, vj] * 2.0
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def reindexed(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    C = T.match_buffer(c, (32, 16))
    B = T.alloc_buffer((32, 16))
    B_reindex = T.alloc_buffer((32, 16))
    for i, j in T.grid(32, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for ax0, ax1 in T.grid(32, 16):
        with T.block("B_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B_reindex[v0, v1] = B[v0, v1]
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B_reindex[vi, vj] + 1.0


@T.prim_func
def merged(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16))
    C = T.match_buffer(c, (32, 16))
    for i_m in range(32):
        for j in range(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i_m, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for j in range(16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i_m, j])
                C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def split_with_a_rest(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16))
    C = T.match_buffer(c, (32, 16))
    for i_0, i_1, j in T.grid(5, 7, 16):
        with T.block("B"):
            vi = T.axis.S(32, i_1 + i_0 * 7)
            vj = T.axis.S(16, j)
            T.where(i_0 * 7 + i_1 < 32)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def fused_in_shared_memory(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (32, 16))
    B = T.alloc_buffer((32, 16), scope="shared")
    C = T.match_buffer(c, (32, 16))
    for f in range(512):
        with T.block("B"):
            vi = T.axis.S(32, f // 16)
            vj = T.axis.S(16, f % 16)
            T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(32, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


def fuse_and_share(sch: Schedule) -> None:
    sch.fuse(*sch.get_loops("B"))
    sch.set_scope("B", 0, "shared")
    sch.storage_align("B", 0, axis=0, factor=32, offset=8)


STEPS: dict[str, Any] = {
    "compute_at": (
        lambda s: s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0]),
        computed_at,
    ),
    "compute_at_unit": (
        lambda s: s.compute_at("B", s.get_loops("C")[1], preserve_unit_loops=True),
        computed_at_with_unit_loops,
    ),
    "compute_inline": (lambda s: s.compute_inline("B"), inlined),
    "reverse_compute_inline": (lambda s: s.reverse_compute_inline("C"), inlined),
    "cache_read": (lambda s: s.cache_read("B", 0, "shared"), cached),
    "reindex": (lambda s: s.reindex("C", ("read", 0)), reindexed),
    "merge": (lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0]), merged),
    "split": (lambda s: s.split(s.get_loops("B")[0], [None, 7]), split_with_a_rest),
    "fuse_and_share": (fuse_and_share, fused_in_shared_memory),
}


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str) -> None:
    take, expected = STEPS[name]
    sch = tir.Schedule(chain, debug_mask="all")
    take(sch)
    assert_structural_equal_ignore_global_symbol(sch.mod["main"], expected)
    verify_trace_roundtrip(sch=sch, mod=chain)


@T.prim_func
def square_sum(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [16, 8, 12])
    C = T.match_buffer(c, [16])
    for b0, i0, j0 in T.grid(16, 8, 12):
        with T.block("C"):
            b, i, j = T.axis.remap("SRR", [b0, i0, j0])
            with T.init():
                C[b] = 0.0
            C[b] = C[b] + A[b, i, j] * A[b, i, j]


@T.prim_func
def square_sum_factored(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [16, 8, 12])
    C = T.match_buffer(c, [16])
    C_rf = T.alloc_buffer([16, 12])
    for i0, i1, i2 in T.grid(16, 8, 12):
        with T.block("C_rf"):
            vi2, b, i = T.axis.remap("SSR", [i2, i0, i1])
            with T.init():
                C_rf[b, vi2] = 0.0
            C_rf[b, vi2] = C_rf[b, vi2] + (A[b, i, vi2] * A[b, i, vi2])
    for i0, i2 in T.grid(16, 12):
        with T.block("C"):
            vi2, b = T.axis.remap("RS", [i2, i0])
            with T.init():
                C[b] = 0.0
            C[b] = C[b] + C_rf[b, vi2]


def test_rfactor() -> None:
    sch = tir.Schedule(square_sum, debug_mask="all")
    _, _, k = sch.get_loops(sch.get_block("C"))
    rf_block = sch.rfactor(k, factor_axis=1)
    assert sch.get(rf_block).same_as(sch.get(sch.get_block("C_rf")))
    assert_structural_equal_ignore_global_symbol(sch.mod["main"], square_sum_factored)
    verify_trace_roundtrip(sch=sch, mod=square_sum)


@T.prim_func
def tiled(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (32, 32), "float32")
    B = T.match_buffer(b, (32, 32), "float32")
    for i_0, j_0, i_1, j_1 in T.grid(4, 2, 8, 16):
        with T.block("B"):
            vi = T.axis.spatial(32, i_0 * 8 + i_1)
            vj = T.axis.spatial(32, j_0 * 16 + j_1)
            B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def blockized(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (32, 32), "float32")
    B = T.match_buffer(b, (32, 32), "float32")
    for i_0, j_0 in T.grid(4, 2):
        with T.block("B_o"):
            vio, vjo = T.axis.remap("SS", [i_0, j_0])
            T.reads(A[vio * 8 : vio * 8 + 8, vjo * 16 : vjo * 16 + 16])
            T.writes(B[vio * 8 : vio * 8 + 8, vjo * 16 : vjo * 16 + 16])
            for i_1, j_1 in T.grid(8, 16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i_1, j_1])
                    B[vio * 8 + vi, vjo * 16 + vj] = A[vio * 8 + vi, vjo * 16 + vj] * 2.0


def test_blockize() -> None:
    sch = tir.Schedule(tiled, debug_mask="all")
    sch.blockize(sch.get_loops("B")[2])
    assert_structural_equal_ignore_global_symbol(sch.mod["main"], blockized)
    verify_trace_roundtrip(sch=sch, mod=tiled)
