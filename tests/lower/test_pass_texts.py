"""Single passes over short functions: what is printed before and after."""

from __future__ import annotations

import textwrap

import pytest

from tileloom.lower.pipeline import GPU_PIPELINE, PIPELINE, name_of
from tileloom.script import from_source, show

PASSES = {name_of(step): step for step in (*GPU_PIPELINE, *PIPELINE)}
HEAD = """@T.prim_func
def main(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64,), "float32"),
    n: T.int32,
    I: T.Buffer((64,), "int32"),
):
"""
SAME = "the same"
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
]  # fmt: skip


def body(func: object) -> str:
    """What stands under the head."""
    lines = show(func).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def "))
    return textwrap.dedent("\n".join(lines[start + 1 :]))


@pytest.mark.parametrize(
    ("step", "before", "after"), CASES, ids=[f"{k}-{name}" for k, (name, *_) in enumerate(CASES)]
)
def test_passes(step: str, before: str, after: str) -> None:
    func = from_source(HEAD + textwrap.indent(before.strip(), "    ") + "\n")
    found = body(PASSES[step](func))
    assert found == (body(func) if after is SAME else after.strip("\n"))
