"""Elements that the iterations of a loop store into, against all iterations."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tileloom.expr import Expr, Min, Var, const
from tileloom.expr.evaluate import evaluate
from tileloom.lower.vector.places import StoredPlaces
from tileloom.tir import BufferLoad, BufferStore, Evaluate, For, LetStmt, Stmt, make_buffer

I, J, N = Var("i"), Var("j"), Var("n")
T = make_buffer((64,), "int32", "T")
LOOPS = [(0, 8), (3, 5), (0, 1), (2, 2)]
INDICES: list[Expr] = [
    I, I + 3, I * 2, I * -1, I // 2, I % 4, I % 16, I * 3 % 8, (I + 1) // 3 * 8 + I % 3,
    I % 2 * 4 + I // 2, I % 4 + I // 4 * 2, I % 2 - I, I * 0 + 5, I + N * 4, I % 3 + J, J,
    I // 4 * 4 + J, I * I, I * 4 + I % 4, Min(I, const(4)), I % 2 + I // 2 * 3,
]  # fmt: skip


def loop(low: int | Expr, extent: int | Expr, body: Stmt | None = None) -> For:
    ends = [x if isinstance(x, Expr) else const(x) for x in (low, extent)]
    return For(I, ends[0], ends[1], "serial", body or Evaluate(const(0)))


def elements(index: Expr, low: int, extent: int) -> list[int]:
    return [int(evaluate(index, {I: i, J: 1000, N: 500})) for i in range(low, low + extent)]


@pytest.mark.parametrize(("low", "extent"), LOOPS)
def test_elements_of_their_own(low: int, extent: int) -> None:
    places = StoredPlaces(loop(low, extent))
    for index in INDICES:
        found = elements(index, low, extent)
        moves = len(set(elements(index, -9, 30))) > 1
        wanted = len(set(found)) == len(found) and (moves or extent > 1)
        assert places.apart(index) == wanted, (index, found)


@pytest.mark.parametrize(("low", "extent"), LOOPS)
def test_stores_that_cross(low: int, extent: int) -> None:
    """What is linear in the loop's variable is decided; of the rest nothing is sure."""
    places = StoredPlaces(loop(low, extent))
    linear = [I, I + 1, I + 2, I + 7, I + 8, I * 2, I * 2 + 3, I * 2 + 4, I * -1, I * -1 + 2, I + N]
    for a, b in combinations([*linear, J, I // 2], 2):
        own = [elements(x, low, extent) for x in (a, b)]
        same_step = own[0][-1] - own[0][0] == own[1][-1] - own[1][0] or extent == 1
        meets = any(x == y and k != m for k, x in enumerate(own[0]) for m, y in enumerate(own[1]))
        found = places.cross([a, b])
        assert not found or meets, (a, b)
        if same_step and extent > 1 and not {a, b} & {J, I // 2}:
            assert found == meets, (a, b)
    assert places.cross([I, I * 2, I + 1]) == (extent > 1)
    assert not places.cross([I]) and not places.cross([])


def test_loops_of_unknown_length() -> None:
    places = StoredPlaces(loop(0, N))
    assert places.apart(I * 3) and not places.apart(I % 4) and not places.apart(I // 2)
    assert places.cross([I, I + 100]) and not places.cross([I, I])
    assert StoredPlaces(loop(N, 8)).apart(I) and not StoredPlaces(loop(N, 8)).apart(I % 16)


@pytest.mark.parametrize(("extent", "known"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_so_many_iterations_are_listed(extent: int, known: bool) -> None:
    assert StoredPlaces(loop(0, extent)).apart(I % (1 << 20)) is known


def test_names_and_memory() -> None:
    x, y = Var("x"), Var("y")
    store: Any = BufferStore(T, const(0), (y,))
    named = LetStmt(x, I * 2, LetStmt(y, x + 1, store))
    places = StoredPlaces(loop(0, 8, named))
    assert places.apart(y) and places.apart(x) and places.cross([y, x + 3])
    assert not places.cross([y, x])  # odd and even elements
    assert not StoredPlaces(loop(0, 8)).apart(BufferLoad(T, (I,)))
    assert not StoredPlaces(loop(0, 8)).apart(BufferLoad(T, (I,)) * 0 + I % 8 + T[I])
    assert not StoredPlaces(loop(0, 8)).cross([I + T[J], I + T[J] + 1])
