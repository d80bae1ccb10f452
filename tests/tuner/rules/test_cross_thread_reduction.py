"""CrossThreadReduction: threads that reduce together, at the consumer where that is possible."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.target import target
from tileloom.tir import PrimFunc
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.cross_thread_reduction import CrossThreadReduction

from .programs import CPU, CUDA, apply, assert_same, extents, methods, product, row_means, row_sums

RULE = CrossThreadReduction(thread_extents=(16,))


def scope_of_result(sch: Schedule, block: str) -> str:
    scope: str = sch.get(sch.get_block(block)).writes[0].buffer.scope
    return scope


def softmax(rows: int = 4, columns: int = 64) -> PrimFunc:
    """Blocks "most", "total", "out", the last two of which read the first."""
    a = te.placeholder((rows, columns), name="A")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    most = te.compute((rows,), lambda i: te.max(a[i, k], k), name="most")
    total = te.compute((rows,), lambda i: te.sum(T.exp(a[i, m] - most[i]), m), name="total")
    out = te.compute((rows, columns), lambda i, j: T.exp(a[i, j] - most[i]) / total[i], name="out")
    return te.create_prim_func([a, out])


@pytest.mark.parametrize("columns", [512, 100])
def test_a_reduction_alone(columns: int) -> None:
    func = row_sums(4, columns)
    shared, plain = found = apply(RULE, func, "B", CUDA)
    assert extents(shared, "B") == [4, -(-columns // 16), 16]
    assert methods(plain) == []
    assert_same(func, found)
    tag = shared.get(shared.get_loops("B")[-1]).thread_binding.thread_tag
    assert tag == "threadIdx.x"


def test_a_reduction_goes_to_its_consumer() -> None:
    func = softmax()
    shared, _ = found = apply(RULE, func, "total", CUDA)
    assert extents(shared, "out") == [4, 4, 16]
    assert extents(shared, "total") == [4, 1, 4, 16]
    assert scope_of_result(shared, "total") == "shared"
    assert_same(func, found)


def test_a_consumer_whose_only_loop_is_split() -> None:
    func = row_means()
    shared, _ = found = apply(RULE, func, "B", CUDA)
    assert extents(shared, "C") == [1, 16]
    assert extents(shared, "B")[-1] == 16
    assert_same(func, found)


def test_two_consumers_share_it_under_a_common_loop() -> None:
    func = softmax()
    # Apart from each other they have no place for it.
    alone, _ = apply(RULE, func, "most", CUDA)
    assert scope_of_result(alone, "most") == "global"
    first, _ = apply(RULE, func, "total", CUDA)
    context = TuneContext(first.mod, target(CUDA))
    second, _ = RULE.apply(first, first.get_block("most"), context)
    assert scope_of_result(second, "most") == "shared"
    assert extents(second, "most") == [4, 1, 4, 16]
    # Its threads are as many as those of its consumer: the same variable of the trace.
    trace: Any = second.trace
    splits = [step.inputs[2] for step in trace.insts if step.kind.name == "Split"]
    assert len(splits) == 3
    assert len(set(splits)) == 1
    assert_same(func, [second])


def test_a_place_is_under_all_consumers() -> None:
    a, k = te.placeholder((4, 8, 64), name="A"), te.reduce_axis((0, 64), "k")
    b = te.compute((4, 8), lambda i, j: te.sum(a[i, j, k], k), name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((4, 8), lambda i, j: b[i, j] * c[i, j], name="D")
    func = te.create_prim_func([a, d])
    sch = Schedule(func, seed=1)
    sch.compute_at("C", sch.get_loops("D")[0])
    shared, _ = RULE.apply(sch, sch.get_block("B"), TuneContext(sch.mod, target(CUDA)))
    outer = [shared.get(shared.get_loops(block)[0]) for block in "BCD"]
    assert outer[0] is outer[1] is outer[2]
    assert extents(shared, "B") == [4, 1, 8, 4, 16]
    assert_same(func, [shared])


def test_a_consumer_that_is_to_be_tiled_takes_nothing_in() -> None:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 8), name="B")
    k, m = te.reduce_axis((0, 16), "k"), te.reduce_axis((0, 16), "m")
    s = te.compute((8,), lambda i: te.sum(a[i, k], k), name="s")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, m] * b[m, j] * s[i], m), name="c")
    func = te.create_prim_func([a, b, c])
    shared, _ = found = apply(RULE, func, "s", CUDA)
    assert scope_of_result(shared, "s") == "global"
    assert_same(func, found)


def test_where_there_is_enough_else_nothing_happens() -> None:
    assert len(apply(RULE, row_sums(), "B", CPU)) == 1
    assert len(apply(RULE, product(128, 128, 128), "C", CUDA)) == 1
    assert len(apply(RULE, softmax(), "out", CUDA)) == 1


def test_the_number_of_threads_is_drawn() -> None:
    seen = {
        extents(apply(CrossThreadReduction(), row_sums(), "B", CUDA, seed)[0], "B")[-1]
        for seed in range(1, 2**30, 2**26)
    }
    assert seen <= {4, 8, 16, 32, 64, 128, 256, 512}
    assert len(seen) > 4
