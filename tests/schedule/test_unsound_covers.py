"""Steps that once relied on elements which an iteration does not make, or lost instances."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import check_compiled, check_same, refused, schedule
from schedule.random_intrinsics import intrinsic_of
from tileloom.expr import Analyzer, Range, Var, detect_iter_map

# ---------------------------------------------------------------------------- silent blocks

#: The second block reads across what the first one makes row by row.
ACROSS = """
@T.prim_func
def main(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    B = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(6, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[INDEX] + 1.0
"""


@pytest.mark.parametrize("silent", ["B", "C"])
@pytest.mark.parametrize("index", ["vi, vj", "vj, vi"])
def test_nests_that_hide_what_they_touch(silent: str, index: str) -> None:
    text = ACROSS.replace("INDEX", index)
    sch = schedule(text)
    outer = {name: sch.get_loops(name)[0] for name in "BC"}
    sch.loop_partition(sch.get_loops(silent)[1], [2, None])
    if index == "vi, vj":
        sch.merge(outer["B"], outer["C"])
    else:
        refused(sch, "may not hold all it reads", "merge", outer["B"], outer["C"])
    check_same(sch, text)
    check_compiled(sch, text)


def test_pieces_of_tensorized_blocks_write_one_element() -> None:
    text = ACROSS.replace("INDEX", "vi, vj")
    sch = schedule(text)
    sch.tensorize(sch.get_block("C"), intrinsic_of(sch.get(sch.get_block("C"))))
    _, rest = sch.loop_partition(sch.get_loops("C")[1], [3, None])
    block = sch.get_child_blocks(rest)[0]
    refused(sch, "writes more of 'C' than", "cache_write", block, 0, "local")
    check_same(sch, text)


def test_indices_of_silent_blocks_are_computed_in_their_loops() -> None:
    text = ACROSS.replace("INDEX", "vi, vj")
    sch = schedule(text)
    outer, inner = sch.get_loops("C")
    sch.loop_partition(inner, [3, None])
    sch.split(outer, [None, 2])
    assert sch.cache_index(sch.get_block("C_j_common"), "global", 0) == []
    check_same(sch, text)


# ---------------------------------------------------------------------------- order and strides


def test_sums_begin_with_their_start() -> None:
    """What is made backwards is added up backwards under its loop, after the start is over."""
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, 3 - i)
            B[v] = A[v] * 2.0
    for i, k in T.grid(1, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi + vk]
"""
    sch = schedule(text)
    refused(
        sch,
        "does not begin with its start",
        "reverse_compute_at",
        sch.get_block("C"),
        sch.get_loops("B")[0],
    )
    check_same(sch, text)


@pytest.mark.parametrize("index", ["v * 3", "15 - v * 3"])
def test_strides_between_what_iterations_make(index: str) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * 2.0
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[{index}] + 1.0
"""
    sch = schedule(text)
    refused(
        sch, "in another grouping", "reverse_compute_at", sch.get_block("C"), sch.get_loops("B")[0]
    )
    check_same(sch, text)


@pytest.mark.parametrize("index", ["vi * 2 + vk", "vi + 1", "2 - vi"])
def test_elements_that_every_instance_takes_are_there(index: str) -> None:
    """Which instances are run does not depend on an index that is the same for all of them."""
    text = f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, 3 - i)
            B[v] = A[v] * 2.0
    for i, k in T.grid(1, 1):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + B[{index}]
"""
    sch = schedule(text)
    block, loop = sch.get_block("C"), sch.get_loops("B")[0]
    refused(sch, "in another grouping", "reverse_compute_at", block, loop)


@pytest.mark.parametrize("divide", [lambda x: (x * -1) // 3, lambda x: (x * -1) % 3])
def test_digits_do_not_count_backwards(divide: Any) -> None:
    x = Var("x")
    assert not detect_iter_map([divide(x)], {x: Range(0, 16)}, True, "surjective", Analyzer())


# ---------------------------------------------------------------------------- domains of tiles


def test_tiles_of_a_range_that_starts_late() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
    for i in range(3):
        with T.block("C"):
            v = T.axis.spatial(3, i)
            T.where(0 < i)
            C[v] = A[v] + 1.0
"""
    sch = schedule(text)
    _, inner = sch.split(sch.get_loops("C")[0], [None, 4])
    outer = sch.blockize(inner)
    check_same(sch, text)
    (part,) = sch.get(outer).writes[0].region  # what is written
    assert (str(part.min), str(part.extent)) == ("1", "2")


def test_tiles_at_variables_of_a_block_around() -> None:
    sch = schedule(ACROSS.replace("INDEX", "vi, vj"))
    sch.blockize([sch.get_block("C")])
    unit = sch.add_unit_loop(sch.get_block("C"))
    sch.split(unit, [1, 1])
    sch.blockize(sch.get_loops("C")[0])
    check_same(sch, ACROSS.replace("INDEX", "vi, vj"))


# ---------------------------------------------------------------------------- padding

PADDED = """
@T.prim_func
def main(A: T.Buffer((5,), "float32"), D: T.Buffer((2, 4), "float32")):
    B, C = T.alloc_buffer((5,)), T.alloc_buffer((2, 4))
    for i in range(5):
        with T.block("B"):
            v = T.axis.spatial(5, i)
            B[v] = A[v] * 2.0
    for i, j in T.grid(2, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vi * 4 + vj < 5, B[vi * 4 + vj], T.float32(0))
    for i, j in T.grid(2, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + 1.0
"""


def test_padding_is_made_where_nothing_is_padded() -> None:
    sch = schedule(PADDED)
    refused(sch, "may not run for everything", "reverse_compute_inline", sch.get_block("C"))
    sch.reverse_compute_inline("D")
    check_same(sch, PADDED)


def test_padding_under_a_condition_is_not_lost() -> None:
    sch = schedule(PADDED)
    sch.reverse_compute_inline("D")
    i, j = sch.get_loops("C")
    sch.split(sch.fuse(i, j), [None, 3])
    refused(sch, "not for all of", "reverse_compute_at", sch.get_block("C"), sch.get_loops("B")[0])
    check_same(sch, PADDED)


# ---------------------------------------------------------------------------- conditions outside

#: Of the iterations of `r`, the first one alone makes something.
ONCE = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    B, C = T.alloc_buffer((4,)), T.alloc_buffer((4,))
    for i, r in T.grid(4, 3):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.where(r < 1)
            B[v] = A[v] * 2.0
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + 1.0
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = C[v] * 3.0
"""


def test_iterations_that_make_nothing_give_nothing() -> None:
    sch = schedule(ONCE)
    i, r = sch.get_loops("B")
    refused(sch, "in another grouping", "reverse_compute_at", sch.get_block("C"), r)
    sch.reverse_compute_at("C", i)
    check_same(sch, ONCE)
    check_compiled(sch, ONCE)


def test_iterations_that_make_nothing_are_not_copied() -> None:
    sch = schedule(ONCE)
    i, r = sch.get_loops("B")
    block = sch.get_block("B")
    refused(sch, "may leave elements of 'B' unwritten", "write_at", r, block, 0, "shared")
    sch.write_at(i, "B", 0, "shared")
    check_same(sch, ONCE)


def test_guards_are_put_on_the_producer_alone() -> None:
    """Blocks around it may have no variables either."""
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((3,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("outer"):
            T.reads(A[0:4])
            T.writes(B[0:4])
            for j in range(1):
                with T.block("tile"):
                    v = T.axis.spatial(4, i)
                    with T.block("B"):
                        T.reads(A[v])
                        T.writes(B[v])
                        B[v] = A[v] * 2.0
    for i in range(3):
        with T.block("C"):
            v = T.axis.spatial(3, i)
            C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    sch.reverse_compute_inline("C")
    check_same(sch, text)


def test_extents_are_defined_where_loops_do_not_run() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for o in range(3):
        for i in range(T.min(2 - o, 1) * 2):
            with T.block("B"):
                v = T.axis.spatial(4, o * 2 + i)
                B[v] = A[v] * 2.0
        for i in range(2):
            with T.block("C"):
                v = T.axis.spatial(4, o * 2 + i)
                T.where(o * 2 + i < 4)
                C[v] = B[v] + 1.0
"""
    sch = schedule(text)
    sch.split(sch.get_loops("B")[1], [3, None])
    refused(sch, "is not defined where", "cache_write", sch.get_block("B"), 0, "local")
    check_same(sch, text)


# ---------------------------------------------------------------------------- pieces and indices


def test_pieces_of_pieces_start_their_results() -> None:
    """A loop that places and reduces is not cut, however deep the reduction is."""
    text = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    for i, k, u in T.grid(4, 6, 2):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(u < 1)
            T.reads(A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    sch = schedule(text)
    i, k, u = sch.get_loops("C")
    both = sch.fuse(i, k)
    sch.loop_partition(u, [1, None])
    refused(sch, "does more than reduce", "loop_partition", both, [5, None])
    check_same(sch, text)


def test_pieces_are_not_copied_in_place() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * 2.0
"""
    sch = schedule(text)
    _, rest = sch.loop_partition(sch.get_loops("A")[1], [2, None])
    block = sch.get_child_blocks(rest)[0]
    refused(sch, "writes more of 'A' than", "cache_inplace", block, 0, "local")
    check_same(sch, text)


def test_indices_that_are_inlined() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            B[v] = 5 - v
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            T.reads(A[v], B[v])
            T.writes(C[B[v]])
            C[B[v]] = A[v] + 1.0
"""
    sch = schedule(text)
    sch.reverse_compute_inline("C")
    check_same(sch, text)


@pytest.mark.parametrize("method", ["reindex_cache_read", "reindex_cache_write"])
def test_copies_in_another_layout_keep_conditions_outside(method: str) -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), C: T.Buffer((4, 3), "float32")):
    B = T.alloc_buffer((4, 3))
    for o in range(6):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [o, j])
                T.where(o < 4)
                B[vi, vj] = A[vi, vj] * 2.0
        for u, j in T.grid(2, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [o, j])
                T.where(u < 1 and o < 4)
                C[vi, vj] = B[vi, vj] + 1.0
"""
    sch = schedule(text, debug_mask="none")
    block = "C" if method.endswith("read") else "B"
    getattr(sch, method)(block, 0, "local", lambda i, j: (j, i))
    check_same(sch, text)


def test_a_copy_of_what_memory_decides_is_not_inlined_backwards() -> None:
    """Its condition would read the index before the one that says whether there is an index."""
    text = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32")):
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
"""
    sch = schedule(text)
    sch.split(sch.get_loops("B")[0], [None, 2])
    sch.blockize(sch.split(sch.get_loops("B")[1], [None, 3])[1])
    sch.cache_index("B", "global", 1)
    sch.cache_write("B_o", 0, "local")
    copy = sch.get_block("B_local")
    refused(sch, "what memory holds", "reverse_compute_inline", copy)
    check_same(sch, text)


def test_a_copy_of_what_is_written_through_a_view_is_not_inlined_backwards() -> None:
    sch = schedule("""
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            V = T.match_buffer(B[vi, vj : vj + 1], (1,))
            V[0] = A[vi, vj] + 1.0
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2.0
""")
    refused(sch, "through a view", "reverse_compute_inline", sch.get_block("C"))
