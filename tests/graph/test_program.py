"""Programs: segments around host steps, arenas, and who reads and writes what."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graph.random_graphs import random_graph
from tileloom.driver import plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.program import Program
from tileloom.target import Target


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def plan(graph: Graph) -> Program:
    return plan_graph(graph, Target.host())


def test_host_steps_split_the_program() -> None:
    x = tensor(4, 6)
    before = ops.exp(x)
    sorted_ = ops.sort(before, 1)
    program = plan(Graph([x], [ops.neg(sorted_), ops.add(before, 1.0)]))
    assert [s.node.op.name if s.node else len(s.calls) for s in program.segments].count("sort") == 1
    first = program.segments[0]
    assert first.node is None and first.reads == (x,) and len(first.writes) >= 1


def test_the_host_and_kernels_take_the_fewest_turns() -> None:
    x, y = (Tensor(tensor_type((33,), "float32"), name) for name in "xy")
    first = ops.reshape(ops.sort(ops.neg(x)), (3, 11))  # the view is no kernel of its own
    second = ops.sort(ops.neg(y))
    joined = ops.add(ops.sort(first), ops.reshape(second, (3, 11)))
    program = plan(Graph([x, y], [joined]))
    assert [segment.node is None for segment in program.segments] == [
        True, False, False, False, True,
    ]  # fmt: skip


def test_a_graph_of_host_steps_alone_has_no_kernels() -> None:
    x = tensor(4, 6)
    program = plan(Graph([x], [ops.sort(ops.sort(x, 1), 0)]))
    assert program.kernel_count == 0 and not program.module.functions
    assert len(program.segments) == 2


def test_intermediates_share_an_arena() -> None:
    """A deep network needs memory for two layers."""
    x = tensor(16, 32)
    y = x
    w = ops.constant(np.ones((32, 32), "f4"))
    for _ in range(6):
        y = ops.matmul(y, w)
    (segment,) = plan(Graph([x], [y])).segments
    assert segment.arena_bytes == 2 * 16 * 32 * 4


def test_views_have_the_storage_of_what_they_show() -> None:
    x = tensor(4, 6)
    flat = ops.reshape(x, (24,))
    again = ops.reshape(flat, (2, 12))
    y = ops.sort(again, 1)
    program = plan(Graph([x], [again, y]))
    assert program.storage == {program.graph.outputs[0]: x} or x in program.storage.values()
    assert program.kernel_count == 0


def test_constants_are_named_once() -> None:
    x = tensor(40, 40)
    w = ops.constant(np.ones((40, 40), "f4"))
    program = plan(Graph([x], [ops.matmul(ops.matmul(x, w), w)]))
    assert len(program.constants) == 1


def connected(program: Program) -> None:
    """Everything that a segment reads was there before, and outputs are there at the end."""
    there = set(program.graph.inputs)
    for segment in program.segments:
        for t in segment.reads:
            assert t in there or t.value is not None
        assert not there & set(segment.writes)
        there |= set(segment.writes)
        assert bool(segment.calls) != bool(segment.node)
    for t in program.graph.outputs:
        home = program.storage.get(t, t)
        assert home in there or home.value is not None
    assert program.kernel_count == sum(len(s.calls) for s in program.segments)


@given(st.integers(0, 1 << 30), st.integers(1, 12), st.booleans())
def test_random_programs_are_connected(seed: int, steps: int, with_host: bool) -> None:
    graph = random_graph(seed, steps)
    if with_host:
        outputs = [ops.cumsum(t, 0) if t.ndim else t for t in graph.outputs]
        graph = Graph(graph.inputs, [*outputs, *graph.outputs])
    connected(plan(graph))
