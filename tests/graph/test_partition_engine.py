"""The engine of fusion: dependences, choices by cost, reasons, and nothing left to chance."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graph.random_graphs import random_arrays, random_graph
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.blocks import block_function
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import optimize
from tileloom.graph.partition import Partition, contraction_on_cpu, partition
from tileloom.graph.partition.domain import lattice, nest_obstacle, refines
from tileloom.graph.partition.fuse import Fuser
from tileloom.graph.partition.node_groups import NodeGroup, NodeGroups
from tileloom.graph.partition.steps import run
from tileloom.graph.run import run as interpret
from tileloom.plan.cpu.fusion_groups import find_fusion_groups, inline_elementwise
from tileloom.plan.sizes import Sizes
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.target.cost import DeviceCosts

TESTS = Path(__file__).resolve().parent.parent


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def weights(*shape: int) -> Tensor:
    return ops.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def groups_of(*outputs: Tensor) -> Partition:
    nodes = Graph([], outputs).nodes
    inputs = {t for node in nodes for t in node.inputs if t.node is None}
    return partition(optimize(expand(Graph(sorted(inputs, key=lambda t: t.serial), outputs))))


def kernels(*outputs: Tensor) -> int:
    return sum(not group.is_view for group in groups_of(*outputs))


# ---------------------------------------------------------------------------- dependences


def closure(groups: NodeGroups) -> dict[NodeGroup, set[NodeGroup]]:
    """The groups that each group needs, found from scratch."""
    needs: dict[NodeGroup, set[NodeGroup]] = {}

    def visit(group: NodeGroup) -> set[NodeGroup]:
        if group not in needs:
            needs[group] = set()
            for producer in groups.producers(group):
                needs[group] |= {producer} | visit(producer)
        return needs[group]

    for group in groups:
        visit(group)
    return needs


@given(st.integers(0, 1 << 30), st.integers(1, 30))
def test_dependences_are_kept_up_to_date(seed: int, steps: int) -> None:
    fuser = Fuser(optimize(expand(random_graph(seed, steps))), DeviceCosts(), contraction_on_cpu)
    run(fuser)
    needs = closure(fuser.groups)
    for group, before in needs.items():
        assert group not in before, "a circle"
        for other in needs:
            if other is not group:
                assert not other.bits & group.bits
                # More may be known: what was needed before something was computed again.
                assert (other in before) <= (other.bits & ~group.before == 0)
                assert (other in before) <= (group.bits & ~other.after == 0)


def test_reshapes_are_read_through() -> None:
    """By each reader for itself; there is a view only of what must be in memory in that shape."""
    x = tensor(4, 6)
    y = ops.reshape(ops.tanh(x), (24,))
    assert kernels(ops.exp(y), ops.sin(y)) == 1
    assert not any(group.is_view for group in groups_of(ops.exp(y), ops.sin(y)))
    assert sum(group.is_view for group in groups_of(ops.exp(y), y)) == 1


# ---------------------------------------------------------------------------- choices


def test_cheap_producers_are_computed_again() -> None:
    """A bias spread over a matrix, for two readers that cannot be one."""
    x, b = tensor(512, 384), tensor(384, name="b")
    shifted = ops.add(x, b)
    rows, columns = ops.sum(shifted, 1), ops.sum(shifted, 0)
    found = groups_of(rows, columns)
    assert sum(any(n.op.name == "add" for n in p.nodes) for g in found for p in g.parts) == 2
    assert sum(t.type.size == x.type.size for g in found for t in g.outputs) == 0


def test_costly_producers_are_kept() -> None:
    x = tensor(512, 384)
    found = groups_of(ops.sum(ops.exp(x), 1), ops.sum(ops.exp(x), 0))
    assert sum(any(n.op.name == "exp" for n in p.nodes) for g in found for p in g.parts) == 1


def test_what_saves_most_is_joined() -> None:
    """The square of a product goes into the sum rather than behind the product, which is kept."""
    product = ops.matmul(tensor(64, 64), weights(64, 64))
    found = groups_of(ops.rms_norm(product, weights(64)))
    assert [len(group.outputs) for group in found] == [1, 1]


def test_small_results_pass_on_within_a_kernel() -> None:
    x = tensor(64, 96)
    scale = ops.exp(ops.sum(x, 0))  # of columns
    (group,) = groups_of(ops.mul(ops.transpose(x), ops.reshape(scale, (96, 1))), scale)
    assert [len(phase) for phase in group.phases] == [1, 1]
    big = tensor(3000, 2500)
    scale = ops.exp(ops.sum(big, 0))
    assert kernels(ops.mul(ops.transpose(big), ops.reshape(scale, (2500, 1))), scale) == 1
    wide = tensor(2, 100_000)
    moved = ops.exp(ops.transpose(ops.tanh(wide)))
    assert kernels(moved, ops.sum(moved, 1)) == 1


def test_readers_of_the_same_share_a_nest() -> None:
    x, y, z = tensor(64, 64), tensor(64, 64, name="y"), tensor(64, 64, name="z")
    found = groups_of(ops.exp(ops.add(x, y)), ops.tanh(ops.mul(x, z)))
    assert len(found) == 1 and not found[0].phases
    found = groups_of(ops.sum(x, 1), ops.max(x, 1), ops.neg(x))
    assert len(found) == 1 and not found[0].phases


def test_long_independent_work_stays_apart_in_a_network() -> None:
    """But kernels that nothing waits for, and that wait for nothing, share a launch."""
    x, y = tensor(1024, 1024), tensor(1024, 1024, name="y")
    assert kernels(ops.exp(x), ops.tanh(y)) == 1
    w = weights(1024, 8)
    assert kernels(ops.matmul(ops.exp(x), w), ops.matmul(ops.tanh(y), w)) == 4


# ---------------------------------------------------------------------------- reasons


def test_refusals_say_why() -> None:
    x, w = tensor(256, 384), weights(384, 384)
    product = ops.matmul(ops.exp(x), w)
    found = groups_of(ops.transpose(ops.softmax(product)), ops.sum(ops.softmax(product), 0))
    said = [str(refusal) for refusal in found.refusals]
    assert any("exp makes an operand of matmul" in line for line in said)
    assert any("reduce_max is not elementwise" in line for line in said)
    for refusal in found.refusals:
        assert refusal.rule and refusal.producer and refusal.consumer
    sums = groups_of(ops.sum(ops.sum(tensor(3000, 2000, 40), 2), 0))
    assert any("they reduce [3000, 2000, 40] over [2]" in str(r) for r in sums.refusals)


def test_each_edge_between_kernels_has_a_reason() -> None:
    for seed in range(40):
        found = partition(optimize(expand(random_graph(seed, 25))))
        made = {t: group for group in found for t in group.outputs}
        edges = {(made[t].label, g.label) for g in found for t in g.inputs if t in made}
        assert edges == {(r.producer, r.consumer) for r in found.refusals}
        assert all(len(r.reason) > 10 for r in found.refusals)


# ---------------------------------------------------------------------------- legality


def test_the_planner_makes_what_the_rules_allow() -> None:
    """One nest of what has one shape; what is reshaped, or kept for all rows, may have its own."""
    nests: Counter[bool] = Counter()
    for seed in range(100):
        graph = optimize(expand(random_graph(seed, 5 + seed % 30, large=seed % 2 == 0)))
        for group in partition(graph):
            if group.is_view or group.kind not in ("elementwise", "reductions"):
                continue
            if not all(t.type.size for t in group.outputs):
                continue
            sch = Schedule(block_function(group)[0])
            inline_elementwise(sch)
            found = find_fusion_groups(sch, Sizes({}))
            shapes = {t.shape for n in group.nodes if n.op.kind != "reduction" for t in n.outputs}
            assert len(found) == 1 or len(shapes) > 1, (seed, group)
            nests[len(found) == 1] += 1
    assert nests[True] > 8 * nests[False] > 0


def test_shapes_and_axes_are_compared_exactly() -> None:
    assert refines([(6, 4), (2, 12), (24,)]) and not refines([(6, 4), (4, 6)])
    assert lattice((2, 3, 4), (2,)) == lattice((6, 4), (1,)) != lattice((6, 4), (0,))
    x = tensor(4, 4)
    rows = ops.sum(x, 1)
    assert kernels(ops.add(x, ops.reshape(rows, (4, 1)))) == 1
    (group,) = groups_of(ops.add(x, rows))  # along the other axis: another nest
    assert len(group.phases) == 2
    y = ops.exp(x)
    add = ops.add(y, ops.transpose(y))
    nodes = Graph([x], [add]).nodes
    assert nest_obstacle(nodes, [add]) is None  # computed twice
    assert nest_obstacle(nodes, [add, y]) is not None


# ---------------------------------------------------------------------------- no chance


def test_the_same_graph_gives_the_same_groups_in_every_process() -> None:
    """Whatever the seed of Python's hashes."""
    script = (
        "from graph.random_graphs import random_graph\n"
        "from tileloom.graph.expand import expand\n"
        "from tileloom.graph.optimize import optimize\n"
        "from tileloom.graph.partition import partition\n"
        "for seed in range(30):\n"
        "    graph = optimize(expand(random_graph(seed, 30)))\n"
        "    first = graph.nodes[0].serial\n"
        "    for g in partition(graph):\n"
        "        print(g, [n.serial - first for n in g.nodes], g.phases, g.inputs, g.outputs)\n"
    )
    texts = set()
    for seed in ("0", "1", "4321"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
        found = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True
        )
        texts.add(found.stdout)
    assert len(texts) == 1


