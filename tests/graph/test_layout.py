"""Layouts by minimum cut: the networks, the choice, and that nothing else changes."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from tileloom.graph import ops
from tileloom.graph.layout import choose_layouts, inverse
from tileloom.graph.mincut import UNCUTTABLE, MinCut
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import optimize
from tileloom.graph.run import run

NHWC = (0, 2, 3, 1)
NCHW = (0, 3, 1, 2)


def variable(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.op.name != "constant"]


def moved(graph: Graph) -> int:
    """Bytes of what transposes make."""
    nodes = [node for node in graph.nodes if node.op.name == "transpose"]
    return sum(node.outputs[0].type.nbytes for node in nodes if node.inputs[0].value is None)


def check(graph: Graph) -> Graph:
    """The graph with chosen layouts, which must compute the same."""
    better = choose_layouts(graph)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype("float32") for t in graph.inputs]
    for old, new in zip(run(graph, arrays), run(better, arrays), strict=True):
        np.testing.assert_allclose(new, old, 1e-5, 1e-5)
    assert moved(better) <= moved(graph)
    return better


# ---------------------------------------------------------------------------- networks


@pytest.mark.parametrize("seed", range(60))
def test_cuts_are_minimal(seed: int) -> None:
    random = Random(seed)
    net = MinCut()
    inner = [net.node() for _ in range(random.randint(0, 6))]
    nodes = [net.source, net.sink, *inner]
    edges = []
    for _ in range(random.randint(0, 20)):
        a, b = random.choice(nodes), random.choice(nodes)
        if a != b and {a, b} != {net.source, net.sink}:
            edges.append((a, b, random.choice([0, 1, 2, 5, UNCUTTABLE])))
    for edge in edges:
        net.edge(*edge)

    def cost(source_side: set[int]) -> int:
        return sum(c for a, b, c in edges if a in source_side and b not in source_side)

    sides = [
        {net.source, *chosen}
        for count in range(len(inner) + 1)
        for chosen in itertools.combinations(inner, count)
    ]
    best = min(map(cost, sides))
    if best >= UNCUTTABLE:
        return  # every cut is forbidden
    assert net.solve() == best
    assert cost({node for node in nodes if net.on_source_side(node)}) == best


# ---------------------------------------------------------------------------- layouts


def test_transposes_around_elementwise_ops_cancel() -> None:
    x = variable(2, 5, 7, 3)
    bias = ops.constant(np.arange(3, dtype="float32").reshape(3, 1, 1))
    y = ops.relu(ops.add(ops.transpose(x, NCHW), bias))
    better = check(Graph([x], [ops.transpose(y, NHWC)]))
    assert names(optimize(better)) == ["add", "relu"]


def test_a_bias_of_lower_rank_follows() -> None:
    x, bias = variable(2, 5, 7, 3), variable(3, 1, 1)
    y = ops.tanh(ops.add(ops.transpose(x, NCHW), bias))
    better = check(Graph([x, bias], [ops.transpose(y, NHWC)]))
    assert moved(better) == bias.type.nbytes  # only the bias is moved


def test_convolutions_keep_their_layout() -> None:
    x = variable(1, 6, 6, 2)
    weight = ops.constant(np.ones((2, 2, 1, 1), "float32"))
    y = ops.conv(ops.transpose(x, NCHW), weight)
    y = ops.transpose(ops.relu(ops.transpose(y, NHWC)), NCHW)
    y = ops.conv(y, weight)
    better = check(Graph([x], [ops.transpose(y, NHWC)]))
    assert names(better).count("transpose") == 2  # at the ends, none between the convolutions


def test_the_narrow_side_is_transposed() -> None:
    """Where two layouts meet, the smallest tensor on the way is the one to turn."""
    x = variable(4, 1, 5, 8)
    other = variable(4, 6, 5, 8)
    y = ops.transpose(ops.neg(ops.add(x, other)), NHWC)
    graph = Graph([x, other], [ops.sum(y, 3, True)])
    assert moved(check(graph)) == 4 * 5 * 8 * 4


def test_branches_pay_for_a_version_once() -> None:
    x = variable(2, 3, 4, 5)
    y = ops.neg(x)
    outputs = [ops.transpose(ops.relu(y), NHWC), ops.transpose(ops.tanh(y), NHWC)]
    better = check(Graph([x], outputs))
    assert names(better).count("transpose") == 1


def test_concatenations_rename_their_axis() -> None:
    x = variable(2, 5, 7, 3)
    t = ops.transpose(x, NCHW)
    y = ops.transpose(ops.concat([t, ops.relu(t)], 1), NHWC)
    better = check(Graph([x], [y]))
    assert names(better) == ["relu", "concat"]
    assert better.nodes[-1].attrs["axis"] == 3


def test_square_transposes_undo_themselves() -> None:
    x = variable(4, 6)
    y = ops.transpose(ops.exp(ops.transpose(ops.neg(ops.transpose(x)))))
    assert names(check(Graph([x], [y]))).count("transpose") == 1
    y = ops.transpose(ops.exp(ops.transpose(x)))
    assert names(check(Graph([x], [y]))) == ["exp"]


def test_a_tensor_and_its_transpose_meet() -> None:
    x = variable(5, 5)
    graph = Graph([x], [ops.add(x, ops.transpose(x))])
    assert names(check(graph)) == ["transpose", "add"]


def test_outputs_keep_their_layout() -> None:
    x = variable(2, 3, 4, 5)
    y = ops.transpose(x, NHWC)
    graph = Graph([x], [y, ops.relu(y), x])
    assert [t.shape for t in check(graph).outputs] == [(2, 4, 5, 3), (2, 4, 5, 3), (2, 3, 4, 5)]


def test_inverse_permutations() -> None:
    assert inverse(NCHW) == NHWC
    for perm in itertools.permutations(range(4)):
        assert tuple(perm[k] for k in inverse(perm)) == (0, 1, 2, 3)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_compute_the_same(seed: int) -> None:
    random = Random(seed)
    perms = [NHWC, NCHW, (0, 1, 3, 2), (1, 0, 2, 3)]
    x, bias = variable(2, 3, 2, 3), variable(3, 1)
    known = [x, ops.relu(x)]
    for _ in range(random.randint(2, 14)):
        t = random.choice(known[-4:])
        alike = [o for o in known if o.shape == t.shape]
        fits = t.shape[-2] in (1, 3)
        step = random.randrange(7)
        if step <= 2:
            known.append(ops.transpose(t, random.choice(perms)))
        elif step == 3:
            known.append(ops.sub(t, random.choice(alike)))
        elif step == 4:
            known.append(ops.add(t, bias) if fits else ops.neg(t))
        elif step == 5 and t.type.size < 500:
            known.append(ops.concat([t, random.choice(alike)], random.randrange(4)))
        else:
            known.append(ops.sum(t, random.randrange(4), True))
    check(Graph([x, bias], [known[-1], random.choice(known), random.choice(known)]))
