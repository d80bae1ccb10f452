"""Sparse programs as text: what is printed is read back, and what a script may not say."""

from __future__ import annotations

import pytest

from sparse_programs import FORMATS, MERGED, PROGRAMS, variant
from tileloom.base.errors import ParseError
from tileloom.expr import Var
from tileloom.script import parse, show
from tileloom.script import tir as T
from tileloom.tir import (
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    assert_structural_equal,
    collect,
    specialize,
    structural_equal,
    structural_hash,
)
from tileloom.tir.sparse import AttachedAxis, FusedAxis, IntersectionAxis, UnionAxis

ALL = {**PROGRAMS, **MERGED, **FORMATS}


def read(text: str) -> PrimFunc:
    found = parse(text)
    assert isinstance(found, PrimFunc)
    return found


def check_round_trip(func: PrimFunc) -> None:
    again = read(show(func))
    assert_structural_equal(again, func)
    assert structural_hash(again) == structural_hash(func)
    assert show(again) == show(func)


@pytest.mark.parametrize("name", ALL)
def test_what_is_printed_is_read_back(name: str) -> None:
    check_round_trip(ALL[name])
    for idtype, is_sorted in (("int64", True), ("int32", False)):
        check_round_trip(variant(name, idtype, is_sorted))


@pytest.mark.parametrize("name", ALL)
def test_specialized_programs_are_printed_and_read_back(name: str) -> None:
    func = ALL[name]
    scalars = [param for param in func.params if not param.dtype.is_handle]
    for count in (1, len(scalars)):
        special = specialize(func, {param: 3 + k for k, param in enumerate(scalars[:count])})
        assert len(special.params) == len(func.params) - count
        check_round_trip(special)
        assert not structural_equal(special, func)


@pytest.mark.parametrize("name", ALL)
def test_variants_are_told_apart(name: str) -> None:
    func = ALL[name]
    assert_structural_equal(variant(name), func)
    wide = variant(name, "int64")
    assert not structural_equal(wide, func)
    assert structural_hash(wide) != structural_hash(func)
    loose = variant(name, sorted=False)
    has_indices = any(axis.is_sparse for axis in func.sp_axes)
    assert structural_equal(loose, func) != has_indices


def test_programs_are_told_apart() -> None:
    hashes = {structural_hash(func) for func in ALL.values()}
    assert len(hashes) == len(ALL)


def test_both_spellings_of_dense_variable() -> None:
    @T.prim_func
    def with_nnz(a: T.handle, p: T.handle, n: T.int32, most: T.int32, nnz: T.int32) -> None:
        I = T.dense_fixed(n)
        J = T.dense_variable(I, (most, nnz), p)
        A = T.match_sparse_buffer(a, (I, J))
        with T.sp_iter([I, J], "SS", "fill") as [i, j]:
            A[i, j] = 1.0

    @T.prim_func
    def without(a: T.handle, p: T.handle, n: T.int32, most: T.int32) -> None:
        I = T.dense_fixed(n)
        J = T.dense_variable(I, most, p, "int32")
        A = T.match_sparse_buffer(a, (I, J))
        with T.sp_iter([I, J], "SS", "fill") as [i, j]:
            A[i, j] = 1.0

    for func in (with_nnz, without):
        check_round_trip(func)
        assert func.sp_axes[1].kind == "dense_variable"
    assert with_nnz.sp_axes[1].nnz is with_nnz.params[-1]
    own = without.sp_axes[1].nnz
    assert isinstance(own, Var) and own not in without.params
    assert 'T.dense_variable(I, most, p, "int32")' in show(without)
    known = specialize(without, {own: 12})
    assert 'T.dense_variable(I, (most, 12), p, "int32")' in show(known)
    check_round_trip(known)


def test_older_names_and_defaults() -> None:
    @T.prim_func
    def older(a: T.handle, p: T.handle, q: T.handle, n: T.int32, nnz: T.int32) -> None:
        I = T.dense_fixed(n)
        J = T.sparse_variable(I, (n, nnz), (p, q))
        A = T.match_sparse_buffer(a, (I, J))
        with T.iter([I, J], "SS", "fill") as [i, j]:
            T.iter_attr({"preprocess": True})
            A[i, j] = 1.0

    @T.prim_func
    def newer(a: T.handle, p: T.handle, q: T.handle, n: T.int32, nnz: T.int32) -> None:
        I = T.dense_fixed(n, "int32")
        J = T.sparse_variable(I, [n, nnz], [p, q], idtype="int32", sorted=True)
        A = T.match_sparse_buffer(a, [I, J], dtype="float32", extra_storage=0)
        with T.sp_iter([I, J], "SS", "fill") as (i, j):
            T.sp_iter_attr({"preprocess": True})
            A[i, j] = T.float32(1)

    assert_structural_equal(older, newer.replace(attrs=older.attrs))


@T.prim_func
def everything(
    a: T.handle,
    b: T.handle,
    p: T.handle,
    q: T.handle,
    e: T.handle,
    m: T.int32,
    nnz: T.int32,
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (m, nnz), (p, q))
    K = T.sparse_fixed(J, (9, 2), e, sorted=False)
    A = T.match_sparse_buffer(a, [I, J, K], "float16", default_value=1.5)
    B = T.match_sparse_buffer(b, [I], "int64", extra_storage=1)
    C = T.alloc_sparse_buffer([I, J], "int8", "shared", default_value=-1)
    T.assume_buffer_domain(B, [0, m])
    with T.sp_iter([I, J], "SS", "outer") as [i, j]:
        C[i, j] = T.int8(0)
        with T.sp_iter([K], "R", "inner") as [k]:
            with T.init():
                B[i] = T.int64(0)
            B[i] = B[i] + T.Cast("int64", A[i, j, k])


