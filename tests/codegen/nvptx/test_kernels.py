"""Kernels to PTX: what it says, and that the assembler takes it where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu import assemble
from tileloom import te
from tileloom.base.errors import UnsupportedError
from tileloom.driver import assembly
from tileloom.plan import schedule_gpu
from tileloom.schedule import Schedule
from tileloom.schedule.library import tensor_core_matmul
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.target import target
from tileloom.tir import IRModule, PrimFunc


def bound(func: PrimFunc, block: str, threads: int = 64) -> IRModule:
    sch = Schedule(func)
    loop, thread = sch.split(sch.fuse(*sch.get_loops(block)), [None, threads])
    sch.bind(loop, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return sch.mod


def elementwise(
    kind: str, formula: Callable[..., Any] = lambda x: x + x, shape: tuple[int, ...] = (7, 33)
) -> IRModule:
    a = te.placeholder(shape, kind, name="A")
    b = te.compute(shape, lambda i, j: formula(a[i, j]), name="B")
    return bound(te.create_prim_func([a, b]), "B")


def softmax(rows: int, columns: int) -> IRModule:
    a = te.placeholder((rows, columns), name="A")
    j, k = (te.reduce_axis((0, columns), name=name) for name in "jk")
    top = te.compute((rows,), lambda i: te.max(a[i, j], axis=j), name="top")
    power = te.compute((rows, columns), lambda i, c: T.exp(a[i, c] - top[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, k], axis=k), name="total")
    out = te.compute((rows, columns), lambda i, c: power[i, c] / total[i], name="out")
    return schedule_gpu(te.create_prim_func([a, out]), target("cuda -arch=sm_80")).mod


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"])
def test_architectures(arch: str, tmp_path: Path) -> None:
    ptx = assembly(softmax(64, 1031), f"cuda -arch={arch}")
    assert f".target {arch}" in ptx
    said = assemble(ptx, arch, tmp_path)
    assert "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize(
    "kind",
    ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"],
)
def test_element_types(kind: str, tmp_path: Path) -> None:
    assemble(assembly(elementwise(kind), "cuda -arch=sm_80"), "sm_80", tmp_path)


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "rsqrt", "floor", "atan"]
)
def test_functions(name: str, tmp_path: Path) -> None:
    module = elementwise("float32", lambda x: getattr(T, name)(x))
    assemble(assembly(module, "cuda -arch=sm_80"), "sm_80", tmp_path)


def test_what_a_kernel_says() -> None:
    ptx = assembly(softmax(64, 1031), "cuda -arch=sm_80")
    assert ".visible .entry main_kernel" in ptx
    (threads,) = re.findall(r"\.maxntid (\d+)", ptx)
    warps = int(threads) // 32
    assert warps > 1
    # Two reductions: in each warp, by way of shared memory, among what the warps found.
    assert ptx.count("bar.sync") == 2
    assert ptx.count("shfl.sync.down.b32") == 2 * (5 + warps.bit_length() - 1)
    assert re.search(r"\.shared .*\.b8", ptx)
    assert "ld.global" in ptx
    assert "st.global" in ptx
    assert ".local" not in ptx, "intermediates are in registers"


def test_index_arithmetic_is_narrow() -> None:
    ptx = assembly(elementwise("float32"), "cuda -arch=sm_80")
    assert not re.search(r"(div|rem)\.[us]64", ptx)


def test_vectors_of_neighbours_are_loaded_together() -> None:
    a = te.placeholder((1 << 20,), name="A")
    b = te.compute((1 << 20,), lambda i: a[i] * 2.0, name="B")
    sch = schedule_gpu(te.create_prim_func([a, b]), target("cuda -arch=sm_80"))
    ptx = assembly(sch.mod, "cuda -arch=sm_80")
    assert re.search(r"ld\.global[.\w]*\.v4\.", ptx)
    assert re.search(r"st\.global[.\w]*\.v4\.", ptx)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_matrix_units(arch: str, tmp_path: Path) -> None:
    a, b = (te.placeholder((128, 128), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute(
        (128, 128),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    sch = Schedule(te.create_prim_func([a, b, c]))
    tensor_core_matmul(sch, "C")
    ptx = assembly(sch.mod, f"cuda -arch={arch}")
    assert "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32" in ptx
    assert "wmma.store.d.sync" in ptx
    assert ".local" not in ptx, "fragments are in registers"
    said = assemble(ptx, arch, tmp_path)
    assert "0 bytes stack frame, 0 bytes spill stores" in said


def test_what_has_no_code_is_refused() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    outer, inner = sch.split(sch.get_loops("B")[0], [None, 8])
    sch.bind(outer, "threadIdx.x")
    sch.parallel(inner)
    with pytest.raises(UnsupportedError, match="parallel"):
        assembly(sch.mod, "cuda -arch=sm_80")


def test_several_kernels_are_in_one_module(tmp_path: Path) -> None:
    a = te.placeholder((1 << 20,), name="A")
    k = te.reduce_axis((0, 1 << 20), name="k")
    total = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="total")
    sch = schedule_gpu(te.create_prim_func([a, total]), target("cuda -arch=sm_80"))
    ptx = assembly(sch.mod, "cuda -arch=sm_80")
    assert ptx.count(".entry") == 2
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize("other", ["", "else:\n            B[t] = A[t] * 3.0"])
def test_stores_under_a_condition(other: str) -> None:
    """One store needs no branch; where there is another part, that is not forgotten."""
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for t in T.thread_binding(32, "threadIdx.x"):
        if A[t] > 0.0:
            B[t] = A[t] * 2.0
        {other}
""")
    ptx = assembly(func, "cuda -arch=sm_80")
    assert bool(re.search(r"@%?p\d+\s+st\.global", ptx)) is (not other)
    assert ("0f40400000" in ptx) is bool(other)  # 3.0
