"""blockize: before and after, the trace, the refusals."""

from __future__ import annotations

import random

import pytest

from schedule.common import (
    ELEMENTWISE,
    MATMUL,
    NORMALISE,
    check_same,
    check_trace,
    refused,
    same_text,
    schedule,
)
from tileloom import ScheduleError
from tileloom.expr import const


def test_tiles_of_a_matmul() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 16]) for loop in (i, j, k))
    sch.reorder(i0, j0, k0, i1, j1, k1)
    inner = sch.get_block("C")
    outer = sch.blockize(i1)
    assert sch.get(outer).name_hint == "C_o" and sch.get(inner).name_hint == "C"
    assert [sch.get(loop).loop_var.name for loop in (i1, j1, k1)] == ["i_1", "j_1", "k_1"]
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((128, 96), "float32"),
    B: T.Buffer((96, 64), "float32"),
    C: T.Buffer((128, 64), "float32"),
):
    for i0, j0, k0 in T.grid(8, 4, 6):
        with T.block("C_o"):
            vi, vj, vk = T.axis.remap("SSR", [i0, j0, k0])
            T.reads(
                A[vi * 16 : vi * 16 + 16, vk * 16 : vk * 16 + 16],
                B[vk * 16 : vk * 16 + 16, vj * 16 : vj * 16 + 16],
            )
            T.writes(C[vi * 16 : vi * 16 + 16, vj * 16 : vj * 16 + 16])
            with T.init():
                for i1, j1 in T.grid(16, 16):
                    with T.block("C_init"):
                        a, b = T.axis.remap("SS", [i1, j1])
                        T.reads()
                        T.writes(C[vi * 16 + a, vj * 16 + b])
                        C[vi * 16 + a, vj * 16 + b] = T.float32(0)
            for i1, j1, k1 in T.grid(16, 16, 16):
                with T.block("C"):
                    a, b, c = T.axis.remap("SSR", [i1, j1, k1])
                    T.reads(
                        C[vi * 16 + a, vj * 16 + b],
                        A[vi * 16 + a, vk * 16 + c],
                        B[vk * 16 + c, vj * 16 + b],
                    )
                    T.writes(C[vi * 16 + a, vj * 16 + b])
                    C[vi * 16 + a, vj * 16 + b] = (
                        C[vi * 16 + a, vj * 16 + b]
                        + A[vi * 16 + a, vk * 16 + c] * B[vk * 16 + c, vj * 16 + b]
                    )
""",
    )
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


@pytest.mark.parametrize("preserve", [True, False])
def test_everything_goes_inside(preserve: bool) -> None:
    sch = schedule(ELEMENTWISE)
    sch.blockize(sch.get_loops("C")[0], preserve_unit_iters=preserve)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    with T.block("C_o"):
        vio = T.axis.spatial(1, 0)
        vjo = T.axis.spatial(1, 0)
        T.reads(B[0:13, 0:8])
        T.writes(C[0:13, 0:8])
        for i, j in T.grid(13, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_loops_of_extent_one_stay_in_values() -> None:
    for preserve, value in ((True, "i_0"), (False, "0")):
        sch = schedule(ELEMENTWISE)
        i, _ = sch.get_loops("C")
        _, i1 = sch.split(i, [1, None])
        block = sch.blockize(i1, preserve_unit_iters=preserve)
        realize = sch.state.realize(sch.get_sref(block))
        assert str(realize.iter_values[0]) == value
        check_trace(sch, ELEMENTWISE)
        check_same(sch, ELEMENTWISE)


def test_a_condition_of_the_outer_loops_stays_outside() -> None:
    sch = schedule(MATMUL)
    i, j, _ = sch.get_loops("C")
    sch.split(i, [5, 26])  # 130 > 128
    block = sch.blockize(j)
    assert "128" in str(sch.state.realize(sch.get_sref(block)).predicate)
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


def test_the_sums_of_rows() -> None:
    for depth in (0, 1):
        sch = schedule(NORMALISE)
        sch.blockize(sch.get_loops("S")[depth])
        check_trace(sch, NORMALISE)
        check_same(sch, NORMALISE)
        assert [a.iter_type for a in sch.get(sch.get_block("S_o")).iter_vars] == [0, 2]


def test_blocks_that_follow_each_other() -> None:
    sch = schedule(ELEMENTWISE)
    sch.compute_at("B", sch.get_loops("C")[0])
    outer = sch.blockize([sch.get_block("B"), sch.get_block("C")])
    assert sch.get(outer).name_hint == "outer_B_C_"
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i in range(13):
        with T.block("outer_B_C_"):
            vi = T.axis.spatial(13, i)
            vo = T.axis.spatial(1, 0)
            T.reads(A[vi, 0:8], B[vi, 0:8])
            T.writes(B[vi, 0:8], C[vi, 0:8])
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] * 2.0
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_a_single_block_in_a_list() -> None:
    sch = schedule(ELEMENTWISE)
    sch.blockize([sch.get_block("C")])
    assert len(sch.get_loops("outer_C_")) == 2 and not sch.get_loops("C")
    check_same(sch, ELEMENTWISE)


def test_inner_bounds_use_the_new_variables() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0
"""
    sch = schedule(text)
    sch.blockize(sch.get_loops("B")[1])
    check_same(sch, text)


