"""Random algebra on special values: all exact rules at once change no bit.

Only ops that are rounded correctly, so that NumPy's own functions add no difference of their own.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.optimize.rule_values import same_bits, special
from tileloom.base import dtype
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import apply1
from tileloom.graph.optimize import optimize
from tileloom.graph.run import run

NUMBERS = [0, 0, 1, 1, -1, 2, 3, 5]
UNARY = ["neg", "neg", "abs", "square", "relu", "sign"]
FLOAT_UNARY = ["reciprocal", "sqrt", "floor", "trunc", "ceil", "round"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
TESTS = ["less", "greater", "equal", "not_equal", "less_equal", "greater_equal"]


class Algebra:
    """A graph of few inputs whose parts meet again and again."""

    def __init__(self, seed: int, kind: str, without: tuple[str, ...] = ()) -> None:
        self.random = Random(seed)
        self.unary = [name for name in UNARY if name not in without]
        self.binary = [name for name in BINARY if name not in without]
        self.kind, self.is_float = kind, dtype(kind).is_float
        self.rows, self.count = 3, len(special(kind))
        shapes = [(self.count,), (self.rows, self.count), (self.rows, 1), (1,), ()]
        self.inputs = [
            Tensor(tensor_type(self.random.choice(shapes), kind), f"x{k}") for k in range(3)
        ]
        self.known = list(self.inputs)
        self.bools: list[Tensor] = []

    def graph(self, steps: int) -> Graph:
        for _ in range(steps):
            self.known.append(self.step())
        outputs = [self.known[-1], self.random.choice(self.known), *self.bools[-1:]]
        return Graph(self.inputs, outputs)

    def pick(self) -> Tensor:
        return self.random.choice(self.known[-4:] if self.random.random() < 0.6 else self.known)

    def number(self) -> Tensor:
        value = self.random.choice([*NUMBERS, *([-0.0, 0.5, -4.0, 1e30] * self.is_float)])
        shape = self.random.choice([(), (), (1,), (self.count,), (self.rows, 1)])
        with np.errstate(over="ignore"):
            array = np.full(shape, value).astype(dtype(self.kind).numpy)
        return apply1("constant", (), value=array)

    def step(self) -> Tensor:
        kind = self.random.choices(
            ["unary", "binary", "constant", "where", "shape"], [3, 5, 4, 2, 3]
        )
        result: Tensor = getattr(self, f"make_{kind[0]}")(self.pick())
        return result

    def make_unary(self, x: Tensor) -> Tensor:
        return apply1(self.random.choice(self.unary + FLOAT_UNARY * self.is_float), (x,))

    def make_binary(self, x: Tensor) -> Tensor:
        name = self.random.choice(self.binary + ["div"] * self.is_float)
        return apply1(name, self.random.sample([x, self.fitting(x)], 2))

    def make_constant(self, x: Tensor) -> Tensor:
        name = self.random.choice(self.binary + ["div"] * self.is_float)
        pair = [x, self.number()]
        return apply1(name, pair if self.random.random() < 0.8 else pair[::-1])

    def make_where(self, x: Tensor) -> Tensor:
        self.bools.append(apply1(self.random.choice(TESTS), (x, self.fitting(x))))
        if self.random.random() < 0.5:
            self.bools.append(ops.logical_not(self.random.choice(self.bools)))
        return apply1("where", (self.random.choice(self.bools), x, self.fitting(x)))

    def make_shape(self, x: Tensor) -> Tensor:
        count, rows = self.count, self.rows
        if x.shape == (rows, count):
            turned = apply1("transpose", (x,), perm=(1, 0))
            return apply1(
                self.random.choice(["transpose", "reshape"]),
                (turned,),
                perm=(1, 0),
                shape=(rows, count),
            )
        if x.shape == (count,) and self.random.random() < 0.5:
            both = ops.concat([ops.strided_slice(x, [0], [3]), ops.strided_slice(x, [3], [count])])
            return ops.reshape(ops.flip(ops.flip(both)), (count,))
        return ops.broadcast_to(x, (rows, count))

    def fitting(self, x: Tensor) -> Tensor:
        return self.random.choice(self.known)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.integers(1, 40),
    st.sampled_from(["float32", "float64", "float16", "int32", "int8", "uint8"]),
)
def test_exact_rules_together_change_no_bit(seed: int, steps: int, kind: Any) -> None:
    graph = Algebra(seed, kind).graph(steps)
    arrays = values(graph, seed)
    wanted = run(graph, arrays)
    for words in ("exact", "exact,+widen-after-op"):
        after = optimize(graph, words)
        for a, b in zip(run(after, arrays), wanted, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert same_bits(a, b).all(), f"{graph}\n{after}\n{a}\n{b}"


def values(graph: Graph, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.choice(special(str(t.dtype)), t.shape) for t in graph.inputs]


@pytest.mark.parametrize("seed", range(8))
def test_compiled(seed: int) -> None:
    """With all exact rules machine code gives what the reference gives without any.

    Which of two zeros is larger is not defined.
    """
    graph = Algebra(seed, "float32", ("relu", "maximum", "minimum")).graph(30)
    arrays = values(graph, seed)
    for a, b in zip(compile_graph(graph, exact=True)(*arrays), run(graph, arrays), strict=True):
        assert same_bits(a, b).all(), f"{graph}\n{a}\n{b}"
