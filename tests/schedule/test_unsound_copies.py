"""Steps that once copied what nobody had made, or ran instances that had not run before."""

from __future__ import annotations

from schedule.common import check_same, refused, schedule
from schedule.random_intrinsics import intrinsic_of
from tileloom.expr import post_order
from tileloom.tir import BufferLoad


def test_rfactor_of_a_loop_that_takes_steps_again() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for i, k in T.grid(1, 64):
        with T.block("B"):
            vi = T.axis.spatial(1, i)
            vk = T.axis.reduce(8, k % 8)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vk]
"""
    sch = schedule(text)
    refused(sch, "may run the same instances", "rfactor", sch.get_loops("B")[1], 0)
    check_same(sch, text)


def test_compute_at_of_a_reduction_that_leaves_out_steps() -> None:
    """Its steps are told by the loops alone, which it would leave."""
    text = """
@T.prim_func
def main(A: T.Buffer((2,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((1,))
    for i, k in T.grid(1, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k < 2)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[0] * 2.0
"""
    sch = schedule(text)
    block, loop = sch.get_block("B"), sch.get_loops("C")[0]
    refused(sch, "may leave out some", "compute_at", block, loop)
    check_same(sch, text)


#: Rows that are made one at a time, of which each is read where it has been made.
ROWS = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    for o in range(4):
        with T.block("rows"):
            vo = T.axis.spatial(4, o)
            T.reads(A[vo, 0:3])
            T.writes(C[vo, 0:3])
            B = T.alloc_buffer((4, 3))
            for j in range(3):
                with T.block("B"):
                    vi = T.axis.spatial(4, vo)
                    vj = T.axis.spatial(3, j)
                    B[vi, vj] = A[vi, vj] * 2.0
            for j in range(3):
                with T.block("C"):
                    vi = T.axis.spatial(4, vo)
                    vj = T.axis.spatial(3, j)
                    C[vi, vj] = B[vi, vj] + 1.0
"""


def test_reindex_of_what_is_made_a_row_at_a_time() -> None:
    sch = schedule(ROWS)
    refused(sch, "before they are made", "reindex", sch.get_block("C"), ("read", 0))
    sch.reindex("B", ("read", 0))  # an input holds every row
    check_same(sch, ROWS)


#: A buffer of which the blocks make three of four elements in each row that they declare.
HOLES = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    B = T.alloc_buffer((4, 2, 2))
    for o in range(1):
        with T.block("all"):
            vo = T.axis.spatial(1, o)
            T.reads(A[0:4, 0:3])
            T.writes(B[0:4, 0:2, 0:2])
            with T.init():
                for i, j in T.grid(4, 3):
                    with T.block("B_init"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj // 2, vj % 2] = 0.0
            for i in range(4):
                with T.block("row"):
                    vi = T.axis.spatial(4, i)
                    T.reads(B[vi, 0:2, 0:2], A[vi, 0:3])
                    T.writes(B[vi, 0:2, 0:2])
                    for j in range(3):
                        with T.block("B"):
                            vj = T.axis.spatial(3, j)
                            B[vi, vj // 2, vj % 2] = B[vi, vj // 2, vj % 2] + A[vi, vj]
    for i, j in T.grid(4, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj // 2, vj % 2]
"""


def test_copies_of_what_has_holes() -> None:
    sch = schedule(HOLES)
    refused(sch, "only some of the elements", "cache_inplace", sch.get_block("row"), 0, "local")
    refused(sch, "only some of the elements", "cache_read", sch.get_block("row"), 0, "local")
    check_same(sch, HOLES)


def test_inlining_a_reader_of_what_iterations_make_each_for_itself() -> None:
    """Each iteration makes a row again; outside of the loop they would share one."""
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), D: T.Buffer((18,), "float32")):
    B = T.alloc_buffer((6,))
    C = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(6, i // 3)
            B[vi] = A[vi] * 2.0
        with T.block("C"):
            vi = T.axis.spatial(18, i)
            C[vi] = B[vi // 3] + 1.0
    for i in range(18):
        with T.block("D"):
            vi = T.axis.spatial(18, i)
            D[vi] = C[vi] * 3.0
"""
    sch = schedule(text)
    sch.parallel(sch.get_loops("C")[0])
    refused(sch, "does for itself", "compute_inline", sch.get_block("C"))
    check_same(sch, text)
    sch = schedule(text)
    sch.compute_inline("C")
    refused(sch, "at the same time", "parallel", sch.get_loops("B")[0])
    check_same(sch, text)


def test_a_circular_buffer_leaves_reductions_their_start() -> None:
    """Without a variable that reduces, each instance would begin its result anew."""
    text = """
@T.prim_func
def main(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4, 10))
    for i, k in T.grid(4, 10):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk] * 2.0
    for i, o, k in T.grid(4, 3, 6):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(10, o * 4 + k)
            T.where(o * 4 + k < 10 and k < 4)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[vi, vk]
"""
    sch = schedule(text)
    sch.compute_at("B", sch.get_loops("C")[1])
    sch.rolling_buffer("B", 0)
    assert "reduce" in str(sch.get(sch.get_block("C")))
    check_same(sch, text)


def test_caches_of_a_piece_reach_to_its_end() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    for i, j in T.grid(3, 3):
        with T.block("C"):
            vi = T.axis.spatial((1, 4), i + 1)
            vj = T.axis.spatial(3, j)
            C[vi, vj] = A[vi, vj] * 2.0
"""
    for method in ("reindex_cache_write", "reindex_cache_read"):
        sch = schedule(text)
        getattr(sch, method)("C", 0, "local", lambda i, j: (j, i))
        check_same(sch, text)


def test_views_do_not_begin_where_memory_inside_the_block_says() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[0:4, 0:3])
            T.writes(C[vi, 0:3])
            at = T.alloc_buffer((1,), "int32")
            with T.block("at"):
                at[0] = 3 - vi
            for j in range(3):
                with T.block("C"):
                    vj = T.axis.spatial(3, j)
                    C[vi, vj] = A[at[0], vj] + 1.0
"""
    sch = schedule(text)
    block = sch.blockize(sch.get_loops("row")[0])
    sch.tensorize(block, intrinsic_of(sch.get(block)))
    (view,) = (m for m in sch.get(block).match_buffers if m.source.buffer.name == "A")
    assert not any(isinstance(n, BufferLoad) for r in view.source.region for n in post_order(r.min))
    check_same(sch, text)
