"""Clusters against a brute-force reading of their definition; turns; time on large graphs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from graphlib import TopologicalSorter
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampling import sampled
from tileloom.base.errors import InternalError
from tileloom.graph import ops
from tileloom.graph.aggregate import Turns, regions, regions_of, segments
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import REGISTRY

Dag = list[list[int]]  # the nodes that each node reads


@st.composite
def dags(draw: Any, most: int = 14) -> tuple[Dag, list[bool]]:
    size = draw(st.integers(1, most))
    reads = [
        draw(st.lists(st.integers(0, k - 1), max_size=3, unique=True)) if k else []
        for k in range(size)
    ]
    return reads, draw(st.lists(st.booleans(), min_size=size, max_size=size))


def found(reads: Dag, joins: list[bool], **more: Any) -> list[tuple[int, ...]]:
    return regions(range(len(reads)), reads.__getitem__, joins.__getitem__, **more)


def contracted(reads: Dag, parts: list[tuple[int, ...]]) -> list[set[int]]:
    """The edges between parts; what is in no part is one of its own."""
    inside = {node for part in parts for node in part}
    whole = [*parts, *((node,) for node in range(len(reads)) if node not in inside)]
    home = {node: k for k, part in enumerate(whole) for node in part}
    return [
        {home[source] for node in part for source in reads[node]} - {k}
        for k, part in enumerate(whole)
    ]


def has_circle(edges: list[set[int]]) -> bool:
    left = set(range(len(edges)))
    while ready := {k for k in left if not edges[k] & left}:
        left -= ready
    return bool(left)


@settings(max_examples=400)
@given(dags())
def test_clusters_leave_no_circle(case: Any) -> None:
    reads, joins = case
    parts = found(reads, joins)
    assert sorted(node for part in parts for node in part) == [
        k for k, own in enumerate(joins) if own
    ]
    assert not has_circle(contracted(reads, parts))


@settings(max_examples=400)
@given(dags())
def test_no_two_connected_clusters_could_be_one(case: Any) -> None:
    reads, joins = case
    parts = found(reads, joins)
    for a in parts:
        for b in parts:
            if a != b and any(source in a for node in b for source in reads[node]):
                merged = [part for part in parts if part not in (a, b)] + [(*a, *b)]
                assert has_circle(contracted(reads, merged)), (a, b)


@settings(max_examples=400)
@given(dags())
def test_the_first_cluster_is_the_greatest_convex_set_above_its_base(case: Any) -> None:
    """By brute force over all sets of nodes that the last node which may join depends on."""
    reads, joins = case
    base = max((k for k, own in enumerate(joins) if own), default=None)
    if base is None:
        return
    above: list[Any] = [set() for _ in reads]
    for k, sources in enumerate(reads):
        above[k] = {k}.union(*(above[s] for s in sources))
    may = [k for k in sorted(above[base]) if joins[k] and k != base]
    best: set[int] = set()
    for mask in range(1 << len(may)):
        chosen = {base} | {k for n, k in enumerate(may) if mask >> n & 1}
        outside = [x for x in above[base] if x not in chosen and above[x] & chosen]
        if not any(x in above[y] for x in outside for y in chosen) and len(chosen) > len(best):
            best = chosen
    part = next(part for part in found(reads, joins) if base in part)
    assert above[base] & set(part) == best


@settings(max_examples=200)
@given(dags())
def test_clusters_come_in_an_order_in_which_they_can_run(case: Any) -> None:
    reads, joins = case
    parts = found(reads, joins)
    place = {node: k for k, part in enumerate(parts) for node in part}
    above: Dag = []
    for k, sources in enumerate(reads):
        above.append(sorted({k}.union(*(above[s] for s in sources))))
        assert not joins[k] or all(place[s] <= place[k] for s in above[k] if joins[s])
    assert found(reads, joins, singles=False) == [part for part in parts if len(part) > 1]


@settings(max_examples=200)
@given(dags(), st.data())
def test_a_pick_stays_with_its_producer(case: Any, data: st.DataObject) -> None:
    reads, joins = case
    wild = [len(r) == 1 and data.draw(st.booleans()) for r in reads]
    parts = found(reads, joins, picks=wild.__getitem__)
    assert not has_circle(contracted(reads, parts))
    for part in parts:
        for node in part:
            assert len(part) == 1 or not wild[node] or reads[node][0] in part


def test_a_path_through_a_foreign_node_parts_a_cluster() -> None:
    #  0 -> 1 -> 3,  0 -> 2* -> 3, where 2 is foreign
    assert found([[], [0], [0], [1, 2]], [True, True, False, True]) == [(0,), (1, 3)]


def test_what_a_removed_node_needs_is_removed_with_it() -> None:
    """0 reaches 4 only through 2, which a path through the foreign 3 takes out."""
    reads = [[], [0], [1], [2], [2, 3]]
    assert found(reads, [True, True, True, False, True]) == [(0, 1, 2), (4,)]
    # A foreign node between an outcast and its own source counts too.
    reads = [[], [0], [1], [2], [0, 2, 3]]
    assert found(reads, [True, False, True, False, True]) == [(0,), (2,), (4,)]


def test_clusters_depend_on_each_other_through_other_clusters() -> None:
    """0 may not join 4: the region (1, 3) lies between, by the foreign 2."""
    reads = [[], [0], [1], [1], [0, 2]]
    parts = found(reads, [True, True, False, True, True])
    assert not has_circle(contracted(reads, parts))


def test_nothing() -> None:
    assert found([], []) == []
    assert segments([], lambda node: [], lambda node: True) == []


def test_order_is_checked() -> None:
    with pytest.raises(InternalError, match="producers before"):
        regions("ab", {"a": "b", "b": ""}.__getitem__, lambda node: True)


# ---------------------------------------------------------------------------- time and order


def _chain(n: int) -> Dag:
    return [[k - 1] if k else [] for k in range(n)]


def _branches(n: int) -> Dag:
    return [[] if k == 0 else [0] if k % 100 == 1 else [k - 1] for k in range(n)]


def _tangle(n: int) -> Dag:
    """A fixed pseudo-random graph with near and far edges."""
    state, reads = 12345, []
    for k in range(n):
        sources = set()
        for reach in (8, 100, n) if k else ():
            state = (state * 1103515245 + 12345) % (1 << 31)
            sources.add(max(k - 1 - (state >> 8) % reach, 0))
        reads.append(sorted(sources))
    return reads


@pytest.mark.parametrize("dag", [_chain, _branches, _tangle])
@pytest.mark.parametrize("foreign", sampled([3, 0, 100], 3))
def test_ten_thousand_nodes(dag: Callable[[int], Dag], foreign: int) -> None:
    n = 10_000
    reads = dag(n)
    joins = [not foreign or k % foreign != 1 for k in range(n)]
    parts = found(reads, joins)
    assert sorted(node for part in parts for node in part) == [k for k in range(n) if joins[k]]
    edges = contracted(reads, parts)
    order = list(TopologicalSorter(dict(enumerate(edges))).static_order())  # raises for a circle
    assert len(order) == len(edges)
    if not foreign:
        assert len(parts) == 1
    elif dag is _chain:
        assert sorted(parts) == _stretches(joins)
    else:  # far fewer than nodes
        assert len(parts) < sum(joins) / 2


def _stretches(joins: list[bool]) -> list[tuple[int, ...]]:
    """The nodes that follow on each other in a chain without a foreign one between."""
    runs = groupby(range(len(joins)), joins.__getitem__)
    return [tuple(run) for own, run in runs if own]


SCRIPT = """
from tileloom.graph.aggregate import regions, segments
nodes = [f"n{k}" for k in range(200)]
reads = {n: [nodes[k // 2], nodes[k - 1 - k % 3]] if k > 3 else [] for k, n in enumerate(nodes)}
foreign = {n for k, n in enumerate(nodes) if k % 5 == 2}
print(regions(nodes, reads.get, lambda n: n not in foreign))
print(segments(nodes, reads.get, lambda n: n not in foreign))
"""


def test_hash_seeds_change_nothing() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1 and runs.pop()


# ---------------------------------------------------------------------------- graphs


def tensor(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def names(graph: Graph, **more: Any) -> list[list[str]]:
    return [[node.op.name for node in part] for part in regions_of(graph, **more)]


def test_levels() -> None:
    x = tensor(4, 4)
    y = ops.exp(ops.matmul(ops.sum(ops.neg(x), 0, True), x))
    graph = Graph([x], [ops.add(y, 1.0)])
    assert names(graph, level=0) == [["neg"], ["exp", "add"]]
    assert names(graph, level=1) == [["neg", "reduce_sum"], ["exp", "add"]]
    assert names(graph) == [["neg", "reduce_sum", "matmul", "exp", "add"]]
    assert names(graph, level=1, singles=False) == [["neg", "reduce_sum"], ["exp", "add"]]
    assert names(graph, level=0, singles=False) == [["exp", "add"]]


def test_every_op_says_its_level() -> None:
    for op in REGISTRY.values():
        for target in ("cpu", "cuda"):
            level = op.level(target)
            has_code = op.compute is not None or op.expand is not None
            assert level in (0, 1, 2) if has_code else level is None, op.name


def test_constants_connect_nothing() -> None:
    x, c = tensor(3), ops.constant([1.0, 2.0, 3.0], "float32")
    graph = Graph([x], [ops.add(x, c), ops.mul(x, c)])
    assert names(graph) == [["add"], ["mul"]]


# ---------------------------------------------------------------------------- turns


@settings(max_examples=300)
@given(dags(most=10))
def test_segments_are_fewest(case: Any) -> None:
    reads, native = case
    turns = segments(range(len(reads)), reads.__getitem__, native.__getitem__)
    order = [node for _, nodes in turns for node in nodes]
    assert sorted(order) == list(range(len(reads)))
    assert all(order.index(s) < order.index(k) for k in order for s in reads[k])
    assert all(native[node] == is_native for is_native, nodes in turns for node in nodes)
    # No path changes sides more often than the turns do, and one changes as often.
    changes = [0] * len(reads)
    for k, sources in enumerate(reads):
        # Every path begins with native code, as the first turn may be the host's or not.
        steps = [changes[s] + (native[s] != native[k]) for s in sources]
        changes[k] = max(steps, default=0)
    assert len(turns) <= max(changes) + 2
    assert all(a[0] != b[0] for a, b in pairwise(turns))


def test_effects_keep_their_order() -> None:
    turns: Turns[str] = Turns()
    turns.native("a", [])
    assert turns.other("late", ["a"], effect=True) == 0
    assert turns.other("early", [], effect=True) == 0
    assert turns.other("pure", []) == -1
    assert turns.native("b", ["early"]) == 1
