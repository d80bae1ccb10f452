"""Pointers with an index, and what threads hold, take and put there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError
from tileloom.expr import Call, Expr, Var, const
from tileloom.simt import KernelDefect
from tileloom.simt.machine import Machine
from tileloom.simt.memory import Allocation
from tileloom.simt.pointers import Elements, place, scope_of
from tileloom.simt.thread_batch import ThreadBatch
from tileloom.tir import BufferLoad, Evaluate, make_buffer

R = Var("R", "handle", ("float16", "local"))
S = Var("S", "handle", ("float32", "shared"))
P = Var("P", "handle")
T = Var("t", "int32")


def machine(threads: int = 4, unit: int = 2) -> Machine:
    """Threads with 16 bytes of their own and 64 of their block."""
    batch = ThreadBatch(threads, np.zeros(1, np.int64))
    rows, data = np.arange(threads), np.zeros((threads, 16), np.uint8)
    own = Allocation("R", data, unit, rows, starts_empty=True, watched=False)
    shared = Allocation("S", np.arange(64, dtype=np.uint8).reshape(1, 64), 4, batch.block,
                    starts_empty=False, watched=True)  # fmt: skip
    made = Machine(batch, {R: own, S: shared}, {T: batch.thread.astype("int32")}, {})
    made.stmt = Evaluate(const(0))
    return made


def annotated(kind: str) -> Expr:
    return Call(kind, "tir.type_annotation", [])


def pointer(data: Expr, kind: str, offset: Any) -> Call:
    return Call("handle", "tir.tvm_access_ptr", [annotated(kind), data, offset, const(9), const(1)])


def element(data: Var, kind: str, *index: Any) -> Call:
    buffer = make_buffer((8,) * len(index), dtype(kind), "X", data=data)
    return Call("handle", "tir.address_of", [BufferLoad(buffer, index)])


@pytest.mark.parametrize(
    ("where", "index", "kind", "found"),
    [
        (R, None, "float16", [0, 0, 0, 0]),
        (R, T, "float16", [0, 1, 2, 3]),
        (S, T * 2 + 1, "float32", [1, 3, 5, 7]),
        (pointer(S, "int8", T * 3), const(5), "int8", [5, 8, 11, 14]),
        (pointer(S, "float32x2", const(4)), None, "float32", [4, 4, 4, 4]),
        (element(S, "int32", T + 1), None, "int32", [1, 2, 3, 4]),
        (element(S, "int32", T + 1), T, "int32", [1, 3, 5, 7]),
    ],
)
def test_places(where: Expr, index: Expr | None, kind: str, found: list[int]) -> None:
    at = place(machine(), where, index, np.arange(4))
    assert (str(at.kind), at.index.tolist()) == (kind, found)
    assert at.some(np.array([1, 3])).index.tolist() == [found[1], found[3]]
    assert at.some(np.array([1, 3])).lanes.tolist() == [1, 3]


@pytest.mark.parametrize(
    "where",
    [P, Var("Q", "handle", ("float16", "local")), pointer(P, "int8", T),
     pointer(const(1), "int8", T), element(S, "int32", T, T),
     Call("handle", "tir.call_extern", [S])],
)  # fmt: skip
def test_places_that_nobody_knows(where: Expr) -> None:
    with pytest.raises(UnsupportedError, match="no memory is known for"):
        place(machine(), where, None, np.arange(4))


def test_scopes() -> None:
    assert [scope_of(data) for data in (R, S, P)] == ["local", "shared", "global"]


@pytest.mark.parametrize("lanes", [[0, 1, 2, 3], [1, 3]])
@pytest.mark.parametrize("start", ["same", "own"])
def test_bytes_that_threads_hold(lanes: list[int], start: str) -> None:
    """The same element of all, or each another; also at no multiple of the length."""
    made = machine()
    at = place(made, R, const(1) if start == "same" else T, np.array(lanes))
    given = np.arange(8 * len(lanes), dtype=np.uint8).reshape(-1, 8)
    at.hold(given)
    rows = made.memory[R].data
    for row, lane in zip(given, lanes, strict=True):
        first = 2 if start == "same" else lane * 2
        assert rows[lane, first : first + 8].tolist() == row.tolist()
        assert rows[lane].sum() == row.sum()
    assert rows.sum() == given.sum()
    assert at.held(8).tolist() == given.tolist()
    with pytest.raises(KernelDefect, match="nobody has written it"):
        at.held(10)


@pytest.mark.parametrize(("index", "count"), [(1, 16), (7, 4), (-1, 4), (8, 2)])
def test_bytes_beyond_what_threads_have(index: int, count: int) -> None:
    made = machine()
    at = place(made, R, const(index), np.arange(4))
    with pytest.raises(KernelDefect, match="is outside of 8 elements"):
        at.hold(np.zeros((4, count), np.uint8))
    with pytest.raises(KernelDefect, match="is outside of 8 elements"):
        at.held(count)
    whole = place(made, R, const(0), np.arange(4))
    whole.hold(np.ones((4, 16), np.uint8))
    assert whole.held(16).all()


@pytest.mark.parametrize(
    ("first", "offsets", "pieces"),
    [
        (0, range(8), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (4, range(4), [[4, 5, 6, 7]]),
        (4, [0, 1, 2, 3, 8, 9, 10, 11], [[4, 5, 6, 7], [12, 13, 14, 15]]),
        (1, range(4), None),
        (0, [0, 1, 3, 2], None),
        (0, range(6), None),
        (0, [0, 4, 8, 12], None),
        (2, range(2, 4), None),
    ],
)
def test_elements_in_pieces(first: int, offsets: Any, pieces: list[list[int]] | None) -> None:
    """Of shared memory neighbours are taken in pieces of 16 bytes, where those are whole."""
    made, offsets = machine(), np.array(offsets)
    found = place(made, S, const(first), np.array([2])).at(offsets)
    flat = (first + offsets).tolist()
    assert isinstance(found, Elements)
    assert found.index.tolist() == (flat if pieces is None else pieces)
    assert found.lanes.tolist() == [2] * (len(flat) if pieces is None else len(pieces))
    wanted = np.concatenate([np.arange(4) + 4 * k for k in flat])
    assert found.take().tolist() == wanted.tolist()
    assert found.look().tolist() == wanted.tolist()
    found.put((wanted + 100).astype(np.uint8))
    assert found.take().tolist() == (wanted + 100).tolist()
    assert made.memory[S].data.reshape(-1)[wanted].tolist() == (wanted + 100).tolist()


def test_elements_of_several_threads() -> None:
    made = machine()
    found = place(made, S, T * 4, np.array([1, 3])).at(np.arange(4))
    assert found.index.tolist() == [[4, 5, 6, 7], [12, 13, 14, 15]]
    assert found.lanes.tolist() == [1, 3]
    own = place(made, R, T, np.array([1, 3])).each(4)
    assert own.index.tolist() == [1, 2, 3, 4] and own.lanes.tolist() == [1, 1, 3, 3]
    own.put(np.arange(8, dtype=np.uint8))
    assert made.memory[R].data[[1, 3]][:, [2, 3, 4, 5, 6, 7, 8, 9]].tolist() == [
        [0, 1, 2, 3, 0, 0, 0, 0], [0, 0, 0, 0, 4, 5, 6, 7],
    ]  # fmt: skip


def test_whole_elements() -> None:
    at = place(machine(), S, None, np.arange(1))
    assert at.elements(12) == 3
    with pytest.raises(UnsupportedError, match="10 bytes are no whole number of float32"):
        at.elements(10)
    with pytest.raises(UnsupportedError, match="no whole number"):
        at.each(2)


def test_what_is_under_way() -> None:
    made = machine()
    at = place(made, S, T * 4, np.array([0, 2]))
    at.expect(np.full((2, 16), 9, np.uint8))
    arriving = made.memory[S].arriving
    assert arriving is not None and arriving.tolist() == [1] * 4 + [0] * 4 + [3] * 4 + [0] * 4
    there = at.at(np.arange(4))
    assert there.look().tolist() == [9] * 32
    with pytest.raises(KernelDefect, match="missing wait"):
        there.take()
    there.land()
    assert there.take().tolist() == [9] * 32
    one = place(made, S, const(4), np.array([1])).at(np.arange(4))
    one.expect_each(np.arange(16, dtype=np.uint8), 5)
    group = made.memory[S].group
    assert group is not None and group[4:8].tolist() == [5] * 4
    one.expect_each(np.arange(16, dtype=np.uint8), 6, again=True)
    assert group[4:8].tolist() == [6] * 4


def test_what_is_fenced() -> None:
    made = machine()
    made.memory[S].hide()
    at = place(made, S, const(4), np.array([1])).at(np.arange(4))
    assert at.take_as_engine().tolist() == list(range(16, 32))
    at.put(np.zeros(16, np.uint8))
    with pytest.raises(KernelDefect, match=r"an engine reads S\[4\].*no fence since"):
        at.take_as_engine()
    made.memory[S].fence(np.array([1]))
    assert not at.take_as_engine().any()
