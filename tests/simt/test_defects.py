"""Programs with one defect each, which the emulator must find and name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, OutOfBoundsError
from tileloom.expr import Call, StringImm
from tileloom.lower import lower
from tileloom.lower.analysis.threads import is_sync
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target
from tileloom.tir import Evaluate, PrimFunc, Stmt, StmtRewriter, seq

GPU = target("cuda -arch=sm_80")


def flat(func: PrimFunc) -> PrimFunc:
    return lower(func, GPU)


def reversed_rows(
    threads: int = 64, write: Any = lambda t: t, read: Any = lambda t: 63 - t
) -> PrimFunc:
    """B[i, t] = A[i, read(t)] through shared memory."""

    @T.prim_func
    def func(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")) -> None:
        for i in T.thread_binding(4, thread="blockIdx.x"):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi, 0:64])
                S = T.alloc_buffer((64,), "float32", scope="shared")
                for t in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("fill"):
                        vt = T.axis.spatial(64, t)
                        T.reads(A[vi, vt])
                        T.writes(S[write(vt)])
                        S[write(vt)] = A[vi, vt]
                for t in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("use"):
                        vt = T.axis.spatial(64, t)
                        T.reads(S[0:64])
                        T.writes(B[vi, vt])
                        B[vi, vt] = S[read(vt)]

    return func


class Without(StmtRewriter):
    """A program without its barriers."""

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return seq() if is_sync(stmt) else stmt


class WithWarp(StmtRewriter):
    """A program whose barriers wait for one warp only."""

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("warp"),)))


def strip(func: PrimFunc) -> PrimFunc:
    return func.replace(body=Without().visit(func.body))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(256, dtype="float32").reshape(4, 64), np.zeros((4, 64), "float32")


def test_a_right_program_runs() -> None:
    a, b = arrays()
    steps = run_kernels(flat(reversed_rows()), a, b)
    assert np.array_equal(b, a[:, ::-1])
    assert steps > 2 * 256


def test_a_removed_barrier() -> None:
    with pytest.raises(KernelDefect) as caught:
        run_kernels(strip(flat(reversed_rows())), *arrays())
    defect = caught.value
    assert defect.kind == "race"
    assert "S[" in str(defect)
    assert "B[" in str(defect.statement)
    reader, writer = defect.threads
    assert reader[0] == writer[0]
    assert reader[1] + writer[1] == 63


def test_a_race_within_a_warp_needs_no_block_barrier() -> None:
    """Neighbours in one warp: a barrier of the warp is enough, and none is not."""
    func = strip(flat(reversed_rows(read=lambda t: t // 2 * 2)))

    with pytest.raises(KernelDefect, match="race"):
        run_kernels(func, *arrays())
    a, b = arrays()
    whole = flat(reversed_rows(read=lambda t: t // 2 * 2))
    run_kernels(whole.replace(body=WithWarp().visit(whole.body)), a, b)
    assert np.array_equal(b, a[:, np.arange(64) // 2 * 2])


def test_a_race_across_warps() -> None:
    whole = flat(reversed_rows(read=lambda t: (t + 32) % 64))

    with pytest.raises(KernelDefect, match="race") as caught:
        run_kernels(whole.replace(body=WithWarp().visit(whole.body)), *arrays())
    assert abs(caught.value.threads[0][1] - caught.value.threads[1][1]) == 32


def test_an_index_off_by_one() -> None:
    with pytest.raises(KernelDefect, match=r"S\[64\] is outside of 64") as caught:
        run_kernels(flat(reversed_rows(read=lambda t: t + 1)), *arrays())
    assert caught.value.kind == "out of bounds"
    assert isinstance(caught.value, OutOfBoundsError), "as on CPUs"
    assert caught.value.threads == [(block, 63) for block in range(4)]


def test_two_threads_write_one_element() -> None:
    with pytest.raises(KernelDefect, match="one thread writes S") as caught:
        run_kernels(flat(reversed_rows(write=lambda t: t // 2)), *arrays())
    assert caught.value.kind == "race"


def test_one_of_many_readers_writes_after_a_barrier() -> None:
    @T.prim_func
    def func(A: T.Buffer((1, 64), "float32"), B: T.Buffer((1, 64), "float32")) -> None:
        for i in T.thread_binding(1, thread="blockIdx.x"):
            with T.block("row"):
                vi = T.axis.spatial(1, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi, 0:64])
                S = T.alloc_buffer((1,), scope="shared")
                for t in T.thread_binding(64, thread="threadIdx.x"):
                    with T.block("fill"):
                        T.where(t == 0)
                        vt = T.axis.spatial(64, t)
                        S[0] = A[vi, vt]
                for t in T.thread_binding(64, thread="threadIdx.x"):
                    with T.block("all"):
                        vt = T.axis.spatial(64, t)
                        B[vi, vt] = S[0] + A[vi, vt]
                for t in T.thread_binding(64, thread="threadIdx.x"):
                    with T.block("one"):
                        T.where(t == 5)
                        vt = T.axis.spatial(64, t)
                        S[0] = S[0] * T.float32(2)
                for t in T.thread_binding(64, thread="threadIdx.x"):
                    with T.block("again"):
                        vt = T.axis.spatial(64, t)
                        B[vi, vt] = B[vi, vt] + S[0]

    a, b = np.arange(64, dtype="float32").reshape(1, 64) + 1, np.zeros((1, 64), "float32")
    run_kernels(flat(func), a, b)
    assert np.array_equal(b, a + 3)


def test_what_nobody_wrote() -> None:
    @T.prim_func
    def func(B: T.Buffer((64,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((64,), "float32", scope="shared")
            for t in T.thread_binding(64, thread="threadIdx.x"):
                if t < 32:
                    S[t] = T.float32(1)
                B[t] = S[t]

    with pytest.raises(KernelDefect, match="uninitialised") as caught:
        run_kernels(flat(func), np.zeros(64, "float32"))
    assert [thread for _, thread in caught.value.threads] == list(range(32, 64))


def test_a_divergent_barrier() -> None:
    @T.prim_func
    def func(B: T.Buffer((64,), "float32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)  # flat, as lowering would move the barrier out
        if t < 40:
            T.evaluate(T.tvm_storage_sync("shared"))
        B[t] = T.float32(1)

    with pytest.raises(KernelDefect, match="40 of 64 threads reach a barrier") as caught:
        run_kernels(func, np.zeros(64, "float32"))
    assert caught.value.kind == "divergent barrier"
    assert [thread for _, thread in caught.value.threads] == list(range(40, 64))


def test_blocks_race_in_global_memory() -> None:
    @T.prim_func
    def func(B: T.Buffer((8,), "int32")) -> None:
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                B[t] = i

    with pytest.raises(KernelDefect, match="race") as caught:
        run_kernels(flat(func), np.zeros(8, "int32"))
    (block, thread), (other, same) = caught.value.threads
    assert block != other
    assert thread == same


def test_global_memory_out_of_bounds() -> None:
    @T.prim_func
    def func(A: T.Buffer((60,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        for t in T.thread_binding(64, thread="threadIdx.x"):
            B[t] = A[t]

    with pytest.raises(KernelDefect, match=r"A\[60\] is outside of 60 elements"):
        run_kernels(flat(func), np.zeros(60, "float32"), np.zeros(64, "float32"))


def test_neighbours_are_moved_together_as_far_as_they_are_aligned() -> None:
    """Code takes them one by one where it cannot prove that they are; a copy by 16 bytes cannot."""

    @T.prim_func
    def func(A: T.Buffer((66,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for v in T.vectorized(4):
                B[t * 4 + v] = A[t * 4 + v + 1]

    a, b = np.arange(66, dtype="float32"), np.zeros(64, "float32")
    run_kernels(flat(func), a, b)
    assert np.array_equal(b, a[1:65])


def test_a_crooked_copy() -> None:
    @T.prim_func
    def func(A: T.Buffer((129,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((128,), "float32", scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                T.evaluate(T.ptx_cp_async(S.data, t * 4, A.data, t * 4 + 1, 16))
                T.evaluate(T.ptx_commit_group())
                T.evaluate(T.ptx_wait_group(0))
                B[t] = S[t * 4]

    with pytest.raises(KernelDefect, match="misaligned"):
        run_kernels(flat(func), np.zeros(129, "float32"), np.zeros(32, "float32"))


def copies(wait: bool) -> PrimFunc:
    """Rows through asynchronous copies."""

    @T.prim_func
    def func(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((128,), "float32", scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                T.evaluate(T.ptx_cp_async(S.data, t * 4, A.data, t * 4, 16))
                T.evaluate(T.ptx_commit_group())
                if T.bool(wait):
                    T.evaluate(T.ptx_wait_group(0))
                T.evaluate(T.tvm_storage_sync("shared"))
                for k in range(4):
                    B[k * 32 + t] = S[k * 32 + t]

    return func


def test_asynchronous_copies_are_waited_for() -> None:
    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    run_kernels(flat(copies(True)), a, b)
    assert np.array_equal(a, b)
    with pytest.raises(KernelDefect, match="missing wait"):
        run_kernels(flat(copies(False)), a, b)


def test_wrong_arguments() -> None:
    func = flat(reversed_rows())
    a, b = arrays()
    with pytest.raises(ArgumentError, match="2 arguments"):
        run_kernels(func, a)
    with pytest.raises(ArgumentError, match="float32"):
        run_kernels(func, a.astype("float64"), b)
    with pytest.raises(ArgumentError, match="contiguous"):
        run_kernels(func, a[:, ::2], b)


@pytest.mark.parametrize(
    ("statement", "line"),
    [("one", "one"), ("\n one\n", "one"), ("one\n  two", "one ..."), ("", "")],
)
def test_what_a_defect_says(statement: str, line: str) -> None:
    threads = [(b, t) for b in (0, 3) for t in range(3)]
    found = KernelDefect("race", "what", statement, threads[:4], None, "hint")
    assert found.kind == "race" and found.statement == statement and found.threads == threads[:4]
    by = "  by thread 0 of block 0, thread 1 of block 0, thread 2 of block 0, thread 0 of block 3"
    assert str(found).split("\n")[:3] == ["race: what", by, f"  in {line}"]
    many = KernelDefect("out of bounds", "what", statement, threads)
    assert str(many).split("\n")[1] == f"{by} and 2 more"
    assert isinstance(many, OutOfBoundsError) and not isinstance(found, OutOfBoundsError)
