"""The walk: readers counted, a fixpoint reached, order kept, time in proportion to the graph."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.optimize.test_random_algebra import Algebra
from graph.random_graphs import random_arrays, random_graph
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import RULES, OptimizeReport, optimize, parse_options
from tileloom.graph.optimize import rewriter as module
from tileloom.graph.optimize.coded import coded
from tileloom.graph.optimize.rewriter import Rewriter
from tileloom.graph.optimize.rule import RuleIndex, index_of
from tileloom.graph.run import run

SEEDS = st.integers(0, 1 << 30)
#: Relative and absolute, for what may round differently.
NEAR = {"float32": (1e-3, 1e-3), "float16": (5e-2, 5e-2), "int32": (0, 0)}


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def walked(graph: Graph, words: str = "") -> tuple[Graph, Rewriter]:
    walk = Rewriter(graph, index_of(RULES, parse_options(words)))
    return walk.run(), walk


def reads(graph: Graph) -> Counter[Tensor]:
    counts = Counter(graph.outputs)
    for node in graph.nodes:
        counts.update(node.inputs)
    return counts


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40), st.sampled_from(["float32", "int32"]), st.booleans())
def test_readers_are_counted_right(seed: Any, steps: int, kind: Any, everything: bool) -> None:
    graph, walk = walked(expand(random_graph(seed, steps, kind)), "reassociating" * everything)
    wanted = reads(graph)
    alive = {tensor for node in graph.nodes for tensor in node.outputs} | set(graph.inputs)
    assert {t: walk.uses[t] for t in alive if walk.uses[t]} == {t: wanted[t] for t in wanted}


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 30), st.sampled_from(["float32", "int64"]), st.booleans())
def test_readers_are_counted_right_in_algebra(
    seed: Any, steps: int, kind: Any, everything: bool
) -> None:
    graph, walk = walked(Algebra(seed, kind).graph(steps), "reassociating" * everything)
    wanted = reads(graph)
    alive = {tensor for node in graph.nodes for tensor in node.outputs} | set(graph.inputs)
    assert {t: walk.uses[t] for t in alive if walk.uses[t]} == {t: wanted[t] for t in wanted}


def test_a_node_is_replaced_by_one_that_it_reads() -> None:
    """Once by a rule, then by what is known of an equal node."""
    x = tensor(kind="int64")
    sign = ops.sign(x)
    wide = ops.broadcast_to(sign, (3, 8))
    least = ops.minimum(ops.minimum(wide, wide), sign)
    graph, walk = walked(Graph([x], [least, least]))
    assert names(graph) == ["sign", "broadcast_to"]
    assert [walk.uses[t] for t in (x, sign, graph.outputs[0])] == [1, 1, 2]


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40), st.sampled_from(["float32", "int32", "float16"]))
def test_values_stay(seed: Any, steps: int, kind: Any) -> None:
    """Exact rules keep the reference's values but for the roundings of NumPy's own functions."""
    graph = random_graph(seed, steps, kind)
    arrays = random_arrays(graph, seed)
    wanted = run(graph, arrays)
    for words in ("exact", "reassociating,+widen-after-op"):
        after = optimize(expand(graph), words)
        assert after.inputs == graph.inputs and after.output_names == graph.output_names
        rtol, atol = NEAR[kind] if words != "exact" else (NEAR[kind][0] / 10, NEAR[kind][1] / 10)
        for a, b in zip(run(after, arrays), wanted, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=str(graph))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 40))
def test_a_second_call_finds_nothing(seed: Any, steps: int) -> None:
    once = optimize(expand(random_graph(seed, steps)))
    report = OptimizeReport()
    twice = optimize(once, report=report)
    assert names(twice) == names(once)
    assert not {rule.id for rule in RULES} & set(report.fired), report


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 40))
def test_the_result_is_the_same_every_time_and_in_order(seed: Any, steps: int) -> None:
    first, second = (str(optimize(expand(random_graph(seed, steps)))) for _ in range(2))
    assert first == second
    nodes = optimize(expand(random_graph(seed, steps))).nodes
    place = {node: k for k, node in enumerate(nodes)}
    assert all(
        place[t.node] < k for k, node in enumerate(nodes) for t in node.inputs if t.node is not None
    )


def test_a_graph_that_is_simple_already_stays_itself() -> None:
    x = tensor(3)
    graph = Graph([x], [ops.exp(ops.add(x, x))])
    assert optimize(graph).outputs == graph.outputs


def test_nodes_keep_their_order_when_some_are_made_anew() -> None:
    """What runs early still does: a rewrite must not move it behind the rest."""
    x, y = tensor(3), tensor(3, name="y")
    early = ops.exp(ops.neg(ops.neg(x)))
    late = ops.sin(y)
    assert names(optimize(Graph([x, y], [early, ops.add(late, early)]))) == ["exp", "sin", "add"]


# ---------------------------------------------------------------------------- readers


def test_a_rule_does_not_repeat_work() -> None:
    """exp(A) is wanted anyway: to multiply by exp(B) is less than another exp."""
    a, b = tensor(3, name="a"), tensor(3, name="b")
    ea, eb = ops.exp(a), ops.exp(b)
    graph, report = Graph([a, b], [ops.mul(ea, eb), ea, eb]), OptimizeReport()
    assert names(optimize(graph, "reassociating", report)) == ["exp", "exp", "mul"]
    assert report.passes[0].kept["mul-of-exps"] and "mul-of-exps" not in report.fired
    assert names(optimize(Graph([a, b], [ops.mul(ea, eb)]), "reassociating")) == ["add", "exp"]


def test_a_rule_that_costs_nothing_fires_for_shared_nodes_too() -> None:
    x = tensor(3)
    e = ops.exp(x)
    assert names(optimize(Graph([x], [ops.log(e), e]), "reassociating")) == ["exp"]
    inner = ops.add(x, 1.0)
    found = names(optimize(Graph([x], [ops.add(inner, 2.0), inner]), "reassociating"))
    assert found.count("add") == 2


def test_a_rule_held_back_fires_when_the_other_reader_is_gone() -> None:
    """The other reader comes later in the order, so that this takes a second walk."""
    a, b = tensor(3, name="a"), tensor(3, name="b")
    ea, eb = ops.exp(a), ops.exp(b)
    product = ops.mul(ea, eb)
    graph = Graph([a, b], [product, ops.log(ea), ops.log(eb)])
    assert names(optimize(graph, "reassociating")) == ["add", "exp"]


# ---------------------------------------------------------------------------- bounds


def test_rules_that_undo_each_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(name: str, other: str) -> Any:
        make = coded(f"{name}-to-{other}", "arithmetic", f"{name} = {other}", name)
        return make(lambda node, rewriter: rewriter.make(other, node.inputs))

    x = tensor(3)
    index = RuleIndex([swap("sin", "cos"), swap("cos", "sin")], parse_options(""))
    monkeypatch.setattr(module, "FIRES_AT_LEAST", 30)
    graph = Graph([x], [ops.sin(x)])
    walk = Rewriter(graph, index)
    assert len(walk.run().nodes) == 1
    assert 0 < walk.fired <= 30 + module.MAX_DEPTH


@pytest.mark.slow
def test_large_graphs_take_time_in_proportion() -> None:
    """10 000 nodes with a rule at most of them; twice the nodes, not four times the time."""

    def chain(length: int) -> Graph:
        x = tensor(4)
        y = x
        for k in range(length // 4):
            y = ops.neg(ops.sub(ops.neg(ops.mul(y, 1.0 + k % 7)), 1.0))
        return Graph([x], [y])

    def seconds(graph: Graph) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            optimize(graph)
            times.append(time.process_time() - start)
        return min(times)

    small, large = chain(2500), chain(10_000)
    assert len(large.nodes) > 10_000
    assert seconds(large) < 8 * seconds(small)
    assert seconds(large) < 3.0


# ---------------------------------------------------------------------------- switches


def test_switches() -> None:
    x = tensor(3)
    twice = Graph([x], [ops.neg(ops.neg(x))])
    assert names(optimize(twice)) == []
    for words in ("-neg-of-neg", "-arithmetic", "none", "none,+reshapes"):
        assert names(optimize(twice, words)) == ["neg", "neg"], words
    for words in ("none,+arithmetic", "none,+neg-of-neg", "-neg-of-neg,+neg-of-neg"):
        assert names(optimize(twice, words)) == [], words
    copies = Graph([x], [ops.exp(x), ops.exp(x)])
    assert names(optimize(copies)) == ["exp"]
    assert names(optimize(copies, "-share")) == ["exp", "exp"]
    both = Graph([], [ops.neg(ops.constant(1.0))])
    assert names(optimize(both, "-fold")) == ["constant", "neg"]
    assert names(optimize(both)) == ["constant"]


def test_classes() -> None:
    x = tensor(3)
    rounding, zeros = Graph([x], [ops.log(ops.exp(x))]), Graph([x], [ops.sub(x, x)])
    assert [len(optimize(rounding, w).nodes) for w in ("exact", "finite-only")] == [2, 2]
    assert names(optimize(rounding, "reassociating")) == []
    assert names(optimize(rounding, "exact,+log-of-exp")) == []
    assert names(optimize(zeros)) == ["sub"]
    assert "sub" not in names(optimize(zeros, "finite-only"))
    whole = tensor(3, kind="int32")
    assert "sub" not in names(optimize(Graph([whole], [ops.sub(whole, whole)])))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("neg-of-neg", "says nothing"),
        ("exactly", "says nothing"),
        ("+", "says nothing"),
        ("-neg-of-ned", "did you mean neg-of-neg"),
        ("+reshape", "did you mean reshapes"),
        ("-qwertyuiop", "docs/graph.md"),
    ],
)
def test_unknown_words_are_refused(words: str, text: str) -> None:
    with pytest.raises(UserError) as error:
        optimize(Graph([tensor(1)], []), words)
    assert text in str(error.value)


def test_the_setting_counts_and_is_part_of_the_key_of_compiled_graphs() -> None:
    x = tensor(4)
    graph = Graph([x], [ops.log(ops.exp(x))])
    large = np.array([1, 200, -300, np.nan], "float32")
    with override(optimize=("reassociating",)):
        assert len(optimize(graph).nodes) == 0
        np.testing.assert_array_equal(compile_graph(graph)(large)[0], large)
    found = compile_graph(graph)(large)[0]
    assert np.isinf(found[1]) and np.isinf(found[2])


def test_report() -> None:
    x = tensor(3)
    report = OptimizeReport()
    one = ops.constant(np.float32(1))
    two = ops.add(one, ops.constant(np.float32(1)))
    optimize(Graph([x], [ops.mul(ops.neg(ops.neg(x)), two)]), report=report)
    (record,) = report.passes
    assert (record.name, record.before, record.after) == ("simplify", 6, 2)
    assert record.fired == {"neg-of-neg": 1, "fold": 1, "share": 1}
    assert not record.exhausted and 0 < record.seconds < 1
    assert "6 -> 2 nodes" in str(report) and "neg-of-neg" in str(report)
