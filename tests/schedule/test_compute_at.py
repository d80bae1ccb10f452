"""compute_at, reverse_compute_at."""

from __future__ import annotations

from typing import Any

import pytest

from sampling import sampled
from schedule.common import (
    ELEMENTWISE,
    check_same,
    check_trace,
    refused,
    same_text,
    schedule,
)
from schedule.moving import BLUR, CONV, GATHER, GEMM, PAIRS, ROWSUMS, TILES, UNITS, extents
from tileloom import ScheduleError
from tileloom.schedule.instruction import can
from tileloom.schedule.rv import LoopRV


def test_compute_at_makes_what_is_needed() -> None:
    sch = schedule(BLUR)
    outer, _inner = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((17, 11), "float32"), C: T.Buffer((13, 11), "float32")):
    B = T.alloc_buffer((15, 11))
    for i_0 in range(4):
        for ax0, ax1 in T.grid(6, 11):
            with T.block("B"):
                vi = T.axis.spatial(15, i_0 * 4 + ax0)
                vj = T.axis.spatial(11, ax1)
                T.where(i_0 * 4 + ax0 < 15)
                B[vi, vj] = A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]
        for i_1, j in T.grid(4, 11):
            with T.block("C"):
                vi = T.axis.spatial(13, i_0 * 4 + i_1)
                vj = T.axis.spatial(11, j)
                T.where(i_0 * 4 + i_1 < 13)
                C[vi, vj] = B[vi, vj] + B[vi + 1, vj] * 0.5 + B[vi + 2, vj] * 0.25
""",
    )
    check_same(sch, BLUR)
    check_trace(sch, BLUR)


def test_reverse_compute_at_follows_what_is_made() -> None:
    sch = schedule(TILES)
    outer, _inner = sch.split(sch.get_loops("B")[0], [3, 4])
    sch.reverse_compute_at("C", outer)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((12, 10), "float32"), C: T.Buffer((3, 4, 10), "float32")):
    B = T.alloc_buffer((12, 10))
    for i_0 in range(3):
        for i_1, j in T.grid(4, 10):
            with T.block("B"):
                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                vj = T.axis.spatial(10, j)
                B[vi, vj] = A[vi, vj] * 2.0
        for ax0, ax1 in T.grid(4, 10):
            with T.block("C"):
                vi, vk, vj = T.axis.remap("SSS", [i_0, ax0, ax1])
                C[vi, vk, vj] = B[vi * 4 + vk, vj] + 1.0
""",
    )
    check_same(sch, TILES)
    check_trace(sch, TILES)


def test_digits_that_are_not_aligned_are_refused() -> None:
    """Rows 3 to 5 are in two tiles of 4: of these, an iteration would take what others make."""
    sch = schedule(TILES)
    outer, _inner = sch.split(sch.get_loops("B")[0], [4, 3])
    refused(sch, "in another grouping", "reverse_compute_at", sch.get_block("C"), outer)


def test_unit_loops_are_kept_on_request() -> None:
    for keep, wanted in ((False, [5, 2]), (True, [5, 1, 1, 2])):
        sch = schedule(CONV)
        c, i, j = sch.get_loops("R")
        sch.reorder(c, j, i)
        sch.compute_at("Y", j, preserve_unit_loops=keep)
        loops = extents(sch, "Y")
        assert loops[:2] == [5, 9]
        assert (1 in loops[2:]) is keep
        check_same(sch, CONV)
        check_trace(sch, CONV)
        assert len(wanted) > 0


def test_all_units() -> None:
    for keep in (False, True):
        sch = schedule(UNITS)
        sch.compute_at("B", sch.get_loops("C")[1], preserve_unit_loops=keep)
        assert extents(sch, "B") == [1, 1, *([1, 1] if keep else [])]
        check_same(sch, UNITS)


