"""Steps that once made iterations of loops take or overwrite what others make; each is refused."""

from __future__ import annotations

import pytest

from schedule.common import check_compiled, check_same, refused, schedule
from schedule.random_intrinsics import intrinsic_of
from tileloom import Schedule, te
from tileloom.tir import Block, PrimFunc, collect


def doubled_then(size: int, times: int) -> PrimFunc:
    """Elements doubled, and every `times`-th one of them plus one."""
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func(
        [a, te.compute((size // times,), lambda i: b[i * times] + 1.0, name="C")]
    )


# ---------------------------------------------------------------------------- order of iterations

LATE = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((3,), "float32")):
    B = T.alloc_buffer((6,))
    for i, j in T.grid(3, 2):
        with T.block("B"):
            v = T.axis.spatial(6, i * 2 + j)
            B[v] = A[v] * 2.0
        with T.block("C"):
            v = T.axis.spatial(3, i)
            C[v] = B[v * 2] + 1.0
"""


def test_an_iteration_that_takes_from_the_one_before() -> None:
    sch = schedule(LATE)
    i, j = sch.get_loops("B")
    refused(sch, "may read what another one makes", "reorder", j, i)
    sch.reorder(i, j)
    check_same(sch, LATE)
    assert sch.verify().state == "ok"


def test_neighbours_are_not_made_at_the_same_time() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            B[v] = A[v] * 2.0
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[T.max(v - 1, 0)] + 1.0
"""
    )
    refused(sch, "may read what another one makes", "parallel", sch.get_loops("B")[0])


@pytest.mark.parametrize("method", ["parallel", "vectorize"])
def test_iterations_that_repeat_instances(method: str) -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(4, i // 2)
            B[v] = A[v] * 2.0
"""
    sch = schedule(text)
    [loop] = sch.get_loops("B")
    refused(sch, "would write the same elements of 'B'", method, loop)
    outer, inner = sch.split(loop, [4, 2])
    refused(sch, "only repeats block 'B'", method, inner)
    getattr(sch, method)(outer)
    check_same(sch, text)
    assert sch.verify().state == "ok"


def test_iterations_with_buffers_of_their_own_may_overlap() -> None:
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((8,), lambda i: b[i] + b[i + 1], name="C")])
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[0], [4, 2])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    check_same(sch, func)
    assert sch.verify().state == "ok"


# ---------------------------------------------------------------------------- buffers of their own


def in_parallel() -> tuple[PrimFunc, Schedule]:
    """What each iteration of a parallel loop inside makes for itself."""
    a = te.placeholder((3, 4, 6), name="A")
    b = te.compute((3, 4, 6), lambda k, i, j: a[k, i, j] * 2.0, name="B")
    func = te.create_prim_func(
        [a, te.compute((3, 4, 6), lambda k, i, j: b[k, i, 5 - j] + 1.0, name="C")]
    )
    sch = Schedule(func)
    loop = sch.get_loops("C")[1]
    sch.compute_at("B", loop)
    sch.parallel(loop)
    return func, sch


def test_pieces_do_not_share_what_iterations_make_for_themselves() -> None:
    func, sch = in_parallel()
    k, i, _ = sch.get_loops("C")
    refused(sch, "has a 'B' of its own", "loop_partition", k, [1, None])
    check_same(sch, func)
    assert sch.get(i).kind == "parallel"


def test_padding_is_not_written_outside_of_parallel_loops() -> None:
    func, sch = in_parallel()
    layout = (sch.get_block("B"), ("write", 0), lambda k, i, j: (k, i, j // 4, j % 4))
    refused(sch, "has a 'B' of its own", "transform_layout", *layout, pad_value=0.0)
    check_same(sch, func)


# ---------------------------------------------------------------------------- what is made


def test_a_producer_in_blocks_makes_less_than_is_padded() -> None:
    """Of the variables of the blocks around it, too, the producer runs for some values alone."""
    a = te.placeholder((6, 6), name="A")
    b = te.compute((6, 6), lambda i, j: a[i, j] * 2.0, name="B")
    pad = te.compute((8, 6), lambda i, j: te.if_then_else(i < 6, b[i, j], 0.0), name="P")
    func = te.create_prim_func([a, te.compute((8, 6), lambda i, j: pad[i, j] + 1.0, name="C")])
    sch = Schedule(func)
    refused(sch, "does not make everything", "reverse_compute_inline", sch.get_block("P"))
    sch.blockize(sch.get_loops("B")[1])
    refused(sch, "does not make everything", "reverse_compute_inline", sch.get_block("P"))
    check_same(sch, func)


def test_what_nobody_reads_stays_behind_what_it_takes() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] * 2.0
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    refused(sch, "nobody reads", "compute_at", sch.get_block("C"), sch.get_loops("B")[0])
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    check_same(sch, text)


SOME = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            if v < LIMIT:
                B[v] = A[v] + 1.0
"""


@pytest.mark.parametrize("limit", [4, 8])
def test_what_a_condition_leaves_out_is_not_copied_back(limit: int) -> None:
    text = SOME.replace("LIMIT", str(limit))
    sch = schedule(text)
    if limit < 8:
        block = sch.get_block("B")
        refused(sch, "may leave elements of 'B' unwritten", "cache_write", block, 0, "local")
        loop = sch.get_loops("B")[0]
        refused(sch, "may leave elements of 'B' unwritten", "write_at", loop, block, 0, "local")
    else:
        sch.cache_write("B", 0, "local")
    check_same(sch, text)


def test_both_branches_of_a_condition_write() -> None:
    text = SOME.replace("LIMIT", "3") + "            else:\n                B[v] = A[v]\n"
    sch = schedule(text)
    sch.cache_write("B", 0, "local")
    check_same(sch, text)
    assert sch.verify().state == "ok"


def test_loops_around_pieces_are_split_within_blocks_too() -> None:
    """A copy inside of a piece uses the loops around the pieces directly."""
    func = doubled_then(8, 1)
    sch = Schedule(func)
    outer, inner = sch.split(sch.get_loops("B")[0], [4, 2])
    _, rest = sch.loop_partition(inner, [1, None])
    [block] = sch.get_child_blocks(rest)
    sch.cache_write(block, 0, "local")
    sch.split(outer, [2, 2])
    check_same(sch, func)


WITHIN = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    for i in range(4):
        with T.block("O"):
            vo = T.axis.spatial(4, i)
            T.reads(A[T.min(vo, 3):T.min(vo, 3) + (T.max(vo, 3) - 2), 0:3])
            T.writes(C[vo, 0:3])
            for j in range(3):
                with T.block("C"):
                    v = T.axis.spatial(3, j)
                    C[vo, v] = A[vo, v] + 1.0
"""

GUARDED = """
@T.prim_func
def main(A: T.Buffer((1, 4), "float32"), C: T.Buffer((1, 4), "float32")):
    for i in range(3):
        with T.block("C"):
            v = T.axis.spatial(1, i)
            T.where(i < 1)
            T.reads(A[v, 0:4])
            T.writes(C[T.max(v, 0):T.max(v, 0) + (T.min(v, 0) - T.max(v, 0) + 1), 0:4])
            for j in range(4):
                C[v, j] = A[v, j] + 1.0
"""


def test_extents_of_copies_are_numbers() -> None:
    """What a block declares may have extents that only simplify where its variables are known."""
    sch = schedule(WITHIN)
    sch.cache_read("C", 0, "local")
    found = [b for block in collect(sch.mod["main"].body, Block) for b in block.alloc_buffers]
    assert [str(b.shape[0]) for b in found] == ["1"]
    sch.split(sch.get_loops("O")[0], [2, 2])
    check_same(sch, WITHIN)


def test_extents_that_follow_the_loops_are_not_copied() -> None:
    sch = schedule(GUARDED)
    refused(sch, "may leave elements", "cache_write", sch.get_block("C"), 0, "local")
    check_same(sch, GUARDED)


# ---------------------------------------------------------------------------- found by longer walks


def test_reindexed_results_are_written_whole() -> None:
    """A block that fills padding writes some of its instances alone."""
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            B[v] = A[v]
    for i in range(6):
        with T.block("P"):
            v = T.axis.spatial(6, i)
            T.where(i % 2 != 0)
            B[v] = T.float32(0)
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    refused(sch, "may leave out some elements of 'B'", "reindex", sch.get_block("P"), ("write", 0))
    sch.reindex("C", ("write", 0))
    check_same(sch, text)


def test_rows_of_a_producer_do_not_run_on() -> None:
    """What a tile reaches beyond a row is the next row for a reader that counts through."""
    a = te.placeholder((6, 6), name="A")
    b = te.compute((6, 6), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((36,), lambda i: b[i // 6, i % 6] + 1.0, name="C")])
    sch = Schedule(func)
    _, inner = sch.split(sch.get_loops("B")[1], [2, 4])
    refused(sch, "in another grouping", "reverse_compute_at", sch.get_block("C"), inner)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    check_same(sch, func)
    assert sch.verify().state == "ok"


def test_padding_is_not_lost_where_a_producer_ends() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[i] * 2.0, name="B")
    pad = te.compute((8,), lambda i: te.if_then_else(i < 6, b[i], 0.0), name="P")
    func = te.create_prim_func([a, te.compute((8,), lambda i: pad[i] + 1.0, name="C")])
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("B")[0], [2, 4])
    refused(sch, "would run only where", "reverse_compute_at", sch.get_block("P"), outer)
    check_same(sch, func)


def test_a_shared_iteration_makes_what_is_copied() -> None:
    """The consumer runs under a condition that the copy would not have."""
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    D = T.alloc_buffer((6,))
    for i, t in T.grid(3, 3):
        with T.block("B"):
            v = T.axis.spatial(6, i * 2 + t)
            T.where(t < 2)
            B[v] = A[v] * 2.0
        with T.block("D"):
            v = T.axis.spatial(6, i * 2 + t)
            T.where(t < 2)
            D[v] = B[v] + 1.0
        for u in range(1):
            with T.block("C"):
                v = T.axis.spatial(6, i * 2 + t + u)
                T.where(t < 2)
                C[v] = D[v] + 1.0
"""
    sch = schedule(text)
    loop = sch.get_loops("C")[-1]
    refused(sch, "would be run for more than is made", "compute_at", sch.get_block("D"), loop)
    check_same(sch, text)


def test_silent_blocks_are_looked_into_before_nests_are_merged() -> None:
    func = doubled_then(8, 1)
    sch = Schedule(func)
    loop = sch.add_unit_loop(sch.get_loops("C")[0])
    sch.loop_partition(sch.get_loops("C")[-1], [3, None])
    [first] = sch.get_loops("B")
    sch.merge(sch.add_unit_loop(first), loop)  # all of B is there
    check_same(sch, func)
    check_compiled(sch, func)


def test_what_is_not_made_yet_is_not_copied_in() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.reads(A[v], B[v])
            T.writes(B[v], C[v])
            B[v] = A[v] * 2.0
            C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    refused(sch, "nothing writes 'B' before", "cache_inplace", sch.get_block("B"), "B", "local")
    sch.cache_write("B", 0, "local")
    check_same(sch, text)


def test_pieces_do_not_copy_what_is_made_in_part() -> None:
    func = doubled_then(8, 1)
    sch = Schedule(func)
    outer, inner = sch.split(sch.get_loops("C")[0], [2, 4])
    sch.compute_at("B", outer)
    _, rest = sch.loop_partition(inner, [1, None])
    [block] = sch.get_child_blocks(rest)
    refused(sch, "does not declare what it reads of 'B'", "cache_read", block, 0, "local")
    check_same(sch, func)


def test_views_have_no_more_axes_than_their_buffers() -> None:
    a = te.placeholder((4, 1), name="A")
    b = te.compute((4, 1), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((4, 1), lambda i, j: b[i, j] + 1.0, name="C")])
    sch = Schedule(func)
    outer = sch.blockize(sch.get_loops("B")[1], False)
    sch.tensorize(outer, intrinsic_of(sch.get(outer)))
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    given = (block, 0, "local", lambda i, j: (i,))
    refused(sch, "declares the rank 2", "reindex_cache_write", *given)
    check_same(sch, func)


def test_views_do_not_roll() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((8,), lambda i: b[i] + b[i + 2], name="C")])
    sch = Schedule(func)
    tile, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", tile)
    unit = sch.blockize(sch.add_unit_loop(sch.get_block("B")))
    sch.tensorize(unit, intrinsic_of(sch.get(unit)))
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    refused(sch, "by another name", "rolling_buffer", block, 0)
    check_same(sch, func)


