"""Index maps made of open sizes: in traces from JSON, and in traces of another function."""

from __future__ import annotations

import json
from typing import Any

from tileloom.expr import IndexMap, Var
from tileloom.schedule import Schedule
from tileloom.schedule.sizes import in_sizes_of
from tileloom.schedule.trace import Trace
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc, assert_structural_equal

COPIED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (8, n), "float32")
    C = T.match_buffer(c, (8, n), "float32")
    B = T.alloc_buffer((8, n), "float32")
    for i, j in T.grid(8, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(8, n):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""


def function() -> PrimFunc:
    func = parse(COPIED)
    assert isinstance(func, PrimFunc)
    return func


def size_of(func: PrimFunc) -> Any:
    return func.buffers[0].shape[1]


def scheduled() -> Schedule:
    sch = Schedule(function())
    n = size_of(sch.mod["main"])
    sch.transform_block_layout("C", lambda i, j: [j, i + n])
    sch.annotate_buffer_access("C", 0, "read", lambda j, i: [(0, 8), (j, n)])
    sch.transform_layout("B", ("write", 0), lambda i, j: [i, n - 1 - j])
    return sch


def test_steps_from_json_are_in_sizes_of_the_function() -> None:
    sch = scheduled()
    assert sch.trace is not None
    again = Schedule(function())
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
    assert_structural_equal(again.mod, sch.mod)


def test_a_trace_of_another_function() -> None:
    sch = scheduled()
    again = Schedule(function())
    assert sch.trace is not None
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_what_is_no_size_of_the_function_stays() -> None:
    func = function()
    mod, other, wide = IRModule({"main": func}), Var("m"), Var("n", "int64")
    for size in (other, wide, size_of(func)):
        i = Var("i", size.dtype)
        (found,) = in_sizes_of(mod, IndexMap([i], [i + size])).final_indices
        assert size in found.children
    numbers = IndexMap.from_func(lambda i: i + 1)
    assert in_sizes_of(mod, numbers) is numbers


def test_a_given_inverse_is_renamed_too() -> None:
    func = function()
    n = size_of(func)
    given = IndexMap.from_func(lambda i: Var("n") - i, inverse=lambda i: Var("n") - i)
    found = in_sizes_of(IRModule({"main": func}), given)
    assert found.inverse_index_map is not None
    for one in (found, found.inverse_index_map):
        assert one.final_indices[0].children[0] is n