# ---------------------------------------------------------------------------- side by side


def test_independent_nests_share_one_parallel_loop() -> None:
    graph = Graph([], [])
    x, y, z = tensor(1000, 64), tensor(77, name="y"), tensor(300, 400, name="z")
    outputs = [ops.exp(x), ops.tanh(y), ops.sum(z, 1), ops.transpose(ops.sin(z))]
    graph = Graph([x, y, z], outputs)
    program = plan_graph(graph, Target.host().with_cores(2))
    assert program.kernel_count == 1
    arrays = random_arrays(graph)
    for a, b in zip(compile_graph(graph)(*arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------- traffic


def test_bytes_are_counted_before_and_after_fusion() -> None:
    x, b = tensor(128, 64), tensor(64, name="b")
    y = ops.softmax(ops.add(x, b))
    program = plan_graph(Graph([x, b], [y]), Target.host())
    size = 4 * 128 * 64
    assert (program.traffic.read, program.traffic.written) == (size + 4 * 64, size)
    assert len(program.traffic_unfused.kernels) == 6
    # add, max, sub, exp, sum, div: whole arrays read 7 times and written 4 times.
    assert program.traffic_unfused.written == 4 * size + 2 * 4 * 128
    assert program.traffic_unfused.read == 6 * size + 4 * 64 + 2 * 4 * 128
    assert program.traffic.total < program.traffic_unfused.total / 4


def test_picked_parts_and_views_count_for_what_they_are() -> None:
    x = tensor(1000, 64)
    index = tensor(2, kind="int64", name="index")
    program = plan_graph(Graph([x, index], [ops.neg(ops.gather(x, index))]), Target.host())
    assert program.traffic.total == 2 * 2 * 64 * 4 + 2 * 8
    assert plan_graph(Graph([x], [ops.reshape(x, (64_000,))]), Target.host()).traffic.total == 0


# ---------------------------------------------------------------------------- devices


def test_the_device_decides() -> None:
    """What is worth copying, following or putting together is a matter of its numbers."""
    x, b = tensor(512, 384), tensor(384, name="b")
    shifted = ops.add(x, b)
    graph = Graph([x, b], [ops.sum(shifted, 1), ops.sum(shifted, 0)])

    def made(device: DeviceCosts) -> int:
        return sum(
            any(n.op.name == "add" for n in part.nodes)
            for group in partition(graph, device)
            for part in group.parts
        )

    assert made(DeviceCosts()) == 2 and made(DeviceCosts(rate=1e6)) == 1
    y, scale = tensor(64, 96), ops.exp(ops.sum(tensor(64, 96), 0))
    other = Graph([y], [ops.mul(ops.transpose(y), ops.reshape(scale, (96, 1))), scale])
    assert len(partition(other)) == 1 and len(partition(other, DeviceCosts(near=0))) == 2


# ---------------------------------------------------------------------------- windows


def test_what_follows_a_pooling_is_computed_in_its_kernel() -> None:
    x = tensor(1, 3, 12, 12)
    for pooled in (
        ops.avg_pool(x, (3, 3), 1, 1),
        ops.relu(ops.max_pool(x, (2, 2), 2)),
        ops.exp(ops.avg_pool(x, (2, 2), 2, 0, count_include_pad=True)),
    ):
        assert kernels(pooled) == 1
        graph = Graph([x], [pooled])
        arrays = random_arrays(graph)
        for target, device in (("cpu", None), ("cuda", "emulator")):
            (got,) = compile_graph(graph, target, device=device)(*arrays)
            np.testing.assert_allclose(got, interpret(graph, arrays)[0], rtol=1e-5, atol=1e-5)
    both = ops.max_pool(ops.relu(x), (2, 2), 2)  # read by several windows
    assert kernels(ops.transpose(both, (0, 1, 3, 2))) >= 2
