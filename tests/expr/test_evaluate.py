"""Values of vectors and of scalars beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Add, Broadcast, Call, Max, Ramp, Select, Shuffle, Var, const, evaluate

I, J, P = Var("i"), Var("j"), Var("p", "bool")
ENV: dict[Any, Any] = {I: 3, J: 10, P: True}


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (Ramp(I, const(2), 4), [3, 5, 7, 9]),
        (Broadcast(I, 3), [3, 3, 3]),
        (Add(Ramp(I, const(2), 3), Broadcast(J, 3)), [13, 15, 17]),
        (Max(Ramp(I, const(5), 3), Broadcast(J, 3)), [10, 10, 13]),
        (Select(P, Ramp(I, const(1), 3), Broadcast(J, 3)), [3, 4, 5]),
        (Select(Broadcast(P, 3), Ramp(I, const(1), 3), Broadcast(J, 3)), [3, 4, 5]),
        (Shuffle((Ramp(I, const(1), 3), Broadcast(J, 2)), (4, 0, 2)), [10, 3, 5]),
        (Shuffle((Ramp(I, const(1), 3),), (2,)), 5),
        (Shuffle((I, J), (1, 0)), [10, 3]),
        (Shuffle((I, J), (1,)), 10),
        (Call("int32x3", "tir.shift_left", (Ramp(I, const(1), 3), Broadcast(const(2), 3))),
         [12, 16, 20]),
        (Call("int32x3", "tir.shift_left", (Ramp(I, const(1), 3), const(2))), [12, 16, 20]),
    ],
    ids=str,
)  # fmt: skip
def test_lanes(expr: Any, value: Any) -> None:
    assert evaluate(expr, ENV) == value
