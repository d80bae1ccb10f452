"""reindex, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import MATMUL, check_same, check_trace, refused, same_text, schedule
from schedule.moving import CONV, GATHER, GEMM, TRANSPOSED, UNITS


def test_reindex_of_what_is_read() -> None:
    sch = schedule(TRANSPOSED)
    copy = sch.reindex("B", ("read", 0))
    assert sch.get(copy).name_hint == "A_reindex_reindex"
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), C: T.Buffer((5, 6), "float32")):
    B = T.alloc_buffer((5, 6))
    A_reindex = T.alloc_buffer((5, 6))
    for ax0, ax1 in T.grid(5, 6):
        with T.block("A_reindex_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_reindex[v0, v1] = A[v1, v0]
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_reindex[vi, vj] * 3.0
    for j, i in T.grid(6, 5):
        with T.block("C"):
            vj, vi = T.axis.remap("SS", [j, i])
            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_same(sch, TRANSPOSED)
    check_trace(sch, TRANSPOSED)


def test_reindex_of_what_is_written() -> None:
    sch = schedule(GEMM)
    copy = sch.reindex("C", ("write", 0))
    assert sch.get(copy).name_hint == "C_reindex"
    assert str(sch.get(copy).body).strip() == "C[v0, v1] = C_reindex[v0, v1]"
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


def test_reindex_of_windows() -> None:
    sch = schedule(CONV)
    copy = sch.reindex("Y", "P")
    assert str(sch.get(copy).body).strip() == ("P_reindex[v0, v1, v2, v3] = P[0, v0 + v2, v1 + v3]")
    check_same(sch, CONV)
    check_trace(sch, CONV)


def test_all_of_a_product() -> None:
    sch = schedule(MATMUL.replace("128", "6").replace("96", "5").replace("64", "7"))
    text = MATMUL.replace("128", "6").replace("96", "5").replace("64", "7")
    for access in (("read", 0), ("read", 1), ("write", 0)):
        sch.reindex("C", access)
    block = sch.get(sch.get_block("C"))
    names = [region.buffer.name for region in (*block.reads, *block.writes)]
    assert names == ["A_reindex", "B_reindex", "C_reindex"]
    check_same(sch, text)
    check_trace(sch, text)


def test_python_and_json_as_tvm_has_them() -> None:
    sch: Any = schedule(TRANSPOSED)
    sch.reindex("B", "A")
    assert sch.trace.as_python()[-1] == 'b1 = sch.reindex(block=b0, buffer=("read", 0))'
    assert sch.trace.as_json()[0][-1] == ["ReIndex", ["b0"], [0, 0], ["b1"]]


def test_what_a_block_guards_is_not_accessed() -> None:
    sch = schedule(CONV)
    refused(sch, "may be outside", "reindex", sch.get_block("P"), ("read", 0))


def test_data_may_say_what_is_read() -> None:
    """Every instance reads its element in any case, so the copy may too."""
    text = GATHER.replace('"int32"', '"int64"')
    sch = schedule(GATHER)
    sch.reindex("C", "B")
    assert "B_reindex[v0, v1] = B[I" in str(sch.mod)
    assert text != GATHER


def test_units_and_refusals() -> None:
    sch = schedule(UNITS)
    sch.reindex("B", "A")
    check_same(sch, UNITS)
    sch = schedule(CONV)
    sch.compute_at("Y", sch.get_loops("R")[0])
    refused(sch, "hold other blocks too", "reindex", sch.get_block("R"), ("read", 0))
    refused(sch, "does not access 'Q'", "reindex", sch.get_block("R"), "Q")
    text = TRANSPOSED.replace("B[vi, vj] + 1.0", "B[vi, vj] + B[vi, 0]")
    sch = schedule(text)
    refused(sch, "2 different indices", "reindex", sch.get_block("C"), "B")


@pytest.mark.parametrize("factor", [None, 4])
def test_reindex_cache_read(factor: int | None) -> None:
    sch = schedule(GEMM)
    if factor:
        sch.split(sch.get_loops("C")[0], [None, factor])
    copy = sch.reindex_cache_read("C", 0, "shared", lambda i, j, k: (k // 2, i, k % 2))
    block = sch.get(copy)
    assert block.name_hint == "A_shared"
    assert str(block.body).strip() == "A_shared[vk // 2, vi, vk % 2] = A[vi, vk]"
    assert "A_shared = T.alloc_buffer((4, 13, 2)" in str(sch.mod)
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


@pytest.mark.parametrize("factor", [None, 4])
def test_reindex_cache_write(factor: int | None) -> None:
    sch = schedule(GEMM)
    if factor:
        sch.split(sch.get_loops("C")[0], [None, factor])
    copy = sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
    assert str(sch.get(copy).body).strip() == "C[vi, vj] = C_local[vj, vi]"
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


def test_reindex_cache_after_the_writer() -> None:
    sch = schedule(CONV)
    sch.reindex_cache_read("Y", 0, "local", lambda c, i, j, r, s: (i, r, j + s))
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["P", "P_local", "Y", "R"]
    check_same(sch, CONV)
    check_trace(sch, CONV)


def test_reindex_cache_refusals() -> None:
    sch = schedule(GEMM)
    block = sch.get_block("C")

    def read(index_map: Any, text: Any) -> None:
        refused(sch, text, "reindex_cache_read", block, 0, "shared", index_map)

    read(lambda i, j, k: (k,), "'vi' is in the indices into the buffer")
    read(lambda i, j, k: (k, i, j), "'vj' is in the indices into the cache")
    read(lambda i, j, k: (k + i,), "several elements")
    wide = GEMM.replace(
        'with T.block("D"):\n            vi, vj = T.axis.remap("SS", [i, j])',
        'with T.block("D"):\n            vi, vj = T.axis.remap("SS", [i, j])\n'
        "            T.reads(C[vi, 0:10])\n            T.writes(D[vi, vj])",
    )
    sch = schedule(wide)
    refused(
        sch,
        "10 elements",
        "reindex_cache_read",
        sch.get_block("D"),
        0,
        "shared",
        lambda i, j: (i, j),
    )


def test_the_copy_reads_indices_that_are_data() -> None:
    text = """
