"""Random graphs: chains, diamonds, shared parts, products with epilogues, several outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type

SHAPES = [(4, 6), (1, 6), (4, 1), (6,), (), (3, 4, 6), (2, 1, 17), (24,), (5,), (0, 6), (1, 1)]
#: Long enough for full vectors, unrolled loops and threads.
LARGE = [(64, 96), (1, 96), (64, 1), (96,), (), (3, 64, 96), (2, 1, 515), (6144,), (1031,),
         (129, 257), (700, 33)]  # fmt: skip
UNARY = ["relu", "neg", "tanh", "sigmoid", "square", "abs", "exp", "erf", "sin"]
INT_UNARY = ["relu", "neg", "square", "abs", "sign"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
#: How often each kind of step is taken.
STEPS = {"unary": 5, "binary": 6, "reduce": 3, "shape": 3, "product": 2, "norm": 1, "constant": 1,
         "gather": 1, "where": 1, "heads": 1, "statistics": 1, "clip": 1, "dropout": 1}  # fmt: skip
#: Steps that need fractions.
FRACTIONS = {"norm", "statistics", "clip", "dropout"}
REDUCTIONS = ["sum", "max", "min", "mean"]


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@dataclass
class Maker:
    """Builds one graph; values stay small, so that nothing overflows."""

    random: Random
    kind: str = "float32"
    shapes: list[tuple[int, ...]] = field(default_factory=lambda: SHAPES)
    inputs: list[Tensor] = field(default_factory=list)
    known: list[Tensor] = field(default_factory=list)

    def graph(self, steps: int) -> Graph:
        for k in range(self.random.randint(1, 3)):
            self.inputs.append(
                Tensor(tensor_type(self.random.choice(self.shapes), self.kind), f"x{k}")
            )
        self.known = list(self.inputs)
        for _ in range(steps):
            self.known.append(self.step())
        count = self.random.randint(1, 4)
        made = [t for t in self.known if t not in self.inputs][-4:]
        outputs = [self.random.choice([*made, *self.known]) for _ in range(count)]
        return Graph(self.inputs, [self.known[-1], *outputs])

    def pick(self) -> Tensor:
        """A known tensor, mostly a late one."""
        recent = self.random.random() < 0.7
        return self.random.choice(self.known[-3:] if recent else self.known)

    def step(self) -> Tensor:
        steps = {k: n for k, n in STEPS.items() if self.is_float or k not in FRACTIONS}
        kind = self.random.choices(list(steps), list(steps.values()))[0]
        found: Tensor | None = getattr(self, f"make_{kind}")(self.pick())
        return self.make_unary(self.pick()) if found is None else found

    @property
    def is_float(self) -> bool:
        return self.kind.startswith("float")

    def small(self, x: Tensor) -> Tensor:
        """Kept from growing, where that would end in infinity; integers wrap."""
        return ops.tanh(x) if self.is_float else x

    def make_unary(self, x: Tensor) -> Any:
        name = self.random.choice(UNARY if self.is_float else INT_UNARY)
        if name in ("exp", "square"):
            x = self.small(x)
        return getattr(ops, name)(x)

    def make_binary(self, x: Tensor) -> Any:
        name = self.random.choice(BINARY)
        if self.random.random() < 0.25:
            return getattr(ops, name)(x, self.random.choice(self.scalars))
        others = [t for t in self.known if broadcast(t.shape, x.shape)]
        a, b = self.small(x) if name == "mul" else x, self.random.choice(others)
        return getattr(ops, name)(*self.random.sample([a, b], 2))

    def make_reduce(self, x: Tensor) -> Tensor | None:
        if not x.shape or 0 in x.shape:
            return None
        axes = self.random.sample(range(x.ndim), self.random.randint(1, x.ndim))
        names = REDUCTIONS if self.is_float else REDUCTIONS[:3]
        name, keep = self.random.choice(names), self.random.random() < 0.5
        return self.small(getattr(ops, name)(x, tuple(sorted(axes)), keep))

    def make_shape(self, x: Tensor) -> Any:
        size = x.type.size
        choices: list[Any] = [lambda: ops.reshape(x, (size,))]
        if x.ndim > 1:
            perm = self.random.sample(range(x.ndim), x.ndim)
            choices.append(lambda: ops.transpose(x, perm))
            choices.append(lambda: ops.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])))
        if size == np.prod(self.shapes[0]):
            choices.append(lambda: ops.reshape(x, self.shapes[0]))
        if x.ndim and x.shape[-1] > 1:
            choices.append(lambda: ops.strided_slice(x, [1], [x.shape[-1]], [-1]))
            choices.append(lambda: ops.concat([x, ops.neg(x)], -1))
        if x.ndim < 3:
            choices.append(lambda: ops.broadcast_to(x, (2, *x.shape)))
        return self.random.choice(choices)()

    def make_product(self, x: Tensor) -> Tensor | None:
        if x.ndim == 0 or 0 in x.shape:
            return None
        if x.ndim == 3 and self.random.random() < 0.5:
            weight = self.weights(5, x.shape[1], 3)
            product = ops.conv(x, weight, pads=1)
            product = ops.add(product, self.weights(5, 1))
        else:
            n = self.random.choice([1, 5, 16])
            product = ops.add(ops.matmul(x, self.weights(x.shape[-1], n)), self.weights(n))
        epilogues = [ops.relu, ops.gelu, ops.tanh] if self.is_float else [ops.relu, ops.neg]
        return self.random.choice(epilogues)(product)

    def make_norm(self, x: Tensor) -> Tensor | None:
        if x.ndim == 0 or 0 in x.shape:
            return None
        axis = self.random.randrange(x.ndim)
        wide = ops.tanh(x)
        return self.random.choice(  # type: ignore[no-untyped-call]
            [lambda: ops.softmax(wide, axis), lambda: ops.layer_norm(ops.add(x, self.noise(x)))]
        )()

    def make_heads(self, x: Tensor) -> Tensor | None:
        """The last dimension taken apart, and dimensions exchanged, as attention does it."""
        extent = x.shape[-1] if x.shape else 0
        heads = next((n for n in (3, 2) if extent and extent % n == 0), None)
        if heads is None or x.ndim > 3:
            return None
        y = ops.reshape(x, (*x.shape[:-1], heads, extent // heads))
        order = [*range(y.ndim)]
        a = self.random.randrange(y.ndim - 1)
        order[a], order[-2] = order[-2], order[a]
        return ops.transpose(y, order)

    def make_statistics(self, x: Tensor) -> Tensor | None:
        """Normalised over groups of channels, or over all dimensions but one."""
        if x.ndim < 2 or 0 in x.shape:
            return None
        y = ops.add(ops.tanh(x), self.noise(x))
        channels = x.shape[1]
        if self.random.random() < 0.5:
            groups = self.random.choice([n for n in (1, 2, 3, channels) if channels % n == 0])
            scale, bias = self.weights(channels), self.weights(channels)
            return ops.group_norm(y, groups, scale, bias)
        kept = self.random.randrange(x.ndim)
        axes = tuple(k for k in range(x.ndim) if k != kept)
        centred = ops.sub(y, ops.mean(y, axes, True))
        self.known.append(ops.var(y, axes))
        return ops.mul(centred, ops.rsqrt(ops.add(ops.mean(ops.square(centred), axes, True), 0.1)))

    def make_clip(self, x: Tensor) -> Tensor:
        """Scaled by a number that depends on all elements."""
        y = ops.tanh(x)
        norm = ops.sqrt(ops.add(ops.mean(ops.square(y)), 0.01)) if x.type.size else ops.sum(y)
        self.known.append(norm)
        return ops.div(y, ops.maximum(norm, 0.5))

    def make_dropout(self, x: Tensor) -> Tensor:
        """Part of the elements dropped, the rest scaled; also the mask."""
        keep = ops.cast(ops.less_equal(self.noise(x), 2.0), self.kind)
        self.known.append(keep)
        return ops.mul(ops.mul(keep, x), 1.25)

    def make_constant(self, x: Tensor) -> Tensor:
        return ops.constant(np.full(x.shape, self.random.choice(self.scalars), self.kind))

    def make_gather(self, x: Tensor) -> Tensor | None:
        if x.ndim == 0 or x.shape[0] == 0:
            return None
        return ops.gather(x, ops.constant(np.array([0, -1, 0])))

    def make_where(self, x: Tensor) -> Tensor:
        test = self.random.choice([ops.greater, ops.less_equal, ops.not_equal])
        limit = self.random.choice(self.scalars)
        if self.is_float:
            limit += 0.0137  # no value that formulas take: rounding would decide about the sign
        return ops.where(test(x, limit), ops.neg(x), x)

    @property
    def scalars(self) -> list[Any]:
        return [0.5, -1.25, 2.0] if self.is_float else [0, -3, 7]

    def noise(self, x: Tensor) -> Tensor:
        """Keeps rows from being constant, where normalising would blow rounding up."""
        size = x.type.size
        spread = np.arange(size) * 0.6180339887 % 1 * 7 - 3  # in short pieces too
        return ops.constant(spread.reshape(x.shape).astype(self.kind))

    def weights(self, *shape: int) -> Tensor:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        scale = max(1, shape[0] if len(shape) > 1 else 1) ** -0.5 if self.is_float else 5
        return ops.constant((rng.standard_normal(shape) * scale).astype(self.kind))


def random_graph(seed: int, steps: int = 12, kind: str = "float32", large: bool = False) -> Graph:
    return Maker(Random(seed), kind, LARGE if large else SHAPES).graph(steps)


def random_arrays(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.standard_normal(t.shape) * (1 if t.dtype.is_float else 9), t.dtype.numpy)
        for t in graph.inputs
    ]
