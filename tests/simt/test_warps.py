"""Votes, matches, sums and barriers of lanes: on the emulator, and in PTX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from gpu import ARCHS, assemble
from tileloom.base.errors import UnsupportedError, VerifyError
from tileloom.driver import assembly
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import run, verify

THREADS, BLOCKS = 70, 3  # the last warp has 6 lanes
FULL = 0xFFFFFFFF


@T.prim_func
def votes(
    A: T.Buffer((BLOCKS, THREADS), "int32"),
    M: T.Buffer((8, BLOCKS, THREADS), "uint32"),
    R: T.Buffer((6, BLOCKS, THREADS), "int32"),
) -> None:
    for b in T.thread_binding(BLOCKS, "blockIdx.x"):
        for t in T.thread_binding(THREADS, "threadIdx.x"):
            M[0, b, t] = T.ballot_sync(A[b, t] > 0)
            M[1, b, t] = T.Cast("uint32", T.any_sync(A[b, t] > 3))
            M[2, b, t] = T.Cast("uint32", T.all_sync(A[b, t] > -3))
            M[3, b, t] = T.match_any_sync(FULL, A[b, t])
            M[4, b, t] = T.match_all_sync(FULL, A[b, t] // 8)
            M[5, b, t] = T.Cast("uint32", T.elect_sync())
            M[6, b, t] = T.activemask()
            if A[b, t] % 2 == 0:
                M[7, b, t] = T.activemask()
            R[0, b, t] = T.reduce_add_sync(A[b, t])
            R[1, b, t] = T.reduce_min_sync(A[b, t])
            R[2, b, t] = T.reduce_max_sync(A[b, t])
            R[3, b, t] = T.reduce_and_sync(A[b, t])
            R[4, b, t] = T.reduce_or_sync(A[b, t])
            R[5, b, t] = T.reduce_xor_sync(A[b, t])


def emulate(func: Any, *arrays: Any) -> None:
    from tileloom.lower import lower

    run_kernels(lower(func, "cuda"), *arrays)


def test_votes_and_sums() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (BLOCKS, THREADS)).astype("int32")
    a[1, 32:64] = 4
    m = np.zeros((8, BLOCKS, THREADS), "uint32")
    r = np.zeros((6, BLOCKS, THREADS), "int32")
    emulate(votes, a, m, r)
    for block in range(BLOCKS):
        for first in range(0, THREADS, 32):
            warp = slice(first, min(first + 32, THREADS))
            x = a[block, warp]
            mine = m[:, block, warp].astype(np.int64)
            bits = 1 << np.arange(len(x), dtype=np.int64)
            assert (mine[0] == bits[x > 0].sum()).all()
            assert (mine[1] == (x > 3).any()).all()
            assert (mine[2] == (x > -3).all()).all()
            assert mine[3].tolist() == [bits[x == v].sum() for v in x]
            alike = len(set((x // 8).tolist())) == 1
            assert (mine[4] == (bits.sum() if alike else 0)).all()
            assert mine[5].tolist() == [1] + [0] * (len(x) - 1)
            assert (mine[6] == bits.sum()).all()
            even = x % 2 == 0
            assert (mine[7] == np.where(even, bits[even].sum(), 0)).all()
            for row, function in enumerate(
                (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
            ):
                assert (r[row, block, warp] == function.reduce(x)).all()


@T.prim_func
def places(L: T.Buffer((64,), "int32"), M: T.Buffer((5, 64), "uint32")) -> None:
    for t in T.thread_binding(64, "threadIdx.x"):
        L[t] = T.lane_id()
        M[0, t] = T.lanemask_lt()
        M[1, t] = T.lanemask_le()
        M[2, t] = T.lanemask_eq()
        M[3, t] = T.lanemask_ge()
        M[4, t] = T.lanemask_gt()


def test_lanes_know_their_place(tmp_path: Path) -> None:
    lane, masks = np.zeros(64, "int32"), np.zeros((5, 64), "uint32")
    emulate(places, lane, masks)
    assert lane.tolist() == [*range(32)] * 2
    for t in range(64):
        k = t % 32
        below, me = (1 << k) - 1, 1 << k
        assert masks[:, t].tolist() == [
            below, below | me, me, FULL & ~below, FULL & ~below & ~me,
        ]  # fmt: skip
    ptx = assembly(places, "cuda -arch=sm_80")
    for word in ("%laneid", "%lanemask_lt", "%lanemask_ge"):
        assert word in ptx
    assemble(ptx, "sm_80", tmp_path)


@T.prim_func
def parts(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "uint32")) -> None:
    for t in T.thread_binding(32, "threadIdx.x"):
        if t < 8:
            B[t] = T.ballot_sync(0xFF, A[t] > 0)
        else:
            B[t] = T.ballot_sync(0xFFFFFF00, A[t] > 0)


def test_some_lanes_vote_among_themselves() -> None:
    a, b = np.tile([1, 0], 16).astype("int32"), np.zeros(32, "uint32")
    emulate(parts, a, b)
    assert b[:8].tolist() == [0x55] * 8
    assert b[8:].tolist() == [0x55555500] * 24


def test_a_lane_that_is_named_and_does_not_come() -> None:
    @T.prim_func
    def lost(B: T.Buffer((64,), "uint32")) -> None:
        for t in T.thread_binding(64, "threadIdx.x"):
            if t < 40:
                B[t] = T.ballot_sync(t > 3)

    with pytest.raises(KernelDefect, match="names lanes 0xffffffff of a warp") as info:
        emulate(lost, np.zeros(64, "uint32"))
    assert info.value.kind == "divergent warp"
    assert [thread for _, thread in info.value.threads] == list(range(32, 40))


@T.prim_func
def swapped(B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")) -> None:
    t = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([64], "int32", "shared")
    S_1 = T.decl_buffer((64,), "int32", data=S, scope="shared")
    S_1[t] = B[t]
    T.syncwarp()
    C[t] = S_1[t // 32 * 32 + (t + 1) % 32]


def test_lanes_meet(tmp_path: Path) -> None:
    b, c = np.arange(64, dtype="int32"), np.zeros(64, "int32")
    run_kernels(swapped, b, c)
    assert c.tolist() == [*range(1, 32), 0, *range(33, 64), 32]
    from tileloom.script import from_source

    bare: Any = from_source(
        "\n".join(x for x in swapped.script().split("\n") if "syncwarp" not in x)
    )
    with pytest.raises(KernelDefect, match="race"):
        run_kernels(bare, b, c)


@pytest.mark.parametrize("arch", ARCHS)
def test_ptx(arch: str, tmp_path: Path) -> None:
    ptx = assembly(votes, f"cuda -arch={arch}")
    for word in ("vote.sync.ballot", "vote.sync.any", "vote.sync.all", "match.any.sync.b32",
                 "match.all.sync.b32", "activemask.b32", "redux.sync.add.s32", "redux.sync.xor.b32",
                 "redux.sync.min.s32"):  # fmt: skip
        assert word in ptx, word
    assert ("elect.sync" in ptx) == (arch == "sm_90a")
    assemble(ptx, arch, tmp_path)


def test_old_gpus_have_no_sums() -> None:
    with pytest.raises(UnsupportedError, match="reduce_add_sync needs sm_80"):
        assembly(votes, "cuda -arch=sm_75")
    with pytest.raises(UnsupportedError, match="reduce_add_sync needs sm_80"):
        tileloom.build(votes, "cuda -arch=sm_75", device="emulator")


def test_text_reads_back() -> None:
    from tileloom.script import from_source
    from tileloom.tir import assert_structural_equal

    for func in (votes, places, parts):
        assert_structural_equal(from_source(func.script()), func)


@pytest.mark.parametrize("arch", ["sm_70", *ARCHS])
def test_barriers_are_not_copied_into_branches(arch: str, tmp_path: Path) -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)
        S = T.allocate([64], "int32", "shared")
        S_1 = T.decl_buffer((64,), "int32", data=S, scope="shared")
        if t == 0:
            S_1[0] = A[0]
        T.tvm_storage_sync("shared")
        if t == 0:
            A[1] = S_1[0]

    ptx = assembly(f, f"cuda -arch={arch}")
    assert ptx.count("bar.sync") == 1
    assemble(ptx, arch, tmp_path)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: T.ballot_sync(x), "takes a condition, not a int32"),
        (lambda x: T.Call("uint32", "tir.ballot_sync", T.float32(1), x > 0), "a mask of 32 lanes"),
        (lambda x: T.reduce_add_sync(T.Cast("float32", x)), "is of 32-bit integers, not float32"),
        (lambda x: T.reduce_add_sync(T.Cast("int64", x)), "is of 32-bit integers"),
        (lambda x: T.Call("int32", "tir.any_sync", T.uint32(1), x > 0), "gives a bool"),
        (lambda x: T.Call("uint32", "tir.match_any_sync", x), "takes 2 arguments, got 1"),
        (lambda x: T.barrier_sync(T.float32(1), 64), "the number of barrier_sync is an integer"),
        (lambda x: T.memory_fence("warp"), "is for one of block, gpu, system"),
    ],
)
def test_mistakes_are_named(call: Any, said: str) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")) -> None:
        T.evaluate(call(A[0]))

    with pytest.raises(VerifyError, match=said):
        verify(f, "blocks")


def test_the_interpreter_says_that_it_cannot() -> None:
    with pytest.raises(UnsupportedError, match=r"cannot run 'tir\.lane_id'"):
        run(places, np.zeros(64, "int32"), np.zeros((5, 64), "uint32"))


def test_a_shuffle_among_lanes_that_do_not_all_come() -> None:
    @T.prim_func
    def f(A: T.Buffer((64,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)
        if t % 32 < 16:
            A[t] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[t], 1, 32, 32)

    @T.prim_func
    def g(A: T.Buffer((64,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)
        if t % 32 < 16:
            A[t] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFF), A[t], 1, 32, 32)

    a = np.arange(64, dtype="int32")
    with pytest.raises(KernelDefect, match="divergent warp"):
        run_kernels(f, a)
    run_kernels(g, a)
    assert a[:18].tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 16, 17]
