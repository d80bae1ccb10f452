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

    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.if_then_else(n < 3, B[i], T.float32(0))""", """
A[0:4] = T.if_then_else(n < 3, B[0:4], T.Broadcast(T.float32(0.0), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.if_then_else(n < 3, B[n], T.float32(0))""", """
A[0:4] = T.Broadcast(T.if_then_else(n < 3, B[n], T.float32(0.0)), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.Select(n < 3 or I[i] > 2, B[i], T.float32(0))""", """
for i in range(4):
    A[i] = T.Select(n < 3 or I_1[i] > 2, B[i], T.float32(0.0))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.Select(n < 3 or i > 2, B[i], T.float32(0))""", """
A[0:4] = T.Select(T.Broadcast(n < 3, 4) or T.Ramp(0, 1, 4) > T.Broadcast(2, 4), B[0:4], \
T.Broadcast(T.float32(0.0), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.Select(i < 2 and I[i] > 2, B[i], T.float32(0))""", """
A[0:4] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(2, 4) and I_1.vload([T.Ramp(0, 1, 4)], \
predicate=T.Ramp(0, 1, 4) < T.Broadcast(2, 4)) > T.Broadcast(2, 4), B[0:4], \
T.Broadcast(T.float32(0.0), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.Select(i < 2 or I[i] > 2, B[i], T.float32(0))""", """
A[0:4] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(2, 4) or I_1.vload([T.Ramp(0, 1, 4)], \
predicate=T.Ramp(0, 1, 4) >= T.Broadcast(2, 4)) > T.Broadcast(2, 4), B[0:4], \
T.Broadcast(T.float32(0.0), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[i] = B[n]""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(B[n], 4), predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[i] = B[5]""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(B[5], 4), predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[i] = T.float32(i // n)""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], T.Cast("float32x4", T.Ramp(0, 1, 4) // \
T.Broadcast(T.Select(n == 0, 1, n), 4)), predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[i] = T.float32(i // 3)""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], T.Cast("float32x4", T.Ramp(0, 1, 4) // T.Broadcast(3, 4)), \
predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        A[5] = B[i]""", """
for i in range(4):
    if i < n:
        A[5] = B[i]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[5] = B[n]""", """
A[5] = B[n]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[5] = A[n] + 1.0""", """
for i in range(4):
    A[5] = A[n] + T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[5] = B[i]""", """
for i in range(4):
    A[5] = B[i]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if I[i] < n:
        A[i] = B[n]""", """
mask: T.boolx4 = I_1[0:4] < T.Broadcast(n, 4)
A.vstore([T.Ramp(0, 1, 4)], B.vload([T.Broadcast(n, 4)], predicate=mask), predicate=mask)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n and I[i] > 2:
        A[i] = B[i]
    else:
        A[i] = 3.0""", """
mask: T.boolx4 = I_1.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4)) > \
T.Broadcast(2, 4)
A.vstore([T.Ramp(0, 1, 4)], B.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4) and mask), predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4) and mask)
A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(T.float32(3.0), 4), predicate=not (T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4) and mask))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if n < 2 and i < 3:
        A[i] = B[i]""", """
if n < 2:
    A.vstore([T.Ramp(0, 1, 4)], B.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(3, 4)), predicate=T.Ramp(0, 1, 4) < T.Broadcast(3, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        if i > 1:
            A[i] = B[i]""", """
if 0 < n:
    A.vstore([T.Ramp(0, 1, 4)], B.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4) and T.Ramp(0, 1, 4) > T.Broadcast(1, 4)), predicate=T.Ramp(0, 1, 4) < \
T.Broadcast(n, 4) and T.Ramp(0, 1, 4) > T.Broadcast(1, 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if n < 2:
        A[i] = B[i]
    else:
        A[i] = 1.0""", """
if n < 2:
    A[0:4] = B[0:4]
else:
    A[0:4] = T.Broadcast(T.float32(1.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    R = T.allocate([2], "float32", "local")
    R_1 = T.decl_buffer((2,), data=R, scope="local")
    R_1[0] = A[i]
    R_1[1] = B[i]
    A[i] = R_1[0] + R_1[n]""", """
R = T.allocate([8], "float32", "local")
R_1 = T.decl_buffer((8,), data=R)
R_1[0:4] = A[0:4]
R_1[4:8] = B[0:4]
A[0:4] = R_1[0:4] + R_1[n * 4:n * 4 + 4]"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    R = T.allocate([2], "float32x4", "local")
    A[i] = 1.0""", """
for i in range(4):
    R = T.allocate([2], "float32x4", "local")
    A[i] = T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    for j in T.parallel(4):
        A[i * 4 + j] = 1.0""", """
for j in range(4):
    A[j:j + 16:4] = T.Broadcast(T.float32(1.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.call_extern("float32", "f", i)""", """
for i in range(4):
    A[i] = T.call_extern("float32", "f", i)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.call_extern("float32", "f", n)""", """
A[0:4] = T.Broadcast(T.call_extern("float32", "f", n), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.exp(B[i]) + T.exp(T.float32(n))""", """
A[0:4] = T.exp(B[0:4]) + T.Broadcast(T.exp(T.Cast("float32", n)), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    T.evaluate(T.call_extern("int32", "f", i))""", """
for i in range(4):
    T.call_extern("int32", "f", i)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    assert n < 3, "small"
    A[i] = 1.0""", """
assert n < 3, "small"
A[0:4] = T.Broadcast(T.float32(1.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    if i < n:
        assert n < 3, "small"
        A[i] = 1.0""", """
for i in range(4):
    if i < n:
        assert n < 3, "small"
        A[i] = T.float32(1.0)"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[i] = T.float32(T.int64(i) * T.int64(2))""", """
A[0:4] = T.Cast("float32x4", T.Ramp(T.int64(0), T.int64(2), 4))"""),
    ("vectorize_loops", """
for i in T.vectorized(4):
    A[(i * 3 + n) % 64] = T.max(B[i], T.float32(0)) / T.float32(3)""", """
A[T.Ramp(n, 3, 4) % T.Broadcast(64, 4)] = T.max(B[0:4], T.Broadcast(T.float32(0.0), 4)) / \
T.Broadcast(T.float32(3.0), 4)"""),
    ("vectorize_loops", """
for i in T.vectorized(2, 6):
    A[i] = B[i - 2]""", """
A[2:6] = B[0:4]"""),
    ("vectorize_loops", """
for i in T.vectorized(n):
    A[i] = B[i]""", """
for i in range(n):
    A[i] = B[i]"""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "before", "after"), CASES, ids=[f"{k}-{name}" for k, (name, *_) in enumerate(CASES)]
)
def test_vectors(step: str, before: str, after: str) -> None:
    check_text(step, before, after)
