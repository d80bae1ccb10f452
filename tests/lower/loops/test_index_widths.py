"""Indices of 32 bits where sizes permit, of 64 where they do not; what LLVM is told of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lower.gpu_programs import gpu_lower
from tileloom import assembly, te
from tileloom.expr import const
from tileloom.lower.loops.narrow_index_dtype import narrow_index_dtype
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.tir import AttrStmt, BufferStore, IRModule, PrimFunc, collect

EDGE = 1 << 31


def copy(rows: int, columns: int, kind: str = "int32", dtype: str = "int8") -> IRModule:
    """B = A + 1 with loops of a type, on blocks of 256 threads."""
    extents = [const(rows, kind), const(columns, kind)] if kind == "int64" else [rows, columns]
    a = te.placeholder(extents, dtype, name="A")
    b = te.compute(extents, lambda i, j: a[i, j] + const(1, dtype), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    loop, thread = sch.split(sch.get_loops("B")[1], [None, 256])
    sch.bind(sch.fuse(sch.get_loops("B")[0], loop), "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return sch.mod


def index_type(func: PrimFunc) -> str:
    """The type of the index that the kernel stores at."""
    (store,) = collect(func.body, BufferStore)
    assert {str(load.dtype) for load in store.indices} == {str(store.indices[0].dtype)}
    return str(store.indices[0].dtype)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (7, 33, "int32"),
        (EDGE // 256 - 1, 256, "int32"),
        (EDGE // 256, 256, "int32"),  # the last index is 2**31 - 1
        (EDGE // 256 + 1, 256, "int64"),
        (3, EDGE // 2, "int64"),
        (1, 4096, "int32"),
    ],
)
def test_at_the_edge(kind: str, rows: int, columns: int, expected: str) -> None:
    assert index_type(gpu_lower(copy(rows, columns, kind)["main"])) == expected


def test_threads_are_32_bits_wide_where_they_can() -> None:
    flat = gpu_lower(copy(7, 512, "int64")["main"])
    threads = [a.node.var for a in collect(flat.body, AttrStmt) if a.attr_key == "thread_extent"]
    assert [str(var.dtype) for var in threads] == ["int32", "int32"]


def test_strided_places_beyond_the_edge() -> None:
    """Few elements, far apart: what counts is the place, not the number of iterations."""

    def program(stride: int) -> PrimFunc:
        @T.prim_func
        def func(A: T.Buffer((T.int64(stride) * 64,), "int8")) -> None:
            for b in T.thread_binding(64, thread="blockIdx.x"):
                A[T.Cast("int64", b) * T.int64(stride)] = T.int8(1)

        return func

    assert index_type(gpu_lower(program(EDGE // 64))) == "int32"
    assert index_type(gpu_lower(program(EDGE // 32))) == "int64"


def test_parts_that_overflow_stay_wide() -> None:
    """(b * 2**20) // 2**10: the product needs 64 bits, the index does not."""

    @T.prim_func
    def func(A: T.Buffer((1 << 23,), "int8")) -> None:
        for b in T.thread_binding(T.int64(1 << 13), thread="blockIdx.x"):
            A[T.bitwise_and(b * T.int64(1 << 20), T.int64((1 << 33) - 1)) // T.int64(1 << 10)] = (
                T.int8(1)
            )

    assert index_type(gpu_lower(func)) == "int64"


def test_results() -> None:
    flat = gpu_lower(copy(5, 768, "int64", "int32")["main"])
    a, b = np.arange(5 * 768, dtype="i").reshape(5, 768), np.zeros((5, 768), "i")
    run_kernels(flat, a, b)
    np.testing.assert_array_equal(b, a + 1)
    assert narrow_index_dtype(flat) is flat


def test_ptx_computes_narrow_indices_in_32_bits() -> None:
    narrow = assembly(copy(7, 512), "cuda -arch=sm_80")
    wide = assembly(copy(EDGE // 256 + 1, 256), "cuda -arch=sm_80")
    assert not re.search(r"(mad|mul)\.(lo\.)?[su]64", narrow)
    assert re.search(r"\.[su]?64\b.*\n", wide)


def test_llvm_knows_how_many_threads_and_blocks_there_are() -> None:
    """Conditions that hold for all of them, which only LLVM sees through, are gone."""

    def program(threads: int, blocks: int) -> IRModule:
        @T.prim_func
        def func(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")) -> None:
            for b in T.thread_binding(8, thread="blockIdx.x"):
                for t in T.thread_binding(128, thread="threadIdx.x"):
                    if T.clz(t) > 32 - threads and T.clz(b) > 32 - blocks:
                        B[b * 128 + t] = A[b * 128 + t]

        return IRModule({"main": func})

    assert "setp" not in assembly(program(8, 4), "cuda -arch=sm_80")
    assert "setp" in assembly(program(7, 4), "cuda -arch=sm_80")
    assert "setp" in assembly(program(8, 3), "cuda -arch=sm_80")
