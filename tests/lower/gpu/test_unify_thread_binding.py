"""One variable for all loops of a kernel that are bound to the same threads."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom
from lower.pass_texts import check_text
from tileloom.base.errors import UserError
from tileloom.script import parse

CASES = [
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        A[b * 8 + t] = 1.0
    for u in T.thread_binding(3, 11, thread="threadIdx.x"):
        A[b * 8 + u] = 2.0""", """
for blockIdx_x in T.thread_binding(2, thread="blockIdx.x"):
    for threadIdx_x in T.thread_binding(8, thread="threadIdx.x"):
        A[blockIdx_x * 8 + threadIdx_x] = T.float32(1.0)
        A[blockIdx_x * 8 + (threadIdx_x + 3)] = T.float32(2.0)"""),
    ("""
for i in range(2):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for v in T.thread_binding(2, thread="vthread.x"):
            A[t + v + i] = 1.0""", """
for i in range(2):
    for threadIdx_x in T.thread_binding(8, thread="threadIdx.x"):
        for v in T.thread_binding(2, thread="vthread.x"):
            A[threadIdx_x + v + i] = T.float32(1.0)"""),
    ("""
for t in T.thread_binding(8, thread="threadIdx.x"):
    for b in T.thread_binding(n, thread="blockIdx.x"):
        for y in T.thread_binding(4, thread="threadIdx.y"):
            A[t + b * 8 + y] = 1.0""", """
for blockIdx_x in T.thread_binding(n, thread="blockIdx.x"):
    for threadIdx_y in T.thread_binding(4, thread="threadIdx.y"):
        for threadIdx_x in T.thread_binding(8, thread="threadIdx.x"):
            A[threadIdx_x + blockIdx_x * 8 + threadIdx_y] = T.float32(1.0)"""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES)
def test_unify_thread_binding(before: str, after: str) -> None:
    check_text("unify_thread_binding", before, after)


def test_numbers_that_are_known_before_the_kernel() -> None:
    """Names of values outside, and loops around."""
    check_text("unify_thread_binding", """
m: T.int32 = n + 1
for i in range(4):
    for t in T.thread_binding(m + i, thread="threadIdx.x"):
        A[t] = 1.0""", """
m: T.int32 = n + 1
for i in range(4):
    for threadIdx_x in T.thread_binding(m + i, thread="threadIdx.x"):
        A[threadIdx_x] = T.float32(1.0)""")  # fmt: skip


ONCE = [
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    T.atomic_add(T.address_of(A[b]), 1.0)
    A[b + 2] = A[b + 2] * 2.0
    for t in T.thread_binding(8, thread="threadIdx.x"):
        T.atomic_add(T.address_of(A[t]), 1.0)
        A[b * 8 + t] = A[b * 8 + t] * 2.0""", """
for blockIdx_x in T.thread_binding(2, thread="blockIdx.x"):
    for threadIdx_x in T.thread_binding(8, thread="threadIdx.x"):
        if threadIdx_x == 0:
            T.atomic_add(T.address_of(A[blockIdx_x]), T.float32(1.0))
        if threadIdx_x == 0:
            A[blockIdx_x + 2] = A[blockIdx_x + 2] * T.float32(2.0)
        T.atomic_add(T.address_of(A[threadIdx_x]), T.float32(1.0))
        A[blockIdx_x * 8 + threadIdx_x] = A[blockIdx_x * 8 + threadIdx_x] * T.float32(2.0)"""),
    ("""
for t in T.thread_binding(8, thread="threadIdx.x"):
    T.atomic_add(T.address_of(A[t]), 1.0)
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for y in T.thread_binding(1, thread="threadIdx.y"):
            A[t + b * 8 + y] = 1.0""", """
for blockIdx_x in T.thread_binding(2, thread="blockIdx.x"):
    for threadIdx_y in T.thread_binding(1, thread="threadIdx.y"):
        for threadIdx_x in T.thread_binding(8, thread="threadIdx.x"):
            if blockIdx_x == 0:
                T.atomic_add(T.address_of(A[threadIdx_x]), T.float32(1.0))
            A[threadIdx_x + blockIdx_x * 8 + threadIdx_y] = T.float32(1.0)"""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ONCE)
def test_changes_that_count_are_made_by_one_thread(before: str, after: str) -> None:
    check_text("unify_thread_binding", before, after)


@pytest.mark.parametrize(
    "change", ["T.atomic_add(T.address_of(B[vi]), 2.0)", "B[vi] = B[vi] + 2.0"]
)
def test_a_change_next_to_a_loop_of_threads(change: str) -> None:
    """Of an element of the device; what a thread has for itself, each of them changes."""
    func = parse(f"""
from tileloom.script import tir as T

@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1.0
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            {change}
""")
    a, b = np.zeros((4, 8), "float32"), np.ones(4, "float32")
    tileloom.build(func, target="cuda", device="emulator")(a, b)
    assert a.min() == 1 and np.all(b == 3)


REFUSED = [
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(b + 1, thread="threadIdx.x"):
        A[t] = 1.0""", "the number of threads of threadIdx.x depends on b$"),
    ("""
for t in T.thread_binding(2, thread="threadIdx.x"):
    for b in T.thread_binding(t + n, thread="blockIdx.x"):
        A[t] = 1.0""", "the number of threads of blockIdx.x depends on t$"),
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    m: T.int32 = n + 1
    for t in T.thread_binding(m, thread="threadIdx.x"):
        A[t] = 1.0""", "the number of threads of threadIdx.x depends on m$"),
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for i in range(4):
        for t in T.thread_binding(i + 1, thread="threadIdx.x"):
            A[t] = 1.0""", "the number of threads of threadIdx.x depends on i"),
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for v in T.thread_binding(2, thread="vthread.x"):
        for t in T.thread_binding(v + 1, thread="threadIdx.x"):
            A[t] = 1.0""", "the number of threads of threadIdx.x depends on v"),
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        A[t] = 1.0
    for t in T.thread_binding(16, thread="threadIdx.x"):
        A[t] = 1.0""", r"threadIdx.x with the extents 8 and 16"),
    ("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(n, thread="threadIdx.x"):
        A[t] = 1.0
    for t in T.thread_binding(8, thread="threadIdx.x"):
        A[t] = 1.0""", r"threadIdx.x with the extents n and 8"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_threads_that_do_not_fit(body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_text("unify_thread_binding", body, "")
