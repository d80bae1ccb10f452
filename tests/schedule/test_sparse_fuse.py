"""sparse_fuse: one loop over the positions of axes, where that is what they say."""

from __future__ import annotations

import pytest

import sparse_programs as programs
from schedule.common import check_trace, parse, refused, same_text, schedule
from tileloom.tir import assert_structural_equal
from tileloom.tir.sparse import FusedAxis


def test_before_and_after() -> None:
    sch = schedule(programs.sddmm)
    rv = sch.get_sparse_iteration("sddmm")
    i, j, k = sch.get_sp_iters(rv)
    sch.sparse_fuse(rv, [i, j])
    same_text(sch, programs.fused_sddmm)
    fused = sch.get_sp_iters(rv)
    assert [part.var for part in fused] == [i.var, j.var, k.var]
    assert [type(part.axis) is FusedAxis for part in fused] == [True, True, False]
    check_trace(sch, programs.sddmm)


@pytest.mark.parametrize(
    ("name", "order", "iters"),
    [
        ("csr_element_wise", None, ["i", "j"]),
        ("csr2bsr", None, ["i", "j"]),
        ("sddmm_values", ["k", "i", "j"], ["i", "j"]),
        ("rgcn_hetero_forward", None, ["r", "i"]),
        ("bmm", None, ["b", "i"]),
        ("bmm", ["b", "k", "j", "i"], ["b", "k"]),
    ],
)
def test_chains_from_a_root(name: str, order: list[str] | None, iters: list[str]) -> None:
    func = programs.PROGRAMS[name]
    sch = schedule(func)
    rv = sch.get_sparse_iteration(name.removesuffix("_values"))
    if order is not None:
        sch.sparse_reorder(rv, order)
    before = {part.var.name: part for part in sch.get_sp_iters(rv)}
    sch.sparse_fuse(rv, iters)
    after = {part.var.name: part for part in sch.get_sp_iters(rv)}
    assert list(before) == list(after)
    for var, part in after.items():
        if var not in iters:
            assert part is before[var]
            continue
        assert isinstance(part.axis, FusedAxis)
        assert part.axis.base is before[var].axis
        assert part.axis.group == tuple(before[v].axis for v in iters)
    assert_structural_equal(parse(str(sch.mod["main"])), sch.mod["main"])
    check_trace(sch, func)


def test_children_of_fused_axes_stay_behind_them() -> None:
    sch = schedule(programs.bmm)
    rv = sch.get_sparse_iteration("bmm")
    sch.sparse_fuse(rv, ["b", "i"])
    sch.sparse_reorder(rv, ["b", "i", "k", "j"])  # J and K are below B
    refused(sch, "below those of 'b'", "sparse_reorder", rv, ["j", "b", "i", "k"])
    refused(sch, "stay together", "sparse_reorder", rv, ["b", "k", "i", "j"])
    refused(sch, "stay together", "sparse_reorder", rv, ["i", "b", "k", "j"])


def test_reductions_alone() -> None:
    func = parse(str(programs.segment_reduce).replace('"SR"', '"RR"').replace("[i]", "[0]"))
    sch = schedule(func)
    sch.sparse_fuse("segment_reduce", ["i", "j"])
    assert [part.is_reduction for part in sch.get_sp_iters("segment_reduce")] == [True, True]
    check_trace(sch, func)


REFUSALS = [
    # spec 3.4: a subsequence that leaves out variables would overwrite the wrong ones
    ("sddmm", ["i", "k"], "do not stand one after the other", "sparse_reorder first"),
    ("sddmm", ["j", "i"], "do not stand one after the other", ""),
    ("sddmm", ["j", "k"], "J of 'j' is sparse_variable below I", "fuse from the root I on"),
    ("sddmm", ["i"], "two variables or more", ""),
    ("sddmm", [], "two variables or more", ""),
    ("sddmm", ["i", "i"], "given more than once", ""),
    ("sddmm", ["i", "q"], "has no variable 'q'", "its variables are i, j, k"),
    ("fused_sddmm", ["i", "j"], "fused_IJ_I of 'i' is fused already", ""),
    ("csr_add", ["i", "j"], "union_JA_JB of 'j' is merged already", ""),
    ("csr_row_dots", ["i", "j"], "intersect_JA_JB of 'j' is merged already", ""),
    ("hyper_gnn", ["j", "i_t"], "I_T_attach_J of 'i_t' is attached already", ""),
    ("csrmm", ["i", "j"], "j would be combined in the loop of i", "all data-parallel or all"),
    ("square_sum", ["i", "j", "k"], "j, k would be combined in the loop of i", ""),
    ("bsrmm", ["bj", "f"], "axis F of 'f' is not below axis BJ of 'bj'", "a chain of parents"),
    ("bmm", ["b", "i", "j"], "axis J of 'j' is not below axis I of 'i'", ""),
]


@pytest.mark.parametrize(("name", "iters", "match", "hint"), REFUSALS)
def test_refusals(name: str, iters: list[str], match: str, hint: str) -> None:
    func = {**programs.PROGRAMS, **programs.MERGED}[name]
    sch = schedule(func)
    rv = sch.get_sparse_iteration(name.removeprefix("fused_"))
    error = refused(sch, match, "sparse_fuse", rv, iters)
    assert hint in str(error)
    assert not error.places or "^^^" in str(error)
