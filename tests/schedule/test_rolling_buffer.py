"""rolling_buffer."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import ELEMENTWISE, check_same, check_trace, refused, schedule
from schedule.moving import BLUR, CONV
from tileloom import ScheduleError
from tileloom.expr import OPAQUE


def tiled(size: Any) -> Any:
    sch = schedule(BLUR)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, size])
    sch.compute_at("B", outer)
    return sch, outer


def test_a_tile_keeps_what_it_shares_with_the_one_before() -> None:
    sch, _ = tiled(4)
    sch.rolling_buffer("B", 0)
    text = str(sch.mod)
    assert "B = T.alloc_buffer((6, 11))" in text
    assert "T.where(i_0 * 4 + ax0 < 15 and (i_0 < 1 or 1 < ax0))" in text
    assert "B[vi % 6, vj] = A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]" in text
    assert sch.get(sch.get_block("B")).iter_vars[0].iter_type == OPAQUE
    check_same(sch, BLUR)
    check_trace(sch, BLUR)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 13])
def test_tiles_of_any_size(size: int) -> None:
    sch, _ = tiled(size)
    sch.rolling_buffer("B", 0)
    check_same(sch, BLUR)


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (2, 9), (7, 2), (1, 1)])
@pytest.mark.parametrize("inner", [False, True])
def test_two_axes_may_overlap(rows: int, columns: int, inner: bool) -> None:
    sch = schedule(CONV)
    c, i, j, r, s = sch.get_loops("Y")
    i_outer, i_inner = sch.split(i, [None, rows])
    j_outer, j_inner = sch.split(j, [None, columns])
    sch.reorder(i_outer, j_outer, c, i_inner, j_inner, r, s)
    sch.compute_at("P", j_outer if inner else i_outer)
    try:
        sch.rolling_buffer("P", 0)
    except ScheduleError:
        assert rows == 7  # one tile, which rolls over nothing
        assert not inner
    check_same(sch, CONV)
    check_trace(sch, CONV)


def test_refusals() -> None:
    sch = schedule(BLUR)
    refused(sch, "there is no loop around", "rolling_buffer", sch.get_block("B"), 0)
    refused(sch, "a result of its scope", "rolling_buffer", sch.get_block("C"), 0)
    sch = schedule(ELEMENTWISE)
    sch.compute_at("B", sch.get_loops("C")[0])
    refused(sch, "no two tiles overlap", "rolling_buffer", sch.get_block("B"), 0)
    sch, outer = tiled(4)
    sch.parallel(outer)
    refused(sch, "is parallel", "rolling_buffer", sch.get_block("B"), 0)


def test_tiles_that_are_written_at_once_do_not_roll() -> None:
    sch = schedule(BLUR)
    copy = sch.read_at(sch.get_loops("C")[0], sch.get_block("C"), 0, "shared")
    refused(sch, "writes 3 elements along axis 0", "rolling_buffer", copy, 0)


def test_a_buffer_rolls_along_one_axis() -> None:
    sch = schedule(CONV)
    i, j = sch.get_loops("Y")[1:3]
    sch.reorder(i, j, sch.get_loops("Y")[0])
    sch.compute_at("P", j)
    sch.rolling_buffer("P", 0)
    check_same(sch, CONV)
    refused(sch, "circular along an axis already", "rolling_buffer", sch.get_block("P"), 0)
