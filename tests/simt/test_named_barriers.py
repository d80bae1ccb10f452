"""Warps that wait for each other at numbered barriers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from gpu import ARCHS, assemble
from tileloom.driver import assembly
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import PrimFunc

STEPS, TILE = 5, 64


@T.prim_func
def produced(
    A: T.Buffer((2, STEPS, TILE), "float32"), B: T.Buffer((2, STEPS, TILE), "float32")
) -> None:
    """Two warps fetch tiles into two stages; two others use them, in the other order."""
    block = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", 128)
    S = T.allocate([2 * TILE], "float32", "shared")
    S_1 = T.decl_buffer((2 * TILE,), "float32", data=S, scope="shared")
    A_1 = T.decl_buffer((2 * STEPS * TILE,), "float32", data=A.data)
    B_1 = T.decl_buffer((2 * STEPS * TILE,), "float32", data=B.data)
    if t < 64:
        for k in range(STEPS):
            if k >= 2:
                T.barrier_sync(3 + k % 2, 128)  # the stage is free
            S_1[k % 2 * TILE + t] = A_1[block * STEPS * TILE + k * TILE + t]
            T.barrier_arrive(1 + k % 2, 128)  # the stage is full
    else:
        for k in range(STEPS):
            T.barrier_sync(1 + k % 2, 128)
            B_1[block * STEPS * TILE + k * TILE + t - 64] = S_1[k % 2 * TILE + 127 - t] + T.float32(
                1
            )
            if k + 2 < STEPS:
                T.barrier_arrive(3 + k % 2, 128)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(0).standard_normal((2, STEPS, TILE)).astype("float32")
    return a, np.zeros_like(a)


def test_a_producer_and_a_consumer() -> None:
    a, b = arrays()
    run_kernels(produced, a, b)
    np.testing.assert_array_equal(b, a[:, :, ::-1] + 1)


def test_lowering_leaves_the_barriers_alone() -> None:
    a, b = arrays()
    kernel = tileloom.build(produced, target="cuda", device="emulator")
    assert "storage_sync" not in str(kernel.func)
    kernel(a, b)
    np.testing.assert_array_equal(b, a[:, :, ::-1] + 1)


@pytest.mark.parametrize("arch", ARCHS)
def test_ptx(arch: str, tmp_path: Path) -> None:
    ptx = assembly(produced, f"cuda -arch={arch}")
    assert re.search(r"(bar|barrier)\.arrive", ptx)
    assert re.search(r"(bar|barrier)\.sync[.a-z]*\s+%?\w+, 128", ptx)
    assemble(ptx, arch, tmp_path)


def changed(pattern: str, by: str) -> Any:
    text = produced.script()
    assert len(re.findall(pattern, text)) == 1, text
    return from_source(re.sub(pattern, by, text))


@pytest.mark.parametrize(
    ("pattern", "by", "kind", "said"),
    [
        # Consumers that do not wait read too early; producers that do not, overwrite too early.
        (r"T.barrier_sync\(1 \+ k % 2, 128\)", "T.evaluate(0)", "race|uninitialised", "S_1"),
        (r"T.barrier_sync\(k % 2 \+ 3, 128\)|T.barrier_sync\(3 \+ k % 2, 128\)",
         "T.evaluate(0)", "race|divergent barrier",
         "S_1.*with no barrier between|comes to barrier .* again before all"),
        (r"T.barrier_arrive\(1 \+ k % 2, 128\)", "T.evaluate(0)", "divergent barrier",
         "64 of 128 threads reach barrier"),
        (r"T.barrier_arrive\(1 \+ k % 2, 128\)", "T.barrier_arrive(1 + k % 2, 96)",
         "divergent barrier", "is for (96|128) threads here and"),
        (r"if threadIdx_x < 64|if t < 64", "if t < 60", "divergent barrier", "of 32 threads of a"),
    ],
)  # fmt: skip
def test_defects_are_found(pattern: str, by: str, kind: str, said: str) -> None:
    with pytest.raises(KernelDefect, match=said) as info:
        run_kernels(changed(pattern, by), *arrays())
    assert re.fullmatch(kind, info.value.kind)
    assert info.value.threads


def test_one_barrier_for_full_and_empty() -> None:
    """The producer's own arrival makes up for the consumer's that it waits for."""

    @T.prim_func
    def f(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)
        S = T.allocate([32], "float32", "shared")
        S_1 = T.decl_buffer((32,), "float32", data=S, scope="shared")
        A_1 = T.decl_buffer((128,), "float32", data=A.data)
        B_1 = T.decl_buffer((128,), "float32", data=B.data)
        if t < 32:
            for k in range(4):
                S_1[t] = A_1[k * 32 + t]
                T.barrier_arrive(1, 64)  # full
                T.barrier_sync(1, 64)  # empty
        else:
            for k in range(4):
                T.barrier_sync(1, 64)
                B_1[k * 32 + t - 32] = S_1[t - 32]
                T.barrier_arrive(1, 64)

    a = np.random.default_rng(0).standard_normal((4, 32)).astype("float32")
    with pytest.raises(KernelDefect, match="comes to barrier 1 again before all 64 threads"):
        run_kernels(f, a, np.zeros_like(a))
    right = f.script().replace("T.barrier_sync(1, 64)", "T.barrier_sync(2, 64)", 1)
    head, tail = right.rsplit("T.barrier_arrive(1, 64)", 1)
    b = np.zeros_like(a)
    fixed = from_source(head + "T.barrier_arrive(2, 64)" + tail)
    assert isinstance(fixed, PrimFunc)
    run_kernels(fixed, a, b)
    np.testing.assert_array_equal(a, b)


def test_blocks_do_not_wait_for_each_other_in_global_memory() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), B: T.Buffer((2, 64), "int32")) -> None:
        block = T.launch_thread("blockIdx.x", 2)
        t = T.launch_thread("threadIdx.x", 64)
        A[t] = t
        T.barrier_sync(1, 64)
        B[block, t] = A[63 - t]

    with pytest.raises(KernelDefect, match="race"):
        run_kernels(_flat(f), np.zeros(64, "int32"), np.zeros((2, 64), "int32"))


READ_BY_ALL = """
from tileloom.script import tir as T

