"""Sets of values with an open end: what extremes cut of them, and what they leave open."""

from __future__ import annotations

import pytest

from tileloom.expr import Analyzer, Expr, Range, Var, intrin
from tileloom.expr.nodes import Call

I = Var("i")
#: Anything: it depends on `i`, and nothing is known of it.
ANY = Call("int32", "tir.call_pure_extern", (I,))
FROM_ZERO, TO_NINE = intrin.max(ANY, 0), intrin.min(ANY, 9)


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (ANY, None, None),
        (FROM_ZERO, "0", None),
        (TO_NINE, None, "9"),
        (intrin.max(FROM_ZERO, I), "2", None),
        (intrin.max(I, FROM_ZERO), "2", None),
        (intrin.max(TO_NINE, I), "2", "9"),
        (intrin.max(I, TO_NINE), "2", "9"),
        (intrin.max(FROM_ZERO, TO_NINE), "0", None),
        (intrin.max(ANY, I), "2", None),
        (intrin.min(FROM_ZERO, I), "0", "6"),
        (intrin.min(I, FROM_ZERO), "0", "6"),
        (intrin.min(TO_NINE, I), None, "6"),
        (intrin.min(I, TO_NINE), None, "6"),
        (intrin.min(FROM_ZERO, TO_NINE), None, "9"),
        (intrin.min(I, ANY), None, "6"),
    ],
)
def test_extremes_of_open_sets(expr: Expr, low: str | None, high: str | None) -> None:
    found = Analyzer().int_set(expr, {I: Range(2, 5)})
    assert [None if end is None else str(end) for end in found] == [low, high]
