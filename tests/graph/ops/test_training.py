"""Layers in training, steps of optimizers and small compositions, against PyTorch and NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, values
from graph.ops.test_gradients import compiled, gradients, normal, same
from tileloom.base.errors import ArgumentError, ShapeError, UserError
from tileloom.graph import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


def by_torch(function: Any, *arrays: Any) -> Any:
    found = function(*map(torch.tensor, arrays))
    return [t.numpy() for t in found] if isinstance(found, (list, tuple)) else found.numpy()


# ---------------------------------------------------------------------------- layers


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 7), (1, 1), (0, 4)], ids=str)
def test_layer_norm_with_stats(shape: tuple[int, ...]) -> None:
    x, scale, bias = normal(*shape), normal(shape[-1]), normal(shape[-1], seed=1)
    y, mean, var = check(lambda *t: list(ops.layer_norm_with_stats(*t)), x, scale, bias)
    np.testing.assert_allclose(y, by_torch(lambda t, s, b: F.layer_norm(t, shape[-1:], s, b),
                                           x, scale, bias), atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(mean, x.mean(-1, keepdims=True))
    np.testing.assert_allclose(var, x.var(-1, keepdims=True), atol=1e-15)
    narrow = (v.astype("float16") for v in (x, scale, bias))
    assert [v.dtype for v in check(lambda *t: list(ops.layer_norm_with_stats(*t)), *narrow)] == (
        ["float16"] * 3
    )


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("momentum", [0.1, 1.0, 0.0])
def test_batch_norm_training(shape: tuple[int, ...], momentum: float) -> None:
    x, scale, bias, mean = normal(*shape), *(normal(3, seed=k) for k in range(1, 4))
    var = np.abs(normal(3, seed=5)) + 0.5
    found = check(lambda *t: list(ops.batch_norm_training(*t, momentum=momentum)),
                  x, scale, bias, mean, var)  # fmt: skip
    running = [torch.tensor(mean), torch.tensor(var)]
    y = F.batch_norm(torch.tensor(x), *running, torch.tensor(scale), torch.tensor(bias),
                     True, momentum)  # fmt: skip
    axes = tuple(k for k in range(len(shape)) if k != 1)
    same(found, [y.numpy(), *(t.numpy() for t in running), x.mean(axes), x.var(axes)], 1e-9)


def test_batch_norm_training_of_one_value() -> None:
    one = np.ones(3)
    biased = lambda *t: list(ops.batch_norm_training(*t, unbiased=False))  # noqa: E731
    assert np.isfinite(np.concatenate([v.ravel() for v in check(
        biased, normal(1, 3), one, one, one, one)])).all()  # fmt: skip
    found = values(lambda *t: list(ops.batch_norm_training(*t)), normal(1, 3), one, one, one, one)
    assert np.isnan(found[2]).all()
    mixed = [normal(4, 3).astype("float16"), *(one.astype("float32") for _ in range(4))]
    kinds = [v.dtype for v in check(lambda *t: list(ops.batch_norm_training(*t)), *mixed)]
    assert kinds == ["float16", *["float32"] * 4]
    compiled(lambda *t: list(ops.batch_norm_training(*t)), normal(4, 3, 5).astype("f4"), *mixed[1:])


@pytest.mark.parametrize("kind", ["bool", "float64"])
def test_dropout(kind: str) -> None:
    x, mask = normal(3, 7), np.arange(21).reshape(3, 7) % 3 > 0
    given = mask.astype(kind)
    np.testing.assert_allclose(check(lambda a, m: ops.dropout(a, m, 0.25), x, given),
                               x * mask / 0.75)  # fmt: skip
    np.testing.assert_allclose(check(lambda a, m: ops.dropout_grad(a, m, 0.25), x, given),
                               x * mask / 0.75)  # fmt: skip
    assert not values(lambda a, m: ops.dropout(a, m, 1.0), x, given).any()
    with pytest.raises(UserError, match=r"dropout rate of 1\.5"):
        values(lambda a, m: ops.dropout(a, m, 1.5), x, given)


def test_bias() -> None:
    x, bias = normal(2, 3, 4), normal(3)
    np.testing.assert_allclose(check(ops.bias_add, x, bias), x + bias[:, None])
    last = check(lambda a, b: ops.bias_add(a, b, -1), x, normal(4))
    np.testing.assert_allclose(last, x + normal(4))
    np.testing.assert_allclose(check(ops.bias_add_grad, x), x.sum((0, 2)))
    assert check(lambda t: ops.bias_add_grad(t, -1), np.zeros((0, 2))).tolist() == [0, 0]
    with pytest.raises(ShapeError, match="bias_add: a bias"):
        values(ops.bias_add, x, normal(4))


# ---------------------------------------------------------------------------- optimizers


def steps(optimizer: Any, build: Any, turns: int = 3) -> None:
    """Some steps of PyTorch's optimizer and of ours from the same start."""
    param = torch.tensor(normal(5), requires_grad=True)
    theirs = optimizer([param])
    state = [normal(5), np.zeros(5), np.zeros(5)]
    for turn in range(1, turns + 1):
        grad = normal(5, seed=10 + turn)
        param.grad = torch.tensor(grad)
        theirs.step()
        step = np.asarray(float(turn))
        state = values(lambda *t: list(build(*t)), *state, grad, step)
        np.testing.assert_allclose(state[0], param.detach().numpy(), rtol=1e-9)


