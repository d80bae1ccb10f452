"""Which stores into shared memory become asynchronous copies, and what is waited for."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text, shown

HEAD = 'S = T.decl_buffer((64,), scope="shared"); R = T.decl_buffer((64,), scope="local"); '
HEAD += 'H = T.decl_buffer((64,), "float16", scope="shared"); '
HEAD += 'G = T.decl_buffer((64,), "float16"); '
HEAD += 'W = T.decl_buffer((64,), "int8x4", scope="shared"); V = T.decl_buffer((64,), "int8x4"); '

#: A store, and the copy that it becomes: to, index, from, index, bytes and a condition.
COPIES = [
    ("S[n] = A[n + 1]", "S, n, A, n + 1, 4"),
    ("S[n:n + 2] = A[0:2]", "S, n, A, 0, 8"),
    ("S[n:n + 4] = A[n:n + 4]", "S, n, A, n, 16"),
    ("H[0:2] = G[2:4]", "H, 0, G, 2, 4"), ("H[0:8] = G[8:16]", "H, 0, G, 8, 16"),
    ("S[0] = T.if_then_else(n < 3, A[n], T.float32(0))", "S, 0, A, n, 4, n < 3"),
    ("S[0] = T.if_then_else(n < 3, T.if_then_else(n > 0, A[n], T.float32(0)), T.float32(0))",
     "S, 0, A, n, 4, n < 3 and n > 0"),
    ("S[0:2] = T.if_then_else(n < 3, A[0:2], T.Broadcast(T.float32(0), 2))",
     "S, 0, A, 0, 8, n < 3"),
]  # fmt: skip
#: Stores that stay as they are.
OTHERS = [
    "S[0] = A[n] + 1.0", "S[0] = T.float32(0)", "S[0] = R[n]", "R[0] = A[n]", "S[0] = S[n]",
    "A[0] = B[n]", "A[0] = S[n]", "H[0] = G[1]", "H[0:16] = G[0:16]", "S[0:8] = A[0:8]",
    "S[T.Ramp(0, 2, 2)] = A[0:2]", "S[0:2] = A[T.Ramp(0, 2, 2)]", "S[0:2] = A[I[0:2]]",
    "S[0] = T.if_then_else(n < 3, A[n], T.float32(1))",
    "S[0] = T.if_then_else(n < 3, T.float32(0), A[n])",
    "S.vstore([T.Ramp(0, 1, 2)], A[0:2], predicate=T.Ramp(n, 1, 2) < T.Broadcast(4, 2))",
    "S[0:2] = A.vload([T.Ramp(0, 1, 2)], predicate=T.Ramp(n, 1, 2) < T.Broadcast(4, 2))",
]  # fmt: skip


def program(*lines: str) -> str:
    return "\n".join([*HEAD.split("; ")[:-1], *lines])


def scope(name: str, value: int = 1) -> str:
    return f'with T.attr(0, "{name}", {value}):'


@pytest.mark.parametrize(("store", "args"), COPIES)
def test_copies(store: str, args: str) -> None:
    name, index, source, *rest = args.split(", ")
    args = ", ".join([f"{name}.data", index, f"{source}.data", *rest])
    copy = f"T.evaluate(T.ptx_cp_async({args}))"
    after = program(copy)
    check_text("inject_ptx_async_copy", program(scope("async_scope"), f"    {store}"), shown(after))
    check_text("inject_ptx_async_copy", program(store), SAME)


@pytest.mark.parametrize("store", OTHERS)
def test_what_is_no_copy(store: str) -> None:
    before = program(scope("async_scope"), f"    {store}")
    check_text("inject_ptx_async_copy", before, shown(program(store)))


WAITS = [
    (f"{scope('async_commit_queue_scope', 0)}\n    {scope('async_scope')}\n        S[n] = A[n]",
     "T.evaluate(T.ptx_cp_async(S.data, n, A.data, n, 4))\nT.evaluate(T.ptx_commit_group())"),
    (f"{scope('async_commit_queue_scope', 0)}\n    B[0] = 1.0",
     "B[0] = 1.0\nT.evaluate(T.ptx_commit_group())"),
    (f"{scope('async_wait_queue_scope', 0)}\n    {scope('async_wait_inflight_count', 2)}\n"
     "        B[0] = 1.0", "T.evaluate(T.ptx_wait_group(2))\nB[0] = 1.0"),
    (f"{scope('async_wait_queue_scope', 0)}\n    B[0] = 1.0",
     "T.evaluate(T.ptx_wait_group(0))\nB[0] = 1.0"),
    (f"{scope('other')}\n    {scope('async_scope')}\n        S[n] = A[n]\n    S[n] = A[n]",
     'with T.attr(0, "other", 1):\n    T.evaluate(T.ptx_cp_async(S.data, n, A.data, n, 4))\n'
     "    S[n] = A[n]"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), WAITS)
def test_waits_and_groups(before: str, after: str) -> None:
    check_text("inject_ptx_async_copy", program(before), shown(program(after)))
