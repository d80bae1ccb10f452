"""Traces: stages, differences, pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from tileloom import compute as te
from tileloom.base import dtype
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.report import to_html, to_text, trace_graph, trace_script
from tileloom.report.diff import compare
from tileloom.report.listing import listing
from tileloom.report.text import moved
from tileloom.target import Target, target
from tileloom.tir import IRModule


def network() -> Graph:
    """Products with epilogues, a softmax, an op on the host, a rule that fires."""
    x = Tensor(tensor_type((16, 32), "float32"), "<x & y>")
    weight = ops.constant(np.ones((32, 32), "float32"))
    hidden = ops.gelu(ops.add(ops.matmul(x, weight), 1.0))
    hidden = ops.neg(ops.neg(ops.matmul(hidden, weight)))
    return Graph([x], [ops.softmax(hidden), ops.sort(hidden, 0)], ["y", "sorted"], "net")


@pytest.fixture(scope="module")
def trace() -> Any:
    return trace_graph(network(), Target.host())


def test_the_traces_of_all_kernels() -> None:
    n: Any = symbol(Space(), "n", 1, 4096, 64)
    x = Tensor(TensorType((n, 48), dtype("float32")), "x")
    weight = ops.constant(np.ones((48, 40), "float32"))
    traced = trace_graph(Graph([x], [ops.matmul(x, weight)]), target("cpu -num-cores=2"))
    (kernel,) = [k.name for k in traced.kernels]
    parts = [bucket.kernel for bucket in traced.buckets[kernel]]
    assert len(parts) > 1 and parts != [kernel]
    for stage, head in (("trace", "def apply_trace"), ("blocks", "@T.prim_func")):
        text = traced.kernels_text(stage)
        assert text == traced.kernel_text(kernel, stage) and text.count(head) == len(parts)
        for bucket in traced.buckets[kernel]:
            assert f"# {bucket}\n{traced.kernel_text(bucket.kernel, stage)}" in text
    assert "call_extern" in traced.kernels_text("tir")


def test_kernels_of_the_library_have_no_trace() -> None:
    x = Tensor(tensor_type((8, 40), "float32"), "x")
    graph = Graph([x], [ops.cumsum(ops.exp(x), 1)])
    traced = trace_graph(graph, target("cuda -arch=sm_80"))
    text = traced.kernels_text("trace")
    assert text.count("def apply_trace") == 1
    assert text.endswith("_cumsum was not made by a schedule")
    with pytest.raises(UserError, match="was not made by a schedule"):
        traced.kernel_text("kernel1", "trace")
    assert "tvm_warp_shuffle" in traced.kernels_text("tir")


def test_steps_begin_with_the_blocks_that_were_scheduled() -> None:
    x = Tensor(tensor_type((24, 32), "bfloat16"), "x")
    graph = Graph([x], [ops.matmul(x, ops.constant(np.ones((32, 40), x.dtype.numpy)))])
    traced = trace_graph(graph, Target.host())
    (kernel,) = [k.name for k in traced.kernels]
    blocks = "\n".join(traced.kernel_steps(kernel).stage("blocks").lines)
    assert blocks == traced.kernel_text(kernel, "blocks")


def test_stages_are_summed_up() -> None:
    x = Tensor(tensor_type((8,), "float32"), "x")
    weight = ops.constant(np.arange(8, dtype="float32"))
    graph = Graph([x], [ops.exp(ops.exp(ops.add(x, weight)))])
    imported = trace_graph(graph, Target.host()).stage("imported")
    assert imported.summary == "3 nodes, 1 constants: exp x2, add"


def test_stages(trace: Any) -> None:
    names = [stage.name for stage in trace.stages]
    assert names[:3] == ["imported", "expanded", "optimized"] and names[-1] == "packed"
    imported, expanded, optimized = (trace.stage(name) for name in names[:3])
    assert any("softmax" in line for line in imported.lines)
    assert not any("softmax" in line for line in expanded.lines)
    assert sum("neg" in line for line in expanded.lines) == 2
    assert not any("neg" in line for line in optimized.lines)
    assert "matmul x2" in optimized.summary
    with pytest.raises(UserError, match="no stage 'nothing'"):
        trace.stage("nothing")


def test_rules_and_refusals(trace: Any) -> None:
    assert trace.passes[0].fired["neg-of-neg"] == 1
    assert trace.refusals and all(" -> " in text for text in trace.refusals)


def test_kernels(trace: Any) -> None:
    by_host = {kernel.host for kernel in trace.kernels}
    assert by_host == {True, False}
    product = next(k for k in trace.kernels if any("matmul" in op for op in k.ops))
    assert product.writes == ("float32[16, 32]",)
    assert {kernel.name for kernel in trace.kernels if not kernel.host} <= set(
        trace.module.functions
    )
    name = product.name
    assert f"def {name}(" in trace.kernel_text(name)
    assert trace.kernel_text(name) != trace.kernel_text(name, "lowered")
    assert trace.kernel_text(name, "flat") == trace.kernel_text(name, "lowered")
    assert "define" in trace.kernel_text(name, "llvm")
    with pytest.raises(UserError, match="several kernels begin with 'k'"):
        trace.kernel_text("k")
    with pytest.raises(UserError, match="no kernel 'other'") as caught:
        trace.kernel_text("other")
    names = [kernel.name for kernel in trace.kernels if not kernel.host]
    assert len(names) < len(trace.kernels) and f"one of {', '.join(names)}" in str(caught.value)
    assert trace.kernel_text("kernel2") == trace.kernel_text("kernel2_max_sub_exp_sum_div")
    with pytest.raises(UserError, match="no stage 'graph'"):
        trace.kernel_text(name, "graph")


def test_equal_kernels_are_counted() -> None:
    x = Tensor(tensor_type((16, 16), "float32"), "x")
    y = x
    for _ in range(3):
        y = ops.softmax(ops.matmul(y, y))
    kernels = trace_graph(Graph([x], [y]), Target.host()).kernels
    assert sorted(kernel.calls for kernel in kernels) == [3, 3]


def test_text(trace: Any) -> None:
    text = to_text(trace)
    for part in ("net for cpu", "imported", "optimized", "1 x neg-of-neg", "kernels: ",
                 "(on the host)", "not fused: "):  # fmt: skip
        assert part in text, part
    assert " - " not in text.replace(" -> ", "")
    changes = to_text(trace, changes=True)
    assert re.search(r"^ - .*neg\(", changes, re.MULTILINE)
    assert "lines as before" in changes


class Checker(HTMLParser):
    """Tags that open and close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.count = 0

    def handle_starttag(self, tag: Any, attrs: Any) -> None:
        self.count += tag == "details"
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: Any) -> None:
        assert self.open.pop() == tag


