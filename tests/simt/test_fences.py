"""Blocks that hand results over to each other within a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.script import from_source
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import PrimFunc

LAST_BLOCK = """
from tileloom.script import tir as T

@T.prim_func
def func(A: T.Buffer((512,), "int32"), P: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32"),
         B: T.Buffer((1,), "int32")):
    block = T.launch_thread("blockIdx.x", 8)
    t = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([65], "int32", "shared")
    S_1 = T.decl_buffer((65,), "int32", data=S, scope="shared")
    S_1[t] = A[block * 64 + t]
    T.tvm_storage_sync("shared")
    if t == 0:
        P[block] = 0
        for k in range(64):
            P[block] = P[block] + S_1[k]
        T.memory_fence("gpu")
        S_1[64] = T.atomic_add(T.address_of(C[0]), 1)
    T.tvm_storage_sync("shared")
    if S_1[64] == 7:
        if t == 0:
            B[0] = 0
            for k in range(8):
                B[0] = B[0] + P[k]
            C[0] = 0
"""


def made(text: str) -> PrimFunc:
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def last_block(*changes: tuple[str, str]) -> tuple[int, int]:
    """The sum of all, and the counter afterwards."""
    text = LAST_BLOCK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    a = np.arange(512, dtype="i4")
    p, c, b = np.zeros(8, "i4"), np.zeros(1, "i4"), np.zeros(1, "i4")
    run_kernels(made(text), a, p, c, b)
    return int(b[0]), int(c[0])


FENCE = '        T.memory_fence("gpu")\n'
TICKET = "        S_1[64] = T.atomic_add(T.address_of(C[0]), 1)\n"


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ((TICKET, TICKET + FENCE),),
        ((FENCE, ""), ("C[0]), 1)", 'C[0]), 1, "acq_rel")')),
        ((FENCE, ""), ("C[0]), 1)", 'C[0]), 1, "release")')),
        (("            C[0] = 0\n", ""),),
        ((FENCE, FENCE.replace("gpu", "system")),),
    ],
    ids=["one fence", "two fences", "acq_rel", "release", "counter left", "system"],
)
def test_the_last_block_may_read_what_the_others_left(changes: Any) -> None:
    total, count = last_block(*changes)
    assert total == 511 * 256
    assert count == (8 if changes and "C[0] = 0" in changes[0][0] else 0)


@pytest.mark.parametrize(
    "changes",
    [
        ((FENCE, ""),),
        ((FENCE, FENCE.replace("gpu", "block")),),
        ((FENCE, ""), (TICKET, TICKET + FENCE)),
        ((FENCE, ""), ("C[0]), 1)", 'C[0]), 1, "acquire")')),
        (("T.atomic_add(T.address_of(C[0]), 1)", "T.Select(block == 7, 7, 0)"),),
        (("== 7:", "== 6:"),),
    ],
    ids=["no fence", "of a block", "too late", "acquire only", "no atomic call", "not the last"],
)
def test_without_release_and_acquire_it_is_a_race(changes: Any) -> None:
    with pytest.raises(KernelDefect) as caught:
        last_block(*changes)
    assert caught.value.kind == "race"


ALL_LEAVE = """
from tileloom.script import tir as T

@T.prim_func
def func(P: T.Buffer((256,), "int32"), C: T.Buffer((1,), "int32"), B: T.Buffer((64,), "int32")):
    block = T.launch_thread("blockIdx.x", 4)
    t = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([1], "int32", "shared")
    S_1 = T.decl_buffer((1,), "int32", data=S, scope="shared")
    P[block * 64 + t] = block + t
    BEFORE
    T.tvm_storage_sync("shared")
    if t == 0:
        AFTER
        S_1[0] = T.atomic_add(T.address_of(C[0]), 1)
    T.tvm_storage_sync("shared")
    if S_1[0] == 3:
        B[t] = P[63 - t] + P[127 - t] + P[191 - t] + P[255 - t]
"""
NOTHING, GPU_FENCE = "T.evaluate(0)", 'T.memory_fence("gpu")'


def all_leave(before: str, after: str) -> list[int]:
    b = np.zeros(64, "i4")
    func = made(ALL_LEAVE.replace("BEFORE", before).replace("AFTER", after))
    run_kernels(func, np.zeros(256, "i4"), np.zeros(1, "i4"), b)
    return b.tolist()


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (1, 1)])
def test_all_threads_leave_their_part_before_a_barrier(before: int, after: int) -> None:
    """One thread's fence after a barrier speaks for the block, as does each thread's before it."""
    found = all_leave(*(GPU_FENCE if part else NOTHING for part in (before, after)))
    assert found == [6 + 4 * (63 - t) for t in range(64)]


def test_a_barrier_alone_is_of_one_block() -> None:
    with pytest.raises(KernelDefect, match="race"):
        all_leave(NOTHING, NOTHING)


CHAIN = """
from tileloom.script import tir as T

@T.prim_func
def func(A: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32"), B: T.Buffer((3,), "int32")):
    block = T.launch_thread("blockIdx.x", 3)
    t = T.launch_thread("threadIdx.x", 1)
    if block == 0:
        A[0] = 5
        T.memory_fence("gpu")
        T.evaluate(T.atomic_store(T.address_of(C[0]), 1))
    if block == 1:
        B[1] = T.atomic_load(T.address_of(C[0]), "acquire")
        T.memory_fence("gpu")
        T.evaluate(T.atomic_store(T.address_of(C[1]), 1))
    if block == 2:
        B[2] = T.atomic_load(T.address_of(C[1]))
        FENCE
        B[0] = A[0]
"""


def test_a_chain_of_blocks() -> None:
    """What the third block takes from the second, that one had from the first."""
    b = np.zeros(3, "i4")
    run_kernels(made(CHAIN.replace("FENCE", GPU_FENCE)), np.zeros(3, "i4"), np.zeros(3, "i4"), b)
    assert b.tolist() == [5, 1, 1]
    with pytest.raises(KernelDefect, match="race"):
        run_kernels(made(CHAIN.replace("FENCE", NOTHING)), np.zeros(3, "i4"), np.zeros(3, "i4"), b)
