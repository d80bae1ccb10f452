"""Loops in which threads wait: a hang is found where nothing changes, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.script import parse
from tileloom.simt import KernelDefect, livelock, run_kernels


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livelock, "_EVERY", 8)


KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    t = T.launch_thread("threadIdx.x", 4)
    while T.atomic_load(T.address_of(A[t])) > 0:
        LINE
"""


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("late", [False, True])
def test_loops_that_end(count: int, late: bool) -> None:
    """Each iteration changes something, be it of one thread only."""
    func: Any = parse(KERNEL.replace("LINE", "A[t] = A[t] - 1"))
    a = np.array([0, 0, count, 0] if late else [count] * 4, "int32")
    run_kernels(func, a, np.zeros(4, "int32"))
    assert not a.any()


def test_loops_that_do_not() -> None:
    func: Any = parse(KERNEL.replace("LINE", "B[t] = 1"))
    with pytest.raises(KernelDefect, match="nobody changes what they wait for") as caught:
        run_kernels(func, np.array([0, 1, 0, 1], "int32"), np.zeros(4, "int32"))
    assert caught.value.kind == "hang" and caught.value.threads == [(0, 1), (0, 3)]


def test_threads_leave_a_loop_one_after_another() -> None:
    """Fewer threads are a change, and so is a name that means another value."""
    func: Any = parse("""
@T.prim_func
def kernel(A: T.Buffer((1,), "int32"), B: T.Buffer((4,), "int32")):
    t = T.launch_thread("threadIdx.x", 4)
    while T.atomic_add(T.address_of(A[0]), 1) < t * 20 + 25:
        x: T.int32 = t
        T.evaluate(x)
    B[t] = 1
""")
    b = np.zeros(4, "int32")
    run_kernels(func, np.zeros(1, "int32"), b)
    assert b.tolist() == [1] * 4
