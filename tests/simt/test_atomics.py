"""Atomic calls on the emulator: which accesses race, and what many threads do to few places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.simt.atomics import change
from tileloom.tir import PrimFunc


def emulate(func: PrimFunc, *arrays: np.ndarray) -> None:
    """Run a kernel as it is written, with no barriers put in."""
    run_kernels(func, *arrays)


@pytest.mark.parametrize("name", ["tir.atomic_add", "tir.atomic_exchange", "tir.atomic_cas"])
@pytest.mark.parametrize("places", [1, 3, 200])
def test_order_of_threads(name: str, places: int) -> None:
    rng = np.random.default_rng(places)
    where, values = rng.integers(0, places, 300), rng.integers(0, 4, 300).astype("int32")
    memory = rng.integers(0, 4, places).astype("int32")
    expected, seen = memory.copy(), np.empty(300, "int32")
    for k, (at, value) in enumerate(zip(where, values, strict=True)):
        seen[k] = expected[at]
        if name == "tir.atomic_add":
            expected[at] += value
        elif name == "tir.atomic_exchange" or expected[at] == value:
            expected[at] = value if name == "tir.atomic_exchange" else value + 1
    operands = [values, values + 1] if name == "tir.atomic_cas" else [values]
    found = change(memory, where, name, operands)
    assert memory.tolist() == expected.tolist()
    assert found.tolist() == seen.tolist()


def test_no_thread_no_change() -> None:
    memory = np.ones(3, "int32")
    assert len(change(memory, np.zeros(0, int), "tir.atomic_add", [np.zeros(0, int)])) == 0
    assert memory.tolist() == [1, 1, 1]


def test_sums_wrap_and_halves_round_at_every_step() -> None:
    memory = np.array([2**31 - 1], "int32")
    change(memory, np.zeros(2, int), "tir.atomic_add", [np.ones(2, "int32")])
    assert memory[0] == -(2**31) + 1
    halves = np.array([2048], "float16")
    change(halves, np.zeros(5, int), "tir.atomic_add", [np.ones(5, "float16")])
    assert halves[0] == 2048


@T.prim_func
def clean(A: T.Buffer((512,), "int32"), H: T.Buffer((16,), "int32")) -> None:
    block = T.launch_thread("blockIdx.x", 4)
    thread = T.launch_thread("threadIdx.x", 128)
    S = T.allocate([16], "int32", "shared")
    S_1 = T.decl_buffer((16,), "int32", data=S, scope="shared")
    if thread < 16:
        S_1[thread] = 0
    T.tvm_storage_sync("shared")
    T.atomic_add(T.address_of(S_1[A[block * 128 + thread]]), 1)
    T.atomic_add(T.address_of(S_1[A[block * 128 + thread]]), 1)
    T.tvm_storage_sync("shared")
    if thread < 16:
        T.atomic_add(T.address_of(H[thread]), S_1[thread])


def counts() -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(1).integers(0, 16, 512).astype("int32")
    return a, np.zeros(16, "int32")


def without_barrier(func: PrimFunc, number: int) -> Any:
    """The kernel without one of its barriers."""
    text = func.script().split("\n")
    lines = [k for k, line in enumerate(text) if "storage_sync" in line]
    del text[lines[number]]
    from tileloom.script import from_source

    return from_source("\n".join(text))


def test_atomics_do_not_race_with_each_other() -> None:
    a, h = counts()
    emulate(clean, a, h)
    assert (h == 2 * np.bincount(a, minlength=16)).all()


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "changes S_1.*another writes it"), (1, "reads S_1.*another changes it")],
)
def test_they_race_with_plain_accesses(number: int, said: str) -> None:
    with pytest.raises(KernelDefect, match=said) as info:
        emulate(without_barrier(clean, number), *counts())
    assert info.value.kind == "race"


@T.prim_func
def across_blocks(A: T.Buffer((4,), "int32"), B: T.Buffer((64,), "int32")) -> None:
    block = T.launch_thread("blockIdx.x", 64)
    _thread = T.launch_thread("threadIdx.x", 1)
    T.atomic_add(T.address_of(A[0]), 1)
    B[block] = A[0]


@T.prim_func
def overwritten(A: T.Buffer((4,), "int32"), B: T.Buffer((64,), "int32")) -> None:
    block = T.launch_thread("blockIdx.x", 64)
    _thread = T.launch_thread("threadIdx.x", 1)
    B[block] = T.atomic_add(T.address_of(A[0]), 1)
    if block == 63:
        A[0] = 0


@T.prim_func
def polled(A: T.Buffer((4,), "int32"), B: T.Buffer((64,), "int32")) -> None:
    block = T.launch_thread("blockIdx.x", 64)
    _thread = T.launch_thread("threadIdx.x", 1)
    T.atomic_add(T.address_of(A[0]), 1)
    B[block] = T.atomic_load(T.address_of(A[0]))


def test_blocks_race_in_global_memory() -> None:
    for func in (across_blocks, overwritten):
        with pytest.raises(KernelDefect, match="race"):
            emulate(func, np.zeros(4, "int32"), np.zeros(64, "int32"))
    b = np.zeros(64, "int32")
    emulate(polled, np.zeros(4, "int32"), b)
    assert b.max() == 64


def test_own_plain_accesses_are_in_order() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "int32")) -> None:
        thread = T.launch_thread("threadIdx.x", 64)
        A[thread] = 3
        T.atomic_add(T.address_of(A[thread]), thread)
        A[thread] = A[thread] * 2

    a = np.zeros(64, "int32")
    emulate(f, a)
    assert a.tolist() == [2 * (3 + k) for k in range(64)]


def test_out_of_bounds_and_unwritten() -> None:
    @T.prim_func
    def outside(A: T.Buffer((63,), "int32")) -> None:
        thread = T.launch_thread("threadIdx.x", 64)
        T.atomic_add(T.address_of(A[thread]), 1)

    @T.prim_func
    def unwritten(A: T.Buffer((1,), "int32")) -> None:
        thread = T.launch_thread("threadIdx.x", 64)
        S = T.allocate([16], "int32", "shared")
        S_1 = T.decl_buffer((16,), "int32", data=S, scope="shared")
        T.atomic_add(T.address_of(S_1[thread % 16]), 1)

    with pytest.raises(KernelDefect, match=r"A\[63\] is outside of 63"):
        emulate(outside, np.zeros(63, "int32"))
    with pytest.raises(KernelDefect, match="nobody has written it"):
        emulate(unwritten, np.zeros(1, "int32"))


def test_a_store_is_enough_to_begin_with() -> None:
    @T.prim_func
    def f(A: T.Buffer((32,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 32)
        S = T.allocate([4], "int32", "shared")
        S_1 = T.decl_buffer((4,), "int32", data=S, scope="shared")
        T.atomic_store(T.address_of(S_1[t % 4]), 7)
        T.atomic_add(T.address_of(S_1[t % 4]), 1)
        A[t] = T.atomic_load(T.address_of(S_1[t % 4]))

    a = np.zeros(32, "int32")
    emulate(f, a)
    assert a.tolist() == [15] * 32


def test_a_branch_takes_part_with_its_own_threads() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        for t in T.thread_binding(64, "threadIdx.x"):
            if B[t] > 0:
                A[1] = T.atomic_add(T.address_of(A[0]), B[t])
            B[t] = T.if_then_else(B[t] > 0, T.atomic_add(T.address_of(A[0]), 1), -1)

    b = np.zeros(64, "int32")
    b[5] = 9
    a = np.zeros(2, "int32")
    tileloom.build(f, target="cuda", device="emulator")(a, b)
    assert a[0] == 10
    assert b[5] == 9
    assert (np.delete(b, 5) == -1).all()


@T.prim_func
def locked(L: T.Buffer((1,), "int32"), A: T.Buffer((1,), "int32")) -> None:
    t = T.launch_thread("threadIdx.x", 32)
    mine = T.allocate([1], "int32", "local")
    mine_1 = T.decl_buffer((1,), "int32", data=mine, scope="local")
    mine_1[0] = 1
    while mine_1[0] != 0:
        mine_1[0] = T.atomic_cas(T.address_of(L[0]), 0, 1, "acquire")
    A[0] = T.atomic_load(T.address_of(A[0])) + t
    T.atomic_store(T.address_of(L[0]), 0, "release")


@T.prim_func
def counted_down(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")) -> None:
    t = T.launch_thread("threadIdx.x", 40)
    while T.atomic_add(T.address_of(A[t]), -1) > 0:
        B[t] = B[t] + 1


def test_threads_that_wait_for_ever_are_named() -> None:
    with pytest.raises(KernelDefect, match="nobody changes what they wait for") as info:
        emulate(locked, np.zeros(1, "int32"), np.zeros(1, "int32"))
    assert info.value.kind == "hang"
    assert len(info.value.threads) == 31


def test_long_loops_are_no_hang() -> None:
    a, b = np.arange(40, dtype="int32") * 40, np.zeros(40, "int32")
    emulate(counted_down, a, b)
    assert b.tolist() == [40 * k for k in range(40)]
    assert (a == -1).all()
