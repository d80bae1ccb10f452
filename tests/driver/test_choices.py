"""Choices measured in another process, and found again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from driver.slow_choices import make
from tileloom.base.settings import override
from tileloom.driver import chosen, tune_choice
from tileloom.tuner.measure import Timing

TIMING = Timing(samples=4, sample_seconds=1e-3)


def test_the_fastest_of_those_that_are_right_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "records.db"
    choices = ("default", "fast", "slow", "wrong", "error", "crash")
    found = tune_choice("sums", partial(make, 3), choices, place, TIMING)
    assert found.choice == "fast" and found.speedup > 2
    assert set(found.errors) == {"wrong", "error", "crash"}
    assert "off by 1" in found.errors["wrong"] and "SIGSEGV" in found.errors["crash"]
    with override(records=str(place)):
        assert chosen(lambda: "sums") == "fast"
        assert chosen(lambda: "others") is None
    with override(records="none"):
        assert chosen(lambda: pytest.fail("asked for a key")) is None


def test_the_default_stays_where_nothing_is_faster(tmp_path: Path) -> None:
    place = tmp_path / "records.db"
    found = tune_choice("sums", partial(make, 3), ("default", "slow"), place, TIMING)
    assert found.choice == "default" and found.speedup == 1
    with override(records=str(place)):
        assert chosen(lambda: "sums") == "default"
