"""Kernels with their traces: replayed, planned once, and taken from records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import numpy as tnp
from tileloom import te
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.driver import plan_graph
from tileloom.expr import Var, free_vars
from tileloom.plan import (
    TraceRecord,
    kernel,
    plan_kernel,
    read_traces,
    write_traces,
)
from tileloom.records import workload_key
from tileloom.schedule import Schedule
from tileloom.schedule.trace import Trace
from tileloom.target import Target, target
from tileloom.tir import PrimFunc, assert_structural_equal, pre_order, stmt_exprs

HOST = Target.host()
GPU = target("cuda -arch=sm_80")


def row_sums(name: str = "main", rows: int = 37) -> PrimFunc:
    a, k = te.placeholder((rows, 100), name="A"), te.reduce_axis((0, 100), name="k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name="B")
    return te.create_prim_func([a, b]).with_attr("global_symbol", name)


def softmax(x: np.ndarray) -> Any:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


X = np.random.default_rng(0).standard_normal((12, 77)).astype("float32")


@pytest.mark.parametrize("where", [HOST, GPU], ids=["cpu", "cuda"])
def test_a_trace_makes_the_kernel_again(where: Target) -> None:
    program = plan_graph(tileloom.jit(softmax).graph(X), where)
    assert program.planned.keys() == {c.kernel for s in program.segments for c in s.calls}
    for planned in program.planned.values():
        again = Schedule(planned.blocks)
        Trace.apply_json_to_schedule(json.loads(json.dumps(planned.trace.as_json())), again)
        (func,) = again.mod.functions.values()
        assert_structural_equal(func, planned.func)


def test_equal_functions_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(blocks: PrimFunc, where: Target) -> Schedule:
        calls.append(blocks.name)
        return Schedule(blocks)

    monkeypatch.setitem(kernel._PLANNERS, "cpu", counted)
    monkeypatch.setattr(kernel, "_PLANNED", {})
    first, second, third = (plan_kernel(row_sums(n, r), HOST) for n, r in
                            (("a", 37), ("b", 37), ("c", 38)))  # fmt: skip
    assert calls == ["a", "c"]
    assert [p.func.name for p in (first, second, third)] == ["a", "b", "c"]
    plan_kernel(row_sums("d"), HOST.with_cores(HOST.cores + 1))
    assert calls[-1] == "d"
    a = te.placeholder((37, 100), name="A")
    others = [te.compute((37, 100), lambda i, j, n=n: a[i, j] + n, name="B") for n in (1.0, 2.0)]
    for name, b in zip("ef", others):  # the outlines are equal
        blocks = te.create_prim_func([a, b]).with_attr("global_symbol", name)
        assert_structural_equal(plan_kernel(blocks, HOST).blocks, blocks)
    assert calls[-2:] == ["e", "f"]


def test_sizes_of_another_compilation_are_others() -> None:
    made = []
    for n in (Var("n"), Var("n")):
        a = te.placeholder((64,), name="A")
        b = te.compute((64,), lambda i, a=a, n=n: a[i] * n.astype("float32"), name="B")
        blocks = te.create_prim_func([a, n, b])
        made.append(plan_kernel(blocks.replace(params=(blocks.params[0], blocks.params[2])), HOST))
        assert n in free_vars_of(made[-1].func)
    assert made[0].trace is not made[1].trace


def free_vars_of(func: PrimFunc) -> set[Var]:
    loads = (e for stmt in pre_order(func.body) for e in stmt_exprs(stmt))
    return {v for e in loads for v in free_vars(e)}


def test_keys_go_by_structure() -> None:
    assert workload_key(row_sums("a")) == workload_key(row_sums("b"))
    assert workload_key(row_sums()) != workload_key(row_sums(rows=38))
    assert workload_key(row_sums()).endswith(",B")


def test_what_is_done_once_a_row_does_not_narrow_the_vectors() -> None:
    x, lanes = np.zeros((64, 512), "float32"), []
    for function in (tnp.max, tnp.argmax):  # whose result is int64
        graph = tileloom.jit(lambda a, f=function: f(a, axis=1)).graph(x)
        (planned,) = plan_graph(graph, HOST).planned.values()
        lanes.append(re.findall(r'"vector_lanes", ann_val=(\d+)', str(planned.trace)))
    assert lanes[0] == lanes[1] != []


def test_a_recorded_trace_is_taken(tmp_path: Path) -> None:
    with override(num_threads=1):
        program = plan_graph(tileloom.jit(softmax).graph(X), HOST)
        ((name, planned),) = program.planned.items()
        sch = Schedule(planned.blocks)
        sch.unroll(sch.get_loops(sch.get_block("reduce_max"))[0])
        assert sch.trace is not None
        path = tmp_path / "traces.json"
        write_traces(path, [TraceRecord.of(planned.blocks, sch.trace, HOST)])
        with override(traces=path):
            taken = plan_graph(tileloom.jit(softmax).graph(X), HOST).planned[name]
            assert "unroll" in str(taken.trace) and "vector_lanes" not in str(taken.trace)
            np.testing.assert_allclose(tileloom.jit(softmax)(X), softmax(X), rtol=1e-5)
        again = plan_graph(tileloom.jit(softmax).graph(X), HOST).planned[name]
        assert str(again.trace) == str(planned.trace)


def test_records_are_read_as_written(tmp_path: Path) -> None:
    planned = plan_kernel(row_sums(), HOST)
    mine = TraceRecord.of(planned.blocks, planned.trace, HOST)
    other = TraceRecord(mine.kernel, "cuda -arch=sm_80", mine.trace)
    path = tmp_path / "traces.json"
    write_traces(path, [mine, other])
    found = read_traces(path)
    assert len(found) == 2
    assert json.dumps(found[mine.kernel, "cpu"].trace) == json.dumps(mine.trace)


def test_records_of_another_target_are_left(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    write_traces(path, [TraceRecord(workload_key(row_sums()), str(GPU), [[["Nothing"]], []])])
    with override(traces=path):
        assert plan_kernel(row_sums(), HOST).trace.insts


def test_a_record_that_does_not_apply(tmp_path: Path) -> None:
    sch = Schedule(row_sums())
    sch.get_block("B")
    assert sch.trace is not None
    steps = json.loads(json.dumps(sch.trace.as_json()).replace('"B', '"nobody'))
    path = tmp_path / "traces.json"
    write_traces(path, [TraceRecord(workload_key(row_sums()), str(HOST), steps)])
    with override(traces=path), pytest.raises(UserError, match=r"does not apply .* 'main'.*nobody"):
        plan_kernel(row_sums(), HOST)


@pytest.mark.parametrize("line", ["{", "[1]", '{"kernel": "a"}', '{"what": 1}'])
def test_lines_that_are_no_records(tmp_path: Path, line: str) -> None:
    path = tmp_path / "traces.json"
    path.write_text(f"\n{line}\n")
    with pytest.raises(UserError, match="line 2 is no record"):
        read_traces(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the traces in .*nowhere"):
        read_traces(tmp_path / "nowhere")
