"""The tutorial's steps: proven, right in numbers, and shown on the page as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from benchmarks.tutorial_matmul import PAGE, STEPS, abridged, code


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_step_is_right(step: Any) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)
    c = np.full((64, 64), np.nan, np.float32)
    tileloom.build(step.apply(64).mod["main"])(a, b, c)
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_step_is_proven(step: Any) -> None:
    pytest.importorskip("islpy")
    assert step.apply(64).verify().state == "ok"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_page_shows_the_step(step: Any) -> None:
    page = PAGE.read_text()
    hint = "run python -m benchmarks.tutorial_matmul --write"
    assert abridged(step.apply()) in page, hint
    assert code(step.schedule, whole=False) in page, hint
