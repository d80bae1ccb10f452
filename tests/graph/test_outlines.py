"""What becomes a kernel, why there are not fewer, and the loops of each; rewrites of small graphs.

Results stay right where a heuristic is broken, so other tests do not see it. After a change that is
meant, `pytest tests/graph/test_outlines.py --rewrite` writes `test_outlines.txt` anew; its
difference says which graphs are compiled another way.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from graph.optimize.rule_examples import EXAMPLES
from graph.planned_graphs import CASES, CPU, GPU, ON_GPUS, PRODUCTS, WIDE, graph_of
from outline import outline
from recorded import Compare
from tileloom.driver import plan_graph
from tileloom.graph.optimize import optimize
from tileloom.graph.program import Program
from tileloom.graph.show import show_graph
from tileloom.runtime import parallel


@pytest.fixture(autouse=True)
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cores there are."""
    monkeypatch.setattr(parallel, "get_num_threads", lambda: 64)


def lines_of(program: Program) -> Iterator[str]:
    for group in program.groups:
        yield f"{group.kind}: {', '.join(node.op.name for node in group.nodes)}"
    yield from map(str, program.groups.refusals)
    for segment in program.segments:
        yield f"segment: {len(segment.calls)} calls, {segment.arena_bytes} bytes"
    for name, func in program.module.functions.items():
        if name.startswith("kernel"):
            yield name
            yield from shortened([f"  {line}" for line in outline(func)])


def shortened(lines: list[str], most: int = 10) -> Iterator[str]:
    """The first lines, and a number that tells whether the others are what they were."""
    yield from lines[:most]
    if len(lines) > most:
        rest = zlib.crc32("\n".join(lines[most:]).encode())
        yield f"  and {len(lines) - most} lines, {rest:08x}"


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_a_cpu(name: str, recorded: Compare) -> None:
    recorded(f"{name}: cpu", list(lines_of(plan_graph(graph_of(name), CPU))))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_wide_vectors(name: str, recorded: Compare) -> None:
    recorded(f"{name}: wide", list(lines_of(plan_graph(graph_of(name), WIDE))))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_GPUS)
def test_kernels_of_a_gpu(name: str, recorded: Compare) -> None:
    recorded(f"{name}: gpu", list(lines_of(plan_graph(graph_of(name), GPU))))


@pytest.mark.parametrize("rule", EXAMPLES)
def test_rewritten_graphs(rule: str, recorded: Compare) -> None:
    lines: dict[str, list[str]] = {}
    for example in EXAMPLES[rule]:
        for kind in example.kinds:
            graph = optimize(example.graph(kind))
            text = show_graph(graph).replace(kind, "T").splitlines()[1:]
            lines.setdefault("; ".join(map(str.strip, text)), []).append(kind)
    recorded(f"rule {rule}", [f"{', '.join(kinds)}: {text}" for text, kinds in lines.items()])