def test_tiles_that_roll_are_made_whole() -> None:
    """A condition leaves one element of each tile, so tiles do not overlap."""
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        for t in range(3):
            with T.block("B"):
                v = T.axis.spatial(6, i + t)
                T.where(t < 1)
                B[v] = A[v] * 2.0
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    refused(sch, "makes only some of a tile", "rolling_buffer", sch.get_block("B"), 0)
    check_same(sch, text)


def test_copies_reach_as_far_as_what_is_made() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((6, 2), "float32"), C: T.Buffer((6, 2), "float32")):
    B = T.alloc_buffer((6,))
    for i, k in T.grid(6, 2):
        for t in range(3):
            with T.block("B"):
                v = T.axis.spatial(6, i + t)
                T.where(t < 1 and k < 1)
                B[v] = A[v, 0] * 2.0
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, k])
            T.where(k < 1)
            C[v, w] = B[v] + 1.0
    for i in range(6):
        with T.block("D"):
            v = T.axis.spatial(6, i)
            C[v, 1] = T.float32(0)
"""
    sch = schedule(text)
    sch.cache_write("B", 0, "local")
    check_same(sch, text)
    assert sch.verify().state == "ok"


@pytest.mark.parametrize(("depth", "whole"), [(5, False), (6, True)])
def test_a_sum_of_parts_that_are_made_bit_by_bit(depth: int, whole: bool) -> None:
    """In the last step of an odd depth one part only is added to, and all must be added up."""
    a, k = te.placeholder((6, depth), name="A"), te.reduce_axis((0, depth), name="k")
    text = te.create_prim_func([a, te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="C")])
    sch = Schedule(text)
    _, inner = sch.split(sch.get_loops("C")[1], [None, 2])
    parts = sch.rfactor(inner, 0)
    step = sch.get_loops(parts)[1]
    if whole:
        sch.reverse_compute_at("C", step)
        assert sch.verify().state == "ok"
    else:
        block = sch.get_block("C")
        refused(sch, "begin anew in the next one", "reverse_compute_at", block, step)


def test_what_copies_its_results_in_and_out_takes_no_consumer() -> None:
    a, k = te.placeholder((8, 5), name="A"), te.reduce_axis((0, 5), name="k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, te.compute((8,), lambda i: total[i] * 2.0, name="C")]))
    _, inner = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.blockize(inner)
    sch.cache_inplace("B", 0, "local")
    block = sch.get_block("C")
    refused(sch, "which makes 'B', stores to it in several places", "reverse_compute_inline", block)


def test_rims_of_layouts_stay_outside_of_what_they_pad() -> None:
    a, k = te.placeholder((4, 9), name="A"), te.reduce_axis((0, 9), name="k")
    func = te.create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")])
    sch = Schedule(func)
    copy = sch.reindex("C", ("write", 0))
    sch.transform_layout(copy, ("write", 0), lambda i: (i // 3, i % 3), pad_value=0.0)
    sch.cache_write(copy, 0, "global")
    refused(sch, "not for all of", "reverse_compute_at", copy, sch.get_loops("C")[1])
    assert sch.verify().state == "ok"