@T.prim_func
def main(
    X: T.Buffer((9, 4), "float32"), I: T.Buffer((6,), "int32"), Y: T.Buffer((6, 4), "float32")
):
    J = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("J"):
            v = T.axis.spatial(6, i)
            J[v] = T.min(I[v], 8)
    for i, j in T.grid(6, 4):
        with T.block("Y"):
            v, w = T.axis.remap("SS", [i, j])
            Y[v, w] = X[J[v], w] * T.float32(2)
"""
    sch = schedule(text)
    block = sch.get_block("Y")
    names = [region.buffer.name for region in sch.get(block).reads]
    copy = sch.reindex(block, ("read", names.index("X")))
    assert [region.buffer.name for region in sch.get(copy).reads] == ["X", "J"]
    sch.compute_inline("J")
    assert "J[" not in str(sch.mod)
    assert "J = " not in str(sch.mod)


def test_reindex_cache_of_a_single_element() -> None:
    """The index map has no results, in the trace too."""
    text = """
@T.prim_func
def main(A: T.Buffer((7,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(7):
        with T.block("B"):
            vk = T.axis.reduce(7, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
"""
    sch = schedule(text)
    sch.reindex_cache_write("B", 0, "local", lambda k: ())
    check_same(sch, text)
    check_trace(sch, text)


def test_reindex_cache_of_what_data_chooses() -> None:
    sch = schedule(GATHER)
    copy = sch.reindex_cache_read("C", 0, "local", lambda i, j: (j, i))
    assert [region.buffer.name for region in sch.get(copy).reads] == ["B", "I"]
    check_same(sch, GATHER)
    sch = schedule(GATHER)
    sch.cache_read("C", 1, "local")
    block = sch.get_block("C")
    refused(sch, "is in 'I_local'", "reindex_cache_read", block, 0, "local", lambda i, j: (j, i))


CONDITION = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(WHERE)
            C[vi, vj] = A[vi] + 1.0
"""


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("i < 6", "i < 6"),
        ("j < 3", None),
        ("i < 6 and j < 3", "i < 6"),
        ("2 <= i and j < 3 and i < 6", "2 <= i and i < 6"),
    ],
)
def test_copies_are_made_where_the_block_runs(where: str, kept: str | None) -> None:
    """As far as that depends on the loops that the copy has."""
    text = CONDITION.replace("WHERE", where)
    sch = schedule(text)
    copy = sch.reindex_cache_read("C", 0, "local", lambda vi, vj: vi)
    predicate = str(sch.state.realize(sch.get_sref(copy)).predicate)
    assert predicate == ("T.bool(True)" if kept is None else kept)
    assert len(sch.get_loops(copy)) == 1
    check_same(sch, text)


@pytest.mark.parametrize("where", ["i * 4 + j < 30", "j < 3 and i + j < 6", "j < i"])
def test_copies_whose_place_depends_on_other_loops_are_refused(where: str) -> None:
    sch = schedule(CONDITION.replace("WHERE", where))
    match = "of block 'C' is on loops that the copy does not have"
    block = sch.get_block("C")
    refused(sch, match, "reindex_cache_read", block, 0, "local", lambda vi, vj: vi)
