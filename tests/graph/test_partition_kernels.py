"""Well-known patterns: one kernel each, whatever their shapes and types, with right results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom as tl
from graph.test_compile_random import check
from sampling import sampled
from tileloom import numpy as tnp
from tileloom.driver import plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.program import Program
from tileloom.target import Target

SHAPES = [(8, 32), (5, 17), (3, 1, 31), (2, 6, 7, 9), (4, 6, 16, 16), (1, 12, 1, 1), (2, 4, 1031)]


class Case:
    """Makes inputs by name; `graph` is what the outputs depend on."""

    def __init__(self, kind: str = "float32") -> None:
        self.kind = kind
        self.inputs: list[Tensor] = []

    def __call__(self, *shape: int, kind: str = "") -> Tensor:
        tensor = Tensor(tensor_type(shape, kind or self.kind), f"in{len(self.inputs)}")
        self.inputs.append(tensor)
        return tensor

    def program(self, *outputs: Tensor) -> tuple[Graph, Program]:
        graph = Graph(self.inputs, outputs)
        return graph, plan_graph(graph, Target.host())


def weights(*shape: int) -> Tensor:
    return ops.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def _group_norm(x: Tensor, groups: int, new: Case) -> Tensor:
    return ops.group_norm(x, groups, new(x.shape[1]), new(x.shape[1]))


def norms(x: Tensor, new: Case) -> dict[str, Callable[[], Tensor]]:
    last = x.shape[-1]
    found = {
        "softmax": lambda: ops.softmax(x),
        "softmax of columns": lambda: ops.softmax(x, 0),
        "log_softmax": lambda: ops.log_softmax(x),
        "layer_norm": lambda: ops.layer_norm(x, new(last), new(last)),
        "layer_norm of all": lambda: ops.layer_norm(x, None, None, 0),
        "rms_norm": lambda: ops.rms_norm(x, new(last)),
        "residual and norm": lambda: ops.layer_norm(
            ops.add(x, new(*x.shape)), new(last), new(last)
        ),
        "bias and gelu": lambda: ops.gelu(ops.add(x, new(last))),
    }
    for groups in {1, 2, 3, x.shape[1]}:
        if x.ndim > 1 and x.shape[1] % groups == 0:
            found[f"group_norm {groups}"] = partial(_group_norm, x, groups, new)
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", sampled(["float32", "float16", "bfloat16"], 3))
def test_normalisations_take_one_kernel(shape: Any, kind: Any) -> None:
    for name in norms(Case()(*shape), Case()):
        new = Case(kind)
        graph, program = new.program(norms(new(*shape), new)[name]())
        assert program.kernel_count == 1, (name, program.groups.refusals)
        assert program.traffic.total <= sum(
            t.type.nbytes for t in (*graph.inputs, *graph.outputs)
        ), name


@pytest.mark.parametrize("shape", SHAPES[1:5], ids=str)
def test_normalisations_are_right(shape: Any) -> None:
    new = Case()
    outputs = [make() for make in norms(ops.add(new(*shape), weights(*shape)), new).values()]
    check(Graph(new.inputs, outputs))


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_normalisations_of_each_type_are_right(kind: str) -> None:
    for name in norms(Case()(3, 6, 35), Case()):
        new = Case(kind)
        outputs = [norms(new(3, 6, 35), new)[name]()]
        check(Graph(new.inputs, outputs))


def softmax_dropout(new: Case, shape: tuple[int, ...]) -> list[Tensor]:
    """Masked softmax of halves, dropped out, in single precision inside (AKG's first stitch)."""
    scores, mask, noise = new(*shape, kind="float16"), new(*shape[:1], 1, *shape[-2:]), new(*shape)
    keep = ops.cast(ops.less_equal(noise, 0.9), "float32")
    masked = ops.add(ops.mul(ops.cast(scores, "float32"), 0.125), ops.mul(mask, -1e4))
    weights_ = ops.exp(ops.sub(masked, ops.max(masked, -1, True)))
    soft = ops.div(weights_, ops.sum(weights_, -1, True))
    dropped = ops.mul(ops.mul(soft, 1 / 0.9), keep)
    return [ops.cast(dropped, "float16"), soft, keep]


def dropout_residual_norm(new: Case, shape: tuple[int, ...]) -> list[Tensor]:
    """Bias, dropout, residual and layer norm, with what the gradient needs (the second)."""
    n = shape[-1]
    x, noise, rest = new(*shape), new(*shape), new(*shape)
    keep = ops.cast(ops.less_equal(noise, 0.9), "float32")
    total = ops.add(ops.mul(ops.mul(ops.add(x, new(n)), keep), 1 / 0.9), rest)
    mean = ops.div(ops.sum(total, -1, True), float(n))
    centred = ops.sub(total, mean)
    var = ops.div(ops.sum(ops.square(centred), -1, True), float(n))
    y = ops.add(ops.mul(ops.mul(centred, ops.rsqrt(ops.add(var, 1e-5))), new(n)), new(n))
    return [y, ops.cast(y, "float16"), mean, var, keep]


def dropout_gradient(new: Case, shape: tuple[int, ...]) -> list[Tensor]:
    """The gradient of dropout and softmax (the third): a reduction and what follows it."""
    grad, keep, soft = new(*shape, kind="float16"), new(*shape), new(*shape)
    scaled = ops.mul(ops.mul(ops.cast(grad, "float32"), keep), 1 / 0.9)
    inner = ops.sum(ops.mul(scaled, soft), -1, True)
    return [ops.cast(ops.mul(ops.mul(ops.sub(scaled, inner), soft), 0.125), "float16")]


def clipped_adam(new: Case, shape: tuple[int, ...]) -> list[Tensor]:
    """Adam with weight decay, its gradient clipped by its norm (the fourth)."""
    grad, first, second, weight = (new(*shape) for _ in range(4))
    norm = ops.sqrt(ops.sum(ops.square(grad)))
    clipped = ops.div(grad, ops.maximum(norm, 1.0))
    m = ops.add(ops.mul(first, 0.9), ops.mul(clipped, 0.1))
    v = ops.add(ops.mul(ops.square(second), 0.999), ops.mul(ops.square(clipped), 0.001))
    step = ops.add(ops.div(m, ops.add(ops.sqrt(v), 1e-6)), ops.mul(weight, 0.01))
    return [ops.sub(weight, ops.mul(step, 1e-3)), m, v]


STITCHES = [softmax_dropout, dropout_residual_norm, dropout_gradient, clipped_adam]


@pytest.mark.parametrize("make", STITCHES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("shape", [(2, 3, 16, 32), (3, 1, 5, 7), (1, 2, 33, 129), (4, 6, 64, 64)])
def test_stitches_take_one_kernel(make: Any, shape: tuple[int, ...]) -> None:
    new = Case()
    graph, program = new.program(*make(new, shape))
    assert program.kernel_count == 1, program.groups.refusals
    check(graph)


def test_total_reductions_and_what_follows_run_on_all_workers() -> None:
    """Two parallel loops, one after the other, in one kernel."""
    new = Case()
    graph, program = new.program(*clipped_adam(new, (768, 257)))
    assert program.kernel_count == 1
    assert str(program.module).count("T.parallel") == 2 or Target.host().cores == 1
    check(graph)


def test_products_with_epilogues_take_one_kernel_each() -> None:
    """A GELU MLP, and attention's heads, which are stored where they are wanted."""
    new = Case()
    x = new(16, 64)
    hidden = ops.gelu(ops.add(ops.matmul(x, weights(64, 96)), weights(96)))
    y = ops.add(ops.add(ops.matmul(hidden, weights(96, 64)), weights(64)), x)
    graph, program = new.program(y)
    assert program.kernel_count == 2
    check(graph)
    new = Case()
    x = new(2, 9, 64)
    projected = ops.add(ops.matmul(x, weights(64, 64)), weights(64))
    heads = ops.transpose(ops.reshape(projected, (2, 9, 4, 16)), (0, 2, 1, 3))
    mixed = ops.transpose(ops.matmul(heads, ops.transpose(heads, (0, 1, 3, 2))), (0, 2, 1, 3))
    graph, program = new.program(heads, ops.reshape(mixed, (2, 9, 36)))
    assert program.kernel_count <= 3
    check(graph)


@pytest.mark.parametrize("width", [16, 48, 20, 7])
@pytest.mark.parametrize("depth", [8, 1100])
def test_permuted_results_of_products(width: int, depth: int) -> None:
    """Also where sums wait between blocks of the depth, and where rows are cut unevenly."""
    new = Case()
    x, w = new(2, 13, depth), ops.mul(weights(depth, 3 * width), depth**-0.5)
    y = ops.reshape(ops.relu(ops.matmul(x, w)), (2, 13, 3, width))
    graph, program = new.program(ops.transpose(y, (2, 0, 1, 3)))
    assert program.kernel_count == (1 if width % 16 == 0 else 2)
    check(graph)


def test_channels_of_convolutions_are_shuffled_in_place() -> None:
    new = Case()
    y = ops.conv(new(2, 4, 8, 8), weights(6, 4, 3, 3), weights(6), pads=1)
    y = ops.transpose(ops.reshape(ops.relu(y), (2, 3, 2, 8, 8)), (0, 2, 1, 3, 4))
    graph, program = new.program(ops.exp(y))
    assert program.kernel_count == 1
    check(graph)


def test_through_the_public_jit() -> None:
    def normalised(x: Any, scale: Any, bias: Any) -> Any:
        mean = tnp.mean(x, axis=-1, keepdims=True)
        centred = x - mean
        var = tnp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / tnp.sqrt(var + 1e-5) * scale + bias

    def softmax(x: Any) -> Any:
        weights_ = tnp.exp(x - tnp.max(x, axis=-1, keepdims=True))
        return weights_ / tnp.sum(weights_, axis=-1, keepdims=True)

    rng = np.random.default_rng(0)
    for shape in [(4, 33), (2, 3, 17), (2, 2, 5, 64)]:
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            x = rng.standard_normal(shape).astype(dtype)
            vectors = (x[(0,) * (x.ndim - 1)], x[(0,) * (x.ndim - 1)])
            for function, arguments in ((softmax, (x,)), (normalised, (x, *vectors))):
                graph = tl.jit(function).graph(*arguments)
                assert plan_graph(graph, Target.host()).kernel_count == 1


TURNED = {
    "heads of a norm": lambda x: ops.transpose(
        ops.reshape(ops.layer_norm(x), (2, 12, 4, 32)), (0, 2, 1, 3)
    ),
    "windows of a norm": lambda x: ops.transpose(
        ops.reshape(ops.rms_norm(x), (2, 3, 4, 2, 64)), (0, 1, 3, 2, 4)
    ),
    "both orders": lambda x: ops.transpose(ops.exp(x), (1, 0, 2)),
    "exchanged rows and more": lambda x: ops.tanh(
        ops.add(ops.transpose(ops.softmax(x), (1, 0, 2)), weights(12, 2, 128))
    ),
}


@pytest.mark.parametrize("name", list(TURNED))
def test_results_are_stored_in_another_order(name: Any) -> None:
    new = Case()
    x = new(2, 12, 128)
    graph, program = new.program(TURNED[name](x), ops.exp(x))
    assert program.kernel_count == 1, program.groups.refusals
    check(graph)


def test_pieces_that_are_too_short_are_copied() -> None:
    new = Case()
    y = ops.layer_norm(new(3, 40, 24))
    graph, program = new.program(ops.transpose(y, (0, 2, 1)), y)
    (group,) = program.groups
    assert [len(phase) for phase in group.phases] == [1, 1]
    check(graph)


def preactivated(x: Tensor, new: Case) -> Tensor:
    c = x.shape[1]
    return ops.relu(ops.add(ops.mul(x, new(c, 1, 1)), new(c, 1, 1)))


def test_cheap_elementwise_ops_go_into_the_packing_of_operands() -> None:
    """Of what is packed once: pixels of a convolution by points, the right side of a product."""
    for shape, pads, count in [((2, 8, 7, 9), 0, 1), ((1, 8, 16, 16), 0, 1), ((2, 8, 7, 9), 1, 2)]:
        new = Case()
        size = 1 if pads == 0 else 3
        y = ops.conv(preactivated(new(*shape), new), weights(16, 8, size, size), pads=pads)
        graph, program = new.program(ops.relu(y))
        assert program.kernel_count == count, program.groups.refusals
        check(graph)
    for left, right, count in [((6, 40), (40, 33), 1), ((3, 6, 40), (3, 40, 16), 1),
                               ((3, 6, 40), (40, 16), 2)]:  # fmt: skip
        new = Case()
        a, b = new(*left), new(*right)
        graph, program = new.program(ops.matmul(a, ops.add(ops.mul(b, 0.5), new(right[-1]))))
        assert program.kernel_count == count, program.groups.refusals
        check(graph)


def test_operands_that_are_costly_or_wanted_are_made_before() -> None:
    new = Case()
    a, b = new(6, 40), new(40, 16)
    graph, program = new.program(ops.matmul(a, ops.exp(b)))
    assert program.kernel_count == 2
    check(graph)
    new = Case()
    a, b = new(6, 40), ops.relu(new(40, 16))
    graph, program = new.program(ops.matmul(a, b), b)
    assert program.kernel_count == 2
    check(graph)
