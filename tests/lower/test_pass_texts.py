"""Passes over short functions: what is printed before and after."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text

CASES = [
    ("hoist_if", """
for i in range(8):
    if n < 3:
        A[i] = 1.0""", """
if n < 3:
    for i in range(8):
        A[i] = T.float32(1.0)"""),
    ("hoist_if", """
for i in range(8):
    if n < 3 and i < 5 and n > 1:
        A[i] = 1.0""", """
if n < 3 and n > 1:
    for i in range(8):
        if i < 5:
            A[i] = T.float32(1.0)"""),
    ("hoist_if", """
for i in range(8):
    if n < 3:
        A[i] = 1.0
    else:
        A[i] = 2.0""", SAME),
    ("hoist_if", """
for i in range(8):
    if I[0] < 3 and 64 // n < 3:
        A[i] = 1.0""", SAME),
    ("hoist_if", """
for i in range(8):
    for j in range(8):
        if n < i:
            A[i * 8 + j] = 1.0""", """
for i in range(8):
    if n < i:
        for j in range(8):
            A[i * 8 + j] = T.float32(1.0)"""),
    ("remove_no_op", """
for i in range(0):
    A[i] = 1.0
for i in range(1):
    A[i] = 2.0""", """
for i in range(1):
    A[i] = T.float32(2.0)"""),
    ("remove_no_op", """
if T.bool(True):
    A[0] = 1.0
if T.bool(False):
    A[1] = 1.0
if T.bool(False):
    A[1] = 1.0
else:
    A[2] = 3.0""", """
A[0] = T.float32(1.0)
A[2] = T.float32(3.0)"""),
    ("remove_no_op", """
if n < 3:
    A[0] = 1.0
else:
    A[1] = A[1]
if n < 4:
    A[1] = A[1]
if n < 5:
    A[1] = A[1]
else:
    A[2] = 1.0""", """
if n < 3:
    A[0] = T.float32(1.0)
if n < 5:
    T.evaluate(0)
else:
    A[2] = T.float32(1.0)"""),
    ("remove_no_op", """
x: T.int32 = n * 2
y: T.int32 = n * 3
A[y] = 1.0""", """
y: T.int32 = n * 3
A[y] = T.float32(1.0)"""),
    ("remove_no_op", """
S_data = T.allocate([8], "float32", "global")
S = T.decl_buffer((8,), data=S_data)
A[0] = 1.0""", """
A[0] = T.float32(1.0)"""),
    ("remove_no_op", """
S_data = T.allocate([8], "float32", "global")
S = T.decl_buffer((8,), data=S_data)
S[0] = 2.0
A[0] = S[0]""", SAME),
    ("remove_no_op", """
S_data = T.allocate([8], "float32", "global")
S = T.decl_buffer((8,), data=S_data)
C = T.decl_buffer((8,), data=A.data)
C[0] = 2.0""", """
A = T.match_buffer(A_handle, (64,))
C = T.decl_buffer((8,), data=A.data)
C[0] = T.float32(2.0)"""),
    ("remove_no_op", """
while I[0] < 3:
    A[0] = A[0]
T.evaluate(T.call_extern("int32", "f", n))
T.evaluate(n)""", """
while I_1[0] < 3:
    T.evaluate(0)
T.call_extern("int32", "f", n)"""),
    ("simplify", """
for i in range(8):
    if i < 8:
        A[i] = 1.0
    if i < 7:
        A[i + 8] = 1.0""", """
for i in range(8):
    A[i] = T.float32(1.0)
    if i < 7:
        A[i + 8] = T.float32(1.0)"""),
    ("simplify", """
for i in range(T.min(n, 8)):
    if i < 8:
        A[i] = 1.0
    if i < 7:
        A[i + 8] = 1.0""", """
for i in range(T.min(n, 8)):
    A[i] = T.float32(1.0)
    if i < 7:
        A[i + 8] = T.float32(1.0)"""),
    ("simplify", """
for i in range(n):
    if i < n:
        A[i] = 1.0
    if n > 0:
        A[i + 8] = 1.0""", """
for i in range(n):
    A[i] = T.float32(1.0)
    A[i + 8] = T.float32(1.0)"""),
    ("simplify", """
for i in range(2, T.min(n, 8)):
    if i < 8 and i > 1:
        A[i] = 1.0
    if i > 2:
        A[i] = 2.0""", """
