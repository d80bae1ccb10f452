"""What is kept in registers, what is computed again, and the order of blocks afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.expr import intrin
from tileloom.plan.cuda.fusion_groups import TiledGroup, settle
from tileloom.plan.cuda.registers import (
    inline_the_rest,
    keep_results,
    read_by_vectors,
    rows_of_inputs,
    streams_of,
)
from tileloom.plan.cuda.tile import LONGEST, Tile
from tileloom.schedule import Schedule
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
#: A warp for a row that is kept; one that is read again; threads that reduce by themselves.
KEEPS, AGAIN = Tile(4, 1, 32, 4, "warp", 4), Tile(4, 1, 32, LONGEST + 4, "warp", 4)
ALONE = Tile(32, 1, 1, 8, "none")
A, B = te.placeholder((64, 128), name="A"), te.placeholder((128,), name="B")
T = te.placeholder((128, 64), name="T")


def group(*tensors: Any) -> tuple[Schedule, TiledGroup]:
    inputs = [t for t in (A, B, T) if t.name in [u.name for u in tensors]]
    results = [t for t in tensors if t not in inputs]
    sch = Schedule(te.create_prim_func([*inputs, *results]))
    (found,) = settle(sch, GPU)
    return sch, found


def total(x: Any, name: str = "S") -> Any:
    k = te.reduce_axis((0, 128), name="k")
    return te.compute((64,), lambda i: te.sum(x[i, k], axis=k), name=name)


def wide(value: Any, name: str) -> Any:
    return te.compute((64, 128), value, name=name)


def names_written(sch: Schedule, name: str) -> tuple[str, str]:
    buffer = sch.get(sch.get_block(name)).writes[0].buffer
    return buffer.name, buffer.scope


@pytest.mark.parametrize(
    ("tile", "copied"),
    [
        (KEEPS, {"S": "S_local", "E": "E_local"}),
        (AGAIN, {"S": "S_local"}),  # threads read in memory what they have stored there
        (ALONE, {"S": "S_local", "E": "E_local"}),
    ],
)
def test_results_that_others_read_are_made_in_registers(tile: Tile, copied: Any) -> None:
    """Each copy to memory stands after the block that makes it, and runs over the same axes."""
    exps = wide(lambda i, j: intrin.exp(A[i, j]), "E")
    s = total(exps)
    out = wide(lambda i, j: exps[i, j] / s[i], "O")
    sch, found = group(A, exps, s, out)
    before = list(found.names)
    assert before == ["E", "S", "O"]
    keep_results(sch, found, tile)
    wanted = [n for name in before for n in ([name, copied[name]] if name in copied else [name])]
    assert found.names == wanted
    for name, copy in copied.items():
        assert names_written(sch, name)[1] == "local" and names_written(sch, copy)[1] == "global"
        kept = [axis for axis in found.domain.axes[name] if axis is None or not axis.reduced]
        rows = [axis for axis in found.domain.axes[copy] if axis is None or not axis.reduced]
        assert rows == kept and found.domain.over_depth(copy) == (name == "E")
    assert names_written(sch, "O")[1] == "global"


@pytest.mark.parametrize(("tile", "copied"), [(KEEPS, False), (ALONE, True)])
def test_sums_of_one_thread_do_not_go_to_memory_each_time(tile: Tile, copied: bool) -> None:
    sch, found = group(A, total(A))
    keep_results(sch, found, tile)
    assert found.names == (["S", "S_local"] if copied else ["S"])
    assert names_written(sch, "S")[1] == ("local" if copied else "global")


@pytest.mark.parametrize(
    ("costly", "uses", "tile", "left"),
    [
        (False, 2, KEEPS, ["S", "O"]),
        (True, 2, KEEPS, ["E", "S", "O"]),  # kept, as it costs more to compute it again
        (True, 2, AGAIN, ["S", "O"]),  # rows are too long to be kept
        (True, 1, KEEPS, ["S", "O"]),  # read once: computed there
    ],
)
def test_what_is_computed_again(costly: bool, uses: int, tile: Tile, left: list[str]) -> None:
    value = intrin.exp if costly else (lambda x: x + 1.0)
    exps = wide(lambda i, j: value(A[i, j]), "E")
    s = total(exps)
    out = wide(lambda i, j: (exps if uses == 2 else A)[i, j] / s[i], "O")
    sch, found = group(A, out)
    inline_the_rest(sch, found, tile)
    assert found.names == left
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == left


@pytest.mark.parametrize("tile", [KEEPS, AGAIN])
def test_what_is_costly_and_made_once_a_row_is_kept(tile: Tile) -> None:
    """However long the rows are, one number of each is."""
    s = total(A)
    root = te.compute((64,), lambda i: intrin.exp(s[i]), name="R")
    sch, found = group(A, wide(lambda i, j: A[i, j] / root[i], "O"))
    inline_the_rest(sch, found, tile)
    assert found.names == ["S", "R", "O"]
    assert root is not None


@pytest.mark.parametrize(
    ("value", "streams"),
    [
        (lambda a, b, t, i, k: a[i, k], {"A"}),
        (lambda a, b, t, i, k: a[i, k] * b[k], {"A"}),  # one row for all
        (lambda a, b, t, i, k: t[k, i], set()),  # neighbours are of other rows
        (lambda a, b, t, i, k: a[i, 127 - k], set()),
        (lambda a, b, t, i, k: a[i, k] * a[i, 0], set()),  # also read elsewhere
        (lambda a, b, t, i, k: a[i, k] + a[i, k] * t[k, i], {"A"}),
    ],
)
def test_inputs_that_threads_read_by_vectors(value: Any, streams: set[str]) -> None:
    k = te.reduce_axis((0, 128), name="k")
    s = te.compute((64,), lambda i: te.sum(value(A, B, T, i, k), axis=k), name="S")
    sch, found = group(A, B, T, s)
    rows = rows_of_inputs(sch, found)
    assert {buffer.name for buffer in rows} == streams
    assert all(names == ["S"] for names in rows.values())
    row, depth = found.domain.spatial[0], found.domain.reduced[0]
    if [axis.weight for axis in (row, depth)] == [128, 1]:
        assert all(axes == [row, depth] for axes in streams_of(sch, found).values())


def test_inputs_are_read_once_for_all_blocks() -> None:
    s = total(A)
    sch, found = group(A, wide(lambda i, j: A[i, j] / s[i], "O"))
    ((_, readers),) = rows_of_inputs(sch, found).items()
    assert readers == ["S", "O"]
    read_by_vectors(sch, found)
    assert found.names == ["A_local", "S", "O"]
    assert found.domain.axes["A_local"] == [*found.domain.spatial, *found.domain.reduced]
    for name in ("S", "O"):
        read = {region.buffer.name for region in sch.get(sch.get_block(name)).reads}
        assert "A" not in read and "A_local" in read
