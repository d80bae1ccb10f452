"""Sets of integers with one remainder, by enumeration."""

from __future__ import annotations

import itertools

from tileloom.expr import (
    Analyzer,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Range,
    Var,
    const,
    evaluate,
)
from tileloom.expr.modular import EVERYTHING, ModularSet, modular, modular_set

I, J = Var("i"), Var("j")


def test_members() -> None:
    for coeff, base in itertools.product(range(-4, 5), range(-3, 6)):
        found = modular(coeff, base)
        for value in range(-12, 13):
            wanted = value == base if coeff == 0 else (value - base) % coeff == 0
            assert (value in found) == wanted
        others: list[object] = [1.0, "1", None]
        assert not any(other in found for other in others)
    assert all(value in EVERYTHING for value in range(-3, 4))


def test_operations_hold_every_value_and_are_as_close_as_they_can_be() -> None:
    """Of `i = 4 a + 1` and `j = 6 b + 2`: the set holds all values; the listed ones are exact."""
    known = Analyzer({I: Range(-40, 80), J: Range(-40, 80)})
    known.bind_modular(I, 4, 1)
    known.bind_modular(J, 6, 2)
    ones = [i for i in range(-13, 14) if i % 4 == 1]
    twos = [j for j in range(-13, 14) if j % 6 == 2]
    for expr, exact in [
        (I + J, ModularSet(2, 1)), (I - J, ModularSet(2, 1)), (I * J, ModularSet(2, 0)),
        (I * 3, ModularSet(12, 3)), (I * 0 + 7, ModularSet(0, 7)), (J * 5 + 1, ModularSet(30, 11)),
        (I % 2, ModularSet(0, 1)), (I % 4, ModularSet(0, 1)), (J % 3, ModularSet(0, 2)),
        (I * 6 + J, ModularSet(6, 2)), (I // 1, ModularSet(4, 1)), ((J - 2) // 3, ModularSet(2, 0)),
        ((J - 2) // 6, ModularSet(1, 0)), (const(5) - I, ModularSet(4, 0)), (I // 3, EVERYTHING),
    ]:  # fmt: skip
        found = known.modular_set(expr)
        assert found == exact, (expr, found)
        for i, j in itertools.product(ones, twos):
            assert evaluate(expr, {I: i, J: j}) in found


def test_sets_of_single_nodes() -> None:
    """Of `i = 4 a + 1`, as the expression stands."""
    for expr, exact in [
        (FloorMod(I, const(1)), ModularSet(0, 0)), (FloorMod(I, const(2)), ModularSet(0, 1)),
        (FloorMod(I, const(6)), ModularSet(2, 1)), (FloorMod(I, const(-4)), EVERYTHING),
        (FloorDiv(I, const(1)), ModularSet(4, 1)), (FloorDiv(I, const(2)), ModularSet(2, 0)),
        (FloorDiv(I, const(3)), EVERYTHING), (FloorDiv(I, const(-4)), EVERYTHING),
        (I << 1, ModularSet(8, 2)), (I << 0, ModularSet(4, 1)), (I >> 1, EVERYTHING),
        (Min(I, I + 8), ModularSet(4, 1)), (Max(I, const(3)), ModularSet(2, 1)),
    ]:  # fmt: skip
        found = modular_set(expr, {I: ModularSet(4, 1)})
        assert found == exact, (expr, found)
        assert all(evaluate(expr, {I: i}) in found for i in range(-11, 14, 4))
