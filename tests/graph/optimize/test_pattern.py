"""Rules as text: what is a rule, and the orders in which its left side may be met."""

from __future__ import annotations

import pytest

from tileloom.base.errors import InternalError
from tileloom.graph.optimize.pattern import cases_of, parse_term


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a - b = b", 1),
        ("a + b = b", 2),
        ("a + a = a * 2", 1),
        ("(a + b) * c = c", 4),
        ("(a + b) * (a - b) = a", 4),
        ("exp(a) * exp(b) = exp(a + b)", 2),
    ],
)
def test_orders_of_the_left_side(text: str, count: int) -> None:
    assert len(cases_of(text)) == count


@pytest.mark.parametrize("text", ["a = a", "0 = a", "-1.5 = a"])
def test_left_sides_that_are_no_op(text: str) -> None:
    with pytest.raises(InternalError, match="must be an op"):
        cases_of(text)


@pytest.mark.parametrize("text", ["a if b else c", "'a'", "a @ b", "a[0]", "None"])
def test_what_is_no_term(text: str) -> None:
    with pytest.raises(InternalError, match="is no term of a rule"):
        parse_term(text)
