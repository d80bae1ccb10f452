"""Short loops as vectors: what is printed before and after."""

from __future__ import annotations

import pytest

from lower.pass_texts import check_text

CASES = [
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = B[i] + 1.0""", """
A[0:4] = B[0:4] + T.Broadcast(T.float32(1.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i * 2 + n] = B[n] + B[3 - i]""", """
A[n:n + 8:2] = T.Broadcast(B[n], 4) + B[T.Ramp(3, -1, 4)]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i // 2] = T.Cast("float32", i % 2)""", """
A[T.Ramp(0, 1, 4) // T.Broadcast(2, 4)] = T.Cast("float32x4", T.Ramp(0, 1, 4) % T.Broadcast(2, \
4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[i] = B[i]
    else:
        A[i] = 2.0""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], B.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4)), predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))
if 3 >= n:
    A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(T.float32(2.0), 4), predicate=T.Ramp(0, 1, 4) >= \
T.Broadcast(n, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.if_then_else(i < n, B[i], T.float32(0))""", """
A[0:4] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(n, 4), B.vload([T.Ramp(0, 1, 4)], \
predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4)), T.Broadcast(T.float32(0.0), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.Select(i < n, B[i], T.float32(0))
    B[i] = T.exp(B[i]) + T.max(B[i], T.float32(i))""", """
A[0:4] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(n, 4), B[0:4], T.Broadcast(T.float32(0.0), 4))
B[0:4] = T.exp(B[0:4]) + T.max(B[0:4], T.Cast("float32x4", T.Ramp(0, 1, 4)))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    for j in range(n):
        A[i * 8 + j] = 1.0""", """
for j in range(n):
    A[j:j + 32:8] = T.Broadcast(T.float32(1.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    for j in range(i):
        A[i * 8 + j] = 1.0""", """
for i in range(4):
    for j in range(i):
        A[i * 8 + j] = T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    x: T.int32 = i * 2
    A[x] = T.float32(x)""", """
x: T.int32x4 = T.Ramp(0, 2, 4)
A[x] = T.Cast("float32x4", x)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    x: T.int32 = I[i]
    A[x] = B[I[i]]""", """
x: T.int32x4 = I_1[0:4]
A[x] = B[I_1[0:4]]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    while I[0] < 3:
        A[i] = 1.0""", """
for i in range(4):
    while I_1[0] < 3:
        A[i] = T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(1):
    A[i + n] = 1.0
for i in T.vectorized(n):
    A[i] = 1.0
for i in T.vectorized(0):
    A[i] = 1.0""", """
A[n] = T.float32(1.0)
for i in range(n):
    A[i] = T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[0] = A[0] + B[i]""", """
for i in range(4):
    A[0] = A[0] + B[i]"""),
    ("vectorize_loops", """
for i in T.vectorized(130):
    A[i] = 1.0
for i in T.vectorized(2, 66):
    A[i] = 1.0""", """
for i_chunk in range(2):
    A[i_chunk * 64:i_chunk * 64 + 64] = T.Broadcast(T.float32(1.0), 64)
A[128:130] = T.Broadcast(T.float32(1.0), 2)
A[2:66] = T.Broadcast(T.float32(1.0), 64)"""),
    ("vectorize_loops", """
for i in T.vectorized(3, 200):
    A[i] = B[i]""", """
for i_chunk in range(3):
    A[3 + i_chunk * 64:3 + i_chunk * 64 + 64] = B[3 + i_chunk * 64:3 + i_chunk * 64 + 64]
A[195:200] = B[195:200]"""),

]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "before", "after"), CASES, ids=[f"{k}-{name}" for k, (name, *_) in enumerate(CASES)]
)
def test_vectors(step: str, before: str, after: str) -> None:
    check_text(step, before, after)