def test_a_domain_that_starts_late_keeps_its_start() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), B: T.Buffer((1,), "float32")):
    for k, k1 in T.grid(5, 4):
        with T.block("B"):
            vk = T.axis.reduce((4, 24), 4 + k * 4 + k1)
            v0 = T.axis.spatial(1, 0)
            with T.init():
                B[v0] = T.float32(0)
            B[v0] = B[v0] + A[vk]
"""
    sch = schedule(text)
    sch.blockize(sch.get_loops("B")[1])
    check_trace(sch, text)
    check_same(sch, text)


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    fused = sch.fuse(i, j)
    _, inner = sch.split(fused, [None, 3])
    refused(sch, "cannot be divided", "blockize", inner)
    refused(sch, "is a block", "blockize", sch.get_block("C"))
    sch.compute_at("B", sch.get_loops("C")[0])
    refused(sch, "holds 2 blocks", "blockize", sch.get_loops("C")[0])
    b, c = sch.get_block("B"), sch.get_block("C")
    refused(sch, "do not follow each other", "blockize", [c, b])
    refused(sch, "at least one block", "blockize", [])
    sch = schedule(NORMALISE)
    refused(sch, r"T.init\(\)", "blockize", [sch.get_block("S"), sch.get_block("C")])


@pytest.mark.parametrize("seed", range(24))
def test_any_loop_after_random_steps(seed: int) -> None:
    """Extents that are odd, prime or one: the step is refused, or changes no result."""
    rng = random.Random(seed)
    m, n, k = (rng.choice((1, 2, 5, 6, 7, 8)) for _ in range(3))
    text = f"""
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(1)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * T.cast(vj + vk, "float32")
"""
    sch = schedule(text)
    for _ in range(rng.randrange(4)):
        loops = sch.get_loops("C")
        step = rng.choice(("split", "fuse", "reorder"))
        at = rng.randrange(len(loops))
        try:
            if step == "split":
                sch.split(loops[at], [None, rng.choice((1, 2, 3))])
            elif step == "fuse" and at:
                sch.fuse(*loops[at - 1 : at + 1])
            elif step == "reorder":
                sch.reorder(*rng.sample(loops, min(2, len(loops))))
        except ScheduleError:
            continue
    tried = 0
    for at in range(len(sch.get_loops("C"))):
        copy = sch.copy()
        try:
            copy.blockize(copy.get_loops("C")[at], preserve_unit_iters=rng.random() < 0.5)
        except ScheduleError:
            continue
        tried += 1
        check_same(copy, text, seed)
        assert copy.verify().state != "wrong"
    assert tried


def test_nothing_to_run() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 0), "float32"), B: T.Buffer((4, 0), "float32")):
    for i, j in T.grid(4, 0):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
"""
    for depth in (0, 1):
        sch = schedule(text)
        sch.blockize(sch.get_loops("B")[depth])
        check_trace(sch, text)
        check_same(sch, text)


