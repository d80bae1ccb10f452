"""Turns of native code and the host: the fewest, and in an order in which they can run."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.graph.turns import Turns, segments

Dag = list[list[int]]  # the nodes that each node reads


@st.composite
def dags(draw: Any) -> tuple[Dag, list[bool]]:
    size = draw(st.integers(1, 10))
    reads = [
        draw(st.lists(st.integers(0, k - 1), max_size=3, unique=True)) if k else []
        for k in range(size)
    ]
    return reads, draw(st.lists(st.booleans(), min_size=size, max_size=size))


def test_nothing() -> None:
    assert segments([], lambda node: [], lambda node: True) == []


SCRIPT = """
from tileloom.graph.turns import segments
nodes = [f"n{k}" for k in range(200)]
reads = {n: [nodes[k // 2], nodes[k - 1 - k % 3]] if k > 3 else [] for k, n in enumerate(nodes)}
foreign = {n for k, n in enumerate(nodes) if k % 5 == 2}
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


@settings(max_examples=300)
@given(dags())
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
