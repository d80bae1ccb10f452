"""cache_read, cache_write, cache_inplace, cache_index."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import (
    ELEMENTWISE,
    MATMUL,
    check_same,
    check_trace,
    refused,
    same_text,
    schedule,
)
from schedule.moving import BLUR, CONV, GATHER, GEMM, PAIRS, UNITS
from tileloom import ScheduleError
from tileloom.expr import const


def test_cache_read_of_an_input() -> None:
    sch = schedule(ELEMENTWISE)
    copy = sch.cache_read("B", 0, "shared")
    assert sch.get(copy).name_hint == "A_shared"
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    A_shared = T.alloc_buffer((13, 8), scope="shared")
    for ax0, ax1 in T.grid(13, 8):
        with T.block("A_shared"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_shared[v0, v1] = A[v0, v1]
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_shared[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


def test_cache_write_of_an_output() -> None:
    sch = schedule(ELEMENTWISE)
    sch.cache_write("C", "C", "local")
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    C_local = T.alloc_buffer((13, 8), scope="local")
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C_local[vi, vj] = B[vi, vj] + 1.0
    for ax0, ax1 in T.grid(13, 8):
        with T.block("C_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            C[v0, v1] = C_local[v0, v1]
""",
    )
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


def test_inside_a_loop_only_what_is_there_is_copied() -> None:
    sch = schedule(ELEMENTWISE)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    copy = sch.cache_read("C", 0, "local")
    loops = sch.get_loops(copy)
    assert sch.get(loops[0]).loop_var is sch.get(outer).loop_var
    assert len(loops) == 3
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


def test_part_of_a_buffer_is_cached_in_a_small_buffer() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((20, 6), "float32"), C: T.Buffer((9, 6), "float32")):
    B = T.alloc_buffer((20, 6))
    for i, j in T.grid(9, 6):
        with T.block("B"):
            vi = T.axis.spatial((5, 14), i + 5)
            vj = T.axis.spatial(6, j)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(9, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi + 5, vj] + 1.0
"""
    after = """