for i in range(2, 2 + (T.min(n, 8) - 2)):
    A[i] = T.float32(1.0)
    if 2 < i:
        A[i] = T.float32(2.0)"""),
    ("simplify", """
if n < 4:
    if n < 5:
        A[0] = 1.0
    else:
        A[1] = 1.0
else:
    if n < 4:
        A[2] = 1.0
    if n > 2:
        A[3] = 1.0""", """
if n < 4:
    A[0] = T.float32(1.0)
else:
    A[3] = T.float32(1.0)"""),
    ("simplify", """
if I[0] < 4:
    I[0] = 7
    if I[0] < 4:
        A[0] = 1.0""", SAME),
    ("simplify", """
x: T.int32 = n % 4
if x < 4:
    A[x] = T.if_then_else(x > -1, A[x + 0], 0.0)
while n < 3:
    if n < 3:
        A[0] = 1.0""", """
x: T.int32 = n % 4
if x < 4:
    A[x] = T.if_then_else(-1 < x, A[x], T.float32(0.0))
while n < 3:
    if n < 3:
        A[0] = T.float32(1.0)"""),
    ("unroll_loops", """
for i in T.unroll(3):
    A[i * 2] = 1.0
for i in T.unroll(1, 3):
    A[i] = 1.0
for i in T.unroll(n):
    A[i] = 1.0""", """
A[0] = T.float32(1.0)
A[2] = T.float32(1.0)
A[4] = T.float32(1.0)
A[1] = T.float32(1.0)
A[2] = T.float32(1.0)
for i in T.unroll(n):
    A[i] = T.float32(1.0)"""),
    ("unroll_loops", """
for i in T.serial(3, annotations={"pragma_auto_unroll_max_step": 4}):
    A[i] = 1.0
for i in T.serial(5, annotations={"pragma_auto_unroll_max_step": 4}):
    A[i] = 1.0""", """
A[0] = T.float32(1.0)
A[1] = T.float32(1.0)
A[2] = T.float32(1.0)
for i in range(5):
    A[i] = T.float32(1.0)"""),
    ("unroll_loops", """
for i in T.serial(3, annotations={"pragma_auto_unroll_max_step": 4, "pragma_unroll_explicit": \
1, "other": 2}):
    A[i] = 1.0""", """
A[0] = T.float32(1.0)
A[1] = T.float32(1.0)
A[2] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(16):
    if T.likely(i < n):
        A[i] = 1.0""", """
for i in range(T.min(T.max(n, 0), 16)):
    A[i] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(16):
    if T.likely(i < 15):
        A[i] = 1.0""", """
for i in range(15):
    A[i] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(16):
    for j in range(4):
        if T.likely(i * 4 + j < 61):
            A[i * 4 + j] = 1.0""", """
for i, j in T.grid(15, 4):
    A[i * 4 + j] = T.float32(1.0)
for j in range(1):
    A[60 + j] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(16):
    A[i] = T.if_then_else(T.likely(i > 2), B[i], T.float32(0)) + T.if_then_else(T.likely(i < \
14), B[i + 1], T.float32(0))""", SAME),
    ("loop_partition", """
for i in range(16):
    if T.likely(i < 0):
        A[i] = 1.0
B[0] = 2.0""", """
B[0] = T.float32(2.0)"""),
    ("loop_partition", """
for i in range(16):
    if T.likely(16 <= i):
        A[i] = 1.0
B[0] = 2.0""", """
B[0] = T.float32(2.0)"""),
    ("loop_partition", """
for i in range(16):
    if i < 10:
        A[i] = 1.0
    else:
        A[i] = 2.0""", SAME),
    ("flatten_buffers", """
C = T.decl_buffer((4, 16), data=A.data)
D = T.decl_buffer((4, 8), data=B.data, strides=(16, 2), elem_offset=3)
for i, j in T.grid(4, 8):
    C[i, j] = D[i, j]""", """
A = T.match_buffer(A_handle, (64,))
B = T.match_buffer(B_handle, (64,))
C = T.decl_buffer((64,), data=A.data)
D = T.decl_buffer((66,), data=B.data)
for i, j in T.grid(4, 8):
    C[i * 16 + j] = D[i * 16 + j * 2 + 3]"""),
    ("flatten_buffers", """
