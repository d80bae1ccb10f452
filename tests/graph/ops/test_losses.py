"""Losses and their gradients against PyTorch in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, values
from graph.ops.test_gradients import compiled, gradients, normal, same
from tileloom.base.errors import DTypeError, ShapeError, UserError
from tileloom.graph import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

REDUCTIONS = ["none", "mean", "sum"]
SHAPES = [(), (1,), (3, 5)]


def expected(function: Any, *arrays: Any) -> Any:
    return function(*map(torch.from_numpy, arrays)).numpy()


def probabilities(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-normal(*shape, seed=seed))))


PAIRS: dict[str, Any] = {
    "mse": (ops.mse_loss, ops.mse_loss_grad, F.mse_loss, {}),
    "l1": (ops.l1_loss, ops.l1_loss_grad, F.l1_loss, {}),
    "huber": (ops.huber_loss, ops.huber_loss_grad, F.huber_loss, {"delta": 0.7}),
    "smooth_l1": (ops.smooth_l1_loss, ops.smooth_l1_loss_grad, F.smooth_l1_loss, {"beta": 0.7}),
    "smooth_l1 of 0": (ops.smooth_l1_loss, ops.smooth_l1_loss_grad, F.smooth_l1_loss, {"beta": 0}),
    "bce": (ops.bce_loss, ops.bce_loss_grad, F.binary_cross_entropy, {}),
    "kl": (ops.kl_div, ops.kl_div_grad, F.kl_div, {}),
    "kl of logs": (ops.kl_div, ops.kl_div_grad, F.kl_div, {"log_target": True}),
}


def operands(name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    if name == "bce" or name == "kl":
        return probabilities(*shape), probabilities(*shape, seed=1)
    return np.asarray(normal(*shape)), np.asarray(normal(*shape, seed=1))


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: Any, reduction: Any) -> None:
    ours, ours_grad, theirs, more = PAIRS[name]
    more = {**more, "reduction": reduction}
    for shape in SHAPES:
        x, target = operands(name, shape)
        loss = check(lambda a, b: ours(a, b, **more), x, target)
        np.testing.assert_allclose(loss, expected(lambda a, b: theirs(a, b, **more), x, target),
                                   rtol=1e-10, atol=1e-12)  # fmt: skip
        dy = np.asarray(normal(*np.shape(loss), seed=2))
        found = check(lambda d, a, b: ours_grad(d, a, b, **more), dy, x, target)
        target_ = torch.from_numpy(target)
        same(found, gradients(lambda a, t=target_: theirs(a, t, **more), dy, x))
    narrow = [v.astype("float16") for v in operands(name, (3, 5))]
    assert check(lambda a, b: ours(a, b, **more), *narrow).dtype == "float16"


@pytest.mark.parametrize("name", ["mse", "huber", "bce", "kl"])
def test_compiled(name: str) -> None:
    ours, ours_grad, _, _ = PAIRS[name]
    x, target = (v.astype("float32") for v in operands(name, (5, 7)))
    compiled(ours, x, target)
    compiled(ours_grad, np.asarray(1.5, "float32"), x, target)


def test_losses_of_nothing() -> None:
    empty = np.zeros((0, 3))
    assert np.isnan(values(ops.mse_loss, empty, empty))
    assert values(lambda a, b: ops.huber_loss(a, b, reduction="sum"), empty, empty) == 0


def test_edges_of_probabilities() -> None:
    p, target = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
    theirs = expected(lambda a, b: F.binary_cross_entropy(a, b, reduction="none"), p, target)
    assert check(lambda a, b: ops.bce_loss(a, b, reduction="none"), p, target).tolist() == (
        theirs.tolist()
    )
    x, zero = np.array([-1.0, 2.0]), np.array([0.0, 1.0])
    assert check(lambda a, b: ops.kl_div(a, b, reduction="none"), x, zero).tolist() == [0, -2]
    weight = np.array([2.0, 3.0, 1.0, 0.5])
    found = values(lambda a, b, w: ops.bce_loss(a, b, w, "sum"), p, target, weight)
    np.testing.assert_allclose(found, 150)
    found = values(lambda d, a, b, w: ops.bce_loss_grad(d, a, b, w, "sum"),
                   np.asarray(1.0), p, target, weight)  # fmt: skip
    theirs = gradients(lambda a: F.binary_cross_entropy(a, torch.from_numpy(target),
                       torch.from_numpy(weight), reduction="sum"), np.asarray(1.0), p)  # fmt: skip
    same(found, theirs, rtol=1e-8)


def test_batchmean() -> None:
    x, target = normal(4, 5), probabilities(4, 5)
    found = values(lambda a, b: ops.kl_div(a, b, reduction="batchmean"), x, target)
    theirs = expected(lambda a, b: F.kl_div(a, b, reduction="batchmean"), x, target)
    np.testing.assert_allclose(found, theirs)
    found = values(lambda d, a, b: ops.kl_div_grad(d, a, b, reduction="batchmean"),
                   np.asarray(2.0), x, target)  # fmt: skip
    same(found, [-target * 2 / 4])


def test_log_loss() -> None:
    p, label = probabilities(3, 5), np.round(probabilities(3, 5, seed=1))
    by_hand = -label * np.log(p + 1e-4) - (1 - label) * np.log(1 - p + 1e-4)
    np.testing.assert_allclose(check(ops.log_loss, p, label), by_hand)
    formula = lambda t: -torch.from_numpy(label) * torch.log(t + 1e-4) - (  # noqa: E731
        1 - torch.from_numpy(label)) * torch.log(1 - t + 1e-4)  # fmt: skip
    dy = normal(3, 5)
    same(check(ops.log_loss_grad, dy, p, label), gradients(formula, dy, p))


def test_sigmoid_cross_entropy() -> None:
    x = np.array([[-1000.0, -3, 0], [0.5, 4, 1000]])
    label, dy = probabilities(2, 3), normal(2, 3)
    theirs = lambda a: F.binary_cross_entropy_with_logits(  # noqa: E731
        a, torch.from_numpy(label), reduction="none")  # fmt: skip
    name = "sigmoid_cross_entropy_with_logits"
    np.testing.assert_allclose(check(getattr(ops, name), x, label), expected(theirs, x))
    same(check(getattr(ops, f"{name}_grad"), dy, x, label), gradients(theirs, dy, x))
    compiled(getattr(ops, name), x.astype("float32"), label.astype("float32"))


# ---------------------------------------------------------------------------- classes

CLASSES = [(5,), (3, 7), (1, 1), (2, 3, 2, 2)]


def targets(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    axis = min(1, len(shape) - 1)
    rest = (*shape[:axis], *shape[axis + 1 :])
    return np.asarray(np.random.default_rng(seed).integers(0, shape[axis], rest))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll(weighted: bool, reduction: Any) -> None:
    for shape in CLASSES:
        x, target = normal(*shape), targets(shape)
        weight = [probabilities(shape[min(1, len(shape) - 1)])] if weighted else []
        for ignored in (-100, 0):
            if ignored == 0 and (np.all(target == 0) or len(shape) == 1):
                continue
            _check_nll(x, target, weight, {"reduction": reduction}, ignored)


def _check_nll(x: Any, target: Any, weight: Any, more: Any, ignored: Any) -> None:
    def theirs(a: Any) -> Any:
        given = map(torch.from_numpy, (target, *weight))
        return F.nll_loss(a, *given, ignore_index=ignored, **more)

    def ours(*tensors: Any) -> Any:
        return list(ops.nll_loss(*tensors, ignored=ignored, **more))

    loss, total = check(ours, x, target, *weight)
    np.testing.assert_allclose(loss, expected(theirs, x), atol=1e-12)
    dy = np.asarray(normal(*np.shape(loss), seed=2))
    found = check(lambda *t: ops.nll_loss_grad(*t, ignored=ignored, **more),
                  dy, x, target, total, *weight)  # fmt: skip
    same(found, gradients(theirs, dy, x))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(reduction: Any, weighted: bool, smoothing: float) -> None:
    for shape in CLASSES:
        x, target = normal(*shape), targets(shape)
        weight = [probabilities(shape[min(1, len(shape) - 1)])] if weighted else []
        found = check(lambda *t: ops.cross_entropy(*t, reduction=reduction, smoothing=smoothing),
                      x, target, *weight)  # fmt: skip
        theirs = F.cross_entropy(*map(torch.from_numpy, (x, target, *weight)), reduction=reduction,
                                 label_smoothing=smoothing)  # fmt: skip
        np.testing.assert_allclose(found, theirs.numpy(), atol=1e-12)


def test_softmax_cross_entropy() -> None:
    x, dy = normal(4, 7), normal(4)
    labels = np.exp(normal(4, 7, seed=1))
    labels /= labels.sum(1, keepdims=True)
    loss, gradient = check(lambda *t: list(ops.softmax_cross_entropy_with_logits(*t)), x, labels)
    theirs = lambda a: F.cross_entropy(a, torch.from_numpy(labels), reduction="none")  # noqa: E731
    np.testing.assert_allclose(loss, expected(theirs, x))
    same(gradient, gradients(theirs, np.ones(4), x))
    target = targets((4, 7))
    sparse = check(ops.sparse_softmax_cross_entropy_with_logits, x, target)
    theirs = lambda a: F.cross_entropy(a, torch.from_numpy(target), reduction="none")  # noqa: E731
    np.testing.assert_allclose(sparse, expected(theirs, x))
    found = check(ops.sparse_softmax_cross_entropy_with_logits_grad, dy, x, target)
    same(found, gradients(theirs, dy, x))


def test_classes_compiled() -> None:
    x, target = normal(6, 11).astype("float32"), targets((6, 11))
    compiled(ops.cross_entropy, x, target)
    compiled(lambda a, b: list(ops.softmax_cross_entropy_with_logits(a, b)), x, np.abs(x))
    compiled(ops.nll_loss_grad, np.float32(2.0), x, target, np.float32(6.0))


def test_large_logits() -> None:
    x = np.array([[1e4, 0.0, -1e4], [-math.inf, 0.0, 0.0]], "float32")
    found = check(lambda a, t: ops.cross_entropy(a, t, reduction="none"), x, np.array([2, 1]))
    np.testing.assert_allclose(found, [2e4, math.log(2)], rtol=1e-6)


def test_mistakes_are_told() -> None:
    x, target = np.zeros((2, 3)), np.zeros(2, int)
    with pytest.raises(UserError, match="unknown reduction 'all'"):
        values(lambda a, b: ops.mse_loss(a, b, "all"), x, x)
    with pytest.raises(ShapeError, match="nll_loss: targets"):
        values(lambda a, b: list(ops.nll_loss(a, b)), x, np.zeros(3, int))
    with pytest.raises(DTypeError, match="nll_loss: the targets"):
        values(lambda a, b: list(ops.nll_loss(a, b)), x, np.zeros(2))
    with pytest.raises(ShapeError, match="weights"):
        values(lambda a, b, w: list(ops.nll_loss(a, b, w)), x, target, np.zeros(2))