@T.prim_func
def main(A: T.Buffer((20, 6), "float32"), C: T.Buffer((9, 6), "float32")):
    B = T.alloc_buffer((20, 6))
    B_shared = T.alloc_buffer((9, 6), scope="shared")
    for i, j in T.grid(9, 6):
        with T.block("B"):
            vi = T.axis.spatial((5, 14), i + 5)
            vj = T.axis.spatial(6, j)
            B[vi, vj] = A[vi, vj] * 2.0
    for ax0, ax1 in T.grid(9, 6):
        with T.block("B_shared"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B_shared[v0, v1] = B[v0 + 5, v1]
    for i, j in T.grid(9, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B_shared[vi, vj] + 1.0
"""
    sch = schedule(text)
    sch.cache_read("C", 0, "shared")
    same_text(sch, after)
    check_same(sch, text)
    sch = schedule(text)
    sch.cache_write("B", 0, "local")
    assert "B_local = T.alloc_buffer((9, 6)" in str(sch.mod)
    check_same(sch, text)


CONSUMERS = """
@T.prim_func
def main(
    A: T.Buffer((5, 7), "float32"), C: T.Buffer((5, 7), "float32"), D: T.Buffer((5, 7), "float32")
):
    B = T.alloc_buffer((5, 7))
    for i, j in T.grid(5, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(5, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
    for i, j in T.grid(5, 7):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + A[vi, vj]
"""


def reads(sch: Any, block: Any) -> Any:
    return [region.buffer.name for region in sch.get(sch.get_block(block)).reads]


def test_listed_consumers_use_the_cache() -> None:
    sch = schedule(CONSUMERS)
    sch.cache_read("C", 0, "shared", consumer_blocks=["D"])
    assert reads(sch, "C") == ["B"]
    assert reads(sch, "D") == ["B_shared", "A"]
    check_same(sch, CONSUMERS)
    check_trace(sch, CONSUMERS)
    sch = schedule(CONSUMERS)
    sch.cache_read("C", 0, "shared")
    assert reads(sch, "C") == ["B_shared"]
    assert reads(sch, "D") == ["B_shared", "A"]
    check_same(sch, CONSUMERS)
    sch = schedule(CONSUMERS)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    assert reads(sch, "C") == ["B_local"]
    assert reads(sch, "D") == ["B", "A"]
    check_same(sch, CONSUMERS)
    check_trace(sch, CONSUMERS)
    sch = schedule(CONSUMERS)
    sch.cache_read("B", 0, "local", consumer_blocks=["D"])
    assert (reads(sch, "B"), reads(sch, "D")) == (["A"], ["B", "A_local"])
    check_same(sch, CONSUMERS)


@pytest.mark.parametrize(
    ("listed", "order"),
    [
        ([], ["B", "B_shared", "C", "D"]),
        (["C"], ["B", "B_shared", "C", "D"]),
        (["D"], ["B", "C", "B_shared", "D"]),
        (["D", "C"], ["B", "B_shared", "C", "D"]),
    ],
)
def test_copies_stand_before_the_first_that_uses_them(listed: list[str], order: list[str]) -> None:
    sch = schedule(CONSUMERS)
    sch.cache_read("C" if "C" in listed or not listed else "D", 0, "shared", consumer_blocks=listed)
    made = [sch.get(rv).name_hint for rv in sch.get_child_blocks(sch.get_block("root"))]
    assert made == order
    check_same(sch, CONSUMERS)


def test_a_reduction_accumulates_in_its_cache() -> None:
    sch = schedule(GEMM)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 5])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(copy, j0, preserve_unit_loops=True)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(sch.get_loops(copy)[-1])
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


@pytest.mark.parametrize(("text", "block", "consumer"), [*PAIRS, (GATHER, "B", "C")])
def test_everything_may_be_cached(text: Any, block: Any, consumer: Any) -> None:
    for name in (block, consumer):
        for method in ("cache_read", "cache_write"):
            for index in (0, 1):
                sch = schedule(text)
                try:
                    getattr(sch, method)(name, index, "local")
                except ScheduleError:
                    assert index == 1
                    continue
                check_same(sch, text)
                check_trace(sch, text)


def test_by_name_or_buffer() -> None:
    sch = schedule(MATMUL)
    buffer = sch.get(sch.get_block("C")).reads[1].buffer
    first = sch.cache_read("C", "A", "shared")
    second = sch.cache_read("C", buffer, "shared")
    assert [sch.get(b).name_hint for b in (first, second)] == ["A_shared", "B_shared"]
    check_trace(sch, MATMUL)


def test_what_is_not_written_is_not_copied_over() -> None:
    text = ELEMENTWISE.replace(
        """vi, vj = T.axis.remap("SS", [i, j])
            C[""",
        """vi, vj = T.axis.remap("SS", [i, j])
            T.where(j < i)
            C[""",
    )
    sch = schedule(text)
    refused(sch, "may leave elements of 'C' unwrit", "cache_write", sch.get_block("C"), 0, "local")
    schedule(text, enable_check=False).cache_write("C", 0, "local")


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.get_block("C")
    refused(sch, "is no storage scope", "cache_read", block, 0, "nowhere")
    refused(sch, "there is no index 1", "cache_write", block, 1, "local")
    refused(sch, "reads no buffer 'A'", "cache_read", block, "A", "local")
    refused(sch, "does not write it", "cache_inplace", block, 0, "local")
    twice = CONSUMERS.replace("D[vi, vj] = B[vi, vj] + A[vi, vj]", "C[vi, vj] = B[vi, vj]")
    sch = schedule(twice)
    refused(sch, "2 blocks write 'C'", "cache_write", sch.get_block("C"), 0, "local")


INPLACE = """
@T.prim_func
def main(A: T.Buffer((5, 3), "float32")):
    for i in range(5):
        with T.block("A"):
            vi = T.axis.spatial(5, i)
            T.reads(A[vi, 0:3])
            T.writes(A[vi, 0:3])
            for j in range(3):
                A[vi, j] = A[vi, j] * 2.0 + A[vi, 0]
"""


def test_cache_inplace() -> None:
    sch = schedule(INPLACE)
    first, last = sch.cache_inplace("A", 0, "local")
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((5, 3), "float32")):
    A_local = T.alloc_buffer((5, 3), scope="local")
    for i in range(5):
        for ax0, ax1 in T.grid(1, 3):
            with T.block("A_local"):
                v0 = T.axis.spatial(5, i + ax0)
                v1 = T.axis.spatial(3, ax1)
                A_local[v0, v1] = A[v0, v1]
        with T.block("A"):
            vi = T.axis.spatial(5, i)
            T.reads(A_local[vi, 0:3])
            T.writes(A_local[vi, 0:3])
            for j in range(3):
                A_local[vi, j] = A_local[vi, j] * 2.0 + A_local[vi, 0]
        for ax0, ax1 in T.grid(1, 3):
            with T.block("A_local"):
                v0 = T.axis.spatial(5, i + ax0)
                v1 = T.axis.spatial(3, ax1)
                A[v0, v1] = A_local[v0, v1]
""",
    )
    assert sch.get(first) is not sch.get(last)
    check_same(sch, INPLACE)
    check_trace(sch, INPLACE)


RESIZE = """
@T.prim_func
def main(A: T.Buffer((3, 10, 10), "float32"), B: T.Buffer((3, 20, 20), "float32")):
    for c, i, j in T.grid(3, 20, 20):
        with T.block("B"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            B[vc, vi, vj] = A[vc, vi // 4 + vj // 4, vj // 2] + A[vc, vi // 2, vj // 2]
"""


def test_cache_index() -> None:
    sch = schedule(RESIZE)
    made = sch.cache_index("B", "global")
    assert [str(sch.get(block).body).strip() for block in made] == [
        "index_var_0[v0, v1] = v0 // 4 + v1 // 4",
        "index_var_1[v0] = v0 // 2",
        "index_var_2[v0] = v0 // 2",
    ]
    assert reads(sch, "B") == ["A", "index_var_0", "index_var_1", "index_var_2"]
    check_same(sch, RESIZE)
    check_trace(sch, RESIZE)


def test_cache_index_of_what_occurs_often() -> None:
    sch = schedule(RESIZE)
    (made,) = sch.cache_index("B", "global", 2)
    assert str(sch.get(made).body).strip() == "index_var_0[v0] = v0 // 2"
    check_same(sch, RESIZE)
    check_trace(sch, RESIZE)
    sch = schedule(RESIZE)
    assert sch.cache_index("B", "global", 9) == []


def test_cache_index_leaves_guarded_divisions() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[T.if_then_else(0 < vi, 7 // vi, 0)]
"""
    sch = schedule(text)
    sch.cache_index("B", "global")
    assert "7 // vi" in str(sch.mod)
    check_same(sch, text)


def test_units() -> None:
    for step in (("cache_read", "C", 0, "local"), ("cache_write", "B", 0, "local")):
        sch = schedule(UNITS)
        getattr(sch, step[0])(*step[1:])
        check_same(sch, UNITS)


def test_copies_move() -> None:
    """A cache of a padded input, under the tiles of the convolution."""
    sch = schedule(CONV)
    loops = sch.get_loops("Y")
    outer, _inner = sch.split(loops[1], [None, 4])
    copy = sch.cache_read("Y", "P", "shared")
    weights = sch.cache_read("Y", "W", "shared")
    sch.compute_at(copy, outer)
    sch.compute_at(weights, outer)
    sch.compute_inline("P")
    check_same(sch, CONV)
    check_trace(sch, CONV)
    sch = schedule(BLUR)
    copy = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(copy, sch.get_loops("C")[0])
    check_same(sch, BLUR)


RIM = """
@T.prim_func
def main(X: T.Buffer((7,), "float32"), P: T.Buffer((9,), "float32")):
    for i in range(9):
        with T.block("P"):
            v = T.axis.spatial(9, i)
            T.reads(X[v - 1])
            P[v] = T.if_then_else(1 <= v and v < 8, X[v - 1], T.float32(0))
"""


def test_a_cache_of_a_region_reads_nothing_outside_of_the_buffer() -> None:
    """The declared region of a padding leaves the buffer."""
    sch = schedule(RIM)
    sch.blockize(sch.get_loops("P")[0])
    copy = sch.cache_read("P", 0, "local")
    assert sch.get(sch.get_loops(copy)[0]).extent is const(7)
    check_same(sch, RIM)
    check_trace(sch, RIM)
    sch = schedule(RIM)
    _, inner = sch.split(sch.get_loops("P")[0], [None, 3])
    sch.blockize(inner)
    sch.cache_read("P", 0, "local")
    assert "T.where" in str(sch.mod)
    check_same(sch, RIM)
    check_trace(sch, RIM)


def test_a_cache_does_not_lose_what_was_there() -> None:
    sch = schedule(GEMM)
    k = sch.get_loops("C")[2]
    sch.decompose_reduction("C", k)
    sch.blockize(k)
    refused(sch, "does not start it", "cache_write", sch.get_block("C_update"), 0, "local")
    sch = schedule(GEMM)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    inner = sch.loop_partition(i, [5])[0]
    block = sch.get_child_blocks(inner)[0]
    refused(sch, "along loops outside of the block", "cache_write", block, 0, "local")
    refused(sch, "along loops outside of the block", "reindex", block, ("write", 0))
    loop = sch.get_loops(block)[0]
    refused(sch, "more of 'C' than", "write_at", loop, block, 0, "local")
    refused(sch, "outside of loop", "decompose_reduction", block, loop)


IN_PLACE = """
@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    B = T.alloc_buffer((64,))
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * 2.0
    for i in range(64):
        with T.block("A"):
            v = T.axis.spatial(64, i)
            A[v] = B[63 - v]
"""


@pytest.mark.parametrize("listed", [False, True])
def test_what_is_read_before_it_is_overwritten_is_copied_at_the_start(listed: bool) -> None:
    sch = schedule(IN_PLACE)
    block = sch.get_block("B")
    sch.cache_read(block, 0, "local", [block] if listed else [])
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    B = T.alloc_buffer((64,))
    A_local = T.alloc_buffer((64,), scope="local")
    for ax0 in range(64):
        with T.block("A_local"):
            v = T.axis.spatial(64, ax0)
            A_local[v] = A[v]
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A_local[v] * 2.0
    for i in range(64):
        with T.block("A"):
            v = T.axis.spatial(64, i)
            A[v] = B[63 - v]
""",
    )
    check_same(sch, IN_PLACE)
    check_trace(sch, IN_PLACE)


def test_readers_before_and_after_a_writer_get_copies_of_their_own() -> None:
    text = (
        IN_PLACE.replace(
            'A: T.Buffer((64,), "float32")',
            'A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")',
        )
        + """    for i in range(64):
        with T.block("C"):
            v = T.axis.spatial(64, i)
            C[v] = A[v] + 1.0
"""
    )
    sch = schedule(text)
    early, late = sch.get_block("B"), sch.get_block("C")
    refused(
        sch,
        "before block 'A' writes it, and some after",
        "cache_read",
        early,
        0,
        "local",
        [early, late],
    )
    sch.cache_read(early, 0, "local")
    sch.cache_read(late, 0, "local")
    assert [r.buffer.name for r in sch.get(early).reads] == ["A_local"]
    check_same(sch, text)


def test_a_copy_reads_nothing_of_another_iteration() -> None:
    sch = schedule("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 8), "float32")):
    for t in range(4):
        for i in range(8):
            with T.block("B"):
                vt, v = T.axis.remap("SS", [t, i])
                B[vt, v] = A[v] * 2.0
        for i in range(8):
            with T.block("A"):
                vt = T.axis.opaque(4, t)
                v = T.axis.spatial(8, i)
                A[v] = B[vt, v]
""")
    refused(sch, "in an iteration before", "cache_read", sch.get_block("B"), 0, "local")
