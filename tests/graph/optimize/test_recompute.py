"""When it pays to compute again."""

from __future__ import annotations

import pytest

from tileloom.graph import ops
from tileloom.graph.nodes import Node, Tensor, tensor_type
from tileloom.graph.optimize.recompute import MAX_COPIED, Reader, recompute

LARGE = (2048, 2048)


def tensor(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), "x")


def made(x: Tensor) -> Node:
    assert x.node is not None
    return x.node


def test_a_cheap_formula_of_what_is_read_anyway_pays() -> None:
    x = tensor(*LARGE)
    decision = recompute([made(ops.neg(x))], [Reader(frozenset({x}))] * 2)
    assert decision and decision.bytes_saved == 4 * x.type.nbytes
    assert decision.work_added == x.type.size
    assert "saves" in decision.reason


def test_costly_work_does_not_pay_where_memory_is_fast() -> None:
    x = tensor(128, 128)
    assert not recompute([made(ops.pow(x, 3.5))], [Reader()] * 4)
    assert recompute([made(ops.neg(x))], [Reader(frozenset({x}))] * 2)


def test_a_result_smaller_than_its_sources_is_stored() -> None:
    x, y, z = (tensor(*LARGE) for _ in range(3))
    total = ops.add(ops.add(x, y), z)
    nodes = [made(made(total).inputs[0]), made(total)]
    decision = recompute(nodes, [Reader()] * 2)
    assert not decision and decision.bytes_saved == 0
    assert recompute(nodes, [Reader(frozenset({x, y, z}))] * 2)


def test_a_broadcast_pays_and_repeated_reads_do_not() -> None:
    row = tensor(2048)
    spread = ops.broadcast_to(row, LARGE)
    assert recompute([made(spread)], [Reader(), Reader()])
    assert not recompute([made(ops.exp(row))], [Reader(repeats=2048.0)])


@pytest.mark.parametrize(
    "build",
    [ops.sum, ops.softmax, ops.sort, lambda x: ops.matmul(x, x)],
    ids=["sum", "softmax", "sort", "matmul"],
)
def test_only_formulas_are_copied(build) -> None:
    decision = recompute([made(build(tensor(64, 64)))], [Reader()] * 2)
    assert not decision and "formulas" in decision.reason


def test_long_chains_are_not_copied() -> None:
    x = tensor(*LARGE)
    nodes = []
    for _ in range(MAX_COPIED + 1):
        x = ops.neg(x)
        nodes.append(made(x))
    decision = recompute(nodes, [Reader()] * 2)
    assert not decision and "too many" in decision.reason


def test_nothing_of_size_zero_is_a_problem() -> None:
    assert recompute([made(ops.neg(tensor(0, 3)))], [Reader()] * 2)
    assert recompute([made(ops.neg(tensor(2, 3)))], [])
