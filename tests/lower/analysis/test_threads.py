"""Tags and scopes of thread programs, and the launches of a function."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Var, const
from tileloom.lower.analysis.threads import (
    is_sync,
    is_thread_loop,
    is_uniform,
    is_virtual,
    kernels,
    pointer_scope,
    scope_of,
    shared_over,
    storage_rank,
    sync,
    tag_of,
    thread_scope,
)
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.tir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    Evaluate,
    For,
    PrimFunc,
    collect,
    make_buffer,
)

SCOPES = {
    "": 0, "global": 0, "shared": 1, "shared.dyn": 1, "warp": 2, "local": 3, "wmma.matrix_a": 3,
    "amx.tmm": 3,
}  # fmt: skip
#: Which threads have memory of each rank in common.
SHARED = {
    "blockIdx.x": (True, False, False, False), "blockIdx.z": (True, False, False, False),
    "threadIdx.x": (True, True, True, False), "threadIdx.y": (True, True, False, False),
    "vthread.x": (True, True, False, False),
}  # fmt: skip


@pytest.mark.parametrize("tag", SHARED)
@pytest.mark.parametrize("scope", SCOPES)
def test_who_shares_memory(scope: str, tag: str) -> None:
    assert storage_rank(scope) == SCOPES[scope]
    assert shared_over(scope, tag) is SHARED[tag][SCOPES[scope]]


@pytest.mark.parametrize(
    ("tag", "virtual"),
    [("vthread", True), ("vthread.y", True), ("cthread", True), ("threadIdx.x", False),
     ("blockIdx.x", False), ("", False)],
)  # fmt: skip
def test_virtual_threads(tag: str, virtual: bool) -> None:
    assert is_virtual(tag) is virtual


def parsed(body: str) -> PrimFunc:
    head = '@T.prim_func\ndef main(A: T.Buffer((64,), "float32"), n: T.int32):\n'
    func = from_source(head + "\n".join("    " + line for line in body.splitlines()) + "\n")
    assert isinstance(func, PrimFunc)
    return func


def test_loops_and_their_tags() -> None:
    func = parsed("""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for v in T.thread_binding(2, thread="vthread.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for i in range(2):
                A[i] = 1.0""")
    loops = collect(func.body, For)
    assert [tag_of(loop) for loop in loops] == ["blockIdx.x", "vthread.x", "threadIdx.x", ""]
    assert [is_thread_loop(loop) for loop in loops] == [True, False, True, False]
    assert not is_thread_loop(loops[-1].body)


def test_launches() -> None:
    func = parsed("""
b = T.launch_thread("blockIdx.x", n)
t = T.launch_thread("threadIdx.x", 32)
S = T.allocate([4], "float32", "shared")
u = T.launch_thread("threadIdx.x", 32)
A[t + u + b] = 1.0""")
    (kernel,) = kernels(func.body)
    assert list(kernel.threads) == ["blockIdx.x", "threadIdx.x"]
    assert {tag: str(n) for tag, n in kernel.extents.items()} == {
        "blockIdx.x": "n", "threadIdx.x": "32",
    }  # fmt: skip
    first = next(a for a in collect(func.body, AttrStmt) if a.node.thread_tag == "threadIdx.x")
    assert kernel.threads["threadIdx.x"][0] is first.node.var
    assert kernel.root is func.body and kernel.body is kernel.root.body
    found = thread_scope(kernel.root)
    assert found is not None and found[0] is kernel.root.node and str(found[1]) == "n"
    (allocated,) = collect(func.body, Allocate)
    assert scope_of(allocated) == "shared" and thread_scope(allocated) is None
    assert pointer_scope(Var("p", "handle")) == "global"
    two = parsed("""
with T.launch_thread("blockIdx.x", 2) as b:
    A[b] = 1.0
with T.attr(0, "mark", 1):
    with T.launch_thread("threadIdx.x", 8) as t:
        A[t] = 2.0""")
    assert [list(kernel.extents) for kernel in kernels(two.body)] == [
        ["blockIdx.x"],
        ["threadIdx.x"],
    ]
    assert list(kernels(parsed("A[0] = 1.0").body)) == []


def test_barriers() -> None:
    assert [is_sync(sync(scope)) for scope in ("shared", "shared.dyn", "warp", "global")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert not is_sync(Evaluate(const(0))) and not is_sync(Evaluate(T.abs(Var("x"))))
    assert not is_sync(parsed("A[0] = 1.0").body)


X, Y = Var("x"), Var("y")


@pytest.mark.parametrize(
    ("expr", "uniform"),
    [
        (Y, True), (X, False), (X + Y, False), (const(1), True),
        (BufferLoad(make_buffer((4,), "int32", "G"), [Y]), True),
        (BufferLoad(make_buffer((4,), "int32", "G"), [X]), False),
        (BufferLoad(make_buffer((4,), "int32", "S", scope="shared"), [Y]), False),
        (BufferLoad(make_buffer((4,), "int32", "L", scope="local"), [Y]), False),
        (T.call_extern("int32", "f", Y), False),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_one_value_for_all_threads(expr: Any, uniform: bool) -> None:
    assert is_uniform(expr, {X}) is uniform
