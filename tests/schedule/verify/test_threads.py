"""Blocks that every thread of a kernel runs: what they make is each thread's own."""

from __future__ import annotations

import pytest

from schedule.verify.programs import program
from tileloom.schedule.verify import verify_program
from tileloom.schedule.verify.threads import name_threads
from tileloom.tir import PrimFunc, structural_equal

pytest.importorskip("islpy")

ORIGINAL = program(
    "A: 6, 40; M: 6; B: 6, 40",
    """
    total = T.alloc_buffer((6,))
    for i, k in T.grid(6, 40):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + A[vi, vk]
    for i in range(6):
        with T.block("M"):
            vi = T.axis.spatial(6, i)
            M[vi] = total[vi] * T.float32(0.5)
    for i, j in T.grid(6, 40):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] - M[vi]
    """,
)
#: Threads reduce together; each takes the half of what they found, and then its elements.
SCHEDULED = """
total = T.alloc_buffer((6,), scope="local")
half = T.alloc_buffer((6,), scope="local")
for b in T.thread_binding(6, "blockIdx.x"):
    for t in T.thread_binding(32, "threadIdx.x"):
        for o in range(2):
            with T.block("total"):
                vi = T.axis.spatial(6, b)
                vk = T.axis.reduce(40, o * 32 + t)
                T.where(o * 32 + t < 40)
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + A[vi, vk]
    {halves}
        vi = T.axis.spatial(6, b)
        half[vi] = total[vi] * T.float32(0.5)
    for t in T.thread_binding(32, "threadIdx.x"):
        for o in range(2):
            with T.block("B"):
                vi = T.axis.spatial(6, b)
                vj = T.axis.spatial(40, o * 32 + t)
                T.where(o * 32 + t < 40)
                B[vi, vj] = A[vi, vj] - half[vi]
    for t in T.thread_binding(32, "threadIdx.x"):
        for o in range(1):
            with T.block("M"):
                vi = T.axis.spatial(6, b)
                T.where(o * 32 + t < 1)
                M[vi] = half[vi]
"""
BY_ALL = 'with T.block("half"):'


def scheduled(old: str = "", new: str = "") -> PrimFunc:
    text = SCHEDULED.format(halves=BY_ALL)
    assert old in text
    return program("A: 6, 40; M: 6; B: 6, 40", text.replace(old, new) if old else text)


def test_what_every_thread_makes_is_known_to_all() -> None:
    report = verify_program(scheduled(), original=ORIGINAL)
    assert report.ok, report


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        ("half[vi] = total[vi] *", "half[vi] = total[0] *", "wrong"),
        ("half[vi] = total[vi]", "half[5 - vi] = total[vi]", "wrong"),
        ("M[vi] = half[vi]", "M[vi] = half[0]", "wrong"),
        # One thread alone has it, so the others read what nobody has stored.
        (BY_ALL, 'for t in T.thread_binding(32, "threadIdx.x"):\n     with T.block("half"):\n'
         "        T.where(t < 1)", "wrong"),
        # Threads of which there are 16 here and 32 there.
        ('for t in T.thread_binding(32, "threadIdx.x"):\n        for o in range(1)',
         'for t in T.thread_binding(16, "threadIdx.x"):\n        for o in range(1)', "unknown"),
    ],
)  # fmt: skip
def test_defects_beside_it(old: str, new: str, state: str) -> None:
    report = verify_program(scheduled(old, new), original=ORIGINAL)
    assert report.state == state, report


def test_who_runs_what_is_written_down_once() -> None:
    func = name_threads(scheduled())
    assert str(func).count("threadIdx.x") == str(scheduled()).count("threadIdx.x") + 1
    assert structural_equal(name_threads(func), func)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # It writes what all can see: nobody said that all threads should.
        ("half[vi] = total[vi] * T.float32(0.5)",
         "half[vi] = total[vi] * T.float32(0.5)\n        B[vi, 0] = T.float32(0)"),
        # Another block that reads its result knows no thread either.
        ('with T.block("half")',
         'with T.block("first"):\n        B[b, 0] = half[b]\n    with T.block("half")'),
        ('scope="local")', 'scope="shared")'),
        ('"threadIdx.x"', '"vthread.x"'),
    ],
)  # fmt: skip
def test_other_blocks_stay_as_they_are(old: str, new: str) -> None:
    func = scheduled(old, new)
    assert name_threads(func) is func or structural_equal(name_threads(func), func)
