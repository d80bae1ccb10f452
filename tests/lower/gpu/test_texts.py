"""Kernels and their memory on the way through single passes: what is printed before and after."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text
from tileloom.base.errors import UserError

CASES = [
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((64,), scope="local")
    for i in range(8):
        with T.block("w"):
            T.reads(A[i])
            T.writes(R[i * 8])
            R[i * 8] = A[i]
    for i in range(8):
        with T.block("r"):
            T.reads(R[i * 8:i * 8 + 1])
            T.writes(B[i])
            B[i] = R[i * 8]""", """
# with T.block("root"):
R = T.alloc_buffer((8,), scope="local")
for i in range(8):
    with T.block("w"):
        T.reads(A[i])
        T.writes(R[i])
        R[i] = A[i]
for i in range(8):
    with T.block("r"):
        T.reads(R[i])
        T.writes(B[i])
        B[i] = R[i]"""),
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((61, 8), scope="local")
    for i in range(8):
        R[i * 6 + 4, i] = A[i]
    for i in range(8):
        B[i] = R[i * 12, i] + R[n * 4, 3]""", """
# with T.block("root"):
R = T.alloc_buffer((31, 8), scope="local")
for i in range(8):
    R[i * 3 + 2, i] = A[i]
for i in range(8):
    B[i] = R[i * 6, i] + R[n * 2, 3]"""),
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((64,), scope="shared")
    for i in range(8):
        R[i * 8] = A[i]
    B[0] = R[8]""", SAME),
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((64,), scope="local", strides=(2,))
    for i in range(8):
        R[i * 8] = A[i]
    B[0] = R[8]""", SAME),
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((64,), scope="local")
    for i in range(8):
        R[i * 8] = A[i]
    B[0] = R[9]""", SAME),
    ("compact_strides", """
with T.block("root"):
    R = T.alloc_buffer((64,), scope="local")
    with T.block("w"):
        T.reads()
        T.writes(R[0:64])
        for i in range(8):
            R[i * 8] = A[i]
    B[0] = R[8]""", """
# with T.block("root"):
R = T.alloc_buffer((8,), scope="local")
with T.block("w"):
    T.reads()
    T.writes(R[0:8])
    for i in range(8):
        R[i] = A[i]
B[0] = R[1]"""),
    ("manifest_shared_memory_local_stage", """
with T.block("root"):
    S = T.alloc_buffer((64,), scope="shared")
    for i in range(2, 6):
        for j in range(4):
            with T.block("S"):
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1, "other": 2})
                T.reads(A[i * 4 + j])
                T.writes(S[i * 4 + j])
                S[i * 4 + j] = A[i * 4 + j]
    B[0] = S[9]""", """
# with T.block("root"):
S = T.alloc_buffer((64,), scope="shared")
S_local = T.alloc_buffer((4, 4), scope="local")
for i in range(2, 6):
    for j in range(4):
        with T.block("S_local"):
            T.reads(A[i * 4 + j])
            T.writes(S_local[i - 2, j])
            S_local[i - 2, j] = A[i * 4 + j]
for i in range(2, 6):
    for j in range(4):
        with T.block("S"):
            T.reads(S_local[i - 2, j])
            T.writes(S[i * 4 + j])
            T.block_attr({"other": 2})
            S[i * 4 + j] = S_local[i - 2, j]
B[0] = S[9]"""),
    ("manifest_shared_memory_local_stage", """
with T.block("root"):
    S = T.alloc_buffer((64,), scope="shared")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("S"):
            T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
            T.reads(A[t])
            T.writes(S[t])
            S[t] = A[t]
    B[0] = S[9]""", """
# with T.block("root"):
S = T.alloc_buffer((64,), scope="shared")
S_local = T.alloc_buffer((1,), scope="local")
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("S_local"):
        T.reads(A[t])
        T.writes(S_local[0])
        S_local[0] = A[t]
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("S"):
        T.reads(S_local[0])
        T.writes(S[t])
        S[t] = S_local[0]
B[0] = S[9]"""),
    ("manifest_shared_memory_local_stage", """
with T.block("root"):
    S = T.alloc_buffer((64,), scope="shared")
    for i in range(4):
        with T.block("S"):
            T.block_attr({"tir.manifest_shared_memory_local_stage": 0})
            T.reads(A[i])
            T.writes(S[i])
            S[i] = A[i]
    B[0] = S[9]""", SAME),
    ("unroll_register_loops", """
x = T.launch_thread("threadIdx.x", 32)
R = T.allocate([8], "float32", "local")
R_1 = T.decl_buffer((8,), data=R, scope="local")
for i in range(4):
    R_1[i] = A[i]
for i in range(4):
    B[i] = R_1[i]""", """
x = T.launch_thread("threadIdx.x", 32)
R = T.allocate([8], "float32", "local")
R_1 = T.decl_buffer((8,), data=R)
for i in T.unroll(4):
    R_1[i] = A[i]
for i in T.unroll(4):
    B[i] = R_1[i]"""),
    ("unroll_register_loops", """
x = T.launch_thread("threadIdx.x", 32)
R = T.allocate([8], "float32", "local")
R_1 = T.decl_buffer((8,), data=R, scope="local")
for i in range(n):
    R_1[i] = A[i]
for i in range(4):
    B[i] = A[i]""", SAME),
    ("merge_shared_memory_allocations", """
x = T.launch_thread("threadIdx.x", 32)
S = T.allocate([8], "float32", "shared.dyn")
S_1 = T.decl_buffer((8,), data=S, scope="shared.dyn")
R = T.allocate([5], "int8", "shared.dyn")
R_1 = T.decl_buffer((5,), "int8", data=R, scope="shared.dyn")
Q = T.allocate([4], "float32", "shared.dyn")
Q_1 = T.decl_buffer((4,), data=Q, scope="shared.dyn")
S_1[x % 8] = A[x]
R_1[x % 5] = T.int8(1)
Q_1[x % 4] = S_1[x % 8]
B[x] = Q_1[x % 4] + T.Cast("float32", R_1[x % 5])""", """
x = T.launch_thread("threadIdx.x", 32)
shared_memory = T.allocate([64], "uint8", "shared.dyn")
float32 = T.Buffer((16,), data=shared_memory)
int8 = T.Buffer((64,), "int8", data=shared_memory)
float32[x % 8] = A[x]
int8[x % 5 + 32] = T.int8(1)
float32[x % 4 + 12] = float32[x % 8]
B[x] = float32[x % 4 + 12] + T.Cast("float32", int8[x % 5 + 32])"""),
    ("merge_shared_memory_allocations", """
x = T.launch_thread("threadIdx.x", 32)
S = T.allocate([8], "float32", "shared")
S_1 = T.decl_buffer((8,), data=S, scope="shared")
S_1[x % 8] = A[x]""", SAME),
    ("lower_thread_binding", """
for b in T.thread_binding(4, thread="blockIdx.x"):
    for x in T.thread_binding(16, thread="threadIdx.x"):
        A[b * 16 + x] = 1.0""", """
v = T.launch_thread("blockIdx.x", 4)
v_1 = T.launch_thread("threadIdx.x", 16)
A[v * 16 + v_1] = T.float32(1.0)"""),
    ("lower_thread_binding", """
for b in T.thread_binding(2, 6, thread="blockIdx.x"):
    for x in T.thread_binding(16, thread="threadIdx.x"):
        A[b + x] = 1.0""", """
v = T.launch_thread("blockIdx.x", 4)
v_1 = T.launch_thread("threadIdx.x", 16)
A[v + 2 + v_1] = T.float32(1.0)"""),
    ("unify_thread_binding", """
for b in T.thread_binding(4, thread="blockIdx.x"):
    for x in T.thread_binding(16, thread="threadIdx.x"):
        A[b * 16 + x] = 1.0
    for y in T.thread_binding(16, thread="threadIdx.x"):
        B[b * 16 + y] = A[b * 16 + y]""", """
for blockIdx_x in T.thread_binding(4, thread="blockIdx.x"):
    for threadIdx_x in T.thread_binding(16, thread="threadIdx.x"):
        A[blockIdx_x * 16 + threadIdx_x] = T.float32(1.0)
        B[blockIdx_x * 16 + threadIdx_x] = A[blockIdx_x * 16 + threadIdx_x]"""),
    ("inject_ptx_async_copy", """
x = T.launch_thread("threadIdx.x", 32)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
with T.attr(0, "async_commit_queue_scope", 0):
    with T.attr(0, "async_scope", 1):
        S_1[x] = A[x]
with T.attr(0, "async_wait_queue_scope", 0):
    with T.attr(0, "async_wait_inflight_count", 0):
        B[x] = S_1[x]""", """
x = T.launch_thread("threadIdx.x", 32)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
T.ptx_cp_async(S, x, A.data, x, 4)
T.ptx_commit_group()
T.ptx_wait_group(0)
B[x] = S_1[x]"""),
    ("inject_ptx_async_copy", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
with T.attr(0, "async_commit_queue_scope", 0):
    with T.attr(0, "async_scope", 1):
        S_1[x * 4:x * 4 + 4] = A[x * 4:x * 4 + 4]
with T.attr(0, "async_wait_queue_scope", 0):
    with T.attr(0, "async_wait_inflight_count", 1):
        B[x] = S_1[x]""", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
T.ptx_cp_async(S, x * 4, A.data, x * 4, 16)
T.ptx_commit_group()
T.ptx_wait_group(1)
B[x] = S_1[x]"""),
    ("inject_ptx_async_copy", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
with T.attr(0, "async_commit_queue_scope", 0):
    with T.attr(0, "async_scope", 1):
        S_1[x * 4:x * 4 + 4] = A[x:x + 8:2]""", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
S_1[x * 4:x * 4 + 4] = A[x:x + 8:2]
T.ptx_commit_group()"""),
    ("inject_ptx_async_copy", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
with T.attr(0, "async_commit_queue_scope", 0):
    with T.attr(0, "async_scope", 1):
        if x < n:
            S_1[x] = A[x]
        S_1[x + 16] = A[x] + 1.0""", """
x = T.launch_thread("threadIdx.x", 16)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
if x < n:
    T.ptx_cp_async(S, x, A.data, x, 4)
S_1[x + 16] = A[x] + T.float32(1.0)
T.ptx_commit_group()"""),
    ("eliminate_common_loads", """
x = T.launch_thread("threadIdx.x", 16)
B[x] = A[x] * A[x]
B[x + 16] = A[x] + 1.0""", SAME),
]  # fmt: skip


@pytest.mark.parametrize(("step", "before", "after"), CASES)
def test_passes(step: str, before: str, after: str) -> None:
    check_text(step, before, after)


def test_a_local_stage_has_constant_extents() -> None:
    body = """
with T.block("root"):
    S = T.alloc_buffer((64,), scope="shared")
    for i in range(n):
        with T.block("S"):
            T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
            T.reads(A[i])
            T.writes(S[i])
            S[i] = A[i]"""
    with pytest.raises(UserError, match="asks for a local stage, which needs one store under"):
        check_text("manifest_shared_memory_local_stage", body, SAME)


@pytest.mark.parametrize(
    ("loops", "said"),
    [
        ("for k in T.thread_binding(8, thread='threadIdx.x'):\n    for i in range(4):", "loop 'i'"),
        ("for k in range(2):\n    for i in T.thread_binding(4, thread='threadIdx.x'):", "'i'"),
    ],
)
def test_what_stands_between_the_loops_of_a_reduction(loops: str, said: str) -> None:
    first, second = loops.split("\n")
    body = f"""
with T.block("root"):
    {first}
    {second}
            with T.block("sum"):
                v = T.axis.spatial(4, i)
                r = T.axis.reduce(8, k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v * 8 + r]"""
    if "threadIdx" in first:
        with pytest.raises(UserError, match=f"its {said} stands between those of the reduction"):
            check_text("lower_cross_thread_reduction", body, SAME)
    else:
        check_text("lower_cross_thread_reduction", body, SAME)
