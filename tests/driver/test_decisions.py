"""Small decisions of the driver: which kernels a library has, what a function returns, stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ArgumentError, UserError
from tileloom.driver import show_stage
from tileloom.driver.plan import machine_of, threads_of
from tileloom.driver.plan_cuda import has_kernel
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.runtime import parallel
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.target import target


def t(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), "x")


def i(*shape: int) -> Tensor:
    return t(*shape, kind="int64")


def open_rows() -> Tensor:
    n = symbol(Space(), "n", 1, 100, 7)
    return Tensor(TensorType((n, 4), t(1).dtype), "x")


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (lambda: ops.cumsum(t(8), 0), True), (lambda: ops.cumprod(t(8), 0), True),
        (lambda: ops.cumsum(t(0), 0), False), (lambda: ops.cumsum(open_rows(), 0), False),
        (lambda: ops.exp(t(8)), False),
        (lambda: ops.scatter_nd(t(4), i(2, 1), t(2)), True),
        (lambda: ops.scatter_nd(t(4), i(2, 1), t(2), "add"), True),
        (lambda: ops.scatter_nd(t(4), i(2, 1), t(2), "mul"), False),
        (lambda: ops.scatter_nd(t(4, kind="float16"), i(2, 1), t(2, kind="float16"), "add"), False),
        (lambda: ops.scatter_nd(t(4, kind="float16"), i(2, 1), t(2, kind="float16"), "max"), True),
        (lambda: ops.scatter_nd(t(4, kind="float64"), i(2, 1), t(2, kind="float64"), "add"), True),
        (lambda: ops.scatter_nd(t(4, kind="int8"), i(2, 1), t(2, kind="int8"), "add"), True),
        (lambda: ops.scatter_elements(t(4), i(2), t(2), reduction="min"), True),
        (lambda: ops.scatter_elements(t(4), i(0), t(0)), False),
        (lambda: ops.bincount(i(9), 4), True), (lambda: ops.bincount(i(0), 4), False),
    ],
)  # fmt: skip
def test_which_nodes_have_kernels_of_their_own(build: Callable[[], Tensor], found: bool) -> None:
    node = build().node
    assert node is not None and has_kernel(node) is found


@pytest.mark.parametrize(
    ("cores", "asked", "threads"), [(4, 2, 2), (2, 8, 2), (3, 3, 3), (1, 8, 1)]
)
def test_threads(cores: int, asked: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "get_num_threads", lambda: asked)
    cpu = target(f"cpu -num-cores={cores}")
    assert threads_of(cpu) == threads == machine_of(cpu).workers
    assert machine_of(cpu).vector_bits == cpu.vector_bits


@pytest.mark.parametrize(
    ("kind", "value"), [("int32", -7), ("float32", 2.5), ("int64", 1 << 40), ("bool", True)]
)
def test_functions_that_return_numbers(kind: str, value: float) -> None:
    text = f"""
@T.prim_func
def main(x: T.{"boolean" if kind == "bool" else kind}) -> T.{"bool" if kind == "bool" else kind}:
    T.ret(x)
"""
    made = tileloom.build(parse(text))
    assert made(value) == value and type(made(value)) is type(value)


def test_what_is_no_program_or_stage() -> None:
    graph: Any = Graph([x := t(4)], [ops.exp(x)])

    @T.prim_func
    def main(a: T.Buffer((4,), "float32")) -> None:
        for k in range(4):
            a[k] = T.float32(1)

    assert "exp" in show_stage(graph, "graph") and show_stage(graph, "groups").startswith(
        "segment "
    )
    assert "T.prim_func" in show_stage(main, "tir")
    for program, stage, words in [
        (graph, "soup", "no stage 'soup'"), (main, "graph", "tensor IR has no stage 'graph'"),
        (main, "groups", "tensor IR has no stage 'groups'"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=words):
            show_stage(program, stage)
    with pytest.raises(ArgumentError, match="not Graph"):
        tileloom.build(graph)
    made = tileloom.build(main)
    values = np.zeros(4, "float32")
    made(values)
    assert values.tolist() == [1] * 4