def test_adam() -> None:
    def build(param: Any, m: Any, v: Any, grad: Any, step: Any) -> Any:
        # The epsilon of PyTorch is added after the correction, so that only without it they agree.
        power1, power2 = ops.pow(0.8, step), ops.pow(0.95, step)
        return ops.adam(param, m, v, grad, power1, power2, 0.1, 0.8, 0.95, eps=0.0)

    steps(lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.95), eps=0.0), build)


def test_adam_by_hand() -> None:
    param, m, v, g = (normal(7, seed=k) for k in range(4))
    v = np.abs(v)
    for nesterov in (False, True):
        found = check(
            lambda *t, n=nesterov: list(ops.adam(*t, 0.9, 0.99, 0.1, eps=1e-3, nesterov=n)),
            param, m, v, g,
        )  # fmt: skip
        mean, spread = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        way = 0.9 * mean + 0.1 * g if nesterov else mean
        pace = 0.1 * math.sqrt(1 - 0.99) / (1 - 0.9)
        same(found, [param - pace * way / (np.sqrt(spread) + 1e-3), mean, spread])
    found = check(lambda *t: list(ops.adam_weight_decay(*t, 0.1, eps=1e-3, decay=0.2)),
                  param, m, v, g)  # fmt: skip
    update = mean / (np.sqrt(spread) + 1e-3) + 0.2 * param
    same(found, [param - 0.1 * update, mean, spread])
    numbers = (0.1, 0.9, 1 - 0.9, 0.999, 1 - 0.999, 0.2, 1e-3)
    found = check(lambda *t: list(ops.adam_apply_one_with_decay(*t, *numbers)), g, v, m, param)
    same(found, [spread, mean, param - 0.1 * update])


def test_adamw() -> None:
    steps(lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.3),
          lambda *t: ops.adamw(*t, 0.1, decay=0.3))  # fmt: skip


def test_momentum_and_adagrad() -> None:
    param, state, g = (np.abs(normal(7, seed=k)) for k in range(3))
    for nesterov in (False, True):
        found = check(lambda *t, n=nesterov: list(ops.momentum(*t, 0.1, nesterov=n)),
                      param, state, g)  # fmt: skip
        speed = 0.9 * state + g
        same(found, [param - 0.1 * (g + 0.9 * speed if nesterov else speed), speed])
    found = check(lambda *t: list(ops.adagrad(*t, 0.1, eps=1e-3)), param, state, g)
    total = state + g * g
    same(found, [param - 0.1 * g / (np.sqrt(total) + 1e-3), total])


def test_lamb() -> None:
    param, m, v, g = (normal(7, seed=k) for k in range(4))
    v = np.abs(v)
    mean, spread = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    unbiased = mean / (1 - 0.9**3), spread / (1 - 0.999**3)
    update = unbiased[0] / (np.sqrt(unbiased[1]) + 1e-6) + 0.01 * param
    numbers = (0.9, 1 - 0.9, 0.999, 1 - 0.999, 1e-6, 3.0, 1.0, 0.01)
    found = check(lambda *t: list(ops.lamb_apply_optimizer(*t, *numbers)), g, v, m, param)
    same(found, [update, spread, mean])
    norms = [np.asarray(np.linalg.norm(x)) for x in (param, update)]
    expected = param - 0.1 * norms[0] / norms[1] * update
    whole = check(lambda *t: list(ops.lamb(*t, 3.0, 0.1)), param, m, v, g)
    same(whole, [expected, mean, spread])
    half = lambda w, n, u, p: ops.lamb_apply_weight(w, n, 0.1, u, p)  # noqa: E731
    same(check(half, *norms, update, param), [expected])
    for pair in ((0.0, 2.0), (2.0, 0.0), (0.0, 0.0)):
        same(check(half, *map(np.asarray, pair), update, param), [param - 0.1 * update])


