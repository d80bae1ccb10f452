"""Steps that once were taken and changed results; each is refused, and what is near it is not."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import check_compiled, check_same, parse, refused, schedule
from schedule.random_intrinsics import intrinsic_of
from tileloom import Schedule, te
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.tir import PrimFunc


def divided() -> PrimFunc:
    """Rows of doubled elements, divided by their sums."""
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    e = te.compute((4, 6), lambda i, c: a[i, c] * 2.0, name="E")
    s = te.compute((4,), lambda i: te.sum(e[i, k], axis=k), name="S")
    return te.create_prim_func([a, te.compute((4, 6), lambda i, c: e[i, c] / s[i], name="O")])


@pytest.mark.parametrize("unit", [True, False])
def test_a_loop_of_a_sum_places_its_reader(unit: bool) -> None:
    sch = schedule(divided())
    sch.reverse_compute_at("S", sch.get_loops("E")[1], unit)
    loops = sch.get_loops("E")
    refused(sch, "also decides 'v_c'", "reverse_compute_at", sch.get_block("O"), loops[1])
    sch.reverse_compute_at("O", loops[0])
    check_same(sch, divided())
    assert sch.verify().state == "ok"


def digits() -> PrimFunc:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 3), "k")
    s = te.compute((3,), lambda i: te.sum(a[i + k], axis=k), name="S")
    return te.create_prim_func([a, te.compute((5,), lambda i: a[i] - s[i % 3], name="O")])


def test_a_digit_tells_no_place() -> None:
    sch = schedule(digits())
    refused(
        sch, "another grouping", "reverse_compute_at", sch.get_block("O"), sch.get_loops("S")[0]
    )


def shared_sum() -> PrimFunc:
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    s = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="S")
    d = te.compute((4,), lambda i: s[i] * 2.0, name="D")
    return te.create_prim_func([a, te.compute((4, 6), lambda i, j: a[i, j] + d[i], name="O")])


@pytest.mark.parametrize("swap", [False, True])
def test_merged_with_what_a_sum_is_made_into(swap: bool) -> None:
    sch = schedule(shared_sum())
    sch.reverse_compute_at("D", sch.get_loops("S")[1])
    loops = [sch.get_loops(name)[1] for name in ("O", "S")]
    refused(sch, "not reduced to the end", "merge", *(reversed(loops) if swap else loops))
    sch.merge(sch.get_loops("O")[0], sch.get_loops("S")[0])
    check_same(sch, shared_sum())


SHIFTED = """
@T.prim_func
def main(A: T.Buffer((T.int64(3), 4), "float32"), B: T.Buffer((T.int64(3), 4), "float32")):
    C = T.alloc_buffer((3, 4))
    for i, j in T.grid(T.int64(3), 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[T.Cast("int32", vi), vj] = A[vi, vj]
    for i, j in T.grid(T.int64(3), 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[T.Cast("int32", (vi + T.int64(1)) % T.int64(3)), vj]
"""


def test_merge_of_what_was_not_understood_before() -> None:
    sch = schedule(SHIFTED)
    refused(sch, "may not hold", "merge", sch.get_loops("C")[0], sch.get_loops("B")[0])


def two_steps(size: int) -> PrimFunc:
    a = te.placeholder((size,), name="A")
    d = te.compute((size,), lambda j: a[j] * 2.0, name="D")
    return te.create_prim_func([a, te.compute((size,), lambda j: d[j] + 1.0, name="E")])


def test_tiles_across_the_rows_of_a_layout() -> None:
    sch = schedule(two_steps(10))
    outer, _ = sch.split(sch.get_loops("D")[0], [2, None])
    sch.transform_layout("E", ("read", 0), lambda i: (i // 2, i % 2))
    refused(sch, "another grouping", "reverse_compute_at", sch.get_block("E"), outer)
    sch = schedule(two_steps(12))
    outer, _ = sch.split(sch.get_loops("D")[0], [2, None])
    sch.transform_layout("E", ("read", 0), lambda i: (i // 2, i % 2))
    sch.reverse_compute_at("E", outer)
    check_same(sch, two_steps(12))
    assert sch.verify().state == "ok"


def uneven(sch: Schedule) -> Any:
    """Tiles of 3 in parts of 2: the last part of each is half outside of its tile."""
    _, inner = sch.split(sch.get_loops("D")[0], [None, 3])
    middle, _ = sch.split(inner, [None, 2])
    return sch.get_loops("D")[0], middle


def test_parts_that_reach_into_the_next_tile() -> None:
    sch = schedule(two_steps(12))
    outer, middle = uneven(sch)
    again = sch.copy()
    again.reverse_compute_at("E", middle)
    check_same(again, two_steps(12))
    assert again.verify().state == "ok"
    sch.reverse_compute_at("E", outer)
    sch.cache_write("D", 0, "local")
    check_same(sch, two_steps(12))
    assert sch.verify().state == "ok"


def test_the_rim_of_a_tile_is_no_hole() -> None:
    sch = schedule(two_steps(13))
    outer, _ = sch.split(sch.get_loops("D")[0], [None, 4])
    sch.reverse_compute_at("E", outer)
    sch.cache_read("E", 0, "local")
    sch.cache_write("D", 0, "local")
    check_same(sch, two_steps(13))
    check_compiled(sch, two_steps(13))
    assert sch.verify().state == "ok"


MATMUL = """
@T.prim_func
def main(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")
):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

TILE = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    VARS
    A = T.match_buffer(a, (4, 4), "float32", offset_factor=1STRIDES)
    B = T.match_buffer(b, (4, 4), "float32", offset_factor=1STRIDES)
    C = T.match_buffer(c, (4, 4), "float32", offset_factor=1STRIDES)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("u"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def tiled(steps: str | None = "s") -> Schedule:
    """A product in tiles, the update of one an intrinsic over views."""
    desc = TILE.replace("STRIDES", "").replace("VARS\n    ", "")
    impl = TILE.replace("STRIDES", f", strides=[{steps}, 1]" if steps else "")
    impl = impl.replace("VARS\n    ", "s = T.int32()\n    " if steps == "s" else "")
    TensorIntrin.register("tile_of_4", parse(desc), parse(impl), override=True)
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    tiles = [sch.split(loop, [None, 4]) for loop in (i, j, k)]
    sch.reorder(*(outer for outer, _ in tiles), *(inner for _, inner in tiles))
    sch.decompose_reduction("C", tiles[0][0])
    return sch


def test_a_view_that_is_updated_is_read() -> None:
    sch = tiled()
    loops = sch.get_loops("C_update")
    sch.tensorize(loops[3], "tile_of_4")
    outer = sch.blockize(loops[2])
    (inner,) = sch.get_child_blocks(outer)
    refused(sch, "does not start it", "cache_write", inner, 0, "global")
    sch.cache_inplace(inner, 0, "global")
    check_same(sch, MATMUL)


def test_a_copy_after_a_copy_in_place() -> None:
    sch = schedule(MATMUL)
    outer = sch.blockize(sch.get_loops("C")[0])
    (inner,) = sch.get_child_blocks(outer)
    _, last = sch.cache_inplace(inner, 0, "global")
    refused(sch, "in an iteration of loop 'k' before", "cache_write", last, 0, "local")


PLACE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * 2.0
"""


def test_elements_of_their_own_may_be_copied_back_late() -> None:
    sch = schedule(PLACE)
    _, last = sch.cache_inplace("A", 0, "local")
    sch.cache_write(last, 0, "local")
    check_same(sch, PLACE)
    assert sch.verify().state == "ok"


def reversed_twice() -> PrimFunc:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 2), "k")
    s = te.compute((4,), lambda i: te.sum(a[i + k], axis=k), name="S")
    return te.create_prim_func([a, te.compute((4,), lambda i: s[3 - i] + 1.0, name="R")])


COUNTS_DOWN = """
@T.prim_func
def main(A: T.Buffer((SIZE,), "float32"), C: T.Buffer((SIZE,), "float32")):
    for i, j, k in T.grid(SIZE, 1, 3):
        with T.block("C"):
            v = T.axis.spatial(SIZE, SIZE - 1 - i + (j * 3 + k))
            T.where(j * 3 + k < 1)
            C[v] = A[v] + 1.0
"""


def test_blocks_that_count_down() -> None:
    sch = schedule(reversed_twice())
    sch.compute_at("S", sch.get_loops("R")[0], True)
    _, unit, _ = sch.get_loops("S")
    sch.blockize(unit)
    check_same(sch, reversed_twice())
    assert sch.verify().state == "ok"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("kept", [False, True])
def test_blocks_that_count_down_from_outside(size: int, kept: bool) -> None:
    func = parse(COUNTS_DOWN.replace("SIZE", str(size)))
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[2], kept)
    [axis] = sch.get(sch.get_block("C_o")).iter_vars
    assert int(axis.domain.extent) == size
    check_same(sch, func)
    assert sch.verify().state == "ok"


@pytest.mark.parametrize("index", [0, 1])
def test_block_layouts_have_no_gaps(index: int) -> None:
    sch = schedule(divided())
    maps = [lambda i, c: (i, c * 6), lambda i, c: (i * 2, c)]
    refused(sch, "not bijective", "transform_block_layout", sch.get_block("S"), maps[index])


def test_blocks_that_hide_what_they_touch() -> None:
    sch = schedule(shared_sum())
    sch.loop_partition(sch.get_loops("D")[0], [2, None])
    blocks = sch.get_child_blocks(sch.get_block("root"))
    refused(sch, "hide", "blockize", blocks[1:])


def test_loops_of_two_widths_are_fused() -> None:
    sch = schedule(SHIFTED)
    sch.fuse(*sch.get_loops("B"))
    outer, inner = sch.get_loops("C")
    sch.reorder(inner, outer)
    sch.fuse(inner, outer)
    check_same(sch, SHIFTED)


PADDED = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[v - 1])
            T.writes(B[v])
            B[v] = T.if_then_else(v >= 1 and v < 7, A[v - 1], T.float32(0))
"""


@pytest.mark.parametrize(
    ("place", "inside", "ends"),
    [
        ("v - 1", "v >= 1 and v < 7", "-1 to 7"),
        ("v", "v < 6", "0 to 8"),
        ("v + 3", "v < 3", "3 to 11"),
        ("v - 2", "v >= 2", "-2 to 6"),
    ],
)
def test_views_reach_no_further_than_buffers(place: str, inside: str, ends: str) -> None:
    sch = schedule(PADDED.replace("v - 1", place).replace("v >= 1 and v < 7", inside))
    block = sch.blockize(sch.get_loops("B")[0])
    name = intrinsic_of(sch.get(block))
    why = rf"from {ends}, which is not all in \[0, 6\)"
    refused(sch, why, "tensorize", block, name)


def test_a_store_to_a_view_is_not_inlined() -> None:
    sch = schedule(two_steps(12))
    block = sch.get_block("D")
    sch.tensorize(block, intrinsic_of(sch.get(block)))
    refused(sch, "not one store", "compute_inline", block)


UNIT = """
@T.prim_func
def main(A: T.Buffer((1, 8, 3), "float32"), B: T.Buffer((1, 8, 3), "float32")):
    for i, j, k in T.grid(1, 8, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + 1.0
"""


def test_layouts_that_are_injective_on_the_shape_alone() -> None:
    sch = schedule(UNIT)
    sch.transform_layout("B", ("read", 0), lambda i, j, k: (i * 4 + j, k), pad_value=0.0)
    assert sch.get(sch.get_block("B")).reads[0].buffer.static_shape == (8, 3)
    assert sch.verify().state == "ok"


GUARDED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), D: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((7,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.where(i < 7)
            C[v] = B[v] + 1.0
    for i in range(7):
        with T.block("D"):
            v = T.axis.spatial(7, i)
            D[v] = C[v]
"""


def test_a_condition_that_keeps_within_a_buffer_is_kept() -> None:
    sch = schedule(GUARDED)
    loop = sch.get_loops("B")[0]
    refused(sch, "may leave out", "reverse_compute_at", sch.get_block("C"), loop)


SOMETIMES = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for o, i in T.grid(4, 6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            T.where(o < 1)
            B[v] = A[v] + 1.0
        with T.block("C"):
            v = T.axis.spatial(6, i)
            T.where(o < 1)
            B[v] = T.max(B[v] - 3.0, T.float32(0))
"""


def test_copies_in_place_run_when_their_block_does() -> None:
    sch = schedule(SOMETIMES)
    for copy in sch.cache_inplace("C", 0, "local"):
        assert "T.where(o < 1)" in str(sch.get(sch.get_loops(copy)[-1]))
    check_same(sch, SOMETIMES)
    assert sch.verify().state == "ok"


def test_pieces_that_make_some_of_a_copy() -> None:
    sch = schedule(shared_sum())
    loop = sch.get_loops("D")[0]
    sch.compute_at("S", loop)
    sch.loop_partition(sch.get_loops("S")[-1], [2, None])
    refused(sch, "does not declare what it writes", "cache_read", sch.get_block("D"), 0, "local")
    check_same(sch, shared_sum())


@pytest.mark.parametrize("stride", [1, 5])
def test_gaps_within_blocks_are_not_copied(stride: int) -> None:
    sch = schedule(divided())
    sch.blockize(sch.get_loops("E")[1])
    (inner,) = sch.get_child_blocks(sch.get_block("E_o"))
    layout = (inner, ("write", 0), lambda i, c: (i, c * stride))
    sch.transform_layout(*layout, assume_injective_transform=True)
    if stride > 1:
        refused(sch, "makes only some", "cache_read", sch.get_block("S"), 0, "local")
    else:
        sch.cache_read("S", 0, "local")
    check_same(sch, divided())
    assert sch.verify().state == "ok"


@pytest.mark.parametrize("tensorized", [False, True])
@pytest.mark.parametrize("stride", [1, 5])
def test_gaps_within_blocks_are_not_written_back(stride: int, tensorized: bool) -> None:
    sch = schedule(two_steps(6))
    sch.transform_layout(
        "E", ("write", 0), lambda i: (i * stride,), assume_injective_transform=True
    )
    outer = sch.blockize(sch.get_loops("E")[0])
    if tensorized:
        sch.tensorize(outer, intrinsic_of(sch.get(outer)))
        outer = sch.get_child_blocks(sch.get_block("root"))[-1]
    if stride > 1:
        refused(sch, "may leave elements", "cache_write", outer, 0, "local")
    else:
        sch.cache_write(outer, 0, "local")
    assert sch.verify().state == "ok"


def test_gaps_of_a_layout_are_padding() -> None:
    sch = schedule(divided())
    layout = (sch.get_block("E"), ("write", 0), lambda i, c: (i, c * 5))
    refused(sch, "places that no element goes to", "transform_layout", *layout)
    sch.transform_layout(*layout, pad_value=0.0)
    sch.cache_read("S", 0, "local")
    check_same(sch, divided())
    assert sch.verify().state == "ok"


ONE_ROW = """
@T.prim_func
def main(A: T.Buffer((1, 4), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i, j in T.grid(1, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj] = A[vi, vj] + 1.0
    for j in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, j)
            C[v] = B[v] * 2.0
"""


def test_padding_is_stored_over_nothing() -> None:
    """A variable of one value may place no result, until it has more."""
    sch = schedule(ONE_ROW)
    refused(sch, "'vi' does not place its results", "pad_einsum", sch.get_block("B"), [4, 1])
    sch.pad_einsum("B", [1, 3])
    check_same(sch, ONE_ROW)


STARTED = """
@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32"),
         C: T.Buffer((5,), "float32")):
    S = T.alloc_buffer((5,))
    for i in range(5):
        with T.block("S"):
            v = T.axis.spatial(5, i)
            S[v] = B[v] + 1.0
        for k in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = S[vi]
                C[vi] = C[vi] + A[vi, vk]
"""


def test_what_results_start_with_is_made_before() -> None:
    sch = schedule(STARTED)
    outer, inner = sch.get_loops("C")
    why = "start with 'S', which block 'S' writes inside of loop 'i'"
    refused(sch, why, "decompose_reduction", sch.get_block("C"), outer)
    sch.decompose_reduction("C", inner)
    check_same(sch, STARTED)
    assert sch.verify().state == "ok"


EMPTY_LATER = """
@T.prim_func
def main(A: T.Buffer((4, 2), "float32"), C: T.Buffer((4,), "float32")):
    for i, o in T.grid(4, 3):
        for k in range(T.min(2 - o, 1) * 2):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""


def test_nothing_is_started_that_does_not_run() -> None:
    """In the last iteration the loop is empty, and what is there is the result."""
    sch = schedule(EMPTY_LATER)
    loop = sch.get_loops("C")[-1]
    why = "may have no iterations"
    refused(sch, why, "decompose_reduction", sch.get_block("C"), loop)
    text = EMPTY_LATER.replace("2 - o, 1", "3 - o, 1")
    sch = schedule(text)
    sch.decompose_reduction("C", sch.get_loops("C")[-1])
    check_same(sch, text)


def test_pieces_that_write_what_others_write_stay() -> None:
    sch = schedule(divided())
    sch.reverse_compute_at("S", sch.get_loops("E")[1])
    init = sch.decompose_reduction("S", sch.get_loops("S")[0])
    sch.loop_partition(sch.get_loops(init)[0], [2, None])
    common = sch.get_child_blocks(sch.get_block("root"))[0]
    loop = sch.get_loops("E")[0]
    refused(sch, "not the only block to write 'S'", "reverse_compute_at", common, loop)
    check_same(sch, divided())


def spread() -> PrimFunc:
    a = te.placeholder((2, 4), name="A")
    c = te.compute((2, 4), lambda i, j: a[i, j] * 2.0, name="C")
    t = te.compute((8,), lambda i: c[i // 4, i % 4] + 1.0, name="T")
    r = te.compute((2, 4), lambda i, j: c[i, j] - t[i], name="R")
    return te.create_prim_func([a, r])


def test_producers_that_make_different_parts() -> None:
    """One iteration makes a row of one and an element of the other that the reader needs."""
    sch = schedule(spread())
    fused = sch.fuse(*sch.get_loops("C"))
    sch.reverse_compute_at("T", fused)
    refused(sch, "in another grouping", "reverse_compute_at", sch.get_block("R"), fused)
    check_same(sch, spread())
