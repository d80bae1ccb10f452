"""docs/schedules.md: its examples run, its list is that of the registry."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from schedule_listing import listing, rewritten

from tileloom.schedule.instruction import kinds

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"


def test_the_list_is_up_to_date() -> None:
    hint = "run python tools/schedule_listing.py docs/schedules.md"
    assert rewritten(PAGE.read_text()) == PAGE.read_text(), hint


def test_the_list_has_every_primitive() -> None:
    text = listing()
    for name in kinds():
        assert f"| `{name}(" in text


def test_examples_run() -> None:
    pytest.importorskip("islpy")
    text = PAGE.read_text().replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 20
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test).failed == 0
