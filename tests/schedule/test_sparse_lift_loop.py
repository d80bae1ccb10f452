"""lift_loop, match_to_alloc and hide_buffer_access: what SparseTIR has besides TVM's steps."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import (
    NORMALISE,
    check_compiled,
    check_same,
    check_trace,
    parse,
    refused,
    same_text,
    schedule,
)

NESTED = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i in range(16):
        with T.block("outer"):
            vi = T.axis.spatial(16, i)
            for jo, ji in T.grid(4, 4):
                with T.block("inner"):
                    vj = T.axis.spatial(16, jo * 4 + ji)
                    B[vi, vj] = A[vi, vj] + 1.0
"""


def test_lift_loop() -> None:
    sch = schedule(NESTED)
    jo, ji = sch.get_loops("inner")
    sch.lift_loop(jo)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, jo in T.grid(16, 4):
        with T.block("outer"):
            vi, v_jo = T.axis.remap("SS", [i, jo])
            T.reads(A[vi, v_jo * 4:v_jo * 4 + 4])
            T.writes(B[vi, v_jo * 4:v_jo * 4 + 4])
            for ji in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(16, v_jo * 4 + ji)
                    B[vi, vj] = A[vi, vj] + 1.0
""",
    )
    i, outer = sch.get_loops("outer")
    assert sch.get(outer) is sch.get(jo) and sch.get_loops("inner") != []
    sch.vectorize(ji)
    sch.parallel(sch.fuse(i, outer))
    check_trace(sch, NESTED)
    check_compiled(sch, NESTED)
    assert sch.verify().ok


def test_loops_around_it_stay_inside() -> None:
    sch = schedule(NESTED)
    jo, ji = sch.get_loops("inner")
    sch.lift_loop(ji)
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops("outer")] == ["i", "ji"]
    assert [sch.get(loop) for loop in sch.get_loops("inner")] == [sch.get(jo)]
    check_trace(sch, NESTED)
    check_same(sch, NESTED)
    assert sch.verify().ok


@pytest.mark.parametrize("kind", ["bind", "unroll", "annotate"])
def test_a_loop_keeps_its_kind_and_notes(kind: str) -> None:
    sch = schedule(NESTED)
    jo, _ = sch.get_loops("inner")
    known: dict[str, list[Any]] = {"bind": ["threadIdx.x"], "annotate": ["note", 3]}
    extra = known.get(kind, [])
    getattr(sch, kind)(jo, *extra)
    before = sch.get(jo)
    sch.lift_loop(jo)
    after = sch.get(jo)
    for part in ("kind", "thread_binding", "annotations", "extent", "loop_var"):
        assert getattr(after, part) is getattr(before, part), part
    check_trace(sch, NESTED)


def nested(body: str, declared: str = "") -> str:
    """A block `outer` of each row, with a body."""
    lines = "\n".join(" " * 12 + line for line in body.split("\n"))
    return f"""
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
         P: T.Buffer((17,), "int32")):
    for i in range(16):
        with T.block("outer"):
            vi = T.axis.spatial(16, i)
            {declared}
{lines}
"""


INNER = """    with T.block("inner"):
        vj = T.axis.spatial(16, j)
        B[vi, vj] = A[vi, vj] + 1.0"""

SUM = INNER.replace("spatial", "reduce").replace("vi, vj] =", "vi, 0] =")

REFUSALS = [
    (f"for j in range(P[vi + 1] - P[vi]):\n{INNER}", "is not known outside of block 'outer'"),
    (f"for j in range(vi + 1):\n{INNER}", r"vi \+ 1, is not known outside of block 'outer'"),
    (f"for j in range(P[0]):\n{INNER}", "is not known outside of block 'outer'"),
    (f"B[vi, 0] = 1.0\nfor j in range(16):\n{INNER}", "block 'outer' holds more than loop 'j'"),
    (
        f"for j in range(16):\n{INNER.replace('vi, vj] =', 'vi, 0] =')}\n"
        + INNER.replace('"inner"', '"other"').replace("A[vi, vj]", "B[vi, 0]"),
        "it is not the only block to write|depend on each other",
    ),
    (
        f"for j in range(16):\n{SUM}",
        "neither complete",
    ),
    (f"for j in range(16):\n{INNER.replace('(16, j)', '(16, 0)')}", "only repeats block 'inner'"),
]


@pytest.mark.parametrize(("body", "match"), REFUSALS)
def test_what_is_not_lifted(body: str, match: str) -> None:
    sch = schedule(nested(body))
    refused(sch, match, "lift_loop", sch.get_loops("inner")[0])


def test_blocks_that_declare_nothing_stay_whole() -> None:
    """As loop_partition makes them: analyses look into them as long as they have no variables."""
    sch = schedule(NORMALISE)
    parts = sch.loop_partition(sch.get_loops("S")[0], [4, None])
    block = sch.get_child_blocks("root")[0]
    assert len(parts) == 2 and sch.get(block).reads == ()
    refused(sch, "does not declare what it reads and writes", "lift_loop", parts[0])


def test_a_block_with_a_start_is_not_divided() -> None:
    text = nested(f"for j in range(16):\n{INNER}", "with T.init():\n                B[vi, 0] = 1.0")
    sch = schedule(text)
    refused(sch, "block 'outer' has a T.init", "lift_loop", sch.get_loops("inner")[0])


def test_loops_of_the_root_stay() -> None:
    sch = schedule(NORMALISE)
    refused(sch, "loop 'i' is in no block but the root", "lift_loop", sch.get_loops("S")[0])


PARAMETER = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"),
         C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
"""


def test_match_to_alloc() -> None:
    sch = schedule(PARAMETER)
    sch.match_to_alloc("B", 0)
    after = PARAMETER.replace("B[vi]", "B_tmp[vi]").replace(
        '"float32")):\n', '"float32")):\n    B_tmp = T.alloc_buffer((8,))\n'
    )
    same_text(sch, after)
    sch.set_scope("B", 0, "local")
    sch.compute_at("B", sch.get_loops("C")[0])
    check_trace(sch, PARAMETER)
    assert [buffer.name for buffer in sch.mod["main"].buffers] == ["A", "B", "C"]


def test_what_callers_have_put_there_is_not_lost() -> None:
    sch = schedule(PARAMETER.replace("A[vi] * 2.0", "B[vi] * 2.0"))
    refused(sch, "nothing is written to it before", "match_to_alloc", sch.get_block("B"), 0)
    half = PARAMETER.replace("range(8)", "range(4)", 1)
    sch = schedule(half)
    refused(sch, "may read what callers have put into 'B'", "match_to_alloc", sch.get_block("B"), 0)
    sch = schedule(PARAMETER)
    sch.cache_write("B", 0, "local")
    refused(sch, "is no parameter of the function", "match_to_alloc", sch.get_block("B"), 0)


def test_hide_buffer_access() -> None:
    sch = schedule(PARAMETER)
    sch.hide_buffer_access("C", "read", [0])
    assert sch.get(sch.get_block("C")).reads == ()
    assert "T.writes(C[vi])" in str(sch.mod) and "T.reads()" in str(sch.mod)
    check_trace(sch, PARAMETER)
    refused(sch, 'say "read" or "write"', "hide_buffer_access", sch.get_block("C"), "reads", [0])
    assert parse(PARAMETER) is not None