def test_optimizers_keep_types_of_states() -> None:
    param, m, v = (np.abs(normal(9, seed=k)).astype("float32") for k in range(3))
    g = normal(9).astype("float16")
    found = check(lambda *t: list(ops.adam_weight_decay(*t, 0.1)), param, m, v, g)
    assert [x.dtype for x in found] == ["float32"] * 3
    compiled(lambda *t: list(ops.adamw(*t, 2.0, 0.1)), param, m, v, g.astype("float32"))
    compiled(lambda *t: list(ops.lamb(*t, 2.0, 0.1)), param, m, v, g.astype("float32"))


# ---------------------------------------------------------------------------- compositions


def test_arithmetic() -> None:
    a, b, c = (normal(3, 5, seed=k) for k in range(3))
    np.testing.assert_allclose(check(ops.squared_difference, a, b), (a - b) ** 2)
    np.testing.assert_allclose(check(ops.fused_mul_add, a, b, c), a * b + c)
    np.testing.assert_allclose(check(lambda *t: ops.add_n(t), a, b, c), a + b + c)
    assert values(lambda t: ops.add_n([t]), a) is not None
    with pytest.raises(ArgumentError, match="add_n"):
        ops.add_n([])
    assert check(ops.heaviside, np.array([-2.0, 0, 3, math.nan]), np.array(0.5))[:3].tolist() == (
        [0, 0.5, 1]
    )
    assert np.isnan(values(ops.heaviside, np.array(math.nan), np.array(0.5)))


EDGES = np.array([0.0, -0.0, 1.0, -2.5, 1e30, -1e30, math.inf, -math.inf, math.nan], "float32")


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "copysign"])
def test_pairs_of_edges(name: str) -> None:
    a, b = EDGES.reshape(-1, 1), EDGES
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    found = check(getattr(ops, name), a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(found[found == found]),
                                  np.signbit(expected[found == found]))  # fmt: skip
    compiled(getattr(ops, name), a, b)


def test_signbit() -> None:
    x = np.array([0.0, -0.0, 2, -2, math.inf, -math.inf, math.nan, -math.nan])
    assert check(ops.signbit, x).tolist() == np.signbit(x).tolist()
    assert check(ops.signbit, np.array([-1, 0, 1])).tolist() == [True, False, False]
    assert not check(ops.signbit, np.array([0, 255], "uint8")).any()


def test_lerp_meets_both_ends() -> None:
    x, y = normal(9), normal(9, seed=1) * 1e8
    for weight in (0.0, 0.3, 0.5, 1.0, -1.0, 2.0):
        w = np.asarray(weight)
        np.testing.assert_allclose(check(ops.lerp, x, y, w), by_torch(torch.lerp, x, y, w))
    assert values(ops.lerp, x, y, np.asarray(1.0)).tolist() == y.tolist()


def test_erfc() -> None:
    mpmath = pytest.importorskip("mpmath")
    x = np.concatenate([np.linspace(-7, 26.5, 301), [0.46875, 4.0, 0.5, -0.5, 0.0, 1e-300]])
    exact = [float(mpmath.erfc(float(v))) for v in x]
    np.testing.assert_allclose(values(ops.erfc, x), exact, rtol=1e-15)
    near = x[np.abs(x) < 9].astype("float32")
    exact = [float(mpmath.erfc(float(v))) for v in near]
    np.testing.assert_allclose(check(ops.erfc, near, tolerance=1e-6), exact, rtol=1e-6)
    ends = np.array([1e300, -1e300, math.inf, -math.inf, 30.0])
    assert check(ops.erfc, ends).tolist() == [0, 2, 0, 2, 0]
    assert np.isnan(check(ops.erfc, np.array([math.nan], "float32")))
    compiled(ops.erfc, near, tolerance=2e-6)


