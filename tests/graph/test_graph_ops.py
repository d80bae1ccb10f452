"""Every op that the sources name is here, and the page says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import graph_ops
import numpy as np
import pytest

from graph.ops.checks import check, values
from graph.ops.test_gradients import compiled
from tileloom.graph import ops
from tileloom.graph.op import REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "graph-ops.md"
ALL = [
    (title, name, here)
    for title, names in (
        ("MindSpore", graph_ops.MINDSPORE),
        ("PaddlePaddle", graph_ops.PADDLE),
        ("backward", graph_ops.PADDLE_BACKWARD),
    )
    for name, here in names.items()
]


@pytest.mark.parametrize(("source", "name", "here"), ALL, ids=lambda value: str(value))
def test_is_an_op(source: Any, name: Any, here: Any) -> None:
    assert here in ops.__all__ and callable(getattr(ops, here)), name
    assert graph_ops.describe(here).rpartition("| ")[2], f"{here} has no documentation"


#: What is made of other ops at once, and needs no rule of its own.
BUILDERS = {
    "any", "clip", "expand_dims", "eye", "flatten", "full_like", "instance_norm",
    "instance_norm_grad", "one_hot", "reduce_sum_grad", "roll", "squeeze", "stack",
    "strided_slice", "take_along_axis", "tile", "unstack",
}  # fmt: skip


def test_is_registered_or_a_builder() -> None:
    for _, name, here in ALL:
        assert (here in REGISTRY) != (here in BUILDERS), (name, here)


def test_every_gradient_and_loss_is_composite() -> None:
    for name in ops.__all__:
        if name.endswith(("_grad", "_loss")) and name not in BUILDERS:
            assert REGISTRY[name].expand is not None, name


def test_page() -> None:
    assert PAGE.read_text() == graph_ops.page(), "python tools/graph_ops.py > the page"


def test_addmm_and_float_status(rng: np.random.Generator) -> None:
    x, a, b = (rng.standard_normal(s) for s in ((5,), (3, 4), (4, 5)))
    found = check(lambda *t: ops.addmm(*t, 2.0, 0.5), x, a, b)
    np.testing.assert_allclose(found, 0.5 * x + 2 * (a @ b))
    compiled(ops.addmm, *(v.astype("float32") for v in (x, a, b)))
    assert values(ops.float_status, x) == 0
    for bad in (np.nan, np.inf, -np.inf):
        assert check(ops.float_status, np.array([1.0, bad])) == 1
