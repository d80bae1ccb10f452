"""Iterators cut by predicates: what is left is what the predicate lets through."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Expr, IntImm, Range, Var, detect_iter_map, evaluate

I, J = Var("i"), Var("j")


@pytest.mark.parametrize(
    ("index", "predicate"),
    [
        (I, I >= 2), (I, I < 7), (I * 3 + 1, I >= 2), (I + 5, (I + 5) < 9),
        (I * 4 + J, I * 4 + J >= 5), (I * 4 + J, I * 4 + J < 41), (I * 4 + J + 3, I * 4 + J > 10),
        ((I * 4 + J) * 2, I * 4 + J <= 13),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_predicate_leaves(index: Any, predicate: Expr) -> None:
    domains = {I: Range(0, 12), J: Range(0, 4)}
    found = detect_iter_map([index], domains, predicate, check_level="surjective")
    (total,) = found.indices
    (split,) = total.args
    ends = split.extent, split.scale, total.base
    assert all(isinstance(end, IntImm) for end in ends)
    extent, scale, base = (int(end) for end in ends)  # type: ignore[call-overload]
    points = [{I: i, J: j} for i in range(12) for j in range(4)]
    wanted = {evaluate(index, p) for p in points if evaluate(predicate, p)}
    assert {base + scale * k for k in range(extent)} == wanted
