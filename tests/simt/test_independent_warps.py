"""Warps that wait in different places: in all kinds of statements, and what is said of mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.script import parse
from tileloom.simt import KernelDefect, run_kernels
from tileloom.simt.independent_warps import needs_independent_warps, uses_engines

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((256,), "int32"), n: T.int32):
    b = T.launch_thread("blockIdx.x", BLOCKS)
    t = T.launch_thread("threadIdx.x", THREADS)
    S_data = T.allocate([128], "int32", "shared")
    S = T.decl_buffer((128,), "int32", data=S_data, scope="shared")
    LINES
"""


def run(lines: str, threads: int = 64, n: int = 3, blocks: int = 1) -> Any:
    a = np.arange(256, dtype="int32")
    text = KERNEL.replace("THREADS", str(threads)).replace("BLOCKS", str(blocks))
    run_kernels(parse(text.replace("LINES", lines.replace("\n", "\n    "))), a, n)
    return a


# Warp 0 leaves numbers, warp 1 takes them in the other order; both go on together.
HANDED = """if t < 32:
    S[t] = t + 100
    T.barrier_arrive(1, 64)
else:
    T.barrier_sync(1, 64)
    A[t - 32] = S[63 - t]"""
WANTED = list(range(131, 99, -1))


@pytest.mark.parametrize(
    "lines",
    [
        HANDED,
        HANDED.replace("T.barrier_sync(1, 64)", "T.barrier_sync(n - 2, n * 21 + 1)"),
        HANDED.replace("(1, 64)", "(0, 64)"),
        HANDED.replace("(1, 64)", "(15, 64)"),
        HANDED.replace("T.barrier_sync(1, 64)", "for k in range(1):\n      T.barrier_sync(1, 64)"),
        HANDED.replace("T.barrier_sync(1, 64)", "x: T.int32 = n - 2\n    T.barrier_sync(x, 64)"),
        HANDED.replace("T.barrier_sync(1, 64)", "if n == 3:\n        T.barrier_sync(1, 64)"),
        HANDED.replace("T.barrier_sync(1, 64)",
                       "if n == 4:\n        A[0] = 1\n    else:\n        T.barrier_sync(1, 64)"),
        HANDED.replace("    T.barrier_sync(1, 64)",
                       "    L_data = T.allocate([1], 'int32', 'local')\n"
                       "    L = T.decl_buffer((1,), 'int32', data=L_data, scope='local')\n"
                       "    L[0] = 0\n    while L[0] < 1:\n        L[0] = L[0] + 1\n"
                       "        T.barrier_sync(1, 64)"),
        HANDED.replace("    A[t - 32] = S[63 - t]", "    A[t - 32] = S[63 - t]\n    T.syncwarp()"),
    ],
)  # fmt: skip
def test_barriers_in_statements(lines: str) -> None:
    assert run(lines)[:32].tolist() == WANTED


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_one_after_another(blocks: int) -> None:
    lines = HANDED.replace("A[t - 32] = S[63 - t]", "A[b * 32 + t - 32] = S[63 - t] + b")
    found = run(lines, blocks=blocks)[: 32 * blocks].reshape(blocks, 32)
    assert found.tolist() == [[x + k for x in WANTED] for k in range(blocks)]


def test_barriers_are_used_again() -> None:
    lines = """for k in range(4):
    if t < 32:
        S[t] = t + 100 * k
    T.barrier_sync(1, 64)
    if t >= 32:
        A[k * 32 + t - 32] = S[63 - t]
    T.barrier_sync(2, 64)"""
    found = run(lines)[:128].reshape(4, 32)
    assert found.tolist() == [[31 - j + 100 * k for j in range(32)] for k in range(4)]
    for number in (1, 2):
        with pytest.raises(KernelDefect, match=r"race|uninitialised"):
            run(lines.replace(f"T.barrier_sync({number}, 64)", "T.syncwarp()", 1))


def test_three_warps_of_which_two_meet() -> None:
    """What the third has written, the second has heard of from the first."""
    lines = """if t < 32:
    S[t] = t
    T.barrier_arrive(1, 64)
else:
    if t < 64:
        T.barrier_sync(1, 64)
        S[t] = S[63 - t]
        T.barrier_arrive(2, 64)
    else:
        T.barrier_sync(2, 64)
        A[t - 64] = S[t - 32] + S[t - 64] * 100"""
    t = np.arange(32)
    assert run(lines, 96)[:32].tolist() == ((31 - t) + t * 100).tolist()


