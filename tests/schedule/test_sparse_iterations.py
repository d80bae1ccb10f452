"""Sparse iterations as places of a schedule: looked up, annotated, kept through steps."""

from __future__ import annotations

from typing import Any

import pytest

import sparse_programs as programs
from schedule.common import check_trace, parse, refused, schedule
from tileloom.base.errors import UserError
from tileloom.schedule import Schedule, SparseIterationRV
from tileloom.tir import (
    IRModule,
    PrimFunc,
    SparseIteration,
    assert_structural_equal,
    collect,
)


def iterations(program: PrimFunc | IRModule) -> dict[str, SparseIteration]:
    func = program if isinstance(program, PrimFunc) else program["main"]
    return {stmt.name: stmt for stmt in collect(func.body, SparseIteration)}


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_all_are_found_and_stay_the_very_objects(name: str) -> None:
    func = programs.PROGRAMS[name]
    sch = schedule(func)
    for iteration, stmt in iterations(func).items():
        rv = sch.get_sparse_iteration(iteration)
        assert isinstance(rv, SparseIterationRV)
        assert sch.get(rv) is stmt is sch.get(sch.get_sref(stmt))
        assert sch.get_sp_iters(rv) == list(stmt.sp_iter_vars) == sch.get_sp_iters(iteration)
    check_trace(sch, func)
    assert sch.trace is not None and sch.trace.simplified(False).insts == []


def test_annotations() -> None:
    sch = schedule(programs.csrmm)
    rv = sch.get_sparse_iteration("csrmm")
    sch.annotate(rv, "preprocess", True)
    sch.annotate("csrmm", "preprocess", False)  # it has the key
    sch.annotate("csrmm", "order", ["i", {"depth": 2}])
    sch.annotate("root", "marked", 1)
    assert sch.get(rv).annotations == {"preprocess": True, "order": ["i", {"depth": 2}]}
    assert 'T.sp_iter_attr({"preprocess": True, "order": ["i", {"depth": 2}]})' in str(sch.mod)
    sch.unannotate(rv, "order")
    refused(sch, "sparse iteration 'csrmm' has no annotation 'order'", "unannotate", rv, "order")
    check_trace(sch, programs.csrmm)


def test_traces_name_them() -> None:
    sch = schedule(programs.sddmm)
    rv = sch.get_sparse_iteration("sddmm")
    i, j, k = sch.get_sp_iters(rv)
    sch.sparse_reorder(rv, [k.var, i, "j"])
    sch.sparse_fuse(rv, [i, j])
    assert sch.trace is not None and sch.trace.as_python() == [
        's0 = sch.get_sparse_iteration(name="sddmm", func_name="main")',
        'sch.sparse_reorder(sparse_iteration=s0, new_order=["k", "i", "j"])',
        'sch.sparse_fuse(sparse_iteration=s0, iters=["i", "j"])',
    ]
    check_trace(sch, programs.sddmm)


def test_references_stay_through_steps_and_forks() -> None:
    """Steps on an iteration leave the references around it, inside it and next to it."""
    sch = schedule(programs.sparse_softmax)
    names = ["softmax", "softmax_max", "softmax_sum", "softmax_quotient"]
    rvs = [sch.get_sparse_iteration(name) for name in names]
    sch.annotate(rvs[2], "inner", 1)
    sch.annotate(rvs[0], "outer", 1)
    fork = sch.copy()
    fork.annotate(rvs[1], "forked", 1)
    assert [sch.get(rv).name for rv in rvs] == names == [fork.get(rv).name for rv in rvs]
    assert [[*sch.get(rv).annotations] for rv in rvs] == [["outer"], [], ["inner"], []]
    assert [*fork.get(rvs[1]).annotations] == ["forked"]
    around, inside = (sch.get_sref(rv) for rv in rvs[:2])
    assert inside.parent is around and around.parent is not None and around.parent.is_block
    assert "sparse iteration 'softmax'" in repr(around)


def test_statements_that_steps_have_replaced() -> None:
    sch = schedule(programs.csrmm)
    old = sch.get(sch.get_sparse_iteration("csrmm"))
    sch.annotate("csrmm", "key", 1)
    with pytest.raises(UserError, match="the sparse iteration 'csrmm' is not part of the program"):
        sch.get_sref(old)