def test_storage_scopes_defaults_and_domains_are_printed() -> None:
    text = show(everything)
    check_round_trip(everything)
    for part in (
        'T.match_sparse_buffer(a, [I, J, K], "float16", default_value=T.float16(1.5))',
        'T.match_sparse_buffer(b, [I], "int64", extra_storage=1)',
        'T.alloc_sparse_buffer([I, J], "int8", "shared", default_value=T.int8(-1))',
        "sorted=False",
        "T.assume_buffer_domain(B, [0, m])",
    ):
        assert part in text, text
    (domain,) = everything.buffer_domains
    assert domain.buffer in everything.buffers
    for old, new in (
        ("1.5)", "1.25)"),
        ("extra_storage=1", "extra_storage=2"),
        ('"shared"', '"global"'),
        ("[0, m]", "[1, m]"),
        ('"R"', '"S"'),
        ('"inner"', '"other"'),
        ("J, (9, 2)", "J, (9, 4)"),
    ):
        assert old in text
        assert not structural_equal(read(text.replace(old, new)), everything), (old, new)


def test_derived_axes_are_what_the_script_says() -> None:
    kinds = {
        "fused_sddmm": FusedAxis,
        "hyper_gnn": AttachedAxis,
        "csr_add": UnionAxis,
        "csr_multiply": IntersectionAxis,
    }
    for name, kind in kinds.items():
        func = ALL[name]
        for found in (func, read(show(func))):
            (stmt,) = collect(found.body, SparseIteration)
            derived = [part.axis for part in stmt.sp_iter_vars if isinstance(part.axis, kind)]
            assert derived
            assert not any(axis in found.sp_axes for axis in derived)
    (stmt,) = collect(ALL["fused_sddmm"].body, SparseIteration)
    parts = [part.axis for part in stmt.sp_iter_vars[:2]]
    assert [axis.name for axis in parts] == ["fused_IJ_I", "fused_IJ_J"]
    (buffer,) = [b for b in ALL["fused_sddmm"].buffers if b.name == "C"]
    assert isinstance(buffer, SparseBuffer)
    assert parts[1].nnz is buffer.axes[1].nnz


HEAD = """
@T.prim_func
def main(a: T.handle, p: T.handle, q: T.handle, m: T.int32, nnz: T.int32):
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (m, nnz), (p, q))
"""
REFUSED: tuple[tuple[str, str], ...] = (
    ("K = T.sparse_variable(m, (m, nnz), (p, q))", "T.sparse_variable stands below an axis"),
    ("K = T.sparse_variable(I, m, (p, q))", "T.sparse_variable takes (length, nnz), got"),
    ("K = T.sparse_variable(I, (m, nnz), p)", "T.sparse_variable takes (indptr, indices), got"),
    ("K = T.sparse_variable(I, (m, nnz), (m, q))", "the indptr of T.sparse_variable is a handle"),
    ("K = T.sparse_variable(I, (m, nnz), (p, m))", "the indices of T.sparse_variable is a handle"),
    ("K = T.sparse_fixed(I, m, q)", "T.sparse_fixed takes (length, nnz_cols), got"),
    ("K = T.sparse_fixed(None, (m, 2), q)", "T.sparse_fixed stands below an axis"),
    ("K = T.dense_variable(I, (m, nnz, nnz), p)", "dense_variable takes (length, nnz), got 3"),
    ("K = T.dense_variable(I, m, nnz)", "the indptr of T.dense_variable is a handle"),
    ("A = T.match_sparse_buffer(m, [I, J])", "match_sparse_buffer takes a handle parameter"),
    ("A = T.match_sparse_buffer(a, [m, J])", "stands below an axis"),
    ('with T.sp_iter([T.fuse(J, I)], "SS", "x") as [i, j]:', "I is not below J"),
    ('with T.sp_iter([I, T.union(J)], "SS", "x") as [i, j]:', "T.union takes two axes or more"),
    ('with T.sp_iter([T.intersect(I, J)], "S", "x") as [i]:', "merges axes that store coordinates"),
    ('with T.sp_iter([I, J], "S", "x") as [i, j]:', "1 kinds ('S') for 2 axes"),
    ('with T.sp_iter([I, J], "SS", "x") as [i]:', "1 names for 2 axes"),
    ('with T.sp_iter([I, J], "SS", "x"):', "write `with T.sp_iter(...) as [i, j]:`"),
    ('with T.sp_iter([I, J], "SS", "x") as [i, a.b]:', "the variable of an axis must be a name"),
    ('with T.sp_iter([I, m], "SS", "x") as [i, j]:', "stands below an axis"),
    ("T.assume_buffer_domain(a, 3)", "T.assume_buffer_domain takes [low, high], got 3"),
)


@pytest.mark.parametrize(("line", "problem"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_a_script_may_not_say(line: str, problem: str) -> None:
    body = "        T.evaluate(0)\n" if line.endswith(":") else ""
    with pytest.raises(ParseError) as info:
        parse(f"{HEAD}    {line}\n{body}    T.evaluate(0)\n")
    assert problem in str(info.value)
    assert "^" in str(info.value)


def test_a_specialized_program_keeps_the_order_of_its_axes() -> None:
    func = variant("csr_reduce", sorted=False)
    nnz = func.params[-1]
    special = specialize(func, {nnz: 7})
    axis = special.sp_axes[1]
    assert not axis.sorted
    assert str(axis.nnz) == "7"
    (stmt,) = collect(special.body, SparseIteration)
    assert stmt.sp_iter_vars[1].axis is axis