@pytest.mark.parametrize(("text", "block", "consumer"), PAIRS)
@pytest.mark.parametrize("factor", sampled([3, 1, 4], 3))
def test_wherever_it_may_go_the_result_stays(
    text: Any, block: Any, consumer: Any, factor: Any
) -> None:
    moved = 0
    for forward in (True, False):
        holder, mover = (consumer, block) if forward else (block, consumer)
        count = len(schedule(text).get_loops(holder))
        for which in range(count):
            for depth in range(count + 1):
                sch = schedule(text, debug_mask="none")
                loops = list(sch.get_loops(holder))
                loops[which : which + 1] = sch.split(loops[which], [None, factor])
                move = sch.compute_at if forward else sch.reverse_compute_at
                try:
                    move(mover, loops[depth], preserve_unit_loops=depth % 2 == 0)
                except ScheduleError:
                    assert not forward  # a producer can go everywhere in these programs
                    continue
                moved += 1
                check_same(sch, text)
    assert moved


def test_index_chooses_the_place() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), D: T.Buffer((6, 5), "float32")):
    B = T.alloc_buffer((6, 5))
    C = T.alloc_buffer((6, 5))
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i in range(6):
        for j in range(5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 2.0
        for j in range(5):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] * C[vi, vj]
"""
    for index, order in ((-1, "CBD"), (-2, "BCD"), (0, "BCD"), (1, "CBD")):
        sch = schedule(text)
        sch.compute_at("B", sch.get_loops("D")[0], index=index)
        root = sch.get_block("root")
        names = [sch.get(block).name_hint for block in sch.get_child_blocks(root)]
        assert "".join(names) == order
        check_same(sch, text)
        check_trace(sch, text)
    sch = schedule(text)
    loop = sch.get_loops("D")[0]
    error = refused(sch, "cannot be statement 2", "compute_at", sch.get_block("B"), loop, index=2)
    assert "from 0 to 1" in (error.hint or "")


def test_a_reduction_is_finished_before_it_is_used() -> None:
    sch = schedule(GEMM)
    j = sch.get_loops("D")[1]
    sch.compute_at("C", j)
    assert extents(sch, "C") == [13, 10, 7]
    check_same(sch, GEMM)


def test_a_reduction_goes_step_by_step_with_its_input() -> None:
    sch = schedule(ROWSUMS)
    sch.reverse_compute_at("S", sch.get_loops("B")[0])
    assert extents(sch, "S") == [8, 6]
    check_same(sch, ROWSUMS)


def test_a_reduction_is_not_done_twice() -> None:
    twice = ROWSUMS.replace("for k, i in T.grid(8, 6):", "for k, t, i in T.grid(8, 2, 6):")
    sch = schedule(twice)
    again = sch.get_loops("B")[1]
    refused(sch, "more than once", "reverse_compute_at", sch.get_block("S"), again)
    sch.reverse_compute_at("S", sch.get_loops("B")[0])
    check_same(sch, twice)


def test_a_reduction_does_not_go_along_a_parallel_loop() -> None:
    sch = schedule(ROWSUMS)
    loop = sch.get_loops("B")[0]
    sch.parallel(loop)
    refused(sch, "is parallel", "reverse_compute_at", sch.get_block("S"), loop)


def test_consumers_do_not_go_into_iterations_that_all_write_the_same() -> None:
    text = ELEMENTWISE.replace("for i, j in T.grid(13, 8):", "for t, i, j in T.grid(2, 13, 8):", 1)
    sch = schedule(text)
    t, i, _ = sch.get_loops("B")
    sch.reverse_compute_at("C", i)
    check_same(sch, text)
    sch = schedule(text)
    t, i, _ = sch.get_loops("B")
    # A step of its own would be refused as well: `B` is read outside.
    refused(sch, "only repeats block 'B'", "parallel", t)
    parallel = text.replace(
        "for t, i, j in T.grid(2, 13, 8):",
        """for t in T.parallel(2):
      for i, j in T.grid(13, 8):""",
    )
    sch = schedule(parallel)
    refused(
        sch,
        "would write the same elements of 'C'",
        "reverse_compute_at",
        sch.get_block("C"),
        sch.get_loops("B")[1],
    )


def test_partial_consumers_stay() -> None:
    text = ELEMENTWISE.replace(
        """vi, vj = T.axis.remap("SS", [i, j])
            C[""",
        """vi, vj = T.axis.remap("SS", [i, j])
            T.where(j < i)
            C[""",
    )
    assert text != ELEMENTWISE
    sch = schedule(text)
    loop = sch.get_loops("B")[0]
    refused(sch, "may leave out some", "reverse_compute_at", sch.get_block("C"), loop)
    sch.compute_at("B", sch.get_loops("C")[0])
    check_same(sch, text)


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    refused(sch, "is around it", "compute_at", sch.get_block("B"), sch.get_loops("B")[0])
    refused(sch, "a result of its scope", "compute_at", sch.get_block("C"), sch.get_loops("B")[0])
    sch = schedule(CONV)
    refused(
        sch,
        "the consumer 'Y' is elsewhere",
        "compute_at",
        sch.get_block("P"),
        sch.get_loops("R")[0],
    )
    refused(
        sch,
        "the producer 'Y' is elsewhere",
        "reverse_compute_at",
        sch.get_block("R"),
        sch.get_loops("P")[0],
    )
    error = refused(
        sch, "cannot be solved", "reverse_compute_at", sch.get_block("Y"), sch.get_loops("P")[1]
    )
    assert "vi + vr" in str(error)


def test_gathers_are_refused_with_the_reason() -> None:
    sch = schedule(GATHER)
    refused(
        sch,
        "depends on data, the elements of 'I'",
        "compute_at",
        sch.get_block("B"),
        sch.get_loops("C")[0],
    )


def test_check_changes_nothing() -> None:
    sch = schedule(ELEMENTWISE)
    before = sch.mod
    block, loop = sch.get_sref(sch.get_block("B")), sch.get_sref(sch.get_loops("C")[1])
    inner = sch.get_sref(sch.get_loops("B")[0])
    assert can(sch.state, "ComputeAt", block, loop)
    assert not can(sch.state, "ComputeAt", block, inner)
    assert sch.mod is before


def test_sampled_places() -> None:
    """-1 leaves the block where it is, -2 inlines it."""
    for decision in (-2, -1, 0, 1):
        sch = schedule(ELEMENTWISE)
        loop = sch.sample_compute_location("B", decision=decision)
        assert isinstance(loop, LoopRV)
        sch.compute_at("B", loop, preserve_unit_loops=True)
        check_same(sch, ELEMENTWISE)
        check_trace(sch, ELEMENTWISE)
        blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
        assert blocks == (["C"] if decision == -2 else ["B", "C"])


def test_threads_share_what_they_make_in_shared_memory() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 0, "shared")
    sch.compute_at(copy, j)
    assert extents(sch, copy)[-1] == 8  # for all threads
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 0, "local")
    sch.compute_at(copy, j, preserve_unit_loops=True)
    assert extents(sch, copy)[-1] == 1


PADDING = """
@T.prim_func
def main(X: T.Buffer((8,), "float32"), P: T.Buffer((10,), "float32")):
    Y = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = X[v] * T.float32(2)
    for i in range(10):
        with T.block("P"):
            v = T.axis.spatial(10, i)
            T.reads(Y[v - 1])
            P[v] = T.if_then_else(1 <= v and v < 9, Y[v - 1], T.float32(0))
"""
WHOLE = """
@T.prim_func
def main(X: T.Buffer((6, 8), "float32"), Z: T.Buffer((6, 8), "float32")):
    Y = T.alloc_buffer((6, 8))
    for i, j in T.grid(6, 8):
        with T.block("Y"):
            v, w = T.axis.remap("SS", [i, j])
            Y[v, w] = X[v, w] * T.float32(2)
    for i in range(6):
        with T.block("Z"):
            v = T.axis.spatial(6, i)
            T.reads(Y[v, 0:8])
            T.writes(Z[v, 0:8])
            for j in range(8):
                Z[v, j] = Y[v, 7 - j]
"""


def test_the_rim_of_a_padding_is_not_lost() -> None:
    sch = schedule(PADDING)
    loop = sch.get_loops("Y")[0]
    refused(sch, "not for all of 'v'", "reverse_compute_at", sch.get_block("P"), loop)


def test_a_whole_row_must_be_there_at_once() -> None:
    sch = schedule(WHOLE)
    i, j = sch.get_loops("Y")
    refused(sch, "reads 8 elements", "reverse_compute_at", sch.get_block("Z"), j)
    sch.reverse_compute_at("Z", i)
    check_same(sch, WHOLE)


def test_what_iterations_make_for_themselves_stays_inside() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), D: T.Buffer((6, 5), "float32")):
    B = T.alloc_buffer((6, 5))
    C = T.alloc_buffer((6, 5))
    for i in KIND(6):
        for a, b in T.grid(6, 5):
            with T.block("B"):
                va, vb = T.axis.remap("SS", [a, b])
                B[va, vb] = A[va, vb] * 2.0
        for j in range(5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[5 - vi, vj] + 1.0
    for i, j in T.grid(6, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] - 1.0
"""
    for kind in ("range", "T.parallel"):
        this = text.replace("KIND", kind)
        sch = schedule(this)
        block, loop = sch.get_block("C"), sch.get_loops("D")[0]
        if kind == "range":
            sch.compute_at(block, loop)
            check_same(sch, this)
        else:
            refused(sch, "does for itself as long as block 'C'", "compute_at", block, loop)


MAPPED = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((SIZE,), "float32")):
    B = T.alloc_buffer((16,))
    for o, i in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, o * 4 + i)
            B[WRITTEN] = A[vi] * 2.0
    for i in range(SIZE):
        with T.block("C"):
            vi = T.axis.spatial(SIZE, i)
            C[vi] = READ
