"""Gradients of functions of tensors against PyTorch's autograd in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, close, graph_of, values
from tileloom.base.errors import ShapeError, UserError
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.run import run

torch = pytest.importorskip("torch")
F = torch.nn.functional

SHAPES = [(), (1,), (7,), (3, 5), (0, 4), (2, 1, 3)]
NARROW = ["float32", "float16"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed + sum(shape)).standard_normal(shape))


def gradients(function: Any, dy: Any, *arrays: Any) -> Any:
    """What autograd says, of the first result where there are several."""
    given = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    result = function(*given)
    wanted = [t for t in given if t.requires_grad]
    return [g.numpy() for g in torch.autograd.grad(result, wanted, torch.tensor(dy))]


def same(found: Any, expected: Any, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    found = found if isinstance(found, list) else [found]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def compiled(build: Any, *arrays: Any, tolerance: float = 2e-5) -> None:
    """Machine code against the graph interpreter."""
    arrays = tuple(map(np.asarray, arrays))
    graph = graph_of(build, *arrays)
    found = compile_graph(graph)(*arrays)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for a, b in zip(found, run(graph, arrays), strict=True):
        close(np.asarray(a), b, tolerance)


# ---------------------------------------------------------------------------- of one tensor

OF_RESULT = {
    "exp_grad": torch.exp, "tanh_grad": torch.tanh, "sigmoid_grad": torch.sigmoid,
    "relu_grad": torch.relu, "sqrt_grad": torch.sqrt, "rsqrt_grad": torch.rsqrt,
    "reciprocal_grad": torch.reciprocal,
}  # fmt: skip
OF_ARGUMENT = {
    "abs_grad": torch.abs, "square_grad": torch.square, "log_grad": torch.log,
    "sin_grad": torch.sin, "cos_grad": torch.cos, "erf_grad": torch.erf,
    "floor_grad": torch.floor, "relu6_grad": F.relu6, "silu_grad": F.silu, "mish_grad": F.mish,
    "log_sigmoid_grad": F.logsigmoid, "softsign_grad": F.softsign,
    "hard_swish_grad": F.hardswish, "gelu_grad": F.gelu, "softplus_grad": F.softplus,
    "elu_grad": F.elu, "leaky_relu_grad": F.leaky_relu,
    "hard_sigmoid_grad": lambda x: torch.clip(x * 0.2 + 0.5, 0, 1),
}  # fmt: skip
POSITIVE = {"sqrt_grad", "rsqrt_grad", "log_grad"}
FORMS = {
    "gelu tanh": (lambda dy, x: ops.gelu_grad(dy, x, "tanh"),
                  lambda x: F.gelu(x, approximate="tanh")),
    "gelu sigmoid": (lambda dy, x: ops.gelu_grad(dy, x, "sigmoid"),
                     lambda x: F.gelu(x, approximate="tanh")),
    "softplus": (lambda dy, x: ops.softplus_grad(dy, x, 2.0, 3.0),
                 lambda x: F.softplus(x, 2.0, 3.0)),
    "elu": (lambda dy, x: ops.elu_grad(dy, x, 0.7), lambda x: F.elu(x, 0.7)),
    "selu": (lambda dy, x: ops.elu_grad(dy, x, 1.6732632423543772, 1.0507009873554805), F.selu),
    "celu": (lambda dy, x: ops.elu_grad(dy, x, 0.7, 1.0, 1 / 0.7), lambda x: F.celu(x, 0.7)),
    "leaky": (lambda dy, x: ops.leaky_relu_grad(dy, x, 0.3), lambda x: F.leaky_relu(x, 0.3)),
    "hard sigmoid": (lambda dy, x: ops.hard_sigmoid_grad(dy, x, 1 / 6, 0.5), F.hardsigmoid),
}  # fmt: skip


def argument(name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = 3 * normal(*shape, seed=1)
    return np.asarray(np.abs(x) + 0.1) if name in POSITIVE else np.asarray(x)


def known(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """What the gradient is given: the result or the argument."""
    x = argument(name, shape)
    return OF_RESULT[name](torch.from_numpy(x)).numpy() if name in OF_RESULT else x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*OF_RESULT, *OF_ARGUMENT])
def test_functions(name: Any, shape: Any) -> None:
    dy = normal(*shape)
    function = {**OF_RESULT, **OF_ARGUMENT}[name]
    found = values(getattr(ops, name), dy, known(name, shape))
    same(found, gradients(function, dy, argument(name, shape)))


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: Any) -> None:
    ours, theirs = FORMS[name]
    x, dy = np.linspace(-6, 6, 25), normal(25)
    # PyTorch's kernels of celu and hardsigmoid have constants of single precision.
    same(values(ours, dy, x), gradients(theirs, dy, x), rtol=2e-7)
    check(ours, dy.astype("float32"), x.astype("float32"))


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("name", [*OF_RESULT, *OF_ARGUMENT])
def test_expansions_and_formulas(name: Any, kind: Any) -> None:
    dy, given = normal(13).astype(kind), known(name, (13,)).astype(kind)
    assert check(getattr(ops, name), dy, given).dtype == kind


@pytest.mark.parametrize("name", [*OF_RESULT, *OF_ARGUMENT])
def test_compiled(name: Any) -> None:
    compiled(getattr(ops, name), normal(37).astype("f4"), known(name, (37,)).astype("f4"))


def test_far_arguments_stay_finite() -> None:
    x = np.array([-1e4, 1e4, 88.0, -88.0, 0.0, -0.0], "float32")
    dy = np.ones(6, "float32")
    for name in ("silu_grad", "mish_grad", "softplus_grad", "gelu_grad", "hard_swish_grad",
                 "log_sigmoid_grad", "elu_grad", "erf_grad", "softsign_grad"):  # fmt: skip
        if name == "elu_grad":
            continue
        assert np.isfinite(check(getattr(ops, name), dy, x)).all(), name
    # The branch that is not chosen may overflow: what is chosen counts.
    assert np.isfinite(values(ops.elu_grad, dy, x)).all()


def test_nan_and_infinities() -> None:
    dy = np.array([math.nan, math.inf, 1.0, 1.0])
    y = np.array([-1.0, -1.0, math.nan, math.inf])
    assert values(ops.relu_grad, dy, y).tolist() == [0, 0, 0, 1]
    found = values(ops.tanh_grad, np.array([1.0, math.nan]), np.array([1.0, 0.5]))
    assert found[0] == 0 and np.isnan(found[1])
    with pytest.raises(UserError, match="unknown approximation"):
        values(lambda d, x: ops.gelu_grad(d, x, "fast"), dy, y)


# ---------------------------------------------------------------------------- of two tensors

OF_TWO = {
    "add_grad": torch.add, "sub_grad": torch.sub, "mul_grad": torch.mul, "div_grad": torch.div,
    "pow_grad": torch.pow, "maximum_grad": torch.maximum, "minimum_grad": torch.minimum,
    "swiglu_grad": lambda a, b: F.silu(a) * b,
}  # fmt: skip
BROADCASTS = [
    ((), ()), ((3, 1), (1, 5)), ((7,), (2, 7)), ((2, 1, 3), (4, 1)), ((1,), (1,)), ((0, 1), (1, 4)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
@pytest.mark.parametrize("name", OF_TWO)
def test_pairs(name: Any, shapes: Any) -> None:
    if name == "swiglu_grad":
        shapes = (shapes[0], shapes[0])
    a, b = np.abs(normal(*shapes[0])) + 0.1, normal(*shapes[1], seed=1)
    dy = normal(*np.broadcast_shapes(*shapes), seed=2)
    build = getattr(ops, name)
    same(values(build, dy, a, b), gradients(OF_TWO[name], dy, a, b))
    check(build, *(v.astype("float16") for v in (dy, a, b)))
    if name in ("div_grad", "pow_grad", "maximum_grad") and dy.size:
        compiled(build, *(v.astype("float32") for v in (dy, a, b)))


def test_ties_go_to_the_first() -> None:
    one = np.ones(2)
    assert [v.tolist() for v in values(ops.maximum_grad, one * 3, one, one)] == [[3, 3], [0, 0]]
    assert [v.tolist() for v in values(ops.minimum_grad, one * 3, one, one)] == [[3, 3], [0, 0]]


def test_powers_at_the_edges() -> None:
    a = np.array([0.0, 0.0, 2.0, -2.0, 0.0])
    b = np.array([0.0, 2.0, 0.0, 3.0, 0.5])
    same(values(ops.pow_grad, np.ones(5), a, b), gradients(torch.pow, np.ones(5), a, b))


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)),
                 ((2, 1, 3, 4), (5, 4, 1)), ((0, 4), (4, 3)), ((3, 0), (0, 2))],
)  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = normal(*a), normal(*b, seed=1)
    dy = np.asarray(normal(*np.shape(x @ y), seed=2))
    same(values(ops.matmul_grad, dy, x, y), gradients(torch.matmul, dy, x, y))
    check(ops.matmul_grad, *(v.astype("float32") for v in (dy, x, y)), tolerance=1e-4)


def test_reduce_as() -> None:
    x = normal(2, 3, 4)
    for shape in ((2, 3, 4), (3, 4), (1, 4), (3, 1), (), (1, 1, 1)):
        expected = torch.from_numpy(x).sum_to_size(shape).numpy()
        np.testing.assert_allclose(check(lambda t, s=shape: ops.reduce_as(t, s), x), expected)
    assert check(lambda t: ops.reduce_as(t, (1, 4)), np.zeros((0, 4))).tolist() == [[0] * 4]
    with pytest.raises(ShapeError, match="reduce_as"):
        values(lambda t: ops.reduce_as(t, (2, 4)), x)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_gradients_of_reductions(axis: int | tuple[int, ...] | None) -> None:
    x = np.round(normal(3, 4, 5), 0)  # with ties
    y = x.max(axis if axis is not None else (0, 1, 2))
    dy = normal(*np.shape(y), seed=1)
    dims = tuple(range(3)) if axis is None else axis
    found = check(lambda d, a, b: ops.max_grad(d, a, b, axis), dy, x, np.asarray(y))
    same(found, gradients(lambda t: torch.amax(t, dims), dy, x))
    whole = values(lambda d, a, b: ops.max_grad(d, a, b, axis, share=False), dy, x, np.asarray(y))
    assert np.isin(whole, [0, *np.ravel(dy)]).all()
    spread = values(lambda d: ops.reduce_sum_grad(d, x.shape, axis), dy)
    same(spread, gradients(lambda t: t.sum(dims), dy, x))


# ---------------------------------------------------------------------------- normalisations


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 3), (0, 4), (1, 1)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    x, dy, z = (normal(*shape, seed=k) for k in range(3))
    y, log_y = (f(torch.from_numpy(x), axis).numpy() for f in (F.softmax, F.log_softmax))
    expected = gradients(lambda t: F.softmax(t, axis), dy, x)
    same(check(lambda d, v: ops.softmax_grad(d, v, axis), dy, y), expected)
    found = check(lambda d, v, w: ops.softmax_grad_ext(d, v, w, axis), dy, y, z)
    same(found, [expected[0] * z])
    same(check(lambda d, v: ops.log_softmax_grad(d, v, axis), dy, log_y),
         gradients(lambda t: F.log_softmax(t, axis), dy, x))  # fmt: skip


def stats(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    return x.mean(axes), 1 / np.sqrt(x.var(axes) + eps)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 7), (1, 1), (2, 1, 3), (5,)], ids=str)
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, dy = normal(*shape), normal(*shape, seed=1)
    scale, bias = normal(shape[-1], seed=2), normal(shape[-1], seed=3)
    mean, rstd = map(np.asarray, stats(x, -1))
    expected = gradients(lambda t, s, b: F.layer_norm(t, shape[-1:], s, b), dy, x, scale, bias)
    same(values(ops.layer_norm_grad, dy, x, mean, rstd, scale), expected, rtol=1e-8, atol=1e-9)
    same(values(ops.layer_norm_grad, dy, x, mean, rstd), expected_plain(dy, x), 1e-8, 1e-9)
    narrow = [v.astype("float16") for v in (dy, x, mean, rstd, scale)]
    assert [v.dtype for v in check(ops.layer_norm_grad, *narrow)] == ["float16"] * 3
    assert values(ops.layer_norm_grad, *narrow[:2], mean.astype("f4"), rstd.astype("f4"),
                  scale.astype("f4"))[1].dtype == "float32"  # fmt: skip
    root = lambda t, s: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * s  # noqa: E731
    same(check(ops.rms_norm_grad, dy, x, scale), gradients(root, dy, x, scale), 1e-8, 1e-9)


def expected_plain(dy: Any, x: Any) -> Any:
    return gradients(lambda t: F.layer_norm(t, t.shape[-1:]), dy, x)


def test_layer_norm_over_several_axes() -> None:
    x, dy, scale = normal(2, 3, 5), normal(2, 3, 5, seed=1), normal(3, 5, seed=2)
    mean, rstd = stats(x, (1, 2))
    found = check(lambda *t: ops.layer_norm_grad(*t, axis=1), dy, x, mean, rstd, scale)
    same(found, gradients(lambda t, s, b: F.layer_norm(t, (3, 5), s, b), dy, x, scale, scale * 0))
    compiled(lambda *t: ops.layer_norm_grad(*t, axis=1),
             *(v.astype("float32") for v in (dy, x, mean, rstd, scale)))  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 6, 3), (3, 6), (1, 6, 2, 5)], ids=str)
def test_channels(shape: tuple[int, ...]) -> None:
    x, dy = normal(*shape), normal(*shape, seed=1)
    scale, bias = normal(6, seed=2), normal(6, seed=3)
    axes = tuple(k for k in range(len(shape)) if k != 1)
    mean, rstd = stats(x, axes)
    expected = gradients(
        lambda t, s, b: F.batch_norm(t, None, None, s, b, training=True), dy, x, scale, bias
    )
    same(check(ops.batch_norm_grad, dy, x, scale, mean, rstd), expected, 1e-8, 1e-9)
    given = [torch.from_numpy(mean), torch.from_numpy(1 / rstd**2 - 1e-5)]
    expected = gradients(lambda t, s, b: F.batch_norm(t, *given, s, b), dy, x, scale, bias)
    inference = check(lambda *t: ops.batch_norm_grad(*t, training=False), dy, x, scale, mean, rstd)
    same(inference, expected, 1e-8, 1e-9)
    for groups in (1, 2, 6):
        parts = x.reshape(shape[0], groups, -1)
        mean, rstd = stats(parts, 2)
        if parts.shape[2] == 1:
            continue
        found = check(lambda d, t, m, r, s, g=groups: ops.group_norm_grad(d, t, m, r, g, s),
                      dy, x, mean, rstd, scale)  # fmt: skip
        expected = gradients(lambda t, s, b, g=groups: F.group_norm(t, g, s, b), dy, x, scale, bias)
        same(found, expected, 1e-8, 1e-9)
        plain = values(lambda d, t, m, r, g=groups: ops.group_norm_grad(d, t, m, r, g),
                       dy, x, mean, rstd)  # fmt: skip
        same(plain, gradients(lambda t, g=groups: F.group_norm(t, g), dy, x), 1e-8, 1e-9)
        if groups == 6:
            same(values(ops.instance_norm_grad, dy, x, mean, rstd, scale), expected, 1e-8, 1e-9)


def test_channels_compiled() -> None:
    x, dy = normal(3, 4, 5).astype("f4"), normal(3, 4, 5, seed=1).astype("f4")
    scale = normal(4, seed=2).astype("f4")
    mean, rstd = stats(x, (0, 2))
    compiled(ops.batch_norm_grad, dy, x, scale, mean, rstd, tolerance=1e-4)
    with pytest.raises(ShapeError, match="3 groups do not divide"):
        values(lambda d, t, m, r: ops.group_norm_grad(d, t, m, r, 3), dy, x, mean, rstd)
