"""One variable for all loops of a kernel that are bound to the same threads."""

from __future__ import annotations

import pytest

from lower.pass_texts import check_text
from tileloom.base.errors import UserError

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
