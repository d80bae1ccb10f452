"""Which programs over coordinates are refused, and which arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparse_inputs import CASES, case, kinds, program
from sparse_programs import FORMATS, MERGED, PROGRAMS, csr_reduce, csrmm, fused_sddmm, variant
from tileloom.base.errors import ArgumentError, VerifyError
from tileloom.expr import Var, const
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.sparse.spec import check_arguments, verify
from tileloom.tir import (
    Axis,
    BufferLoad,
    BufferStore,
    IRModule,
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    StmtRewriter,
    collect,
    seq,
    specialize,
)
from tileloom.tir.sparse import attach, dense_fixed, fuse, make_sparse_buffer, sparse_variable


@pytest.mark.parametrize("name", [*PROGRAMS, *MERGED, *FORMATS])
def test_the_programs_are_legal(name: str) -> None:
    func = variant(name)
    verify(func)
    verify(variant(name, "int64"))
    scalars = [param for param in func.params if not param.dtype.is_handle]
    verify(specialize(func, dict.fromkeys(scalars, 3)))
    verify(IRModule({"main": func}))


@pytest.mark.parametrize("name", CASES)
def test_whether_coordinates_may_be_in_any_order(name: str) -> None:
    func = variant(name, sorted=False)
    if "unsorted" in kinds(name) or not any(axis.is_sparse for axis in func.sp_axes):
        verify(func)
        return
    with pytest.raises(VerifyError, match="is not sorted, and"):
        verify(func)


@pytest.mark.parametrize("name", CASES)
def test_the_arguments_are_legal(name: str) -> None:
    for kind in kinds(name):
        arguments, _ = case(name, kind)
        func = program(name, kind)
        check_arguments(func, *(arguments[param.name] for param in func.params))


# ---------------------------------------------------------------------------- programs


HEAD = """
@T.prim_func
def main(
    a: T.handle, b: T.handle, p: T.handle, q: T.handle, p2: T.handle, q2: T.handle,
    m: T.int32, nnz: T.int32,
):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (m, nnz), (p, q))
    U = T.sparse_variable(I, (m, nnz), (p, q), sorted=False)
    K = T.sparse_variable(J, (m, nnz), (p2, q2))
    V = T.dense_variable(I, m, p)
    N = T.dense_fixed(m)