def test_page(trace: Any) -> None:
    page = to_html(trace, ("tir", "lowered"))
    checker = Checker()
    checker.feed(page)
    assert not checker.open and not checker.links and "<script" not in page
    assert checker.count > 10
    assert "&lt;x &amp; y&gt;" in page and "<x & y>" not in page
    assert 'class="gone"' in page and "neg-of-neg" in page
    assert "T.block" in page or "T.Buffer" in page
    assert "Not fused" in page


def test_script() -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    found = trace_script(func, Target.host())
    assert found.stages[0].name == "tir" and "flatten_buffers" in [s.name for s in found.stages]
    assert "T.block" in found.stages[0].lines[4] + "".join(found.stages[0].lines)
    assert "T.block" not in "".join(found.stages[-1].lines)
    assert "flatten_buffers" in to_text(found, changes=True)
    Checker().feed(to_html(found))


def test_settings_are_seen() -> None:
    with override(optimize=("none",)):
        found = trace_graph(network(), Target.host())
    assert not found.passes[0].fired
    assert sum("neg" in line for line in found.stage("optimized").lines) == 2


@pytest.mark.parametrize(
    "graph",
    [
        Graph([], []),
        Graph([], [ops.constant([1.0, 2.0])]),
        Graph([], [ops.sort(ops.constant([1.0, 2.0]), 0)]),
        Graph([x := Tensor(tensor_type((0, 3), "float32"))], [x, ops.exp(x)]),
    ],
    ids=["empty", "constant", "folded", "no elements"],
)
def test_small_graphs(graph: Any) -> None:
    found = trace_graph(graph, Target.host())
    assert to_text(found)
    Checker().feed(to_html(found))


def test_listing_puts_constants_where_they_are_read() -> None:
    lines = listing(network())
    assert lines[0] == "input <x & y>: float32[16, 32]"
    assert any("constant float32[32, 32]" in line for line in lines)
    assert any(line.endswith("1.0)") for line in lines)
    assert lines[-1].startswith("output sorted = %")


