"""Programs for the tests of the CUDA runtime."""

from __future__ import annotations

from functools import cache
from typing import Any

from tileloom import te
from tileloom.expr import Var
from tileloom.plan import schedule_gpu
from tileloom.schedule import Schedule
from tileloom.script import parse
from tileloom.target import target
from tileloom.tir import IRModule, PrimFunc

GPU = target("cuda -arch=sm_80")


def bound(func: PrimFunc, block: str = "B", threads: int = 32) -> PrimFunc:
    """A thread for each element."""
    sch = Schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops(block)), [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch.mod["main"]


@cache
def scaled(extent: Any = 96, kind: str = "float32", threads: int = 32) -> PrimFunc:
    """B = A * 2 + 1."""
    a = te.placeholder((extent,), kind, name="A")
    b = te.compute((extent,), lambda i: a[i] * 2 + 1, name="B")
    return bound(te.create_prim_func([a, b]), threads=threads)


@cache
def symbolic() -> PrimFunc:
    """B = A * 2 + 1, of any length."""
    return scaled(Var("n", "int32"))


@cache
def total(extent: int = 1 << 15) -> PrimFunc:
    """The sum of all elements, by two kernels and a temporary."""
    a, k = te.placeholder((extent,), name="A"), te.reduce_axis((0, extent), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    return schedule_gpu(te.create_prim_func([a, b]), GPU).mod["main"]


@cache
def numbers(kind: str) -> Any:
    """B = A * x, with x a number that is passed."""
    text = f"""
@T.prim_func
def main(A: T.Buffer((64,), "{kind}"), x: T.{kind}, B: T.Buffer((64,), "{kind}")):
    for i in T.thread_binding(64, "threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * x
"""
    return parse(text)


@cache
def shared(extent: int) -> Any:
    """B is A reversed, through dynamic shared memory."""
    text = f"""
@T.prim_func
def main(A: T.Buffer(({extent},), "float32"), B: T.Buffer(({extent},), "float32")):
    with T.block("root"):
        S = T.alloc_buffer(({extent},), "float32", scope="shared.dyn")
        for t in T.thread_binding(64, "threadIdx.x"):
            for k in range({extent // 64}):
                with T.block("fill"):
                    v = T.axis.spatial({extent}, k * 64 + t)
                    S[v] = A[v]
            for k in range({extent // 64}):
                with T.block("B"):
                    v = T.axis.spatial({extent}, k * 64 + t)
                    B[v] = S[{extent - 1} - v]
"""
    return parse(text)


@cache
def module() -> IRModule:
    """Two functions."""
    return IRModule({"one": scaled(64), "two": scaled(40, "int32", 8)})