"""
ILLEGAL: tuple[tuple[str, str], ...] = (
    # Iterations
    (
        'with T.sp_iter([J, I], "SS", "x") as [j, i]:\n    T.evaluate(0)',
        "parent axis 'I' of 'J' does not appear before it: it stands behind 'J'",
    ),
    (
        'with T.sp_iter([I, K], "SS", "x") as [i, k]:\n    T.evaluate(0)',
        "parent axis 'J' of 'K' does not appear before it: neither here nor around",
    ),
    (
        'with T.sp_iter([I], "S", "x") as [i]:\n'
        '    with T.sp_iter([K], "S", "y") as [k]:\n        T.evaluate(0)',
        "parent axis 'J' of 'K' does not appear",
    ),
    (
        'with T.sp_iter([T.fuse(J, K)], "SS", "x") as [j, k]:\n    T.evaluate(0)',
        "axes J, K are fused, but 'J' has a parent",
    ),
    (
        'with T.sp_iter([T.union(J, U), I], "SS", "x") as [j, i]:\n    T.evaluate(0)',
        "parent axis 'I' of 'J' does not appear",
    ),
    (
        'with T.sp_iter([I, T.union(J, U)], "SS", "x") as [i, j]:\n    T.evaluate(0)',
        "axis 'U' is not sorted, and iteration 'x' merges it with others",
    ),
    (
        'with T.sp_iter([I, T.union(J, J), K], "SSS", "x") as [i, j, k]:\n    T.evaluate(0)',
        "parent axis 'J' of 'K' does not appear",
    ),
    (
        'with T.sp_iter([T.attach(J, K)], "S", "x") as [j]:\n    T.evaluate(0)',
        "parent axis 'K' of 'J_attach_K' does not appear",
    ),
    (
        'with T.sp_iter([I, J, T.attach(K, J)], "SSS", "x") as [i, j, k]:\n    T.evaluate(0)',
        "axis 'K' is attached to coordinates, but the positions of its own parent are no coord",
    ),
    # Starts
    (
        "B = T.match_sparse_buffer(b, [I, N])\n"
        'with T.sp_iter([I, N], "SR", "x") as [i, n]:\n'
        "    with T.init():\n        B[i, n] = 0.0\n    B[i, n] = 1.0",
        "T.init uses 'n', which iteration 'x' reduces over",
    ),
    (
        'with T.sp_iter([I], "S", "x") as [i]:\n'
        '    T.sp_iter_attr({"initialized_by": "w"})\n    T.evaluate(0)',
        "iteration 'x' is initialized by 'w', and there is no iteration of that name",
    ),
    # Buffers
    ("A = T.match_sparse_buffer(a, [J])", "is over axis 'J' without its parent 'I' before it"),
    ("A = T.match_sparse_buffer(a, [J, I])", "is over axis 'J' without its parent 'I' before it"),
    ("A = T.match_sparse_buffer(a, [I, K])", "is over axis 'K' without its parent 'J' before it"),
    ("A = T.match_sparse_buffer(a, [I, J, U])", "'J' and 'U', which are not one below the other"),
    ("A = T.match_sparse_buffer(a, [I, J, V])", "'J' and 'V', which are not one below the other"),
    ("A = T.match_sparse_buffer(a, [I, J, J])", "is over the axis 'J' twice"),
    ("A = T.match_sparse_buffer(a, [I, I, J])", "is over the axis 'I' twice"),
    (
        "A = T.match_sparse_buffer(a, [I, T.union(J, U)])",
        "is over the derived axis 'union_J_U', no axis of the function",
    ),
    (
        "A = T.alloc_sparse_buffer([T.fuse(I, J)])",
        "is over the derived axis 'fused_IJ_I', no axis of the function",
    ),
    # Searches
    (
        "A = T.match_sparse_buffer(a, [I, U])\nB = T.match_sparse_buffer(b, [I, J])\n"
        'with T.sp_iter([I, J], "SS", "x") as [i, j]:\n    B[i, j] = A[i, j]',
        "axis 'U' is not sorted, and the load of buffer 'A' looks coordinates up on it",
    ),
    (
        "A = T.match_sparse_buffer(a, [I, U])\n"
        'with T.sp_iter([I, U], "SS", "x") as [i, u]:\n    A[i, u + 1] = 0.0',
        "axis 'U' is not sorted, and the store to buffer 'A' looks coordinates up on it",
    ),
    (
        "A = T.match_sparse_buffer(a, [I, U])\n"
        'with T.sp_iter([N, I, U], "SSS", "x") as [n, i, u]:\n    A[n, u] = 0.0',
        "axis 'U' is not sorted, and the store to buffer 'A' looks coordinates up on it",
    ),
)


def body(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(("text", "problem"), ILLEGAL, ids=[problem for _, problem in ILLEGAL])
def test_illegal_programs(text: str, problem: str) -> None:
    func = parse(HEAD + body(text) + body("T.evaluate(0)"), filename="illegal.py")
    with pytest.raises(VerifyError) as info:
        verify(func)
    message = str(info.value)
    assert problem in message, message
    assert "in: function 'main'" in message
    assert "--> illegal.py:" in message
    if "with T.sp_iter" in text and "match_sparse" not in text:
        assert "^" in message
        assert "T.sp_iter" in message.split("--> ")[1]


def test_an_error_says_in_which_iterations_it_is() -> None:
    text = (
        'with T.sp_iter([I], "S", "outer") as [i]:\n    with T.sp_iter([J], "S", "inner") as [j]:\n'
        '        with T.sp_iter([T.fuse(J, K)], "SS", "deep") as [x, y]:\n            T.evaluate(0)'
    )
    with pytest.raises(VerifyError, match="'main' > iteration 'outer' > iteration 'inner' > it"):
        verify(parse(HEAD + body(text)))


# What scripts cannot say, but passes might.


class _Accesses(StmtRewriter):
    def __init__(self, change: Callable[[BufferStore], Stmt]) -> None:
        self.change = change

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        return self.change(stmt)


def changed_stores(func: PrimFunc, change: Callable[[BufferStore], Stmt]) -> PrimFunc:
    return func.replace(body=_Accesses(change).visit(func.body))


def changed_items(
    func: PrimFunc, change: Callable[[tuple[SpIterVar, ...]], tuple[SpIterVar, ...]]
) -> PrimFunc:
    (stmt,) = collect(func.body, SparseIteration)
    return func.replace(body=stmt.replace(sp_iter_vars=change(stmt.sp_iter_vars)))


def over(func: PrimFunc, name: str, axes: list[Axis]) -> PrimFunc:
    """The function with another buffer for a parameter."""
    (param,) = [param for param in func.params if param.name == name]
    buffer = make_sparse_buffer(name.upper(), axes)
    return func.replace(buffer_map={**func.buffer_map, param: buffer})


P, Q = csrmm.params[3:5]
STRAY = dense_fixed("STRAY", 4)
BROKEN: tuple[tuple[str, Callable[[], PrimFunc], str], ...] = (
    (
        "orphan",
        lambda: csrmm.replace(sp_axes=csrmm.sp_axes[1:]),
        "axis 'J' is an orphan: its parent 'I' is no axis of the function",
    ),
    (
        "late parent",
        lambda: csrmm.replace(sp_axes=csrmm.sp_axes[::-1]),
        "axis 'J' is an orphan: its parent 'I' is declared after it",
    ),
    (
        "variable root",
        lambda: csrmm.replace(sp_axes=(Axis("R", const(3), const(3), None, None, P, Q),)),
        "axis 'R' is sparse_variable and has no parent",
    ),
    (
        "dense child",
        lambda: csrmm.replace(
            sp_axes=(STRAY, dense_fixed("D", 3).replace(parent=STRAY)),
        ),
        "axis 'D' is dense_fixed, but below 'STRAY'",
    ),
    (
        "foreign indptr",
        lambda: csrmm.replace(
            sp_axes=(STRAY, sparse_variable("S", STRAY, 4, 4, Var("x", "handle"), Q)),
        ),
        "the indptr of axis 'S', 'x', is no parameter",
    ),
    (
        "foreign indices",
        lambda: csrmm.replace(
            sp_axes=(STRAY, sparse_variable("S", STRAY, 4, 4, P, Var("x", "handle"))),
        ),
        "the indices of axis 'S', 'x', is no parameter",
    ),
    (
        "unknown length",
        lambda: csrmm.replace(sp_axes=(dense_fixed("L", Var("x")),)),
        "the length of axis 'L' depends on 'x', which is no parameter",
    ),
    (
        "unknown nnz",
        lambda: csrmm.replace(
            sp_axes=(STRAY, sparse_variable("S", STRAY, 4, Var("x") + 1, P, Q)),
        ),
        "the number of positions of axis 'S' depends on 'x', which is no parameter",
    ),
    (
        "foreign axis",
        lambda: over(csrmm, "a", [STRAY]),
        "buffer 'A' is over the axis 'STRAY', no axis of the function",
    ),
    (
        "attached in a buffer",
        lambda: over(csrmm, "a", [csrmm.sp_axes[0], attach(csrmm.sp_axes[1], csrmm.sp_axes[0])]),
        "buffer 'A' is over the derived axis 'J_attach_I', no axis of the function",
    ),
    (
        "level 1",
        lambda: csrmm.with_attr("sparse_tir_level", 1),
        'its "sparse_tir_level" is 1, not 2',
    ),
    (
        "no level",
        lambda: PrimFunc((), seq()),
        'it has no axes and no "sparse_tir_level"',
    ),
    (
        "indices of a store",
        lambda: changed_stores(csrmm, lambda s: s.replace(indices=s.indices[:1])),
        "store to buffer 'C' has 1 indices for 2 axes",
    ),
    (
        "indices of a load",
        lambda: changed_stores(
            csrmm, lambda s: s.replace(value=BufferLoad(csrmm.buffers[0], s.indices[:1]))
        ),
        "load of buffer 'A' has 1 indices for 2 axes",
    ),
    (
        "index of a store",
        lambda: changed_stores(csrmm, lambda s: s.replace(indices=(s.value, s.indices[1]))),
        "store to buffer 'C' has a float32 as index on axis 'I'",
    ),
    (
        "undeclared buffer",
        lambda: changed_stores(
            csrmm, lambda s: s.replace(buffer=make_sparse_buffer("X", csrmm.sp_axes[:1]))
        ),
        "store to buffer 'X', which is not declared",
    ),
    (
        "foreign axis of an iteration",
        lambda: changed_items(csrmm, lambda items: (items[0].replace(axis=STRAY), *items[1:])),
        "variable 'i' runs over 'STRAY', no axis of the function",
    ),
    (
        "half of fused axes",
        lambda: changed_items(fused_sddmm, lambda items: items[1:]),
        "the parts of the fused axes I, J do not stand together in order",
    ),
    (
        "fused axes out of order",
        lambda: changed_items(fused_sddmm, lambda items: (items[1], items[0], items[2])),
        "the parts of the fused axes I, J do not stand together in order",
    ),
    (
        "fused axes of two trees",
        lambda: changed_items(
            csrmm,
            lambda items: tuple(
                item.replace(axis=axis)
                for item, axis in zip(items, [*fuse([items[0].axis, items[2].axis]), STRAY])
            ),
        ),
        "axes I, K are fused, but 'K' is not below 'I'",
    ),
)


@pytest.mark.parametrize(
    ("make", "problem"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_broken_programs(make: Callable[[], PrimFunc], problem: str) -> None:
    with pytest.raises(VerifyError) as info:
        verify(make())
    assert problem in str(info.value), info.value


def test_what_only_looks_like_a_search_is_none() -> None:
    @T.prim_func
    def own(a: T.handle, b: T.handle, p: T.handle, q: T.handle, m: T.int32, nnz: T.int32) -> None:
        I = T.dense_fixed(m)
        J = T.sparse_variable(I, (m, nnz), (p, q), sorted=False)
        N = T.dense_fixed(m)
        I_T = T.sparse_variable(N, (m, nnz), (p, q), sorted=False)
        A = T.match_sparse_buffer(a, [I, J])
        B = T.match_sparse_buffer(b, [N, I_T])
        with T.sp_iter([I], "S", "outer") as [i]:
            T.evaluate(i)
            with T.sp_iter([J], "S", "inner") as [j]:
                A[i, j] = 1.0
                with T.sp_iter([T.attach(I_T, J)], "S", "deep") as [k]:
                    B[j, k] = A[i, j]
        with T.sp_iter([T.fuse(I, J)], "SS", "fused") as [i, j]:
            A[i, j] = A[i, j] + 1.0

    verify(own)


def test_one_launch_needs_nothing_before_it() -> None:
    text = HEAD.replace('_level": 2}', '_level": 2, "horizontal_fuse": True}') + body(
        'with T.sp_iter([I], "S", "x") as [i]:\n'
        '    T.sp_iter_attr({"initialized_by": "w"})\n    T.evaluate(0)'
    )
    verify(parse(text))


def test_a_dense_axis_may_stand_twice() -> None:
    text = HEAD + body(
        "A = T.match_sparse_buffer(a, [I, I])\n"
        'with T.sp_iter([I, I], "SS", "x") as [i, k]:\n    A[i, k] = 0.0'
    )
    func = parse(text)
    assert isinstance(func, PrimFunc)
    verify(func)
    (buffer,) = func.buffers
    assert isinstance(buffer, SparseBuffer)


# ---------------------------------------------------------------------------- arguments


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, "int32")


def csr(**changes: Any) -> list[Any]:
    """Arguments of `csr_reduce` for a matrix of 3 rows, some of them others."""
    given: dict[str, Any] = {
        "a": np.zeros(4, "float32"),
        "b": np.zeros(3, "float32"),
        "indptr": ints(0, 2, 2, 4),
        "indices": ints(0, 2, 1, 4),
        "m": 3,
        "n": 5,
        "nnz": 4,
    }
    return list({**given, **changes}.values())


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"indptr": ints(0, 2, 4)},
        "the indptr of axis 'J' has 3 elements, but 4 for the 3 positions of 'I' are needed",
    ),
    ({"indptr": ints(1, 2, 2, 4)}, "the indptr of axis 'J' starts with 1, not with 0"),
    (
        {"indptr": ints(0, 3, 2, 4)},
        "the indptr of axis 'J' descends after position 1, from 3 to 2",
    ),
    ({"indptr": ints(0, 2, 2, 3)}, "the indptr of axis 'J' ends with 3, but nnz is 4"),
    ({"nnz": 5}, "the indptr of axis 'J' ends with 4, but nnz is 5"),
    (
        {"indices": ints(0, 2, 1)},
        "the indices of axis 'J' have 3 elements, but the axis has 4 positions",
    ),
    (
        {"indices": ints(0, 2, 1, 5)},
        "the indices of axis 'J' have 5 at position 3, but coordinates are in [0, 5)",
    ),
    (
        {"indices": ints(0, -1, 1, 4)},
        "the indices of axis 'J' have -1 at position 1, but coordinates are in [0, 5)",
    ),
    (
        {"indices": np.zeros(4, "int64")},
        "the indices of axis 'J' (parameter 'indices') has elements of int32, got an array of int",
    ),
    ({"a": np.zeros(5, "float32")}, "over the axes I, J has 4 stored elements, got an array of 5"),
)


@pytest.mark.parametrize(("changes", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_wrong_arguments(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError) as info:
        check_arguments(csr_reduce, *csr(**changes))
    assert problem in str(info.value), info.value


def test_known_numbers_of_positions_are_compared() -> None:
    nnz = csr_reduce.params[-1]
    with pytest.raises(ArgumentError, match="the indptr of axis 'J' ends with 4, not with 9"):
        check_arguments(specialize(csr_reduce, {nnz: 9}), *csr()[:-1])


@pytest.mark.parametrize(
    ("indices", "problem"),
    [
        (ints(2, 0, 1, 4), "have 0 after 2 at position 1, below position 0 of 'I'"),
        (ints(0, 2, 4, 4), "have 4 a second time at position 3, below position 2 of 'I'"),
    ],
)
def test_order_counts_where_coordinates_are_looked_up(
    indices: np.ndarray[Any, Any], problem: str
) -> None:
    check_arguments(csr_reduce, *csr(indices=indices))
    a, _, indptr, _, m, n, nnz = csr()
    dense = [np.zeros((n, 1), "float32"), np.zeros((m, 1), "float32")]
    searched = PROGRAMS["csrmm_dense_iter"]
    check_arguments(searched, a, *dense, indptr, ints(0, 2, 1, 4), m, n, 1, nnz)
    with pytest.raises(ArgumentError) as info:
        check_arguments(searched, a, *dense, indptr, indices, m, n, 1, nnz)
    assert problem in str(info.value), info.value
    assert "coordinates are looked up on the axis" in str(info.value)


def test_merged_axes_must_ascend() -> None:
    arguments, _ = case("csr_add", "random")
    indptr, indices = arguments["indptr_b"], arguments["indices_b"]
    row = int(np.argmax(np.diff(indptr)))
    indices[indptr[row] : indptr[row + 1]] = indices[indptr[row] : indptr[row + 1]][::-1].copy()
    func = program("csr_add")
    with pytest.raises(ArgumentError, match=f"of axis 'JB' have .* below position {row} of 'I'"):
        check_arguments(func, *(arguments[param.name] for param in func.params))


def test_rows_of_fixed_width_may_be_padded() -> None:
    arguments, _ = case("ellmm", "random")
    func = program("ellmm")
    arguments["indices"][:] = 0
    check_arguments(func, *(arguments[param.name] for param in func.params))
    arguments["indices"][3] = 5
    with pytest.raises(ArgumentError, match="'J' have 5 at position 3"):
        check_arguments(func, *(arguments[param.name] for param in func.params))


def test_order_in_rows_of_fixed_width() -> None:
    @T.prim_func
    def looked_up(a: T.handle, b: T.handle, q: T.handle, m: T.int32, n: T.int32) -> None:
        I = T.dense_fixed(m)
        J = T.sparse_fixed(I, (n, 2), q)
        N = T.dense_fixed(n)
        A = T.match_sparse_buffer(a, [I, J])
        B = T.match_sparse_buffer(b, [I, N])
        with T.sp_iter([I, N], "SS", "dense") as [i, j]:
            B[i, j] = A[i, j]

    a, b = np.zeros(4, "float32"), np.zeros((2, 3), "float32")
    check_arguments(looked_up, a, b, ints(1, 2, 0, 1), 2, 3)
    with pytest.raises(ArgumentError, match="have 0 after 2 at position 3, below position 1 of"):
        check_arguments(looked_up, a, b, ints(0, 1, 2, 0), 2, 3)


def test_ragged_rows_are_no_longer_than_the_axis() -> None:
    func = PROGRAMS["segment_reduce"]
    a, b = np.zeros(5, "float32"), np.zeros(2, "float32")
    check_arguments(func, a, b, ints(0, 2, 5), 2, 3, 5)
    with pytest.raises(ArgumentError, match=r"'J' has 3 coordinates below position 1 of 'I', but"):
        check_arguments(func, a, b, ints(0, 2, 5), 2, 2, 5)


def test_levels_are_counted_below_each_other() -> None:
    arguments, _ = case("square_sum", "random")
    func = program("square_sum")
    arguments["indptr_k"] = arguments["indptr_k"][:-1]
    with pytest.raises(ArgumentError, match=r"the indptr of axis 'K' has .* positions of 'J' are"):
        check_arguments(func, *(arguments[param.name] for param in func.params))


def test_coordinates_that_are_positions_of_another_axis() -> None:
    @T.prim_func
    def joined(
        p: T.handle, q: T.handle, p2: T.handle, q2: T.handle, m: T.int32, n: T.int32
    ) -> None:
        I = T.dense_fixed(m)
        J = T.sparse_variable(I, (n + 1, 2), (p, q))
        N = T.dense_fixed(n)
        I_T = T.sparse_variable(N, (m, 2), (p2, q2))
        with T.sp_iter([I, J, T.attach(I_T, J)], "SSS", "x") as [i, j, k]:
            T.evaluate(i + j + k)

    with pytest.raises(ArgumentError, match="'J', which are below 4, but 'N', its own parent, has"):
        check_arguments(joined, ints(0, 2), ints(0, 1), ints(0, 2, 2, 2), ints(0, 0), 1, 3)


def test_values_are_as_assumed() -> None:
    @T.prim_func
    def typed(e: T.handle, m: T.int32, r: T.int32) -> None:
        I = T.dense_fixed(m)
        E = T.match_sparse_buffer(e, [I], "int32")
        T.assume_buffer_domain(E, [0, r])
        with T.sp_iter([I], "S", "x") as [i]:
            E[i] = E[i]

    check_arguments(typed, ints(0, 2, 1), 3, 3)
    with pytest.raises(ArgumentError, match=r"values of buffer 'E' are in \[0, 2\), but element 1"):
        check_arguments(typed, ints(0, 2, 1), 3, 2)


def test_negative_sizes() -> None:
    @T.prim_func
    def sized(a: T.handle, q: T.handle, m: T.int32, w: T.int32) -> None:
        I = T.dense_fixed(m)
        J = T.sparse_fixed(I, (4, w), q)
        A = T.match_sparse_buffer(a, [I, J])
        with T.sp_iter([I, J], "SS", "x") as [i, j]:
            A[i, j] = 0.0

    none = np.zeros(0, "float32")
    with pytest.raises(ArgumentError, match="the length of axis 'I' is -2"):
        check_arguments(sized, none, ints(), -2, 1)
    with pytest.raises(ArgumentError, match="the width of axis 'J' is -1"):
        check_arguments(sized, none, ints(), 2, -1)
