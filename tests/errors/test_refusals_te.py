"""What tensor expressions refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileloom import te
from tileloom.base.errors import DTypeError, ShapeError, UserError
from tileloom.expr import Var, intrin
from tileloom.expr.build import as_expr

A = te.placeholder((4, 8), name="A")
N = Var("n")
K = te.reduce_axis((0, 8), name="k")
I = Var("i")

CASES: list[tuple[Callable[[], object], type[UserError], str]] = [
    (lambda: te.placeholder((4,), align=3), UserError, r"unexpected arguments \['align'\]"),  # type: ignore[arg-type]
    (lambda: te.compute((4, 8), lambda i: A[i, 0]), UserError, "over 2 .* got one of 1"),
    (lambda: te.compute((4,), lambda i, j: A[i, j]), UserError, "over 1 .* got one of 2"),
    (lambda: A(0), ShapeError, "'A' has 2 dimensions, indexed with 1"),
    (lambda: A(0, 1, 2), ShapeError, "'A' has 2 dimensions, indexed with 3"),
    (lambda: te.sum(A[0, K], axis=K, init=(0.0, 1.0)), UserError, "1 values but 2 initial ones"),
    (lambda: te.placeholder((N, 3), name="B").static_shape, ShapeError, "'B' has a symbolic shape"),
    (lambda: bool(I < 3), UserError, "no truth value"),
    (lambda: I / 3, DTypeError, "'/' of integers"),
    (lambda: as_expr(3) % 0, UserError, "division by zero in 3 % 0"),
    (lambda: as_expr(object()), UserError, "cannot make an expression of"),
    (lambda: A[0, 0] << 1, DTypeError, "needs integers"),
    (lambda: A[0, 0] & 1, DTypeError, "needs integers, got float32"),
    (lambda: intrin.nan("int32"), DTypeError, "int32 has no NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "match"), CASES, ids=[match for *_, match in CASES])
def test_refusals(act: Callable[[], object], kind: type[UserError], match: str) -> None:
    with pytest.raises(kind, match=match):
        act()
