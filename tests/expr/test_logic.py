"""Conditions, choices and calls: what is simplified under which condition."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import (
    LT,
    Analyzer,
    And,
    Broadcast,
    Call,
    Let,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    Var,
    const,
    intrin,
)
from tileloom.tir import BufferLoad, make_buffer

I, J, P = Var("i"), Var("j"), Var("p", "bool")
A = make_buffer((100,), "int32", "A")
V = Ramp(I, const(1), 4)


def load(index: Any) -> BufferLoad:
    return BufferLoad(A, (index,))


choose = intrin.if_then_else


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        # A side is simplified where the condition holds, but not addresses in a Select.
        (Select(I < 5, intrin.min(I, 5), J), "T.Select(i < 5, i, j)"),
        (Select(I < 5, J, intrin.min(I, 5)), "T.Select(i < 5, j, 5)"),
        (choose(I < 5, intrin.min(I, 5), J), "T.if_then_else(i < 5, i, j)"),
        (choose(I < 5, load(intrin.min(I, 5)), J), "T.if_then_else(i < 5, A[i], j)"),
        (Select(I < 5, load(intrin.min(I, 5)), J), "T.Select(i < 5, A[T.min(i, 5)], j)"),
        (Select(I < 5, J, load(intrin.min(I, 5))), "T.Select(i < 5, j, A[T.min(i, 5)])"),
        (Select(I < 5, load(I) + intrin.min(I, 5), J), "T.Select(i < 5, T.min(i, 5) + A[i], j)"),
        (choose(I < 5, J, load(intrin.min(I, 5))), "T.if_then_else(i < 5, j, A[5])"),
        # Conditions that are known, sides that are equal, conditions turned around.
        (Select(I < 100, I, J), "i"),
        (choose(I < 0, I, J), "j"),
        (Select(P, I + J, J + I), "i + j"),
        (choose(P, I + J, J + I), "i + j"),
        (Select(Not(P), I, J), "T.Select(p, j, i)"),
        (choose(Not(P), I, J), "T.if_then_else(p, j, i)"),
        (Select(Not(I < 5), I, J), "T.Select(4 < i, i, j)"),
        (choose(load(I) < 3, I, I), "i"),
        (Select(LT(V, Broadcast(const(5), 4)), V, V), "T.Ramp(i, 1, 4)"),
        # What stands first in a conjunction holds for the rest, of a disjunction the opposite.
        (And(I < 5, intrin.min(I, 7) < J), "i < 5 and i < j"),
        (Or(I < 5, intrin.max(I, 5) < J), "i < 5 or i < j"),
        (And(I < 5, I < 8), "i < 5"),
        (Or(I < 5, I < 8), "i < 8"),
        (And(I < 5, I >= 5), "T.bool(False)"),
        (Or(I < 5, I >= 5), "T.bool(True)"),
        (And(P, P), "p"),
        (Or(P, Not(P)), "T.bool(True)"),
        (And(P, const(True)), "p"),
        (Or(P, const(False)), "p"),
        (Not(Not(P)), "p"),
        (Not(I < J), "j <= i"),
        (Not(And(I < 5, P)), "4 < i or not p"),
        # Calls and names.
        (intrin.likely(I < 200), "T.bool(True)"),
        (intrin.likely(I < 50), "T.likely(i < 50)"),
        (intrin.likely(I + 1 < 51), "T.likely(i < 50)"),
        (Let(J, const(3), J + I), "i + 3"),
        (Let(J, I, J + I), "i * 2"),
        (Call("int32", "tir.popcount", (I + J - J,)), "T.popcount(i)"),
    ],
    ids=str,
)
def test_forms(expr: Any, text: str) -> None:
    known = Analyzer({I: Range(0, 100)})
    assert str(known.simplify(expr)) == text


def test_conditions_of_vectors_say_nothing_of_scalars() -> None:
    known = Analyzer({I: Range(0, 100)})
    lanes = LT(V, Broadcast(const(5), 4))
    sides = Broadcast(intrin.min(I, 5), 4), Broadcast(J, 4)
    found = known.simplify(Select(lanes, *sides))
    assert "T.min(i, 5)" in str(found)
