"""What PTX says of types, vectors, memory and bounds; and integer divisions at their edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from gpu import assemble, spills
from tileloom import te
from tileloom.base import dtype
from tileloom.driver import assembly
from tileloom.lower import lower
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.tir import IRModule, PrimFunc, run

KINDS = ["bool", "int8", "uint8", "int16", "float16", "bfloat16", "int32", "uint32", "float32",
         "int64", "float64"]  # fmt: skip


def elementwise(
    kind: str, lanes: int, formula: Callable[..., Any] = lambda x: x, count: int = 4096
) -> IRModule:
    a = te.placeholder((count,), kind, name="A")
    b = te.compute((count,), lambda i: formula(a[i]), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    loops = sch.split(sch.get_loops("B")[0], [None, 64, lanes])
    sch.bind(loops[0], "blockIdx.x")
    sch.bind(loops[1], "threadIdx.x")
    if lanes > 1:
        sch.vectorize(loops[2])
    return sch.mod


def instructions(ptx: str, *heads: str) -> list[str]:
    found = re.findall(r"^\s+(?:@!?%p\d+ )?([a-z]\w*\.\S+)", ptx, re.MULTILINE)
    return [word for word in found if word.split(".")[0] in heads]


def lanes_of(kind: str) -> int:
    return 16 // dtype(kind).numpy.itemsize


@pytest.mark.parametrize("kind", KINDS)
def test_whole_vectors_are_moved_at_once(kind: str, tmp_path: Path) -> None:
    ptx = assembly(elementwise(kind, lanes_of(kind)), "cuda -arch=sm_80")
    (load,), (store,) = instructions(ptx, "ld")[2:], instructions(ptx, "st")
    assert re.search(r"^ld\.global(\.nc)?\.(v4\.b32|v2\.b64)$", load)
    assert re.search(r"^st\.global\.(v4\.b32|v2\.b64)$", store)
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bool"])
@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_90a"])
def test_arithmetic(kind: str, arch: str, tmp_path: Path) -> None:
    module = elementwise(kind, lanes_of(kind), lambda x: x * x + T.max(x, T.min(x + x, x * x)))
    ptx = assembly(module, f"cuda -arch={arch}")
    assert len(instructions(ptx, "ld")) == 3
    assert not spills(assemble(ptx, arch, tmp_path))


def test_halves_are_added_in_pairs() -> None:
    for arch in ("sm_70", "sm_90a"):
        ptx = assembly(elementwise("float16", 8, lambda x: x + x), f"cuda -arch={arch}")
        assert instructions(ptx, "add").count("add.f16x2") == 4


@pytest.mark.parametrize(("arch", "by_instruction"), [("sm_75", False), ("sm_80", True)])
def test_rounding_to_bfloat16(arch: str, by_instruction: bool) -> None:
    ptx = assembly(elementwise("bfloat16", 8, lambda x: x + x), f"cuda -arch={arch}")
    assert ptx.count("cvt.rn.bf16x2.f32") == (4 if by_instruction else 0)
    ptx = assembly(elementwise("bfloat16", 1, lambda x: x + x), f"cuda -arch={arch}")
    assert ptx.count("cvt.rn.bf16.f32") == (1 if by_instruction else 0)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64"])
def test_minima_keep_nan(kind: str) -> None:
    ptx = assembly(elementwise(kind, 1, lambda x: T.max(x, x * x)), "cuda -arch=sm_80")
    if kind == "float64":  # there is no such instruction
        assert "setp.nan.f64" in ptx or "setp.num.f64" in ptx
    else:
        assert "max.NaN" in ptx
    old = assembly(elementwise(kind, 1, lambda x: T.max(x, x * x)), "cuda -arch=sm_75")
    assert ".NaN" not in old
    assert "setp.nan" in old


def test_products_are_fused_with_sums_that_the_program_writes() -> None:
    ptx = assembly(elementwise("float32", 1, lambda x: x * x + x), "cuda -arch=sm_80")
    assert "fma.rn.f32" in ptx
    # Inside of functions every rounding is as it is written: ptxas fuses nothing that says .rn.
    ptx = assembly(elementwise("float32", 1, T.log), "cuda -arch=sm_80")
    assert all(".rn" in word for word in instructions(ptx, "mul", "add", "sub") if "f32" in word)


# ---------------------------------------------------------------------------- memory


@T.prim_func
def reversed_rows(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")) -> None:
    for t in T.thread_binding(256, "threadIdx.x"):
        with T.block("b"):
            S = T.alloc_buffer((20480,), "float32", scope="shared")
            P = T.alloc_buffer((256,), "int8", scope="shared")
            S[t * 80] = A[t]
            P[t] = T.Cast("int8", t % 3)
            B[t] = S[(255 - t) * 80] + T.Cast("float32", P[255 - t])


def test_much_shared_memory_is_dynamic(tmp_path: Path) -> None:
    flat = split_host_device(lower(reversed_rows, "cuda"))
    (kernel,) = [f for f in flat.functions.values() if f.attrs.get("tir.is_global_func")]
    asked = [value for key, value in kernel.attrs.items() if "dyn" in key]
    assert asked == [255 * 80 * 4 + 4 + 12 + 256]  # what is used, in pieces of 16 bytes
    ptx = assembly(reversed_rows, "cuda -arch=sm_80")
    assert ".extern .shared" in ptx
    assert ptx.count(".shared .align") == 1
    assemble(ptx, "sm_80", tmp_path)
    a, b = np.arange(256, dtype="float32"), np.zeros(256, "float32")
    tileloom.build(reversed_rows, target="cuda", device="emulator")(a, b)
    assert b.tolist() == [float(k + k % 3) for k in range(255, -1, -1)]


@T.prim_func
def outer(A: T.Buffer((256, 8), "float32"), B: T.Buffer((256, 8), "float32")) -> None:
    for t in T.thread_binding(256, "threadIdx.x"):
        with T.block("b"):
            S = T.alloc_buffer((8, 8), "float32", scope="local")
            for i, j in T.grid(8, 8):
                S[i, j] = A[t, i] * A[t, j]
            for i in range(8):
                B[t, i] = S[i, 0]
                for j in range(7):
                    B[t, i] = B[t, i] + S[i, j + 1]


def test_small_arrays_are_registers(tmp_path: Path) -> None:
    ptx = assembly(outer, "cuda -arch=sm_80")
    assert ".local" not in ptx
    assert not spills(assemble(ptx, "sm_80", tmp_path))


def test_an_array_with_a_free_index_is_in_local_memory(tmp_path: Path) -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")) -> None:
        for t in T.thread_binding(64, "threadIdx.x"):
            with T.block("b"):
                S = T.alloc_buffer((8,), "float32", scope="local")
                for i in range(8):
                    S[i] = T.Cast("float32", i * t)
                B[t] = S[A[t]]

    ptx = assembly(f, "cuda -arch=sm_80")
    assert ".local" in ptx
    assemble(ptx, "sm_80", tmp_path)


def test_large_arrays_have_wide_indices(tmp_path: Path) -> None:
    @T.prim_func
    def f(A: T.Buffer((70000, 65536), "float32"), B: T.Buffer((70000, 65536), "float32")) -> None:
        for b in T.thread_binding(70000 * 256, "blockIdx.x"):
            for t in T.thread_binding(256, "threadIdx.x"):
                B[b // 256, b % 256 * 256 + t] = A[b // 256, b % 256 * 256 + t]

    ptx = assembly(f, "cuda -arch=sm_80")
    assert re.search(r"mul\.wide\.u32\s+%rd\d+, %r\d+, (65536|262144);", ptx)
    assert not re.search(r"(mul\.lo|mad\.lo)\.[su]32.*65536", ptx)
    assemble(ptx, "sm_80", tmp_path)


def test_bounds_of_a_launch(tmp_path: Path) -> None:
    @T.prim_func
    def f(A: T.Buffer((1024,), "float32")) -> None:
        T.func_attr({"tir.min_blocks_per_multiprocessor": 4})
        for b in T.thread_binding(4, "blockIdx.x"):
            for y in T.thread_binding(8, "threadIdx.y"):
                for x in T.thread_binding(32, "threadIdx.x"):
                    A[b * 256 + y * 32 + x] = T.float32(0)

    ptx = assembly(f, "cuda -arch=sm_80")
    assert re.search(r"\.maxntid 32, 8", ptx)
    assert ".minnctapersm 4" in ptx
    assemble(ptx, "sm_80", tmp_path)


# ---------------------------------------------------------------------------- divisions


def divisions(kind: str) -> PrimFunc:
    @T.prim_func
    def f(A: T.Buffer((64,), kind), B: T.Buffer((64,), kind), C: T.Buffer((4, 64), kind)) -> None:
        for t in T.thread_binding(64, "threadIdx.x"):
            C[0, t] = T.truncdiv(A[t], B[t])
            C[1, t] = T.truncmod(A[t], B[t])
            C[2, t] = A[t] // B[t]
            C[3, t] = A[t] % B[t]

    return f


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_divisions_at_the_edges(kind: str, tmp_path: Path) -> None:
    info = np.iinfo(kind)
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7], kind)
    if info.min < 0:
        edges[3], edges[7] = -1, -7
    a, b = np.repeat(edges, 8), np.tile(edges, 8)
    found = np.zeros((4, 64), kind)
    func = divisions(kind)
    tileloom.build(func, target="cuda", device="emulator")(a, b, found)
    on_cpu = np.zeros((4, 64), kind)
    text = func.script().replace('T.thread_binding(64, thread="threadIdx.x")', "range(64)")
    from tileloom.script import from_source

    tileloom.build(from_source(text))(a, b, on_cpu)
    np.testing.assert_array_equal(found, on_cpu)
    assert (found[:, b == 0] == 0).all()
    whole = b != 0
    one = np.zeros((4, 64), kind)
    run(func, a, np.where(whole, b, 1).astype(kind), one)
    np.testing.assert_array_equal(found[:, whole], one[:, whole])
    assemble(assembly(func, "cuda -arch=sm_80"), "sm_80", tmp_path)