C = T.decl_buffer((4, n), data=A.data)
for i in range(4):
    C[i, n - 1] = C[i, 0]""", """
A = T.match_buffer(A_handle, (64,))
C = T.decl_buffer((T.int64(4) * T.Cast("int64", n),), data=A.data)
for i in range(4):
    C[T.Cast("int64", i) * T.Cast("int64", n) + T.Cast("int64", n) - T.int64(1)] = \
C[T.Cast("int64", i) * T.Cast("int64", n)]"""),
    ("storage_rewrite", """
S_data = T.allocate([64], "float32", "global")
S = T.decl_buffer((64,), data=S_data)
R_data = T.allocate([64], "float32", "global")
R = T.decl_buffer((64,), data=R_data)
for i in range(64):
    S[i] = A[i] + 1.0
for i in range(64):
    R[i] = S[63 - i] + 1.0
for i in range(64):
    B[i] = R[i]""", """
S_data = T.allocate([64], "float32", "global")
R_data = T.allocate([64], "float32", "global")
S = T.decl_buffer((64,), data=S_data)
R = T.decl_buffer((64,), data=R_data)
for i in range(64):
    S[i] = A[i] + T.float32(1.0)
for i in range(64):
    R[i] = S[63 - i] + T.float32(1.0)
for i in range(64):
    B[i] = R[i]"""),
    ("storage_rewrite", """
S_data = T.allocate([64], "float32", "global")
S = T.decl_buffer((64,), data=S_data)
R_data = T.allocate([32], "float32", "global")
R = T.decl_buffer((32,), data=R_data)
for i in range(64):
    S[i] = A[i] + 1.0
for i in range(64):
    B[i] = S[63 - i]
for i in range(32):
    R[i] = B[i]
for i in range(32):
    B[i] = R[31 - i]""", """
S_data = T.allocate([64], "float32", "global")
S = T.decl_buffer((64,), data=S_data)
R = T.decl_buffer((32,), data=S_data)
for i in range(64):
    S[i] = A[i] + T.float32(1.0)
for i in range(64):
    B[i] = S[63 - i]
for i in range(32):
    R[i] = B[i]
for i in range(32):
    B[i] = R[31 - i]"""),
    ("fuse_ifs", """
if n < 3:
    A[0] = 1.0
if n < 3:
    A[1] = 1.0
if n >= 3:
    A[2] = 1.0
if n < 4:
    A[3] = 1.0""", """
if n < 3:
    A[0] = T.float32(1.0)
    A[1] = T.float32(1.0)
else:
    A[2] = T.float32(1.0)
if n < 4:
    A[3] = T.float32(1.0)"""),
    ("legalize_parallel", """
for i in T.parallel(4):
    for j in T.parallel(4):
        A[i * 4 + j] = 1.0""", """
for i in T.parallel(4):
    for j in range(4):
        A[i * 4 + j] = T.float32(1.0)"""),
    ("legalize_parallel", """
for i in T.parallel(4):
    A[0] = A[0] + B[i]""", """
for i in range(4):
    A[0] = A[0] + B[i]"""),
    ("eliminate_invariant_loops", """
for i in range(4):
    A[0] = 1.0
for i in range(n):
    A[1] = 1.0""", """
A[0] = T.float32(1.0)
if n > 0:
    A[1] = T.float32(1.0)"""),
    ("narrow_index_dtype", """
for i in T.serial(T.int64(8)):
    A[i * T.int64(2)] = 1.0""", """
for i in range(8):
    A[i * 2] = T.float32(1.0)"""),

    ("loop_partition", """
for i in range(16):
    for j in range(16):
        if T.likely(i * 16 + j < n):
            A[i] = 1.0""", """
