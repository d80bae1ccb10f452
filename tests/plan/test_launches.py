"""Which nests share a kernel: independent ones of like blocks, after all that they depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.expr import Var
from tileloom.lower import lower
from tileloom.plan.cuda.launches import GridLaunch, bind_launches
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.tir import For, PrimFunc, collect

GPU = target("cuda -arch=sm_80")

#: A nest: its name, what it reads, how many blocks it has, and how many threads.
Nest = tuple[str, tuple[str, ...], int, int]


def program(nests: tuple[Nest, ...]) -> PrimFunc:
    """Each nest adds up what it reads, and one."""
    made = {"x": te.placeholder((1024,), name="x")}
    for name, reads, blocks, threads in nests:
        sources = [made[source] for source in reads]
        made[name] = te.compute(
            (blocks * threads,), lambda i, s=sources: sum((t[i] for t in s), 1.0), name=name
        )
    func: PrimFunc = te.create_prim_func(list(made.values()))
    return func


@pytest.mark.parametrize(
    ("nests", "kernels"),
    [
        ((("a", ("x",), 4, 32), ("b", ("x",), 4, 32)), [("a", "b")]),
        ((("a", ("x",), 4, 32), ("b", ("x",), 4, 64)), [("a",), ("b",)]),
        ((("a", ("x",), 4, 32), ("b", ("x",), 7, 32)), [("a", "b")]),
        ((("a", ("x",), 4, 32), ("b", ("a",), 4, 32)), [("a",), ("b",)]),
        ((("a", ("x",), 4, 32), ("b", ("a",), 4, 32), ("c", ("a",), 4, 32)), [("a",), ("b", "c")]),
        ((("a", ("x",), 4, 32), ("b", ("a",), 4, 32), ("c", ("x",), 4, 32)), [("a", "c"), ("b",)]),
        ((("a", ("x",), 4, 32), ("b", ("a",), 4, 32), ("c", ("b",), 4, 32), ("d", ("a",), 4, 32)),
         [("a",), ("b", "d"), ("c",)]),
        ((("a", ("x",), 4, 32), ("b", ("a",), 4, 32), ("c", ("b",), 4, 32), ("d", ("b",), 4, 32)),
         [("a",), ("b",), ("c", "d")]),
        ((("a", ("x",), 4, 32), ("b", ("x",), 4, 64), ("c", ("x",), 4, 64), ("d", ("x",), 4, 32)),
         [("a", "d"), ("b", "c")]),
        ((("a", ("x",), 4, 32), ("b", ("x",), 4, 32), ("c", ("a", "b"), 4, 32)),
         [("a", "b"), ("c",)]),
    ],
)  # fmt: skip
def test_who_shares_a_kernel(nests: tuple[Nest, ...], kernels: list[tuple[str, ...]]) -> None:
    func = program(nests)
    sch, launches = Schedule(func), []
    for name, _, blocks, threads in nests:
        block, thread = sch.split(sch.get_loops(name)[0], [blocks, threads])
        sch.bind(thread, "threadIdx.x")
        launches.append(GridLaunch(block, (threads, 1)))
    sch = bind_launches(sch, launches)
    found = [
        tuple(
            name for name, *_ in nests if sch.get(sch.get_loops(name)[0]).loop_var is loop.loop_var
        )
        for loop in collect(sch.mod["main"].body, For)
        if loop.thread_binding is not None and loop.thread_binding.thread_tag == "blockIdx.x"
    ]
    assert found == kernels
    extents = {int(loop.extent) for loop in collect(sch.mod["main"].body, For)}
    assert extents <= {1, *(size for nest in nests for size in nest[2:])}
    values: dict[str, Any] = {"x": np.arange(1024, dtype="float32")}
    for name, reads, blocks, threads in nests:
        values[name] = 1 + sum(values[source][: blocks * threads] for source in reads)
    results = [np.zeros_like(values[name]) for name, *_ in nests]
    run_kernels(lower(sch.mod["main"], GPU), values["x"], *results)
    for (name, *_), result in zip(nests, results, strict=True):
        assert np.array_equal(result, values[name]), name


def test_what_others_read_is_overwritten_after_them() -> None:
    @T.prim_func
    def main(
        x: T.Buffer((128,), "float32"),
        y: T.Buffer((128,), "float32"),
        z: T.Buffer((128,), "float32"),
    ) -> None:
        for i in range(128):
            with T.block("a"):
                v = T.axis.spatial(128, i)
                y[v] = x[127 - v]
        for i in range(128):
            with T.block("b"):
                v = T.axis.spatial(128, i)
                x[v] = T.float32(2)
        for i in range(128):
            with T.block("c"):
                v = T.axis.spatial(128, i)
                z[v] = T.float32(3)

    sch, launches = Schedule(main), []
    for name in "abc":
        block, thread = sch.split(sch.get_loops(name)[0], [None, 32])
        sch.bind(thread, "threadIdx.x")
        launches.append(GridLaunch(block, (32, 1)))
    sch = bind_launches(sch, launches)
    first = [sch.get(sch.get_loops(name)[0]).loop_var for name in "abc"]
    assert first[0] is first[2] is not first[1]


def test_how_many_blocks_there_are_may_be_open() -> None:
    n, m = (Var(name, "int32") for name in "nm")
    x, y = te.placeholder((n, 32), name="x"), te.placeholder((m, 32), name="y")
    for second, kernels in ((y, 2), (x, 1)):
        inputs = [x] if second is x else [x, y]
        a = te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="a")
        b = te.compute(second.shape, lambda i, j, s=second: s[i, j] * 2.0, name="b")
        sch = Schedule(te.create_prim_func([*inputs, a, b]))
        for name in "ab":
            sch.bind(sch.get_loops(name)[1], "threadIdx.x")
        sch = bind_launches(sch, [GridLaunch(sch.get_loops(name)[0], (32, 1)) for name in "ab"])
        loops = collect(sch.mod["main"].body, For)
        tags = [loop.thread_binding.thread_tag for loop in loops if loop.thread_binding]
        assert tags.count("blockIdx.x") == kernels
