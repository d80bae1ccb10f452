"""What a tile loads: under which conditions, and which way it walks."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Expr, Select, Var, const
from tileloom.lower.vector.body import CannotVectorize
from tileloom.lower.vector.tile_loads import TileLoad, find_loads
from tileloom.script import tir as T
from tileloom.tir import BufferLoad, BufferStore, make_buffer, seq

I, J, K, N = (Var(name) for name in "ijkn")
A, B, C = (make_buffer((99,), "float32", name) for name in "ABC")
M = make_buffer((99,), "int32", "M")


def a(index: Any) -> BufferLoad:
    return BufferLoad(A, [index])


def stored(*values: Expr) -> Any:
    return seq(*(BufferStore(C, value, (const(k),)) for k, value in enumerate(values)))


ZERO = const(0.0, "float32")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([a(I) + BufferLoad(B, [J])], ["A[i]", "B[j]"]),
        ([a(I), a(I)], ["A[i]"]),
        ([T.if_then_else(I < N, a(I), ZERO)], ["A[i] if i < n"]),
        ([T.if_then_else(I < N, ZERO, a(I))], ["A[i] if i >= n"]),
        ([T.if_then_else(T.likely(I < N), a(I), ZERO)], ["A[i] if i < n"]),
        ([T.if_then_else(T.all(I < N, J < 3), a(I), ZERO)], ["A[i] if i < n and j < 3"]),
        ([T.if_then_else(I < N, T.if_then_else(J < 3, a(I), ZERO), ZERO)],
         ["A[i] if i < n and j < 3"]),
        ([T.if_then_else(I < N, a(I), ZERO), a(I)], ["A[i]"]),
        ([a(I), T.if_then_else(I < N, a(I), ZERO)], ["A[i]"]),
        ([a(BufferLoad(M, [I]))], ["A[M[i]]", "M[i]"]),
        ([Select(I < N, a(I), ZERO)], ["A[i]"]),
        ([T.if_then_else(BufferLoad(M, [I]) < N, a(I), ZERO)], ["M[i]", "A[i] if M[i] < n"]),
        ([ZERO], []),
    ],
    ids=str,
)  # fmt: skip
def test_loads_and_their_conditions(values: list[Expr], wanted: list[str]) -> None:
    found = []
    for load in find_loads(stored(*values)):
        condition = " and ".join(map(str, load.conditions))
        found.append(f"{load.value} if {condition}" if condition else str(load.value))
        assert load.parts == 1 and load.loads == (load.value,)
        assert isinstance(load.value, BufferLoad) and load.buffers == {load.value.buffer}
    assert found == wanted


def test_a_load_under_two_conditions_has_no_form() -> None:
    one = T.if_then_else(I < N, a(I), ZERO)
    for other in (T.if_then_else(J < 3, a(I), ZERO), T.if_then_else(I >= N, a(I), ZERO)):
        with pytest.raises(CannotVectorize, match="is loaded under several conditions"):
            find_loads(stored(one, other))


@pytest.mark.parametrize(
    ("indices", "parts", "transposed"),
    [
        ([I + J * 8], 1, True), ([I + J * N], 1, True), ([I * 8 + J], 1, False),
        ([I + J], 1, False), ([I + K], 1, False), ([J * 8], 1, False), ([I * 2 + J * 8], 1, False),
        ([I * 4 + J * 32], 4, True), ([I + J * 32], 4, False), ([I * 4 + J * 4], 4, False),
        ([I * 4 + J], 4, True), ([I + J * 8 + K * 99 + 3], 1, True), ([I + J * -8], 1, True),
        ([I + J * 8, I + J * 16], 1, True), ([I + J * 8, I * 8 + J], 1, False),
        ([I + J * 8 + I // 2], 1, False), ([I + J * 8 + N // 2], 1, True), ([], 1, True),
    ],
    ids=str,
)  # fmt: skip
def test_which_way_loads_walk(indices: list[Any], parts: int, transposed: bool) -> None:
    """Along the outer loop element by element, and in longer steps along the inner one."""
    loads = tuple(a(index) for index in indices)
    load = TileLoad(loads[0] if loads else ZERO, loads, parts, ())
    assert load.is_transposed(I, J) is transposed
