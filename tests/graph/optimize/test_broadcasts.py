"""Broadcasts that are dropped, moved behind the work, or stay."""

from __future__ import annotations

from typing import Any

from graph.optimize.rule_checks import check_example, examples_of
from graph.optimize.rule_examples import Example


@examples_of("broadcasts")
def test_function_holds_in_its_class(rule: Any, example: Example) -> None:
    check_example(rule, example)