def test_loops_that_repeat_a_reduction_stay_outside() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for again, i, k in T.grid(3, 4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    sch = schedule(text)
    again, i, _ = sch.get_loops("B")
    refused(sch, "only repeats", "blockize", again)
    sch.blockize(i)
    check_same(sch, text)


def test_blockize_in_a_block_that_hides_no_loops() -> None:
    """The pieces of a partitioned loop are in blocks without variables, inside of other loops."""
    for several in (False, True):
        sch = schedule(ELEMENTWISE)
        loops = sch.loop_partition(sch.get_loops("C")[1], [2])
        block = sch.get_child_blocks(loops[1])[0]
        outer = sch.blockize([block] if several else loops[1])
        first = sch.get(outer).iter_vars[0]
        assert first.domain.extent is const(13)
        check_same(sch, ELEMENTWISE)
        check_trace(sch, ELEMENTWISE)


def test_blockize_refuses_digits_that_overlap() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(3, 6):
        with T.block("B"):
            v = T.axis.spatial(8, j + i)
            B[v] = A[v] + 1.0
"""
    )
    refused(sch, "overlap", "blockize", sch.get_loops("B")[1])


def test_blockize_refuses_blocks_that_use_loops_directly() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    sch.loop_partition(j, [2])
    common = sch.get_child_blocks(i)[0]
    refused(sch, "uses loop 'i' directly", "blockize", [common])
    refused(sch, "uses loop 'i' directly", "reverse_compute_at", common, sch.get_loops("B")[0])
    outer = sch.blockize(i)  # the loop comes along
    assert sch.get(outer).name_hint == "C_j_common_o"
    check_same(sch, ELEMENTWISE)


def test_blockize_of_a_piece_that_starts_late() -> None:
    sch = schedule(ELEMENTWISE)
    piece = sch.loop_partition(sch.get_loops("C")[0], [4])[1]
    outer = sch.blockize(piece)
    assert [str(axis.domain) for axis in sch.get(outer).iter_vars] == ["Range(0, 1)", "Range(0, 1)"]
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


@pytest.mark.parametrize(
    ("bound", "rows"), [("i * 6 + j >= 6", 4), ("i >= 1", 4), ("i >= 1 and i < 3", 3)]
)
def test_conditions_that_let_rows_start_later(bound: str, rows: int) -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.spatial(24, i * 6 + j)
            T.where(BOUND)
            B[vi] = A[vi] * 2.0
""".replace("BOUND", bound)
    sch = schedule(text)
    outer = sch.blockize(sch.get_loops("B")[1])
    (axis,) = sch.get(outer).iter_vars
    assert (int(axis.domain.min), int(axis.domain.extent)) == (0, rows)
    check_same(sch, text)


TWO = """
@T.prim_func
def main(
    A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + 1.0
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = STORED
"""


@pytest.mark.parametrize("value", ["C[v] * 2.0", "1.0", "A[v]"])
def test_blocks_that_declare_nothing_are_hidden_by_none_that_does(value: str) -> None:
    """A partitioned loop is made of blocks that declare nothing: others look into them."""
    sch = schedule(TWO.replace("STORED", value))
    sch.loop_partition(sch.get_loops("C")[0], [3, None])
    hidden = "C" if value == "A[v]" else "A"
    blocks = [sch.get_block("C_i_common"), sch.get_block("D")]
    match = f"block 'C_i_common' does not declare what it touches of '{hidden}'"
    error = refused(sch, match, "blockize", blocks)
    assert "hint: blockize before loop_partition" in str(error)
    for block in blocks:
        sch.copy().blockize([block])


def test_blocks_that_declare_nothing_go_together() -> None:
    sch = schedule(TWO.replace("STORED", "C[v] * 2.0"))
    for name in "CD":
        sch.loop_partition(sch.get_loops(name)[0], [3, None])
    outer = sch.blockize([sch.get_block("C_i_common"), sch.get_block("D_i_common")])
    assert not sch.get(outer).reads and not sch.get(outer).writes
    check_same(sch, TWO.replace("STORED", "C[v] * 2.0"))
