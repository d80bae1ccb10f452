"""Functions of neural networks under `tileloom`, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import numpy as tnp
from tileloom.base.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


X, Y, IMAGE, PAIR = normal(3, 7), normal(3, 7), normal(2, 6, 3, 5), normal(6)
P = 1 / (1 + np.exp(-X))
CLASSES = RANDOM.integers(0, 7, 3)
CASES: dict[str, Any] = {
    "gelu": (lambda x: tnp.gelu(x), F.gelu, X),
    "gelu tanh": (
        lambda x: tnp.gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"), X),
    "leaky_relu": (lambda x: tnp.leaky_relu(x, alpha=0.3), lambda x: F.leaky_relu(x, 0.3), X),
    "elu": (lambda x: tnp.elu(x, alpha=0.3), lambda x: F.elu(x, 0.3), X),
    "relu6": (lambda x: tnp.relu6(x * 9), lambda x: F.relu6(x * 9), X),
    "log_sigmoid": (lambda x: tnp.log_sigmoid(x), F.logsigmoid, X),
    "erfc": (lambda x: tnp.erfc(x * 3), lambda x: torch.erfc(x * 3), X),
    "swiglu": (lambda x, g: tnp.swiglu(x, g), lambda x, g: F.silu(x) * g, X, Y),
    "swiglu of halves": (
        lambda x: tnp.swiglu(x, axis=1), lambda x: F.silu(x[:, :3]) * x[:, 3:], IMAGE),
    "group_norm": (
        lambda x, s, b: tnp.group_norm(x, s, b, 3),
        lambda x, s, b: F.group_norm(x, 3, s, b), IMAGE, PAIR, PAIR),
    "instance_norm": (
        lambda x, s, b: tnp.instance_norm(x, s, b),
        lambda x, s, b: F.instance_norm(x, weight=s, bias=b), IMAGE, PAIR, PAIR),
    "batch_norm": (
        lambda x, s, b, m, v: tnp.batch_norm(x, s, b, m, v),
        lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b), IMAGE, PAIR, PAIR, PAIR, PAIR**2 + 1),
    "dropout": (
        lambda x, m: tnp.dropout(x, m, rate=0.25), lambda x, m: x * m / 0.75, X, Y > 0),
    "cross_entropy": (lambda x, t: tnp.cross_entropy(x, t), F.cross_entropy, X, CLASSES),
    "cross_entropy with options": (
        lambda x, t, w: tnp.cross_entropy(x, t, w, reduction="sum", smoothing=0.1),
        lambda x, t, w: F.cross_entropy(x, t, w, reduction="sum", label_smoothing=0.1),
        X, CLASSES, PAIR[[0, 1, 2, 3, 4, 5, 0]] ** 2),
    "mse_loss": (lambda x, y: tnp.mse_loss(x, y), F.mse_loss, X, Y),
    "l1_loss": (lambda x, y: tnp.l1_loss(x, y, reduction="sum"),
                lambda x, y: F.l1_loss(x, y, reduction="sum"), X, Y),
    "huber_loss": (lambda x, y: tnp.huber_loss(x, y, delta=0.5),
                   lambda x, y: F.huber_loss(x, y, delta=0.5), X, Y),
    "bce_loss": (lambda x, y: tnp.bce_loss(x, y), F.binary_cross_entropy, P, P[::-1].copy()),
    "kl_div": (lambda x, y: tnp.kl_div(x, y, reduction="batchmean"),
               lambda x, y: F.kl_div(x, y, reduction="batchmean"), X, P),
    "attention": (
        lambda q, k: tnp.attention(q, k, k, scale=0.3),
        lambda q, k: F.scaled_dot_product_attention(q, k, k, scale=0.3), IMAGE, IMAGE * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_same_as_pytorch(name: Any) -> None:
    ours, theirs, *arrays = CASES[name]
    expected = theirs(*map(torch.from_numpy, arrays)).numpy()
    found = np.asarray(tileloom.jit(ours)(*arrays))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_outside_of_a_traced_function() -> None:
    found = tnp.cross_entropy(X, CLASSES, reduction="none")
    expected = F.cross_entropy(*map(torch.from_numpy, (X, CLASSES)), reduction="none").numpy()
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    assert np.asarray(tnp.gelu(np.arange(3))).dtype == np.float64


def test_mistakes() -> None:
    with pytest.raises(DTypeError, match="cross_entropy: the targets must be integers"):
        tnp.cross_entropy(X, Y[:, 0])
    with pytest.raises(ShapeError, match="4 groups do not divide"):
        tnp.group_norm(IMAGE, PAIR, PAIR, 4)