IN_BRANCHES = """
@T.prim_func
def main(a: T.handle, flag: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(8)
    A = T.match_sparse_buffer(a, [I])
    if flag > 0:
        with T.sp_iter([I], "S", "one") as [i]:
            A[i] = 1.0
    else:
        with T.sp_iter([I], "S", "two") as [i]:
            for k in range(4):
                with T.block("part"):
                    vk = T.axis.spatial(4, k)
                    A[i] = A[i] + 1.0
    x: T.int32 = flag + 1
    with T.sp_iter([I], "S", "three") as [i]:
        A[i] = A[i] + T.float32(x)
"""


def test_iterations_below_other_statements() -> None:
    func = parse(IN_BRANCHES)
    sch = schedule(func)
    for name in ("three", "one", "two"):
        sch.annotate(name, "key", name)
    assert {n: s.annotations for n, s in iterations(sch.mod).items()} == {
        n: {"key": n} for n in ("one", "two", "three")
    }
    (loop,) = sch.get_loops("part")
    refused(sch, "split is for loops and blocks", "split", loop, [2, 2])
    check_trace(sch, func)


#: Steps that need loops and blocks, and one reference each.
STEPS: list[tuple[str, tuple[Any, ...]]] = [
    ("get_producers", ()), ("get_consumers", ()), ("get_output_blocks", ()),
    ("compute_inline", ()), ("cache_read", (0, "shared")), ("cache_write", (0, "shared")),
    ("reverse_compute_inline", ()), ("blockize", ()), ("tensorize", ("dot",)),
    ("add_unit_loop", ()), ("set_scope", (0, "shared")), ("storage_align", (0, 0, 8, 1)),
    ("reindex", (("read", 0),)), ("unsafe_hide_buffer_access", ("read", [0])),
    ("sample_compute_location", ()), ("transform_layout", (("read", 0), lambda i: [i])),
]  # fmt: skip


@pytest.mark.parametrize(("method", "rest"), STEPS, ids=[method for method, _ in STEPS])
def test_steps_on_loops_and_blocks_are_refused(method: str, rest: tuple[Any, ...]) -> None:
    sch = schedule(programs.csrmm)
    rv = sch.get_sparse_iteration("csrmm")
    error = refused(sch, "is needed, got sparse iteration 'csrmm'", method, rv, *rest)
    assert "lower_sparse_iter first" in str(error)
    root = sch.get_block("root")
    error = refused(sch, "the function 'main' still iterates over coordinates", method, root, *rest)
    assert "lower_sparse_iter first" in str(error)


def test_loops_blocks_and_names_are_no_iterations() -> None:
    sch = schedule(programs.csrmm)
    root = sch.get_block("root")
    refused(sch, "a sparse iteration is needed, got block 'root'", "sparse_fuse", root, ["i"])
    wanted = "Cannot find a sparse iteration with the name: sum"
    error = refused(sch, wanted, "get_sparse_iteration", "sum")
    assert "the sparse iterations are csrmm" in str(error)
    refused(sch, "Cannot find a sparse iteration", "sparse_reorder", "root", ["i"])
    with pytest.raises(UserError, match="a sparse iteration is needed"):
        sch.get_sp_iters(root)  # type: ignore[arg-type]


def test_functions_of_a_module() -> None:
    """What one function is over does not hold for the others."""
    plain = parse(
        """
@T.prim_func
def plain(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1.0
"""
    )
    module = IRModule({"one": programs.csrmm, "two": parse(str(programs.csrmm)), "plain": plain})
    sch = Schedule(module, debug_mask="all")
    refused(sch, "several functions.*sparse iteration 'csrmm'", "get_sparse_iteration", "csrmm")
    rv = sch.get_sparse_iteration("csrmm", "two")
    sch.annotate(rv, "key", 1)
    assert_structural_equal(sch.mod["one"], programs.csrmm)
    assert "key" in str(sch.mod["two"])
    error = refused(sch, "Cannot find a sparse iteration", "get_sparse_iteration", "A", "plain")
    assert "may be loops and blocks by now" in str(error)
    sch.vectorize(sch.get_loops(sch.get_block("A", "plain"))[0])
    refused(sch, "no function is called 'three'", "get_sparse_iteration", "csrmm", "three")


def test_names_that_several_have() -> None:
    text = str(programs.sparse_softmax).replace("softmax_sum", "softmax_max")
    sch = schedule(parse(text))
    refused(sch, "2 sparse iterations have the name 'softmax_max'", "get_sparse_iteration",
            "softmax_max")  # fmt: skip
