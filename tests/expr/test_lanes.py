"""Vectors of expressions: a scalar may be repeated, lanes may not."""

from __future__ import annotations

import pytest

from tileloom.base.errors import DTypeError, UserError
from tileloom.expr import Var
from tileloom.expr.nodes import Broadcast, Ramp, Shuffle, broadcast_to, match_lanes

I, J = Var("i"), Var("j")


def test_scalars_are_repeated() -> None:
    four = Broadcast(I, 4)
    assert broadcast_to(I, 4) is four and broadcast_to(four, 4) is four
    assert broadcast_to(I, 1) is I
    assert match_lanes(J, four) == (Broadcast(J, 4), four)
    assert match_lanes(four, J) == (four, Broadcast(J, 4))


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("make", [lambda n: Broadcast(I, n), lambda n: Ramp(I, 1, n)])  # type: ignore[arg-type]
def test_lanes_are_not_repeated(lanes: int, make: object) -> None:
    narrow, wide = make(lanes), Broadcast(J, 8)  # type: ignore[operator]
    with pytest.raises(DTypeError, match=f"int32x{lanes} to 8 lanes"):
        broadcast_to(narrow, 8)
    with pytest.raises(DTypeError, match=f"int32x{lanes} to 8 lanes"):
        match_lanes(narrow, wide)
    with pytest.raises(DTypeError, match=f"int32x{lanes} to 8 lanes"):
        _ = wide + narrow
    with pytest.raises(DTypeError, match="int32x8 to 1 lanes"):
        broadcast_to(wide, 1)


@pytest.mark.parametrize("picks", [[4], [0, -1], [0, 3, 5], []])
def test_positions_outside_of_what_is_shuffled(picks: list[int]) -> None:
    with pytest.raises(UserError, match="a shuffle of 4 elements has no positions"):
        Shuffle([Ramp(I, 1, 2), Broadcast(J, 2)], picks)  # type: ignore[arg-type]
    assert Shuffle([Ramp(I, 1, 2), Broadcast(J, 2)], [3, 0, 0]).dtype == "int32x3"  # type: ignore[arg-type]