"""


def mapped(size: int, written: str, read: str) -> str:
    return MAPPED.replace("SIZE", str(size)).replace("WRITTEN", written).replace("READ", read)


@pytest.mark.parametrize(
    ("size", "read", "iterations", "value"),
    [
        (16, "B[15 - vi]", 4, "12 - o * 4 + ax0"),
        (13, "B[vi + 3]", 4, "o * 4 - 3 + ax0"),
        (32, "B[vi // 2]", 8, "o * 8 + ax0"),
        (30, "B[(vi + 1) // 2]", 8, "o * 8 - 1 + ax0"),
        (27, "B[vi // 2 + 2]", 8, "o * 8 - 4 + ax0"),
    ],
)
def test_reverse_compute_at_finds_the_readers(
    size: int, read: str, iterations: int, value: str
) -> None:
    text = mapped(size, "vi", read)
    sch = schedule(text)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert extents(sch, "C") == [4, iterations]
    (bound,) = sch.state.realize(sch.state.sref(sch.get(sch.get_block("C")))).iter_values
    assert str(bound) == value
    check_same(sch, text)


@pytest.mark.parametrize("written", ["15 - vi", "vi"])
@pytest.mark.parametrize("read", ["B[vi]", "B[15 - vi]"])
def test_compute_at_finds_the_writers(written: str, read: str) -> None:
    text = mapped(16, written, read)
    sch = schedule(text)
    outer, _inner = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", outer)
    check_same(sch, text)
    assert extents(sch, "B") == [4, 4]


ROWS = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((ROWS, 8), "float32")):
    B = T.alloc_buffer((8, 4))
    for o, i, j in T.grid(4, 2, 4):
        with T.block("B"):
            vi, vj = T.axis.spatial(8, o * 2 + i), T.axis.spatial(4, j)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(ROWS, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            READS
            C[vi, vj] = VALUE
"""


@pytest.mark.parametrize(
    ("rows", "reads", "value", "iterations", "row"),
    [
        (8, "", "B[7 - vi, vj // 2]", [4, 2, 8], "6 - o * 2 + ax0"),
        (7, "", "B[7 - vi, vj // 2]", [4, 2, 8], "6 - o * 2 + ax0"),
        (5, "", "B[vi + 3, vj // 2]", [4, 2, 8], "o * 2 - 3 + ax0"),
        (4, "T.reads(B[vi * 2:vi * 2 + 2, vj // 2])",
         "B[vi * 2, vj // 2] + B[vi * 2 + 1, vj // 2]", [4, 8], "o"),
    ],
)  # fmt: skip
def test_readers_of_each_dimension_alone(
    rows: int, reads: str, value: str, iterations: list[int], row: str
) -> None:
    text = ROWS.replace("READS", reads).replace("VALUE", value).replace("ROWS", str(rows))
    sch = schedule("\n".join(line for line in text.split("\n") if line.strip()))
    before = sch.mod["main"]
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert extents(sch, "C") == iterations
    bound = sch.state.realize(sch.state.sref(sch.get(sch.get_block("C")))).iter_values
    assert str(bound[0]) == row
    check_same(sch, before)