def test_differences() -> None:
    old = [f"%{k} = op{k}(%{k - 1})" for k in range(20)]
    new = [line.replace("%", "%7") for line in old[:10]] + ["more"] + old[11:]
    found = compare(old, new)
    assert [line.text for line in found if line.kind == "added"] == ["more"]
    assert [line.text for line in found if line.kind == "gone"] == [old[10]]
    assert [line.kind for line in found].count("same") == 4
    assert found[0].text == "8 lines as before" and found[-1].text == "7 lines as before"
    assert [line.kind for line in compare([], ["a"])] == ["added"]
    assert compare([], []) == []


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, ""), (1, ", moving 1 bytes"), (999, ", moving 999 bytes"), (1000, ", moving 1 kB"),
        (999_999, ", moving 1e+03 kB"), (1_000_000, ", moving 1 MB"), (10**9, ", moving 1 GB"),
        (12_345_678_901, ", moving 12.3 GB"),
    ],
)  # fmt: skip
def test_amounts(nbytes: int, text: str) -> None:
    assert moved(nbytes) == text


def test_stages_of_several_functions_carry_their_names() -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    two = trace_script(IRModule({"one": func, "two": func}), Target.host())
    assert (two.stages[0].name, two.name) == ("one: tir", "one, two")
    assert {"one: flatten_buffers", "two: flatten_buffers"} <= {s.name for s in two.stages}
    one = trace_script(IRModule({"one": func}), Target.host())
    assert one.stages[0].name == "tir" and [k.name for k in two.kernels] == ["one", "two"]


def test_times_are_those_between_stages() -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    makers: list[Callable[[], Any]] = [
        lambda: trace_graph(network(), Target.host()),
        lambda: trace_script(func, Target.host()),
    ]
    for make in makers:
        start = perf_counter()
        found = make()
        elapsed = perf_counter() - start
        times = [stage.seconds for stage in found.stages]
        assert min(times) >= 0 and sum(times) <= elapsed


def test_a_kernel_of_its_own_has_no_schedule() -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    found = trace_script(IRModule({"one": func}), Target.host())
    assert [(kernel.name, kernel.calls, kernel.host) for kernel in found.kernels] == [
        ("one", 1, False)
    ]
    for stage in ("blocks", "trace"):
        with pytest.raises(UserError, match="the kernel 'main' was not made by a schedule"):
            found.kernel_text("one", stage)
    assert found.kernel_steps("one").stages[0].name == "tir"


def test_listings_of_constants_and_long_attributes() -> None:
    x = Tensor(tensor_type((3, 1), "float32"))
    parts = [ops.constant(np.full(shape, 2.5, "float32")) for shape in ((), (1,), (1, 1), (3, 1))]
    y = x
    for part in parts:
        y = ops.mul(y, part)
    long = ops.pad(ops.reshape(y, (1,) * 8 + (3,)), [(0, 0)] * 8 + [(1, 2)])
    lines = listing(Graph([x], [y, long]))
    assert lines[0] == "input argument0: float32[3, 1]"
    reads = [line.split("(", 1)[1] for line in lines if " = mul(" in line]
    assert reads == [
        "argument0, 2.5)", "%0, constant float32[1])", "%1, constant float32[1, 1])",
        "%2, constant float32[3, 1])",
    ]  # fmt: skip
    (padded,) = (line for line in lines if " = pad(" in line)
    shown = repr(tuple([(0, 0)] * 8 + [(1, 2)]))[:57] + "..."
    assert shown in padded and "(1, 2)" not in padded


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((), ["7 lines as before"]),
        ((0,), ["+0", "1", "2", "4 lines as before"]),
        ((6,), ["4 lines as before", "4", "5", "+6"]),
        ((3,), ["1 lines as before", "1", "2", "+3", "4", "5", "1 lines as before"]),
        ((1, 6), ["0", "+1", "2", "3", "4", "5", "+6"]),
        ((0, 6), ["+0", "1", "2", "1 lines as before", "4", "5", "+6"]),
    ],
)
def test_two_lines_stand_around_each_difference(places: Any, expected: list[str]) -> None:
    old = [f"line {k}" for k in range(7) if k not in places]
    new = [f"line {k}" for k in range(7)]
    found = [
        ("+" if line.kind == "added" else "") + line.text.removeprefix("line ")
        for line in compare(old, new)
    ]
    assert found == expected
