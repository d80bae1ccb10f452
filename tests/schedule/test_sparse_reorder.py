"""sparse_reorder: orders of axes in which positions are counted as before, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

import sparse_programs as programs
from schedule.common import check_trace, parse, refused, same_text, schedule
from tileloom import ScheduleError
from tileloom.tir import SparseIteration, collect

#: Which variable comes before which, and which stay together: what the axes say, by hand.
ORDERS = {
    "csrmm": "i<j", "csrmm_dense_iter": "", "bsrmm": "i<j", "ellmm": "i<j", "bmm": "b<i b<j b<k",
    "square_sum": "i<j j<k", "fused_sddmm": "i+j", "fused_reduction_4d_2d": "i+j j<k k<l",
    "fused_reduction_4d_3d": "i+j j+k k<l", "hyper_gnn": "i<j j<i_t", "rgcn_homo_forward": "i<j",
    "rgcn_hetero_forward": "r<i i<j", "csr_add": "i<j", "csr_row_dots": "i<j",
}  # fmt: skip


def fits(order: Sequence[str], rules: str) -> bool:
    place = {name: k for k, name in enumerate(order)}
    for rule in rules.split():
        a, b = rule.replace("+", "<").split("<")
        if place[a] > place[b] or ("+" in rule and place[a] + 1 != place[b]):
            return False
    return True


@pytest.mark.parametrize("name", ORDERS)
def test_all_orders(name: str) -> None:
    func = {**programs.PROGRAMS, **programs.MERGED}[name]
    (stmt,) = collect(func.body, SparseIteration)
    names = [part.var.name for part in stmt.sp_iter_vars]
    accepted = 0
    for order in permutations(names):
        sch = schedule(func)
        rv = sch.get_sparse_iteration(stmt.name)
        if not fits(order, ORDERS[name]):
            with pytest.raises(ScheduleError, match=r"below those of|stay together"):
                sch.sparse_reorder(rv, order)
            continue
        accepted += 1
        sch.sparse_reorder(rv, order)
        assert [part.var.name for part in sch.get_sp_iters(rv)] == list(order)
        assert set(sch.get_sp_iters(rv)) == set(stmt.sp_iter_vars)
    assert accepted


def test_before_and_after() -> None:
    sch = schedule(programs.bsrmm)
    rv = sch.get_sparse_iteration("bsrmm")
    i, bi, bj, f, j = sch.get_sp_iters(rv)
    sch.sparse_reorder(rv, [i, j, bi, f, bj])
    expected = str(programs.bsrmm).replace(
        '[I, BI, BJ, F, J], "SSRSR", "bsrmm") as [i, bi, bj, f, j]',
        '[I, J, BI, F, BJ], "SRSSR", "bsrmm") as [i, j, bi, f, bj]',
    )
    same_text(sch, parse(expected))
    check_trace(sch, programs.bsrmm)


NESTED = """
@T.prim_func
def main(a: T.handle, indptr: T.handle, indptr_k: T.handle, n: T.int32, z: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(n)
    J = T.dense_variable(I, (n, z), indptr)
    K = T.dense_variable(J, (n, z), indptr_k)
    F = T.dense_fixed(4)
    A = T.match_sparse_buffer(a, [I, J, K, F])
    with OUTER:
        with INNER:
            A[i, j, k, f] = 1.0
"""


def nested(outer: str, inner: str) -> str:
    """Axes of two iterations, one in the other; `I=x` calls the variable on I x."""
    text = NESTED
    for word, given in (("OUTER", outer), ("INNER", inner)):
        pairs = [axis.partition("=") for axis in given.split(", ")]
        axes = ", ".join(axis for axis, _, _ in pairs)
        names = ", ".join(name or axis.lower() for axis, _, name in pairs)
        kinds = "S" * len(pairs)
        line = f'T.sp_iter([{axes}], "{kinds}", "{word.lower()}") as [{names}]'
        text = text.replace(word, line)
    return text


def test_parents_in_the_iteration_around() -> None:
    """They come first whatever the order inside is."""
    func = parse(nested("I, J", "K, F"))
    sch = schedule(func)
    inner, outer = sch.get_sparse_iteration("inner"), sch.get_sparse_iteration("outer")
    sch.sparse_reorder(inner, ["f", "k"])
    refused(sch, "'j' on axis J are below those of 'i' on axis I", "sparse_reorder", outer,
            ["j", "i"])  # fmt: skip
    assert [part.var.name for part in sch.get_sp_iters(inner)] == ["f", "k"]
    check_trace(sch, func)


def test_axes_that_an_iteration_around_has_as_well() -> None:
    """The last variable on an axis counts: another one may not take its place."""
    sch = schedule(parse(nested("I, F", "I=i2, J, K")))
    inner = sch.get_sparse_iteration("inner")
    refused(sch, "would come after it", "sparse_reorder", inner, ["j", "i2", "k"])
    sch = schedule(parse(nested("I, F", "J, I=i2, K")))
    inner = sch.get_sparse_iteration("inner")
    refused(sch, "'i2' on axis I would come before 'j'", "sparse_reorder", inner, ["i2", "j", "k"])
    sch.sparse_reorder(inner, ["j", "k", "i2"])


def test_what_is_no_order() -> None:
    sch = schedule(programs.csrmm)
    other = schedule(programs.sddmm)
    rv = sch.get_sparse_iteration("csrmm")
    foreign = other.get_sp_iters("sddmm")[0]
    for order, match in [
        (["i", "j"], "the order of sparse iteration 'csrmm' lacks the variables k"),
        (["i", "j", "k", "i"], "the variable 'i' is given more than once"),
        (["i", "j", "l"], "sparse iteration 'csrmm' has no variable 'l'"),
        ([foreign, "j", "k"], "'i' is a variable of another iteration"),
        ("ijk", "a list of variables is needed"),
        ([1, 2, 3], "has no variable 1"),
    ]:
        refused(sch, match, "sparse_reorder", rv, order)
    error = refused(sch, "below those of 'i'", "sparse_reorder", rv, ["j", "i", "k"])
    text = str(error)
    assert "with T.sp_iter([I, J, K]" in text and "^^^" in text and "put 'i' before 'j'" in text


def test_variables_of_one_name() -> None:
    """They are told apart as variables, but a trace could not name them."""
    text = str(programs.csrmm).replace("[i, j, k]:", "[i, j, i]:").replace(", k]", ", i]")
    sch = schedule(parse(text))
    rv = sch.get_sparse_iteration("csrmm")
    parts = sch.get_sp_iters(rv)
    refused(sch, "2 variables of sparse iteration 'csrmm' are called 'i'", "sparse_fuse", rv,
            parts[:2])  # fmt: skip
