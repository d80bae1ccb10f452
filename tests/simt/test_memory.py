"""Memory by itself: which cells an access touches, what was written, and what is under way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.expr import Expr, Ramp, Var, const
from tileloom.simt import KernelDefect
from tileloom.simt.memory import Allocation, ThreadAccess
from tileloom.simt.thread_batch import ThreadBatch
from tileloom.tir import Evaluate, make_buffer

I = Var("i", "int32")
STMT = Evaluate(const(0))


def array(*values: Any) -> Any:
    return np.array(values, np.int64)


def access(
    batch: ThreadBatch, lanes: Any, index: Any, kind: str = "float32", written: Expr | None = None
) -> ThreadAccess:
    buffer = make_buffer((1,), dtype(kind), "A")
    return ThreadAccess(batch, np.array(lanes, np.int64), np.array(index), buffer, STMT, written)


def shared(
    batch: ThreadBatch, size: int, unit: int = 4, warps: int = 0, empty: bool = True
) -> Allocation:
    """A row of bytes for each block."""
    data = np.arange(len(batch.blocks) * size, dtype=np.uint8).reshape(-1, size)
    watched = {"starts_empty": empty, "watched": True, "warps": warps}
    return Allocation("S", data, unit, batch.block, **watched)


def local(batch: ThreadBatch, size: int, unit: int = 4) -> Allocation:
    """A row of bytes for each thread."""
    rows = np.arange(batch.size)
    data = np.zeros((batch.size, size), np.uint8)
    return Allocation("R", data, unit, rows, starts_empty=True, watched=False)


def global_(size: int, unit: int = 4, watched: bool = True) -> Allocation:
    data = np.zeros((1, size), np.uint8)
    return Allocation("A", data, unit, None, starts_empty=False, watched=watched)


def refused(kind: str, text: str, threads: list[tuple[int, int]]) -> Any:
    """A context in which a defect of these threads is found."""

    class Refused:
        def __enter__(self) -> None:
            pass

        def __exit__(self, _: object, found: BaseException | None, __: object) -> bool:
            assert isinstance(found, KernelDefect), found
            assert found.kind == kind and text in str(found), str(found)
            assert found.threads == threads
            return True

    return Refused()


# ---------------------------------------------------------------------------- cells


@pytest.mark.parametrize(
    ("kind", "index", "units"),
    [
        ("float32", [0, 3, 15], (1, 2, 4)),
        ("float16", [1, 7, 31], (1, 2)),
        ("int8", [0, 5, 63], (1,)),
        ("float64", [2, 7, 0], (1, 2, 4, 8)),
        ("float32", [[0, 1, 2, 3], [12, 13, 14, 15], [4, 5, 6, 7]], (1, 2, 4, 8, 16)),
        ("float16", [[0, 1, 2, 3], [12, 13, 14, 15], [28, 29, 30, 31]], (1, 2, 4, 8)),
        ("float32", [[0, 5], [2, 3], [15, 0]], (1, 2, 4)),
        ("float32x4", [0, 3, 1], (1, 2, 4, 8, 16)),
        ("int8", [[0, 1, 2, 3], [60, 61, 62, 63], [32, 33, 34, 35]], (1, 2, 4)),
    ],
)
def test_cells_are_those_under_the_bytes(kind: str, index: Any, units: tuple[int, ...]) -> None:
    """Two blocks with a row of 64 bytes each."""
    batch = ThreadBatch(2, array(4, 5))
    size = dtype(kind).element.numpy.itemsize * dtype(kind).lanes
    places = np.array(index).reshape(3, -1) * size
    for unit in units:
        check_cells(batch, kind, index, places, unit)


def check_cells(batch: ThreadBatch, kind: str, index: Any, places: Any, unit: int) -> None:
    size = dtype(kind).element.numpy.itemsize * dtype(kind).lanes
    found = shared(batch, 64, unit).cells(access(batch, [0, 1, 3], index, kind))
    for lane, row, cells in zip((0, 1, 3), places, found, strict=True):
        bytes_ = {lane // 2 * 64 + at + k for at in row.tolist() for k in range(size)}
        assert sorted(cells.tolist()) == sorted({b // unit for b in bytes_})


@pytest.mark.parametrize("kind", ["float32", "int8", "float32x2"])
def test_out_of_bounds(kind: str) -> None:
    batch = ThreadBatch(4, array(7))
    limit = {"float32": 6, "int8": 24, "float32x2": 3}[kind]
    memory = global_(24)
    memory.unit = 1 if kind == "int8" else 4
    memory.cells(access(batch, [1, 2], [0, limit - 1], kind))
    for wrong in (limit, -1, limit + 100):
        with refused("out of bounds", f"A[{wrong}] is outside of {limit} elements", [(7, 2)]):
            memory.cells(access(batch, [1, 2], [0, wrong], kind))
    with refused("out of bounds", f"A[{limit}] is", [(7, 0), (7, 3)]):
        memory.cells(access(batch, [0, 1, 3], [[0, limit], [0, 0], [limit, limit]], kind))


@pytest.mark.parametrize(
    ("index", "written", "wrong"),
    [
        ([[0, 1, 2, 3], [8, 9, 10, 11]], None, []),
        ([[0, 1, 2, 3], [2, 3, 4, 5]], None, [1]),
        ([[1, 2, 3, 4], [2, 3, 4, 5]], None, [0, 1]),
        ([[1, 2], [2, 3]], None, [0]),
        ([[1, 2, 3], [2, 3, 4]], None, []),  # no vector has three elements
        ([[1], [3]], None, []),
        ([[1, 3, 5, 7], [0, 1, 3, 4]], None, []),  # no neighbours
        # Code moves together what provably begins at a multiple, and the rest one by one.
        ([[0, 1, 2, 3], [2, 3, 4, 5]], Ramp(I, const(1), 4), []),
        ([[0, 1, 2, 3], [2, 3, 4, 5]], Ramp(I * 2, const(1), 4), []),
        ([[0, 1, 2, 3], [3, 4, 5, 6]], Ramp(I * 2, const(1), 4), [1]),
        ([[0, 1, 2, 3], [2, 3, 4, 5]], Ramp(I * 4, const(1), 4), [1]),
        ([[0, 1, 2, 3], [2, 3, 4, 5]], Ramp(I * 4 + 2, const(1), 4), []),
        ([[0, 1, 2, 3], [2, 3, 4, 5]], Ramp(I * 8, const(1), 4), [1]),
    ],
)
def test_what_is_moved_together_begins_at_a_multiple(
    index: Any, written: Expr | None, wrong: list[int]
) -> None:
    batch, memory = ThreadBatch(4, array(0)), global_(64)
    if not wrong:
        memory.cells(access(batch, [2, 3], index, written=written))
        return
    count = len(index[0])
    first = f"{count} elements from A[{index[wrong[0]][0]}] on are no whole vector"
    with refused("misaligned", first, [(0, 2 + k) for k in wrong]):
        memory.cells(access(batch, [2, 3], index, written=written))


def test_no_thread_touches_nothing() -> None:
    batch, memory = ThreadBatch(4, array(0)), global_(64)
    empty = access(batch, [], np.zeros((0, 4), int))
    assert empty.vectors.shape == (0, 4) and memory.cells(empty).shape == (0, 4)
    assert access(batch, [], np.zeros(0, int)).vectors.shape == (0, 1)
    assert access(batch, [1, 2], [3, 4]).vectors.tolist() == [[3], [4]]


# ---------------------------------------------------------------------------- loads and stores


def test_rows_of_blocks_threads_and_the_device() -> None:
    batch = ThreadBatch(2, array(0, 1))
    for memory, rows in ((shared(batch, 16), [0, 0, 1, 1]), (local(batch, 16), [0, 1, 2, 3]),
                         (global_(16, watched=False), [0, 0, 0, 0])):  # fmt: skip
        memory.data[:] = 0
        batch.passed += 1
        memory.store(access(batch, [1, 2], [1, 3]), np.array([1.5, 2.5], "float32"))
        batch.passed += 1
        table = memory.data.view("float32")
        assert table[rows[1], 1] == 1.5 and table[rows[2], 3] == 2.5 and table.sum() == 4
        assert memory.load(access(batch, [2], [3])).tolist() == [2.5]
        batch.passed += 1
        values = np.array([[1, 2], [3, 4]], "float32")
        memory.store(access(batch, [0, 3], [[0, 1], [2, 3]]), values)
        batch.passed += 1
        assert memory.load(access(batch, [3], [[2, 3]])).tolist() == [[3, 4]]
        assert table[rows[0], :2].tolist() == [1, 2] and table[rows[3], 2:].tolist() == [3, 4]


def test_what_nobody_has_written() -> None:
    batch = ThreadBatch(3, array(5))
    memory = shared(batch, 32)
    memory.store(access(batch, [0], [[0, 1]]), 1.0)
    memory.load(access(batch, [0], [[0, 1]]))
    said = "A[2] is read, and nobody has written it"
    with refused("uninitialised", said, [(5, 1)]):
        memory.load(access(batch, [0, 1], [0, 2]))
    with refused("uninitialised", "A[2] is read", [(5, 0), (5, 2)]):
        memory.load(access(batch, [0, 2], [[2, 3], [4, 5]]))
    with refused("uninitialised", "A[2] is changed, and nobody", [(5, 1)]):
        memory.change(access(batch, [0, 1], [0, 2]), lambda e, w: e[w], changes=True)
    memory.change(access(batch, [1], [2]), lambda e, w: e[w], changes=False, finds=False)
    assert memory.written is not None and np.flatnonzero(memory.written).tolist() == [0, 1, 2]
    memory.change(access(batch, [1], [2]), lambda e, w: e[w], changes=True)
    memory.clear(array(0))
    assert not memory.written.any()
    shared(batch, 32, empty=False).load(access(batch, [0], [3]))


def test_cleared_rows() -> None:
    batch = ThreadBatch(3, array(5))
    memory = local(batch, 8)
    memory.store(access(batch, [0, 1, 2], [1, 1, 1]), 1.0)
    memory.clear(array(1))
    assert memory.written is not None
    assert memory.written.reshape(3, 2).tolist() == [[False, True], [False] * 2, [False, True]]


@pytest.mark.parametrize("warps", [0, 2])
@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        ("load", "load", None),
        ("load", "store", ("writes", "reads")),
        ("store", "load", ("reads", "writes")),
        ("store", "store", ("writes", "writes")),
        ("change", "load", ("reads", "changes")),
        ("change", "store", ("writes", "changes")),
        ("load", "change", ("changes", "reads")),
        ("store", "change", ("changes", "writes")),
        ("change", "change", None),
        ("load", "find", None),
        ("store", "find", ("reads", "writes")),
        ("find", "store", ("writes", "changes")),
        ("expect", "", None),
        ("store", "expect", ("copies into", "writes")),
        ("load", "expect", ("copies into", "reads")),
    ],
)
def test_races(first: str, then: str, words: tuple[str, str] | None, warps: int) -> None:
    """Thread 40 and then thread 3 access element 5 in different ways, with no barrier between."""
    batch = ThreadBatch(64, array(6))
    memory = shared(batch, 64, warps=warps, empty=False)

    def do(what: str, lane: int) -> None:
        at = access(batch, [lane], [5])
        if what == "load":
            memory.load(at)
        elif what == "store":
            memory.store(at, 1.0)
        elif what == "expect":
            memory.expect(at, 1.0)
        elif what:
            memory.change(at, lambda e, w: e[w], changes=what == "change")

    do(first, 40)
    if words is None:
        do(then, 3)
    else:
        said = f"one thread {words[0]} A[5] and another {words[1]} it, with no barrier between"
        with refused("race", said, [(6, 3), (6, 40)]):
            do(then, 3)
    if first == "expect":
        return
    for warp in (0, 1):  # a barrier
        batch.learn(1 - warp, batch.release(warp))
    batch.passed += 1
    do(then, 3)


def test_a_race_within_one_store() -> None:
    batch = ThreadBatch(64, array(0))
    memory = shared(batch, 64)
    with refused("race", "writes A[3] and another writes it", [(0, 1), (0, 2)]):
        memory.store(access(batch, [1, 2], [3, 3]), 1.0)
    wide = shared(batch, 64)
    with refused("race", "one thread writes A[3]", [(0, 1), (0, 2)]):
        wide.store(access(batch, [1, 2], [[2, 3], [3, 4]], written=Ramp(I, const(1), 2)), 1.0)


def test_atomic_changes() -> None:
    """Of rows of blocks; where several threads mean one element, `apply` is told so."""
    batch = ThreadBatch(2, array(0, 1))
    memory = shared(batch, 16, empty=False)
    memory.data[:] = 0

    def add(elements: Any, where: Any) -> Any:
        found = elements[where].copy()
        np.add.at(elements, where, 1)
        return found + where

    memory.change(access(batch, [0, 1, 2, 3], [3, 3, 3, 1], "int32"), add, changes=True)
    assert memory.data.view("int32").tolist() == [[0, 0, 0, 2], [0, 1, 0, 1]]
    device = global_(16)
    found = device.change(access(batch, [0, 3], [2, 0], "int32"), add, changes=True)
    assert device.data.view("int32").tolist() == [[1, 0, 1, 0]] and found.tolist() == [1, 0]


# ---------------------------------------------------------------------------- arrays of threads


def test_whose_rows_are_private() -> None:
    batch = ThreadBatch(4, array(0))
    assert local(batch, 16).is_private
    assert not shared(batch, 16).is_private and not global_(16).is_private
    watched = local(batch, 16)
    watched.writes = shared(batch, 64).writes
    assert not watched.is_private
    busy = local(batch, 16)
    busy.expect(access(batch, [0], [0]), 1.0)
    assert not busy.is_private
    one = Allocation("A", np.zeros((1, 4), np.uint8), 4, np.zeros(4, int), starts_empty=False,
                 watched=False)  # fmt: skip
    assert not one.is_private


@pytest.mark.parametrize("lanes", [array(0, 2), slice(None)])
def test_bytes_of_own_rows(lanes: Any) -> None:
    batch = ThreadBatch(3, array(0))
    memory = local(batch, 16)
    memory.hide()
    rows = np.arange(3)[lanes].tolist()
    given = np.arange(1, 1 + 6 * len(rows), dtype=np.uint8).reshape(-1, 6)
    memory.keep(lanes, 4, given)
    assert memory.data[lanes, 4:10].tolist() == given.tolist()
    assert memory.data.sum() == given.sum()
    wanted = [[row in rows and k in (1, 2) for k in range(4)] for row in range(3)]
    assert memory.written is not None and memory.unfenced is not None
    assert memory.written.reshape(3, 4).tolist() == wanted
    owners = [[row + 1 if has else 0 for has in wanted[row]] for row in range(3)]
    assert memory.unfenced.reshape(3, 4).tolist() == owners
    found = memory.own(lanes, 4, 6)
    assert found is not None and found.tolist() == given.tolist()
    assert memory.own(lanes, 4, 8) is not None, "cells are of four bytes"
    for first, count in ((0, 8), (3, 2), (8, 8), (4, 9)):
        assert memory.own(lanes, first, count) is None, "not all has been written"
    bare = Allocation("R", memory.data, 4, np.arange(3), starts_empty=False, watched=False)
    bare.keep(lanes, 0, given)
    found = bare.own(lanes, 0, 6)
    assert found is not None and found.tolist() == given.tolist() and bare.unfenced is None


# ---------------------------------------------------------------------------- copies under way


@pytest.mark.parametrize("how", ["load", "store", "change", "expect"])
def test_what_is_under_way_is_not_accessed(how: str) -> None:
    batch = ThreadBatch(64, array(1))
    memory = shared(batch, 64, empty=False)
    memory.expect(access(batch, [3, 4], [[0, 1], [2, 3]]), np.ones((2, 2), "float32"))
    said = "A is accessed where an asynchronous copy has not been waited for"
    for at in (0, 3):
        with refused("missing wait", said, [(1, 5)]):
            apply(memory, how, access(batch, [5], [at]))
    apply(memory, how, access(batch, [5], [4]))
    batch.committed[3:5] += 1
    memory.arrive(batch, array(3, 4), array(1, 0))
    assert memory.arriving is not None
    assert np.flatnonzero(memory.arriving)[:2].tolist() == [2, 3], "of thread 4"
    batch.passed += 1
    apply(memory, how, access(batch, [5], [0]))


def apply(memory: Allocation, how: str, at: ThreadAccess) -> None:
    if how == "load":
        memory.load(at)
    elif how == "store":
        memory.store(at, 1.0)
    elif how == "expect":
        memory.expect(at, 1.0)
    else:
        memory.change(at, lambda e, w: e[w], changes=True)


def test_arriving_is_a_write() -> None:
    """Of the thread that has copied: others may read after a barrier, and not before."""
    batch = ThreadBatch(64, array(1))
    memory = shared(batch, 64)
    memory.expect(access(batch, [3], [7]), 2.5)
    batch.committed[3] += 1
    memory.arrive(batch, array(3), array(1))
    assert memory.load(access(batch, [3], [7])).tolist() == [2.5]
    with refused("race", "reads A[7] and another writes it", [(1, 4), (1, 3)]):
        memory.load(access(batch, [4], [7]))


def test_groups_are_counted_by_thread() -> None:
    batch = ThreadBatch(64, array(1))
    memory = local(batch, 16)
    memory.expect(access(batch, [3], [0]), 1.0)
    batch.committed[3] += 1
    memory.expect(access(batch, [3], [1]), 1.0)
    memory.expect(access(batch, [5], [1]), 1.0, group=7)
    assert memory.group is not None and memory.arriving is not None
    assert memory.group[[12, 13, 21]].tolist() == [0, 1, 7]
    assert memory.arriving[[12, 13, 21]].tolist() == [4, 4, 6]
    assert np.count_nonzero(memory.arriving) == 3
    for finished, left in ((array(0, 0), 3), (array(1, 7), 2), (array(1, 8), 1), (array(2, 8), 0)):
        memory.arrive(batch, array(3, 5), finished)
        assert np.count_nonzero(memory.arriving) == left
    memory.arrive(batch, array(0), array(9))


def test_two_threads_copy_into_one_place() -> None:
    batch = ThreadBatch(64, array(1))
    with refused("race", "A[2] is copied into by two threads", [(1, 3)]):
        shared(batch, 64).expect(access(batch, [3, 4], [2, 2]), 1.0)
    again = shared(batch, 64)
    again.expect(access(batch, [3], [2]), 1.0)
    again.expect(access(batch, [3], [2]), 1.0, again=True)
    with refused("missing wait", "A is accessed where", [(1, 3)]):
        again.expect(access(batch, [3], [2]), 1.0)


def test_engines_look_at_what_is_under_way() -> None:
    batch = ThreadBatch(64, array(1))
    memory = local(batch, 16)
    memory.expect(access(batch, [3], [2]), 1.5)
    assert memory.look(access(batch, [3], [2])).tolist() == [1.5]
    with refused("uninitialised", "A[1] is read", [(1, 3)]):
        memory.look(access(batch, [3], [1]))
    memory.land(access(batch, [3], [2]))
    assert memory.load(access(batch, [3], [2])).tolist() == [1.5]
    shared(batch, 16).land(access(batch, [3], [2]))


@pytest.mark.parametrize("how", ["store", "change"])
def test_what_copies_read_is_not_overwritten(how: str) -> None:
    batch = ThreadBatch(8, array(1))
    memory = global_(64)
    batch.committed[:] = [0, 0, 0, 2, 1, 0, 0, 0]
    memory.lend(access(batch, [3, 4], [[0, 1], [1, 2]], written=Ramp(I, const(1), 2)))
    assert memory.lent is not None and memory.lent[:4].tolist() == [1, 2, 1, 0]
    said = "A is overwritten while an asynchronous copy reads it"
    for at in (0, 1, 2):
        with refused("missing wait", said, [(1, 3)]):
            apply(memory, how, access(batch, [3], [at]))
    apply(memory, how, access(batch, [3], [3]))
    memory.arrive(batch, array(3, 4), array(2, 2))  # groups below these are through
    assert memory.lent[:4].tolist() == [1, 1, 0, 0] and len(memory.loans) == 1
    batch.passed += 1
    apply(memory, how, access(batch, [3], [2]))
    with refused("missing wait", said, [(1, 3)]):
        apply(memory, how, access(batch, [3], [1]))
    memory.give_back(array(4), array(9))
    assert memory.lent.sum() == 2, "that thread has lent nothing more"
    memory.give_back()
    assert not memory.lent.any() and not memory.loans
    apply(memory, how, access(batch, [3], [0]))


# ---------------------------------------------------------------------------- fences for engines


def test_engines_see_what_is_fenced() -> None:
    batch = ThreadBatch(8, array(1))
    memory = shared(batch, 32)
    memory.check_fenced(access(batch, [0], [1]), "it reads", "fence")
    memory.hide()
    memory.store(access(batch, [3, 4, 5], [1, 2, 3]), 1.0)
    memory.check_fenced(access(batch, [0], [0]), "it reads", "fence")
    memory.fence(array(2, 4))
    memory.check_fenced(access(batch, [0], [2]), "it reads", "fence")
    said = "it reads A[1], which a thread wrote with no fence since"
    with refused("missing fence", said, [(1, 0)]):
        memory.check_fenced(access(batch, [0, 2], [1, 2]), "it reads", "fence")
    with refused("missing fence", "it reads A[2], which", [(1, 2)]):
        wide = access(batch, [2], [[2, 3]])
        memory.check_fenced(wide, "it reads", "fence")
    memory.fence(array(3, 5))
    memory.check_fenced(access(batch, [0, 2], [1, 3]), "it reads", "fence")
    assert memory.watched and not local(batch, 8).watched
