"""Activations, normalisations and attention: references, expansions and extreme values."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, graph_of, values
from tileloom.base.errors import ShapeError, UserError
from tileloom.graph import ops
from tileloom.graph.expand import expand

ACTIVATIONS = [
    "gelu", "silu", "softplus", "softsign", "elu", "celu", "selu", "leaky_relu", "hard_sigmoid",
    "hard_swish", "mish", "thresholded_relu", "shrink",
]  # fmt: skip
KINDS = ["float16", ml_dtypes.bfloat16, "float32", "float64"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_expand_to_their_reference(name: Any, kind: Any) -> None:
    x = np.linspace(-6, 6, 13).astype(kind)
    assert check(getattr(ops, name), x).dtype == x.dtype


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in ("gelu", "softsign")])
def test_activations_of_infinities(name: Any) -> None:
    """No overflow turns into NaN on the way, except where 0 * inf is the meaning."""
    x = np.array([-1e4, 1e4, 80.0, -80.0, 0.0, -0.0], "float32")
    assert np.isfinite(check(getattr(ops, name), x)).all()


def test_values_by_hand() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    cases = {
        "silu": [v / (1 + math.exp(-v)) for v in x],
        "softplus": [math.log1p(math.exp(v)) for v in x],
        "elu": [math.expm1(-1), 0, 2],
        "gelu": [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x],
        "leaky_relu": [-0.01, 0, 2],
        "hard_swish": [-1 * 2 / 6, 0, 2 * 5 / 6],
        "mish": [v * math.tanh(math.log1p(math.exp(v))) for v in x],
    }
    for name, expected in cases.items():
        np.testing.assert_allclose(values(getattr(ops, name), x), expected, rtol=1e-12)


def test_gelu_in_two_forms() -> None:
    x = np.linspace(-3, 3, 7)
    exact, approximate = check(ops.gelu, x), check(lambda t: ops.gelu(t, "tanh"), x)
    assert 0 < np.abs(exact - approximate).max() < 1e-3
    with pytest.raises(UserError, match="unknown approximation 'fast'"):
        values(lambda t: ops.gelu(t, "fast"), x)


def test_prelu_broadcasts_the_slope() -> None:
    x, slope = np.array([[-1.0, 2.0], [-3.0, -4.0]]), np.array([0.5, 0.25])
    assert check(ops.prelu, x, slope).tolist() == [[-0.5, 2], [-1.5, -1]]


# ---------------------------------------------------------------------------- softmax


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int, kind: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 5)).astype(kind)
    found = check(lambda t: ops.softmax(t, axis), x)
    total = found.astype("float64").sum(axis)
    np.testing.assert_allclose(total, 1, rtol=1e-5 if found.itemsize > 2 else 2e-2)
    check(lambda t: ops.log_softmax(t, axis), x)


def test_softmax_does_not_overflow() -> None:
    x = np.array([[1e4, 1e4, -1e4], [-np.inf, 0, 0]], "float32")
    assert check(ops.softmax, x).tolist() == [[0.5, 0.5, 0], [0, 0.5, 0.5]]
    np.testing.assert_allclose(check(ops.log_softmax, x)[1, 1], -math.log(2), rtol=1e-6)


def test_softmax_of_nothing() -> None:
    assert check(ops.softmax, np.zeros((2, 0), "float32")).shape == (2, 0)
    assert check(lambda t: ops.softmax(t, 0), np.zeros((0, 2), "float32")).shape == (0, 2)


def test_logsumexp() -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf]])
    found = check(lambda t: ops.logsumexp(t, 1), x)
    assert found[0] == 1000 + math.log(2) and found[1] == -np.inf
    assert check(lambda t: ops.logsumexp(t, (0, 1), True), x).shape == (1, 1)


# ---------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("axis", [None, 0, (1, 2), -1])
def test_statistics(
    axis: int | tuple[int, ...] | None, kind: Any, rng: np.random.Generator
) -> None:
    x = (rng.standard_normal((2, 3, 4)) + 3).astype(kind)
    wide = x.astype("float64")
    for name in ("mean", "var", "std"):
        found = check(lambda t, f=name: getattr(ops, f)(t, axis, keepdims=True), x)
        expected = getattr(np, name)(wide, axis=axis, keepdims=True).astype(x.dtype)
        rtol = 1e-5 if x.dtype.itemsize > 2 else 2e-2
        np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), rtol=rtol)


def test_variance_keeps_its_digits_far_from_zero() -> None:
    x = np.array([1e4, 1e4 + 1, 1e4 + 2], "float32")
    np.testing.assert_allclose(check(lambda t: ops.var(t, correction=1), x), 1, rtol=1e-6)


def test_statistics_of_nothing_and_of_one_element_are_nan() -> None:
    assert np.isnan(check(ops.mean, np.zeros((0,), "float32")))
    assert np.isnan(check(lambda t: ops.var(t, correction=1), np.ones(1, "float32")))


def test_norms(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4))
    np.testing.assert_allclose(check(lambda t: ops.l1_norm(t, 1), x), np.abs(x).sum(1))
    np.testing.assert_allclose(check(lambda t: ops.l2_norm(t, 1), x), np.linalg.norm(x, axis=1))
    np.testing.assert_allclose(check(lambda t: ops.sum_square(t, 1), x), (x**2).sum(1))


# ---------------------------------------------------------------------------- normalisation


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_layer_norm(kind: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 5)).astype(kind)
    scale, bias = (rng.random(5).astype(kind) for _ in range(2))
    check(ops.layer_norm, x, scale, bias)
    check(lambda t: ops.layer_norm(t, axis=1), x)
    plain = values(ops.layer_norm, x.astype("float64"))
    np.testing.assert_allclose(plain.mean(-1), 0, atol=1e-9)
    np.testing.assert_allclose(plain.var(-1), 1, rtol=1e-2)
    check(ops.rms_norm, x, scale)


def test_layer_norm_refuses_a_scale_of_another_shape() -> None:
    with pytest.raises(ShapeError, match="layer_norm"):
        values(ops.layer_norm, np.zeros((2, 3)), np.zeros(4))
    with pytest.raises(ShapeError, match="layer_norm: scale and bias do not broadcast to"):
        values(ops.layer_norm, np.zeros((1, 3)), np.zeros((2, 3)))


def test_channel_norms(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 4, 3, 5)).astype("float32")
    scale, bias, mean = (rng.random(4).astype("float32") for _ in range(3))
    var = rng.random(4).astype("float32") + 0.5
    check(ops.batch_norm, x, scale, bias, mean, var)
    check(lambda t, s, b: ops.group_norm(t, 2, s, b), x, scale, bias)
    check(ops.instance_norm, x, scale, bias)
    for size in (1, 2, 3, 5, 9):
        check(lambda t, n=size: ops.lrn(t, n, 0.1, 0.75, 2.0), x)
    with pytest.raises(ShapeError, match="group_norm: 3 groups do not divide"):
        values(lambda t, s, b: ops.group_norm(t, 3, s, b), x, scale, bias)
    with pytest.raises(ShapeError, match="batch_norm: mean must have one value"):
        values(ops.batch_norm, x, scale, bias, mean[:3], var)


# ---------------------------------------------------------------------------- attention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float32"])
def test_attention(mask: str | None, causal: bool, rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((2, 3, n, d)).astype("float32")
               for n, d in ((4, 8), (5, 8), (5, 6)))  # fmt: skip
    more = [] if mask is None else [np.ones((4, 5), "float32").astype(mask)]
    if mask == "bool":
        more[0][:, 4] = False
    assert check(lambda *t: ops.attention(*t, causal=causal), q, k, v, *more).shape == (2, 3, 4, 6)


def test_a_causal_row_sees_the_past_only(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((3, 4)) for _ in range(3))
    found = values(lambda *t: ops.attention(*t, causal=True), q, k, v)
    np.testing.assert_allclose(found[0], v[0])


def test_expansion_of_narrow_floats_computes_in_float32() -> None:
    nodes = expand(graph_of(ops.softmax, np.zeros((2, 3), "float16"))).nodes
    kinds = {node.op.name: node.outputs[0].dtype for node in nodes}
    assert kinds["exp"] == "float32"
    assert nodes[-1].op.name == "cast" and nodes[-1].outputs[0].dtype == "float16"


def test_attention_of_great_scores() -> None:
    """The largest score of a row is taken off before the exponential."""
    q, k = np.full((2, 4), 40.0, "float32"), np.eye(3, 4, dtype="float32") * [[1], [2], [3]]
    v = np.arange(6, dtype="float32").reshape(3, 2)
    found = check(lambda *t: ops.attention(*t, scale=10.0), q, k.astype("float32"), v)
    np.testing.assert_allclose(found, [v[2], v[2]])
