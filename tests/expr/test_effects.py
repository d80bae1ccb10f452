"""Which expressions do something when they are evaluated, wherever in them it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom.expr import (
    LT,
    And,
    Broadcast,
    Call,
    Cast,
    Expr,
    Let,
    Min,
    Not,
    Ramp,
    Select,
    Shuffle,
    Var,
    const,
    intrin,
)
from tileloom.expr.effects import has_effect

X = Var("x")
EFFECTS = ("tir.call_extern", "tir.atomic_add", "tir.lane_id", "tir.tvm_call_packed", "tir.ptx_mma")
PURE = ("tir.exp", "tir.if_then_else", "tir.call_pure_extern", "tir.shift_left", "tir.likely")
AROUND: list[Callable[[Any], Expr]] = [
    lambda e: e,
    lambda e: e + 1,
    lambda e: 1 - (X + e),
    lambda e: Min(X, e),
    lambda e: Cast("int64", e),
    lambda e: Not(LT(e, X)),
    lambda e: And(LT(X, X + 1), LT(X, e)),
    lambda e: Select(LT(X, const(3)), X, e),
    lambda e: Select(LT(e, const(3)), X, X + 1),
    lambda e: Ramp(X, e, 4),
    lambda e: Broadcast(e, 4),
    lambda e: Shuffle([X, e], [0]),
    lambda e: Let(Var("y"), e, X),
    lambda e: Let(Var("y"), X, e),
    lambda e: Call("int32", "tir.popcount", (e,)),
    lambda e: intrin.if_then_else(X < 3, X, e),
]


@pytest.mark.parametrize("around", range(len(AROUND)))
def test_an_effect_within_is_an_effect(around: int) -> None:
    for op in EFFECTS:
        made = AROUND[around](Call("int32", op, (X,)))
        assert has_effect(made) and has_effect(made)  # what was found is kept
    for op in PURE:
        made = AROUND[around](Call("int32", op, (X,)))
        assert not has_effect(made) and not has_effect(made)
    assert not has_effect(AROUND[around](X * 7))