@pytest.mark.parametrize(
    ("lines", "kind", "said", "threads"),
    [
        (HANDED.replace("T.barrier_arrive(1, 64)", "T.barrier_arrive(1, 96)"), "divergent barrier",
         "barrier 1 is for 64 threads here and 96 elsewhere", range(32, 64)),
        ("T.barrier_sync(1, 0)", "divergent barrier", "no barrier 1 of 0 threads", range(32)),
        ("T.barrier_sync(1, -32)", "divergent barrier", "no barrier 1 of -32 threads", range(32)),
        ("T.barrier_sync(1, 33)", "divergent barrier", "no barrier 1 of 33 threads", range(32)),
        ("T.barrier_sync(16, 64)", "divergent barrier", "no barrier 16 of 64", range(32)),
        ("T.barrier_sync(-1, 64)", "divergent barrier", "no barrier -1 of 64", range(32)),
        ("T.barrier_sync(t % 2, 64)", "divergent barrier",
         "threads of a warp come to barriers [0, 1]", range(32)),
        ("T.barrier_arrive(1, 64)\nT.barrier_sync(1, 64)", "divergent barrier",
         "a warp comes to barrier 1 again before all 64 threads have come", None),
        ("if t >= 32:\n    T.barrier_sync(1, 64)", "divergent barrier",
         "32 of 64 threads reach barrier 1, and the rest never do", range(32, 64)),
        ("if t < 32:\n    T.barrier_sync(1, 64)\nelse:\n    T.barrier_sync(2, 64)",
         "divergent barrier", "32 of 64 threads reach barrier 1", range(64)),
        ("if t < 40:\n    T.barrier_sync(1, 64)", "divergent barrier",
         "8 of 32 threads of a warp reach a barrier; these do not", range(40, 64)),
        ("if t % 32 != 5:\n    T.tvm_storage_sync('shared')\nT.barrier_sync(1, 64)",
         "divergent barrier", "31 of 32 threads of a warp reach a barrier", [5]),
    ],
)  # fmt: skip
def test_mistakes(lines: str, kind: str, said: str, threads: Any) -> None:
    with pytest.raises(KernelDefect) as caught:
        run(lines)
    assert caught.value.kind == kind and said in str(caught.value), str(caught.value)
    if threads is not None:
        assert caught.value.threads == [(0, t) for t in threads]


def test_barriers_of_the_last_warp() -> None:
    """It has fewer threads, and counts as a whole one."""
    lines = HANDED.replace("A[t - 32] = S[63 - t]", "A[t - 32] = S[t - 32]")
    assert run(lines, 40)[:8].tolist() == list(range(100, 108))


def test_a_barrier_of_all_is_number_zero() -> None:
    lines = "S[t] = t\nT.tvm_storage_sync('shared')\nA[t] = S[63 - t]\nT.barrier_sync(1, 64)"
    assert run(lines)[:64].tolist() == list(range(63, -1, -1))
    wrong = lines.replace("63 - t", "t").replace("T.tvm_storage_sync('shared')",
                          "if t < 32:\n    T.tvm_storage_sync('shared')")  # fmt: skip
    with pytest.raises(KernelDefect, match="32 of 64 threads reach barrier 0, and the rest"):
        run(wrong)
    with pytest.raises(UnsupportedError, match="no barrier orders"):
        run(lines.replace("'shared'", "'everything'"))


def test_shared_memory_is_one_for_all_warps() -> None:
    """Allocated in a part that each warp comes to by itself, it is not emptied by the second."""
    lines = """T.barrier_sync(2, 64)
Q_data = T.allocate([64], "int32", "shared")
Q = T.decl_buffer((64,), "int32", data=Q_data, scope="shared")
if t < 32:
    Q[t] = t
T.barrier_sync(1, 64)
A[t] = Q[t % 32] + 5"""
    assert run(lines)[:64].tolist() == [*range(5, 37)] * 2


def test_steps_are_counted_as_in_lockstep() -> None:
    def steps(lines: str) -> int:
        text = KERNEL.replace("THREADS", "64").replace("BLOCKS", "1").replace("LINES", lines)
        return run_kernels(parse(text), np.zeros(256, "int32"), 3)

    for more in ("A[t] = 1", "for k in range(3):\n        A[t] = 1"):
        lockstep = steps(more) - steps("T.evaluate(0)")
        alone = steps(f"{more}\n    T.barrier_sync(1, 64)") - steps(
            "T.evaluate(0)\n    T.barrier_sync(1, 64)"
        )
        assert alone == lockstep
    loop = "for k in range(3):\n        T.barrier_sync(1, 64)"
    assert steps(loop) - steps("T.barrier_sync(1, 64)") == 3 * 64


@pytest.mark.parametrize(
    ("line", "independent", "engines"),
    [
        ("A[t] = 1", False, False),
        ("T.tvm_storage_sync('shared')", False, False),
        ("T.barrier_sync(1, 64)", True, False),
        ("T.barrier_arrive(1, 64)", True, False),
        ("T.ptx_mbarrier_arrive(T.address_of(S[0]))", True, True),
        ("T.ptx_cp_async(S.data, 0, A.data, 0, 4)", False, False),
    ],
)
def test_which_kernels_need_it(line: str, independent: bool, engines: bool) -> None:
    text = KERNEL.replace("THREADS", "64").replace("BLOCKS", "1").replace("LINES", line)
    body = parse(text).body
    assert (needs_independent_warps(body), uses_engines(body)) == (independent, engines)
