"""Steps of optimizers on several weights at once, against ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from frontend.onnx.helpers import agree, one_node, run, run_node
from tileloom.base.errors import UserError
from tileloom.frontend.onnx.handlers.training import DOMAIN

RANDOM = np.random.default_rng(11)
RATE = np.float32(0.1)
#: How many tensors belong to a weight: it, its gradient and what is kept of it.
PARTS = {"Adagrad": 3, "Momentum": 3, "Adam": 4}
ATTRS: dict[str, dict[str, Any]] = {
    "Adagrad": {"decay_factor": 0.1, "epsilon": 1e-3},
    "Momentum": {"alpha": 0.9, "beta": 0.2, "mode": "standard"},
    "Adam": {"alpha": 0.8, "beta": 0.9, "epsilon": 1e-2},
}


def tensors(op: str, weights: int) -> list[np.ndarray]:
    """Weights of different shapes; the statistics are not negative."""
    found = [RANDOM.standard_normal((2, 3 + w), np.float32) for w in range(weights)] * PARTS[op]
    return [RANDOM.uniform(0.1, 2, x.shape).astype("float32") for x in found]


def check(op: str, count: int, weights: int, **attrs: Any) -> None:
    """The evaluator computes Adam in float64 after the first step."""
    arrays = [RATE, np.array(count, np.int64), *tensors(op, weights)]
    proto: Any = one_node(
        op, arrays, 1, (PARTS[op] - 1) * weights, DOMAIN, **{**ATTRS[op], **attrs}
    )
    wanted = ReferenceEvaluator(proto).run(None, {f"x{k}": x for k, x in enumerate(arrays)})
    agree(run(proto, *arrays), [np.asarray(x, "float32") for x in wanted])


@pytest.mark.parametrize("op", PARTS)
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("weights", [1, 2])
@pytest.mark.parametrize("coefficient", [0.0, 0.25])
def test_steps(op: Any, count: int, weights: int, coefficient: float) -> None:
    check(op, count, weights, norm_coefficient=coefficient)


@pytest.mark.parametrize("count", [0, 1])
def test_a_look_ahead(count: int) -> None:
    check("Momentum", count, 2, mode="nesterov", norm_coefficient=0.25)


def test_a_weight_that_shrinks_after_the_step() -> None:
    check("Adam", 2, 1, norm_coefficient=0.0, norm_coefficient_post=0.25)


@pytest.mark.parametrize(("op", "given"), [("Adagrad", 4), ("Momentum", 5), ("Adam", 6)])
def test_tensors_that_cannot_be_cut(op: str, given: int) -> None:
    arrays = [RATE, np.array(1, np.int64), *tensors(op, 2)[:given]]
    with pytest.raises(UserError, match="cannot be cut into"):
        run_node(op, *arrays, opset=1, outputs=2, domain=DOMAIN, norm_coefficient=0.0, **ATTRS[op])
