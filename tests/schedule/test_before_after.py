"""Programs before and after a step, and traces; each step has more tests of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedule.common import check_same, check_trace, same_text, schedule
from tileloom import Schedule, UserError

HEAD = """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
"""
MAKE = """    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
"""
TAKE = """    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""
ALLOC = "    B = T.alloc_buffer((16, 8))\n"
BEFORE = HEAD + ALLOC + MAKE + TAKE

#: A step on `BEFORE`, and what the program is after it.
STEPS: dict[str, tuple[Callable[[Schedule], object], str]] = {
    "add_unit_loop around a block": (
        lambda sch: sch.add_unit_loop("B"),
        HEAD + ALLOC + MAKE.replace("i, j in T.grid(16, 8)", "i, j, u in T.grid(16, 8, 1)") + TAKE,
    ),
    "add_unit_loop around a loop": (
        lambda sch: sch.add_unit_loop(sch.get_loops("B")[1]),
        HEAD + ALLOC + MAKE.replace("i, j in T.grid(16, 8)", "i, u, j in T.grid(16, 1, 8)") + TAKE,
    ),
    "annotate a block": (
        lambda sch: sch.annotate("B", "note", [1, "x"]),
        HEAD
        + ALLOC
        + MAKE.replace(
            "            B[", '            T.block_attr({"note": [1, "x"]})\n            B['
        )
        + TAKE,
    ),
    "annotate a loop": (
        lambda sch: sch.annotate(sch.get_loops("B")[0], "note", 2),
        HEAD
        + ALLOC
        + """    for i in T.serial(16, annotations={"note": 2}):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
"""
        + TAKE,
    ),
    "unannotate": (
        lambda sch: (
            sch.annotate("B", "note", 1),  # type: ignore[func-returns-value]
            sch.annotate("B", "other", 2),  # type: ignore[func-returns-value]
            sch.unannotate("B", "note"),  # type: ignore[func-returns-value]
        ),
        HEAD
        + ALLOC
        + MAKE.replace("            B[", '            T.block_attr({"other": 2})\n            B[')
        + TAKE,
    ),
    **{
        name: (
            lambda sch, name=name, args=args: getattr(sch, name)(sch.get_loops("B")[0], *args),  # type: ignore[misc]
            HEAD
            + ALLOC
            + f"""    for i in {loop}:
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
"""
            + TAKE,
        )
        for name, args, loop in (
            ("parallel", (), "T.parallel(16)"),
            ("vectorize", (), "T.vectorized(16)"),
            ("unroll", (), "T.unroll(16)"),
            ("bind", ("threadIdx.x",), 'T.thread_binding(16, thread="threadIdx.x")'),
        )
    },
    "set_scope": (
        lambda sch: sch.set_scope("B", 0, "shared"),
        HEAD + ALLOC.replace("(16, 8)", '(16, 8), scope="shared"') + MAKE + TAKE,
    ),
    "storage_align": (
        lambda sch: sch.storage_align("B", 0, -1, 32, 8),
        HEAD
        + ALLOC
        + MAKE.replace(
            "            B[",
            '            T.block_attr({"buffer_dim_align": [[0, 1, 32, 8]]})\n            B[',
        )
        + TAKE,
    ),
    "set_axis_separator": (
        lambda sch: sch.set_axis_separator("B", ("write", 0), [1]),
        HEAD + ALLOC.replace("(16, 8)", "(16, 8), axis_separators=[1]") + MAKE + TAKE,
    ),
    "unsafe_set_dtype": (
        lambda sch: sch.unsafe_set_dtype("B", 0, "float16"),
        HEAD
        + ALLOC.replace("(16, 8)", '(16, 8), "float16"')
        + MAKE.replace("A[vi, vj] * 2.0", 'T.cast(A[vi, vj] * 2.0, "float16")')
        + TAKE.replace("B[vi, vj] +", 'T.cast(B[vi, vj], "float32") +'),
    ),
    "unsafe_hide_buffer_access": (
        lambda sch: sch.unsafe_hide_buffer_access("C", "read", [0]),
        HEAD
        + ALLOC
        + MAKE
        + TAKE.replace(
            "            C[",
            "            T.reads()\n            T.writes(C[vi, vj])\n            C[",
        ),
    ),
    "transform_layout": (
        lambda sch: sch.transform_layout(
            "B", ("write", 0), lambda i, j: (i // 4, j // 2, i % 4, j % 2)
        ),
        HEAD
        + ALLOC.replace("(16, 8)", "(4, 4, 4, 2)")
        + MAKE.replace("B[vi, vj]", "B[vi // 4, vj // 2, vi % 4, vj % 2]")
        + TAKE.replace("B[vi, vj]", "B[vi // 4, vj // 2, vi % 4, vj % 2]"),
    ),
    "transform_block_layout": (
        lambda sch: sch.transform_block_layout("B", lambda i, j: (i * 8 + j,)),
        HEAD
        + ALLOC
        + """    for ij in range(128):
        with T.block("B"):
            v = T.axis.spatial(128, ij)
            B[v // 8, v % 8] = A[v // 8, v % 8] * 2.0
"""
        + TAKE,
    ),
    "reorder_block_iter_var": (
        lambda sch: sch.reorder_block_iter_var("B", [1, 0]),
        HEAD
        + ALLOC
        + MAKE.replace('vi, vj = T.axis.remap("SS", [i, j])', 'vj, vi = T.axis.remap("SS", [j, i])')
        + TAKE,
    ),
    "reorder": (
        lambda sch: sch.reorder(*reversed(sch.get_loops("B"))),
        HEAD + ALLOC + MAKE.replace("i, j in T.grid(16, 8)", "j, i in T.grid(8, 16)") + TAKE,
    ),
    "reindex_cache_read": (
        lambda sch: sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)),
        HEAD
        + ALLOC
        + '    A_local = T.alloc_buffer((8, 16), scope="local")\n'
        + MAKE.replace("B[vi, vj] = A[vi, vj] * 2.0", "A_local[vj, vi] = A[vi, vj]")
        + MAKE.replace("A[vi, vj]", "A_local[vj, vi]")
        + TAKE,
    ),
    "reindex_cache_write": (
        lambda sch: sch.reindex_cache_write("B", 0, "local", lambda i, j: (i // 2, j, i % 2)),
        HEAD
        + ALLOC
        + '    B_local = T.alloc_buffer((8, 8, 2), scope="local")\n'
        + MAKE.replace("B[vi, vj]", "B_local[vi // 2, vj, vi % 2]")
        + MAKE.replace("A[vi, vj] * 2.0", "B_local[vi // 2, vj, vi % 2]")
        + TAKE,
    ),
    "write_at": (
        lambda sch: sch.write_at(sch.get_loops("B")[0], "B", 0, "local"),
        HEAD
        + ALLOC
        + """    B_local = T.alloc_buffer((16, 8), scope="local")
    for i in range(16):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A[vi, vj] * 2.0
        with T.block("B_local"):
            v = T.axis.spatial(16, i)
            T.reads(B_local[v, 0:8])
            T.writes(B[v, 0:8])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 8):
                B[v + ax0, ax1] = B_local[v + ax0, ax1]
"""
        + TAKE,
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_before_and_after(step: str) -> None:
    apply, after = STEPS[step]
    sch = schedule(BEFORE)
    apply(sch)
    same_text(sch, after)
    check_trace(sch, BEFORE)
    if not step.startswith("unsafe"):
        check_same(sch, BEFORE)


WINDOWS = """
@T.prim_func
def main(A: T.Buffer((12, 12), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((ROWS, 10))
    for i0, i1 in T.grid(2, 2):
        for ax0, ax1 in T.grid(6, 6):
            with T.block("B"):
                v0 = T.axis.KIND(10, i0 * 4 + ax0)
                v1 = T.axis.spatial(10, i1 * 4 + ax1)
                WHERE
                B[FIRST, v1] = T.max(A[v0, v1], A[v0 + 2, v1 + 2])
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C"):
                v0 = T.axis.KIND(8, i0 * 4 + ax0)
                v1 = T.axis.spatial(8, i1 * 4 + ax1)
                C[v0, v1] = B[LOW, v1] + B[HIGH, v1 + 2]
"""


def _windows(rows: str, kind: str, where: str, first: str, low: str, high: str) -> str:
    text = WINDOWS.replace("ROWS", rows).replace("KIND", kind).replace("WHERE", where)
    return text.replace("FIRST", first).replace("LOW", low).replace("HIGH", high)


def test_rolling_buffer() -> None:
    """Circular along the outermost axis that overlaps; along both, what is there is not redone."""
    before = _windows("10", "spatial", "T.where(True)", "v0", "v0", "v0 + 2")
    sch = schedule(before)
    sch.rolling_buffer("B", 0)
    where = "T.where((i0 < 1 or 2 <= ax0) and (i1 < 1 or 2 <= ax1))"
    after = _windows("6", "opaque", where, "v0 % 6", "v0 % 6", "(v0 + 2) % 6")
    same_text(sch, after)
    check_trace(sch, before)
    check_same(sch, before)


INDEXED = """
@T.prim_func
def main(A: T.Buffer((30, 40), "float32"), C: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi // 4 + vj // 4, vj // 2]
"""


def test_cache_index() -> None:
    """Each index expression has a buffer over the variables that it uses."""
    sch = schedule(INDEXED)
    sch.cache_index("C", "global", 0)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((30, 40), "float32"), C: T.Buffer((16, 8), "float32")):
    index_var_0 = T.alloc_buffer((16, 8), "int32")
    index_var_1 = T.alloc_buffer((8,), "int32")
    for ax0, ax1 in T.grid(16, 8):
        with T.block("index_0"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            index_var_0[v0, v1] = v0 // 4 + v1 // 4
    for ax0 in range(8):
        with T.block("index_1"):
            v0 = T.axis.spatial(8, ax0)
            index_var_1[v0] = v0 // 2
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi // 4 + vj // 4, vj // 2], index_var_0[vi, vj], index_var_1[vj])
            T.writes(C[vi, vj])
            C[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]
""",
    )
    check_trace(sch, INDEXED)


def test_steps_that_leave_the_program_alone() -> None:
    """Look-ups, samples and marks are in the trace, not in the program."""
    sch: Any = schedule(BEFORE)
    before = sch.mod
    block, loop = sch.get_block("B"), sch.get_loops("B")[0]
    sch.get_child_blocks("root")
    sch.get_producers("C")
    sch.get_consumers(block)
    sch.get_output_blocks("root")
    sch.sample_categorical([1, 2], [0.5, 0.5])
    sch.sample_perfect_tile(loop, 3)
    sch.sample_partitioned_tile(loop, 2, 1, 2)
    sch.sample_compute_location(block)
    sch.enter_postproc()
    assert sch.mod is before
    check_trace(sch, BEFORE)
    assert "sch." not in str(sch.trace.simplified(remove_postproc=True))  # nobody uses them
    assert str(sch.trace.simplified(remove_postproc=False)).count("sch.") == 1


@pytest.mark.parametrize(
    ("match", "name", "args"),
    [
        ("cannot be an annotation", "annotate", ("B", "key", object())),
        ("cannot be an annotation", "annotate", ("LOOP", "key", {"a": [object()]})),
        ("no storage scope", "cache_index", ("B", "nowhere")),
        ("block or a loop|block or loop", "get_child_blocks", (3,)),
        ("a block is needed", "get_producers", ("LOOP",)),
        ("a block is needed", "get_consumers", ("LOOP",)),
        ("a block is needed", "get_output_blocks", ("LOOP",)),
        ("root block", "get_producers", ("root",)),
        ("root block", "get_consumers", ("root",)),
        ("no storage scope", "reindex_cache_write", ("B", 0, "nowhere", lambda i, j: (j, i))),
        ("'vj' is in the indices", "reindex_cache_write", ("B", 0, "local", lambda i, j: (i,))),
        ("several elements", "reindex_cache_write", ("B", 0, "local", lambda i, j: (i + j,))),
        ("function of 2", "reindex_cache_write", ("B", 0, "local", 3)),
        ("there is no index 1", "reindex_cache_write", ("B", 1, "local", 3)),
        ("a block is needed", "sample_compute_location", ("LOOP",)),
        ("root block", "sample_compute_location", ("root",)),
    ],
)
def test_what_is_refused(match: str, name: str, args: tuple[object, ...]) -> None:
    sch = schedule(BEFORE)
    known = {"LOOP": sch.get_loops("B")[0], "B": sch.get_block("B"), "root": sch.get_block("root")}
    given = [known.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
    before = sch.mod
    with pytest.raises((UserError, IndexError), match=match):
        getattr(sch, name)(*given)
    assert sch.mod is before
