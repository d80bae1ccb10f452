"""Memory of short functions and the types of their indices: what is printed before and after."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text

CASES = [
    ("inject_double_buffer", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    with T.attr(S, "double_buffer_scope", 1):
        for i in range(4):
            S_1[i] = A[k * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[3 - i]""", """
S = T.allocate([8], "float32", "shared")
S_1 = T.decl_buffer((8,), data=S)
for i in range(4):
    S_1[i] = A[i]
for k in range(8):
    if k + 1 < 8:
        for i in range(4):
            S_1[(k + 1) % 2 * 4 + i] = A[(k + 1) * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[k % 2 * 4 + (3 - i)]"""),
    ("inject_double_buffer", """
for k in range(n):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    with T.attr(S, "double_buffer_scope", 1):
        for i in range(4):
            S_1[i] = A[k * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[3 - i]""", """
S = T.allocate([8], "float32", "shared")
S_1 = T.decl_buffer((8,), data=S)
if n >= 1:
    for i in range(4):
        S_1[i] = A[i]
for k in range(n):
    if k + 1 < n:
        for i in range(4):
            S_1[(k + 1) % 2 * 4 + i] = A[(k + 1) * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[k % 2 * 4 + (3 - i)]"""),
    ("inject_double_buffer", """
for k in range(2, 6):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    with T.attr(S, "double_buffer_scope", 1):
        for i in range(4):
            S_1[i] = A[k * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[3 - i]""", """
S = T.allocate([8], "float32", "shared")
S_1 = T.decl_buffer((8,), data=S)
for i in range(4):
    S_1[i] = A[8 + i]
for k in range(2, 6):
    if k + 1 < 6:
        for i in range(4):
            S_1[(k - 2 + 1) % 2 * 4 + i] = A[(k + 1) * 4 + i]
    for i in range(4):
        B[k * 4 + i] = S_1[(k - 2) % 2 * 4 + (3 - i)]"""),
    ("inject_double_buffer", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    L = T.allocate([2], "float32", "local")
    L_1 = T.decl_buffer((2,), data=L, scope="local")
    with T.attr(S, "double_buffer_scope", 1):
        S_1[0] = A[k]
    L_1[0] = S_1[0]
    B[k] = L_1[0]""", """
S = T.allocate([8], "float32", "shared")
S_1 = T.decl_buffer((8,), data=S)
S_1[0] = A[0]
for k in range(8):
    L = T.allocate([2], "float32", "local")
    L_1 = T.decl_buffer((2,), data=L)
    if k + 1 < 8:
        S_1[(k + 1) % 2 * 4] = A[k + 1]
    L_1[0] = S_1[k % 2 * 4]
    B[k] = L_1[0]"""),
    ("inject_double_buffer", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    B[k] = 1.0
    with T.attr(S, "double_buffer_scope", 1):
        S_1[0] = A[k]
    B[k] = S_1[0]""", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S)
    B[k] = T.float32(1.0)
    S_1[0] = A[k]
    B[k] = S_1[0]"""),
    ("inject_double_buffer", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    with T.attr(S, "double_buffer_scope", 1):
        S_1[0] = B[k]
    B[k] = S_1[0]""", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S)
    S_1[0] = B[k]
    B[k] = S_1[0]"""),
    ("inject_double_buffer", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S, scope="shared")
    with T.attr(S, "double_buffer_scope", 1):
        S_1[0] = A[k]""", """
for k in range(8):
    S = T.allocate([4], "float32", "shared")
    S_1 = T.decl_buffer((4,), data=S)
    S_1[0] = A[k]"""),
    ("inject_double_buffer", """
S = T.allocate([4], "float32", "shared")
S_1 = T.decl_buffer((4,), data=S, scope="shared")
for k in range(8):
    with T.attr(S, "double_buffer_scope", 1):
        S_1[0] = A[k]
    B[k] = S_1[0]""", """
S = T.allocate([4], "float32", "shared")
S_1 = T.decl_buffer((4,), data=S)
for k in range(8):
    S_1[0] = A[k]
    B[k] = S_1[0]"""),
    ("storage_rewrite", """
S = T.allocate([4], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R = T.allocate([8], "float32", "global")
R_1 = T.decl_buffer((8,), data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    B[i] = S_1[i]
for i in range(8):
    R_1[i] = A[i]
for i in range(8):
    B[i] = R_1[i]""", """
S = T.allocate([8], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R_1 = T.decl_buffer((8,), data=S)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    B[i] = S_1[i]
for i in range(8):
    R_1[i] = A[i]
for i in range(8):
    B[i] = R_1[i]"""),
    ("storage_rewrite", """
S = T.allocate([4], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R = T.allocate([4], "float32", "global")
R_1 = T.decl_buffer((4,), data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    R_1[i] = S_1[i]
for i in range(8):
    B[i] = R_1[i]""", """
S = T.allocate([4], "float32", "global")
R = T.allocate([4], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R_1 = T.decl_buffer((4,), data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    R_1[i] = S_1[i]
for i in range(8):
    B[i] = R_1[i]"""),
    ("storage_rewrite", """
S = T.allocate([4], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R = T.allocate([4], "int32", "global")
R_1 = T.decl_buffer((4,), "int32", data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    B[i] = S_1[i]
for i in range(4):
    R_1[i] = i
for i in range(4):
    B[i] = T.float32(R_1[i])""", """
S = T.allocate([4], "float32", "global")
R = T.allocate([4], "int32", "global")
S_1 = T.decl_buffer((4,), data=S)
R_1 = T.decl_buffer((4,), "int32", data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    B[i] = S_1[i]
for i in range(4):
    R_1[i] = i
for i in range(4):
    B[i] = T.Cast("float32", R_1[i])"""),
    ("storage_rewrite", """
S = T.allocate([4], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R = T.allocate([8], "float32", "global")
R_1 = T.decl_buffer((8,), data=R)
Q = T.allocate([5], "float32", "global")
Q_1 = T.decl_buffer((5,), data=Q)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    R_1[i] = S_1[i]
for i in range(4):
    B[i] = R_1[i] + S_1[i]
for i in range(5):
    Q_1[i] = A[i]
for i in range(5):
    B[i] = Q_1[i]""", """
S = T.allocate([5], "float32", "global")
R = T.allocate([8], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R_1 = T.decl_buffer((8,), data=R)
Q_1 = T.decl_buffer((5,), data=S)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    R_1[i] = S_1[i]
for i in range(4):
    B[i] = R_1[i] + S_1[i]
for i in range(5):
    Q_1[i] = A[i]
for i in range(5):
    B[i] = Q_1[i]"""),
    ("storage_rewrite", """
S = T.allocate([n], "float32", "global")
S_1 = T.decl_buffer((n,), data=S)
R = T.allocate([n], "float32", "global")
R_1 = T.decl_buffer((n,), data=R)
for i in range(n):
    S_1[i] = A[i]
for i in range(n):
    B[i] = S_1[i]
for i in range(n):
    R_1[i] = A[i]
for i in range(n):
    B[i] = R_1[i]""", """
S = T.allocate([n], "float32", "global")
S_1 = T.decl_buffer((n,), data=S)
R_1 = T.decl_buffer((n,), data=S)
for i in range(n):
    S_1[i] = A[i]
for i in range(n):
    B[i] = S_1[i]
for i in range(n):
    R_1[i] = A[i]
for i in range(n):
    B[i] = R_1[i]"""),
    ("storage_rewrite", """
S = T.allocate([n], "float32", "global")
S_1 = T.decl_buffer((n,), data=S)
R = T.allocate([n + 1], "float32", "global")
R_1 = T.decl_buffer((n + 1,), data=R)
for i in range(n):
    S_1[i] = A[i]
for i in range(n):
    B[i] = S_1[i]
for i in range(n):
    R_1[i] = A[i]
for i in range(n):
    B[i] = R_1[i]""", """
S = T.allocate([n], "float32", "global")
R = T.allocate([n + 1], "float32", "global")
S_1 = T.decl_buffer((n,), data=S)
R_1 = T.decl_buffer((n + 1,), data=R)
for i in range(n):
    S_1[i] = A[i]
for i in range(n):
    B[i] = S_1[i]
for i in range(n):
    R_1[i] = A[i]
for i in range(n):
    B[i] = R_1[i]"""),
    ("storage_rewrite", """
S = T.allocate([2, 2], "float32", "global")
S_1 = T.decl_buffer((4,), data=S)
R = T.allocate([4], "float32", "global")
R_1 = T.decl_buffer((4,), data=R)
for i in range(4):
    S_1[i] = A[i]
for i in range(4):
    B[i] = S_1[i]
for i in range(4):
    R_1[i] = A[i]
for i in range(4):
    B[i] = R_1[i]""", SAME),
    ("narrow_index_dtype", """
for i in range(T.int64(8)):
    A[i] = B[i + T.int64(2)]""", """
for i in range(8):
    A[i] = B[i + 2]"""),
    ("narrow_index_dtype", """
for i in range(T.int64(8)):
    if i < T.int64(3) and i * T.int64(2) > T.int64(1):
        A[i] = T.Cast("float32", i)""", """
for i in range(8):
    if i < 3 and i * 2 > 1:
        A[i] = T.Cast("float32", T.Cast("int64", i))"""),
    ("narrow_index_dtype", """
for i in range(8):
    A[T.Cast("int64", i) + T.int64(2)] = 1.0""", """
for i in range(8):
    A[i + 2] = T.float32(1.0)"""),
    ("narrow_index_dtype", """
for i in range(T.int64(8)):
    A[i * T.Cast("int64", n)] = 1.0""", """
for i in range(8):
    A[T.Cast("int64", i) * T.Cast("int64", n)] = T.float32(1.0)"""),
    ("narrow_index_dtype", """
for i in range(T.int64(8)):
    I[i] = T.Cast("int32", i * T.int64(5000000000) % T.int64(7))""", """
for i in range(8):
    I_1[i] = T.Cast("int32", T.Cast("int64", i) * T.int64(5000000000) % T.int64(7))"""),
    ("widen_index_dtype", """
for i in range(70000):
    for j in range(70000):
        A[i * 70000 + j] = 1.0""", """
for i, j in T.grid(70000, 70000):
    A[T.Cast("int64", i) * T.int64(70000) + T.Cast("int64", j)] = T.float32(1.0)"""),
    ("widen_index_dtype", """
for i in range(40000):
    for j in range(40000):
        A[i * 40000 + j] = 1.0""", SAME),
]  # fmt: skip


@pytest.mark.parametrize(("step", "before", "after"), CASES)
def test_passes(step: str, before: str, after: str) -> None:
    check_text(step, before, after)
