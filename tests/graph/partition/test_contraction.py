"""What the kernels of products hold besides: prologues, epilogues, one or many results."""

from __future__ import annotations

import pytest

from tileloom.driver.plan_cuda import THREADS, TILES, contraction_on_gpu
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.partition import ContractionTactic, contraction_on_cpu, partition
from tileloom.graph.partition.contraction import LOOPS, PANELS
from tileloom.target import target
from tileloom.target.cost import DeviceCosts


def tensor(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def nodes_of(*outputs: Tensor) -> list[Node]:
    return [n for n in Graph([], outputs).nodes if n.op.name != "constant"]


def node_of(tensor: Tensor) -> Node:
    assert tensor.node is not None
    return tensor.node


def obstacle(tactic: ContractionTactic, product: Tensor, *results: Tensor) -> str | None:
    return tactic.obstacle(nodes_of(*results), results, node_of(product))


def test_epilogues_keep_pieces_together() -> None:
    product = ops.matmul(tensor(2, 10, 8), tensor(8, 48))
    heads = ops.reshape(product, (2, 10, 3, 16))
    apart = ops.transpose(heads, (0, 2, 3, 1))
    narrow = ops.transpose(ops.reshape(product, (2, 10, 6, 8)), (0, 2, 1, 3))
    heads = ops.transpose(heads, (0, 2, 1, 3))
    assert obstacle(PANELS, product, heads) is None
    assert "apart" in str(obstacle(PANELS, product, apart))
    assert "apart" in str(obstacle(PANELS, product, narrow))
    for y in (heads, apart, narrow):
        assert "apart" in str(obstacle(LOOPS, product, y))
        assert obstacle(TILES, product, y) is obstacle(THREADS, product, y) is None
    for tactic in (PANELS, LOOPS, TILES, THREADS):
        assert obstacle(tactic, product, ops.add(product, tensor(10, 1))) is None


def test_epilogues_read_the_product_in_one_order() -> None:
    square = ops.matmul(tensor(10, 10, 8), tensor(8, 48))
    both = ops.add(square, ops.transpose(square, (1, 0, 2)))
    for tactic in (PANELS, LOOPS, TILES, THREADS):
        assert "elsewhere" in str(obstacle(tactic, square, both))


def test_tiles_of_a_gpu_store_one_result() -> None:
    product = ops.matmul(tensor(32, 24), tensor(24, 48))
    shifted = ops.add(product, tensor(48))
    results = shifted, ops.tanh(shifted)
    assert obstacle(TILES, product, *results) == "the kernel of matmul stores 1 result"
    assert obstacle(TILES, product, results[1]) is None
    for tactic in (PANELS, LOOPS, THREADS):
        assert obstacle(tactic, product, *results) is None


def test_prologues_are_cheap_and_read_once() -> None:
    a, b = tensor(32, 24), tensor(24, 48)
    cheap = ops.matmul(a, ops.add(ops.mul(b, tensor(48)), tensor(48)))
    costly = ops.matmul(a, ops.exp(b))
    left = ops.matmul(ops.neg(a), b)
    batched = ops.matmul(tensor(2, 32, 24), ops.neg(b))
    for tactic in (PANELS, TILES, THREADS):
        assert obstacle(tactic, cheap, cheap) is None
        assert "not cheaply" in str(obstacle(tactic, costly, costly))
        assert "many times" in str(obstacle(tactic, left, left))
        assert "many times" in str(obstacle(tactic, batched, batched))
    assert "many times" in str(obstacle(LOOPS, cheap, cheap))
    shared = node_of(cheap).inputs[1]
    assert "in memory" in str(obstacle(PANELS, cheap, cheap, shared))
    assert "in memory" in str(obstacle(PANELS, cheap, ops.add(cheap, ops.sum(shared, 0))))


def conv(channels: int, groups: int = 1, size: int = 9) -> Tensor:
    return ops.conv(tensor(1, 16, size, size), tensor(channels, 16 // groups, 3, 3), groups=groups)


@pytest.mark.parametrize(
    ("product", "cpu", "gpu"),
    [
        (ops.matmul(tensor(16, 16), tensor(16, 16)), PANELS, TILES),
        (ops.matmul(tensor(15, 16), tensor(16, 16)), PANELS, THREADS),
        (ops.matmul(tensor(16, 15), tensor(15, 16)), PANELS, THREADS),
        (ops.matmul(tensor(16, 16), tensor(16, 15)), PANELS, THREADS),
        (ops.matmul(tensor(16, 16), tensor(16, 16), True, False), PANELS, TILES),
        (ops.matmul(tensor(1, 64), tensor(64, 64)), LOOPS, THREADS),
        (ops.matmul(tensor(64, 64), tensor(64, 7)), LOOPS, THREADS),
        (conv(16), PANELS, TILES),
        (conv(15), PANELS, THREADS),
        (conv(3), LOOPS, THREADS),
        (conv(16, size=5), PANELS, THREADS),
        (conv(16, groups=2), PANELS, THREADS),
        (conv(16, groups=16), LOOPS, THREADS),
        (ops.max_pool(tensor(1, 16, 32, 32), (2, 2)), LOOPS, THREADS),
        (ops.matmul(tensor(0, 16), tensor(16, 16)), LOOPS, THREADS),
    ],
)
def test_tactics(product: Tensor, cpu: ContractionTactic, gpu: ContractionTactic) -> None:
    assert contraction_on_cpu(node_of(product)) is cpu
    assert contraction_on_gpu(node_of(product)) is gpu


def test_the_tactic_of_the_device_decides() -> None:
    """A key of attention is transposed by the product on a GPU, and by a kernel on a CPU."""
    x, w = tensor(32, 48), tensor(48, 64)
    key = ops.transpose(ops.reshape(ops.matmul(x, w), (32, 4, 16)), (1, 2, 0))
    graph = Graph([x, w], [key])
    costs = DeviceCosts.of(target("cuda -arch=sm_80"))
    assert [g.kind for g in partition(graph, costs, contraction_on_gpu)] == ["matmul"]
    found = partition(graph)
    assert [g.kind for g in found] == ["matmul", "elementwise"]
    assert "transpose takes the rows of matmul apart" in str(found.refusals[0])