for i, j in T.grid(T.min(T.max(n // 16, 0), 16), 16):
    A[i] = T.float32(1.0)
for i in range(T.min(T.max(n // 16, 0), 16), T.min(T.max(n // 16, 0), 16) + (T.min(T.max(n // \
16, 0), 16) * -1 + 16)):
    for j in range(T.min(T.max(n - i * 16, 0), 16)):
        A[i] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(100):
    if T.likely(1 <= i) and T.likely(i < 99):
        A[i] = 1.0""", """
for i in range(1, 99):
    A[i] = T.float32(1.0)"""),
    ("loop_partition", """
for i in range(100):
    A[i] = T.if_then_else(T.likely(1 <= i), B[i], T.float32(0))""", SAME),
    ("loop_partition", """
for i in range(16):
    if T.likely(i < 10) and I[i] < 3:
        A[i] = 1.0""", """
for i in range(10):
    if I_1[i] < 3:
        A[i] = T.float32(1.0)"""),
    ("hoist_if", """
for i in T.vectorized(8):
    if n < 3:
        A[i] = 1.0""", """
if n < 3:
    for i in T.vectorized(8):
        A[i] = T.float32(1.0)"""),
    ("unroll_loops", """
with T.attr(0, "pragma_auto_unroll_max_step", 8):
    for i in range(4):
        for j in range(2):
            A[i * 2 + j] = 1.0""", """
A[0] = T.float32(1.0)
A[1] = T.float32(1.0)
A[2] = T.float32(1.0)
A[3] = T.float32(1.0)
A[4] = T.float32(1.0)
A[5] = T.float32(1.0)
A[6] = T.float32(1.0)
A[7] = T.float32(1.0)"""),
    ("unroll_loops", """
for i in T.serial(5, annotations={"pragma_auto_unroll_max_step": 4, "other": 2}):
    A[i] = 1.0
for i in T.serial(4, annotations={"pragma_auto_unroll_max_step": 4, "pragma_unroll_explicit": 0}):
    A[i] = 1.0""", """
for i in T.serial(5, annotations={"other": 2}):
    A[i] = T.float32(1.0)
for i in T.unroll(4):
    A[i] = T.float32(1.0)"""),
    ("simplify", """
for i in range(4):
    if A[i] < 3.0 and i < 4:
        A[i] = 1.0""", """
for i in range(4):
    if A[i] < T.float32(3.0):
        A[i] = T.float32(1.0)"""),
    ("lower_numbered_barriers", """
A[0] = 1.0""", SAME),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[i] = A[i]
    for i in range(8):
        B[i] = S[i]""", """
# with T.block("root"):
S = T.alloc_buffer((8,))
for i in range(8):
    S[i] = A[i]
for i in range(8):
    B[i] = S[i]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[i + 3] = A[i]
    for i in range(8):
        B[i] = S[i + 3]""", """
# with T.block("root"):
S = T.alloc_buffer((8,))
for i in range(8):
    S[i] = A[i]
for i in range(8):
    B[i] = S[i]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(63):
        S[i] = A[i]
    for i in range(63):
        B[i] = S[i]""", """
# with T.block("root"):
S = T.alloc_buffer((63,))
for i in range(63):
    S[i] = A[i]
for i in range(63):
    B[i] = S[i]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(64):
        S[i] = A[i]
    for i in range(64):
        B[i] = S[i]""", SAME),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[i * 9] = A[i]
    for i in range(8):
        B[i] = S[i * 9]""", SAME),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[n + i] = A[i]
    for i in range(8):
        B[i] = S[n + i]""", """
# with T.block("root"):
S = T.alloc_buffer((8,))
for i in range(8):
    S[i] = A[i]
for i in range(8):
    B[i] = S[i]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[n + i * 2] = A[i]
    for i in range(8):
        B[i] = S[n + i * 2]""", """
# with T.block("root"):
S = T.alloc_buffer((15,))
for i in range(8):
    S[i * 2] = A[i]
for i in range(8):
    B[i] = S[i * 2]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[i % 4] = A[i]
    for i in range(8):
        B[i] = S[i % 4]""", """
# with T.block("root"):
S = T.alloc_buffer((4,))
for i in range(8):
    S[i % 4] = A[i]
for i in range(8):
    B[i] = S[i % 4]"""),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64,))
    for i in range(8):
        S[I[i]] = A[i]
    for i in range(8):
        B[i] = S[I[i]]""", SAME),
    ("compact_buffer_region", """
with T.block("root"):
    S = T.alloc_buffer((64, 64))
    for i in range(8):
        S[5, i + 2] = A[i]
        B[i] = S[5, 3] + S[5, i + 2]""", """
# with T.block("root"):
S = T.alloc_buffer((1, 8))
for i in range(8):
    S[0, i] = A[i]
    B[i] = S[0, 1] + S[0, i]"""),

]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "before", "after"), CASES, ids=[f"{k}-{name}" for k, (name, *_) in enumerate(CASES)]
)
def test_passes(step: str, before: str, after: str) -> None:
    check_text(step, before, after)
