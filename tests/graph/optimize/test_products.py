"""Products of transposed and of widened operands, and results that nobody reads."""

from __future__ import annotations

from typing import Any

from graph.optimize.rule_checks import check_example, examples_of
from graph.optimize.rule_examples import Example


@examples_of("products")
def test_function_holds_in_its_class(rule: Any, example: Example) -> None:
    check_example(rule, example)
