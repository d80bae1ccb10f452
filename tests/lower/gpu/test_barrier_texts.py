"""Barriers of short kernels: what is printed before and after."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text

CASES = [
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
if n < 3:
    B[x] = S_1[63 - x]
else:
    B[x] = S_1[x]
S_1[x] = B[x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
S_1[x] = A[x]
T.tvm_storage_sync("shared")
if n < 3:
    B[x] = S_1[63 - x]
else:
    B[x] = S_1[x]
T.tvm_storage_sync("shared")
S_1[x] = B[x]"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
if n < 3:
    T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
S_1[x] = A[x]
if n < 3:
    T.tvm_storage_sync("shared")
T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
if n < 3:
    T.tvm_storage_sync("shared")
else:
    T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]""", SAME),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
if x < 32:
    S_1[x] = A[x]
else:
    S_1[x] = B[x]
B[x] = S_1[x]""", SAME),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
if x < 32:
    S_1[x] = A[x]
if x >= 32:
    S_1[x] = B[x]
B[63 - x] = S_1[x]""", SAME),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
for k in range(n):
    S_1[x] = A[x]
    B[x] = S_1[63 - x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
for k in range(n):
    S_1[x] = A[x]
    T.tvm_storage_sync("shared")
    B[x] = S_1[63 - x]
    T.tvm_storage_sync("shared")"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
for k in range(1):
    S_1[x] = A[x]
    B[x] = S_1[63 - x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
for k in range(1):
    S_1[x] = A[x]
    T.tvm_storage_sync("shared")
    B[x] = S_1[63 - x]"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
for k in range(8):
    S_1[x] = A[x]
    B[x] = S_1[x]""", SAME),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
for k in range(n):
    T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
S_1[x] = A[x]
for k in range(n):
    T.tvm_storage_sync("shared")
T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
for k in range(2):
    T.tvm_storage_sync("shared")
B[x] = S_1[63 - x]""", SAME),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
while I[0] < n:
    S_1[x] = A[x]
    B[x] = S_1[63 - x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
while I_1[0] < n:
    S_1[x] = A[x]
    T.tvm_storage_sync("shared")
    B[x] = S_1[63 - x]
    T.tvm_storage_sync("shared")"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
S_1[x] = A[x]
if S_1[63 - x] < T.float32(2):
    B[x] = A[x]""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
S_1[x] = A[x]
T.tvm_storage_sync("shared")
if S_1[63 - x] < T.float32(2.0):
    B[x] = A[x]"""),
    ("thread_storage_sync", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S, scope="shared")
y: T.float32 = S_1[x]
S_1[63 - x] = y""", """
x = T.launch_thread("threadIdx.x", 64)
S = T.allocate([64], "float32", "shared")
S_1 = T.decl_buffer((64,), data=S)
y: T.float32 = S_1[x]
T.tvm_storage_sync("shared")
S_1[63 - x] = y"""),
]  # fmt: skip


@pytest.mark.parametrize(("step", "before", "after"), CASES)
def test_barriers(step: str, before: str, after: str) -> None:
    check_text(step, before, after)