@T.prim_func
def func(A: T.Buffer((1,), "int32"), B: T.Buffer((BLOCKS, 32), "int32")):
    block = T.launch_thread("blockIdx.x", BLOCKS)
    t = T.launch_thread("threadIdx.x", 32)
    T.barrier_sync(1, 32)
    if t % 2 == 0 or BLOCKS == 1:
        B[block, t] = A[0]
    T.MEET()
    if block == BLOCKS - 1:
        if t == 31:
            A[0] = 5
"""


@pytest.mark.parametrize(
    ("blocks", "meet", "is_wrong"),
    [(1, "syncwarp", False), (1, "activemask", True), (2, "syncwarp", True)],
)
def test_what_many_read_is_written(blocks: int, meet: str, is_wrong: bool) -> None:
    """By one of the readers, who has not met the others of its warp, or never meets its block."""
    text = READ_BY_ALL.replace("BLOCKS", str(blocks)).replace("MEET", meet)
    func = from_source(text.replace("T.activemask()", "T.evaluate(T.activemask())"))
    assert isinstance(func, PrimFunc)
    a, b = np.ones(1, "int32"), np.zeros((blocks, 32), "int32")
    if is_wrong:
        with pytest.raises(KernelDefect, match=r"one thread writes A.* and another reads it"):
            run_kernels(_flat(func), a, b)
    else:
        run_kernels(_flat(func), a, b)
        assert a[0] == 5


def test_a_barrier_of_all_threads_among_numbered_ones() -> None:
    @T.prim_func
    def f(A: T.Buffer((96,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 96)
        S = T.allocate([96], "int32", "shared")
        S_1 = T.decl_buffer((96,), "int32", data=S, scope="shared")
        if t < 64:
            S_1[t] = A[t]
            T.barrier_sync(2, 64)
            A[t] = S_1[63 - t]
        else:
            S_1[t] = t
        T.tvm_storage_sync("shared")
        A[t] = A[t] + S_1[95 - t]

    a = np.arange(96, dtype="int32")
    lowered = _flat(f)
    assert lowered.script().count("storage_sync") == 1
    run_kernels(lowered, a)
    shared = np.arange(96)
    left = np.where(np.arange(96) < 64, 63 - np.arange(96), np.arange(96))
    assert a.tolist() == (left + shared[::-1]).tolist()


@T.prim_func
def summed(A: T.Buffer((64,), "int32"), B: T.Buffer((1,), "int32")) -> None:
    t = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([1], "int32", "shared")
    S_1 = T.decl_buffer((1,), "int32", data=S, scope="shared")
    if t == 0:
        S_1[0] = 0
    T.barrier_sync(1, 64)
    T.atomic_add(T.address_of(S_1[0]), A[t])
    T.barrier_sync(2, 64)
    if t == 0:
        B[0] = S_1[0]


def test_atomic_calls_between_numbered_barriers() -> None:
    a, b = np.arange(64, dtype="int32"), np.zeros(1, "int32")
    run_kernels(summed, a, b)
    assert b[0] == 63 * 32
    for number in (1, 2):
        text = summed.script().replace(f"T.barrier_sync({number}, 64)", "T.syncwarp()")
        with pytest.raises(KernelDefect, match=r"race|nobody has written"):
            run_kernels(from_source(text), a, b)


def _flat(func: PrimFunc) -> PrimFunc:
    from tileloom.lower import lower

    return lower(func, "cuda")