def test_log_sigmoid_relu6_swiglu() -> None:
    x = np.array([-1000.0, -1, 0, 3, 7, 1000])
    np.testing.assert_allclose(check(ops.log_sigmoid, x), by_torch(F.logsigmoid, x))
    np.testing.assert_allclose(check(ops.relu6, x), by_torch(F.relu6, x))
    gate = normal(6)
    expected = by_torch(lambda a, b: F.silu(a) * b, x, gate)
    np.testing.assert_allclose(check(ops.swiglu, x, gate), expected)
    joined = np.stack([x, gate], 1)
    found = check(lambda t: ops.swiglu(t), joined)
    np.testing.assert_allclose(found[:, 0], expected)
    with pytest.raises(ShapeError, match="swiglu: axis 0"):
        values(lambda t: ops.swiglu(t, axis=0), np.zeros((3, 2)))


def test_forms_of_activations() -> None:
    x = np.linspace(-8, 8, 33)
    same(check(lambda t: ops.gelu(t, "sigmoid"), x),
         [by_torch(lambda t: F.gelu(t, approximate="tanh"), x)])  # fmt: skip
    same(check(lambda t: ops.softplus(t, 2.0, 5.0), x),
         [by_torch(lambda t: F.softplus(t, 2.0, 5.0), x)])  # fmt: skip
    same(check(lambda t: ops.elu(t, 0.5, 2.0, 3.0), x),
         [by_torch(lambda t: torch.ops.aten.elu(t, 0.5, 2.0, 3.0), x)])  # fmt: skip


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf, -math.inf, 0.5])
@pytest.mark.parametrize("axis", [None, -1, (0, 2)])
def test_p_norm(p: Any, axis: int | tuple[int, ...] | None) -> None:
    x = np.round(normal(2, 3, 5), 1)
    expected = by_torch(lambda t: torch.linalg.vector_norm(t, p, axis, True), x)
    np.testing.assert_allclose(check(lambda t: ops.p_norm(t, p, axis, True), x), expected)


def test_sums_of_squares_and_clipping() -> None:
    x, y = normal(3, 5), normal(4, seed=1)
    np.testing.assert_allclose(check(lambda t: ops.square_sum(t, 1), x), (x * x).sum(1))
    same(check(lambda *t: list(ops.square_sum_all(*t)), x, y), [(x * x).sum(), (y * y).sum()])
    norm = np.linalg.norm(x)
    np.testing.assert_allclose(check(lambda t: ops.clip_by_norm(t, 1.0), x), x / norm)
    np.testing.assert_allclose(check(lambda t: ops.clip_by_norm(t, 100.0), x), x)
    assert not values(lambda t: ops.clip_by_norm(t, 1.0), np.zeros(3)).any()
    squares = np.array([0.0, 4.0, 1e-9])
    found = check(lambda t: ops.clip_by_norm_no_div_sum(t, 0.0, 1.0, 1.0), squares)
    np.testing.assert_allclose(found, [1, 2, 1])


def test_counts_and_extremes_with_places() -> None:
    x = np.array([[3.0, 1, 3], [math.nan, 0, 1]])
    assert check(ops.equal_count, x, x).tolist() == [5]
    index, value = check(lambda t: list(ops.argmax_with_value(t, 1)), x)
    assert index.tolist() == [0, 0] and value[0] == 3 and np.isnan(value[1])
    index, value = check(lambda t: list(ops.argmin_with_value(t, 0, True)), x)
    assert index.tolist() == [[1, 1, 1]] and value.shape == (1, 3)
    integers = np.array([[3, 7], [7, 2]], "int32")
    index, value = values(lambda t: list(ops.argmax_with_value(t, -1)), integers)
    assert index.tolist() == [1, 0] and value.tolist() == [7, 7] and value.dtype == "int32"
    compiled(lambda t: list(ops.argmax_with_value(t, 1)), normal(5, 7).astype("float32"))


def test_gradient_of_swiglu_and_softplus_meet_their_functions() -> None:
    x, gate, dy = (normal(5, seed=k) for k in range(3))
    found = check(lambda *t: list(ops.swiglu_grad(*t)), dy, x, gate)
    same(found, gradients(lambda a, b: F.silu(a) * b, dy, x, gate))
