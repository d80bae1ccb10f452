"""The meaning of programs over coordinates, against NumPy in float64 (`sparse_inputs`)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import sparse_programs
from sparse_inputs import CASES, case, kinds, program
from sparse_programs import csr_reduce, csrmm
from tileloom.base.errors import ArgumentError, UserError, VerifyError
from tileloom.script import tir as T
from tileloom.sparse.run import run
from tileloom.tir import specialize

Array = np.ndarray[Any, Any]
KINDS = [(name, kind) for name in CASES for kind in kinds(name)]


def check(name: str, kind: str, seed: int = 0, index_dtype: str = "int32") -> None:
    arguments, expected = case(name, kind, seed, index_dtype)
    func = program(name, kind, index_dtype)
    before = {key: np.copy(value) for key, value in arguments.items()}
    run(func, *(arguments[param.name] for param in func.params))
    for key, value in arguments.items():
        if key in expected:
            found, wanted = value.reshape(-1), expected[key].reshape(-1)
            np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=3e-6, err_msg=key)
        else:
            np.testing.assert_array_equal(value, before[key], err_msg=key)


def ints(*numbers: int) -> Array:
    return np.array(numbers, "int32")


def floats(*numbers: float) -> Array:
    return np.array(numbers, "float32")


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_programs_against_numpy(name: str, kind: str) -> None:
    check(name, kind)


@pytest.mark.parametrize("name", CASES)
def test_programs_with_64_bit_indices(name: str) -> None:
    check(name, "random", seed=1, index_dtype="int64")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_programs_against_numpy_many_times(name: str, kind: str) -> None:
    for seed in range(2, 40):
        check(name, kind, seed, "int64" if seed % 2 else "int32")


def test_every_program_has_a_case() -> None:
    assert set(CASES) == {*sparse_programs.PROGRAMS, *sparse_programs.MERGED}


def test_specialized_programs_take_the_rest_of_the_arguments() -> None:
    arguments, expected = case("bsrmm", "random")
    func = program("bsrmm")
    known: dict[Any, Any] = {param: arguments[param.name] for param in func.params[-2:]}
    special = specialize(func, known)
    run(special, *(arguments[param.name] for param in special.params))
    np.testing.assert_allclose(arguments["c"], expected["c"], rtol=1e-5, atol=1e-5)


def test_elements_of_one_coordinate_add_up() -> None:
    c = np.zeros((2, 1), "float32")
    b = floats(1, 10, 100).reshape(3, 1)
    indptr, indices = ints(0, 4, 5), ints(2, 0, 2, 2, 1)
    run(csrmm, floats(1, 2, 3, 4, 5), b, c, indptr, indices, 2, 3, 1, 5)
    np.testing.assert_array_equal(c, [[802], [50]])


def test_a_hundred_thousand_points() -> None:
    rows, degree, feat = 500, 25, 8
    random = np.random.default_rng(5)
    indices = np.sort(random.permuted(np.tile(np.arange(100), (rows, 1)), axis=1)[:, :degree])
    a, b = random.random((rows, degree)), random.random((100, feat))
    c = np.zeros((rows, feat), "float32")
    indptr = np.arange(0, rows * degree + 1, degree).astype("int32")
    start = time.perf_counter()
    arrays = (a.astype("float32"), b.astype("float32"), c, indptr, indices.astype("int32"))
    run(csrmm, *arrays, rows, 100, feat, rows * degree)
    assert time.perf_counter() - start < 20  # usually 0.3 s
    np.testing.assert_allclose(c, np.einsum("rd,rdf->rf", a, b[indices]), rtol=1e-5)


# ---------------------------------------------------------------------------- elements


@T.prim_func
def scattered(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    p: T.handle,
    q: T.handle,
    m: T.int32,
    n: T.int32,
    shift: T.int32,
    nnz: T.int32,
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (p, q))
    N = T.dense_fixed(n)
    A = T.match_sparse_buffer(a, [I, J], default_value=-1.0)
    B = T.match_sparse_buffer(b, [I, N])
    C = T.match_sparse_buffer(c, [I, J], "int32", default_value=9)
    with T.sp_iter([I, N], "SS", "load") as [i, k]:
        B[i, k] = A[i + shift, k + shift] + T.Cast("float32", C[i, k])
    with T.sp_iter([I, N], "SS", "store") as [i, k]:
        A[i + shift, k - shift] = 7.0


@pytest.mark.parametrize("shift", [-1, 0, 1, 5])
def test_elements_that_are_not_stored(shift: int) -> None:
    stored = {(0, 1): 10, (0, 3): 20, (2, 0): 30}
    a, b = floats(10, 20, 30), np.zeros((3, 4), "float32")
    run(
        *(scattered, a, b, ints(4, 5, 6), ints(0, 2, 2, 3), ints(1, 3, 0), 3, 4, shift, 3),
    )
    counts = dict(zip(stored, (4, 5, 6)))
    for i in range(3):
        for k in range(4):
            wanted = stored.get((i + shift, k + shift), -1) + counts.get((i, k), 9)
            assert b[i, k] == wanted, (i, k)
    hit = [
        (i, j) in {(r + shift, k - shift) for r in range(3) for k in range(4)} for i, j in stored
    ]
    assert list(a) == [7 if there else old for there, old in zip(hit, stored.values())]


@T.prim_func
def ragged_lookup(a: T.handle, b: T.handle, p: T.handle, n: T.int32, most: T.int32) -> None:
    I = T.dense_fixed(n)
    J = T.dense_variable(I, most, p)
    K = T.dense_fixed(most)
    A = T.match_sparse_buffer(a, [I, J], default_value=-1.0)
    B = T.match_sparse_buffer(b, [I, K])
    with T.sp_iter([I, K], "SS", "pad") as [i, k]:
        B[i, k] = A[i, k]


def test_ragged_rows_are_padded_with_the_default() -> None:
    b = np.zeros((3, 3), "float32")
    run(ragged_lookup, floats(1, 2, 3, 4), b, ints(0, 1, 1, 4), 3, 3)
    np.testing.assert_array_equal(b, [[1, -1, -1], [-1, -1, -1], [2, 3, 4]])


@T.prim_func
def below_ell(
    a: T.handle,
    b: T.handle,
    q: T.handle,
    pk: T.handle,
    qk: T.handle,
    m: T.int32,
    n: T.int32,
    width: T.int32,
    nnz: T.int32,
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_fixed(I, (n, width), q)
    K = T.sparse_variable(J, (n, nnz), (pk, qk))
    F = T.dense_fixed(2)
    A = T.match_sparse_buffer(a, [F, I, J, K])
    B = T.match_sparse_buffer(b, [I, F])
    with T.sp_iter([I, J, K, F], "SRRS", "sum") as [i, j, k, f]:
        with T.init():
            B[i, f] = 0.0
        B[i, f] = B[i, f] + A[f, i, j, k] * T.Cast("float32", 100 * j + k)


def test_a_variable_axis_below_one_of_fixed_width() -> None:
    q, pk, qk = ints(0, 3, 1, 2), ints(0, 2, 2, 3, 5), ints(1, 2, 0, 0, 4)
    a = np.arange(1, 11).astype("float32")
    b = np.zeros((2, 2), "float32")
    run(below_ell, a, b, q, pk, qk, 2, 5, 2, 5)
    parent = np.repeat(np.arange(4), np.diff(pk))
    terms = a.reshape(2, 5) * (100 * q[parent] + qk)
    wanted = [[terms[f][parent // 2 == i].sum() for f in range(2)] for i in range(2)]
    np.testing.assert_array_equal(b, wanted)


@T.prim_func
def ell_between(
    a: T.handle, b: T.handle, q: T.handle, m: T.int32, n: T.int32, feat: T.int32
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_fixed(I, (n, 2), q)
    F = T.dense_fixed(feat)
    N = T.dense_fixed(n)
    A = T.match_sparse_buffer(a, [I, F, J])
    B = T.match_sparse_buffer(b, [I, F, N])
    with T.sp_iter([I, F, N], "SSS", "dense") as [i, f, k]:
        B[i, f, k] = A[i, f, k]


def test_axes_of_fixed_width_keep_their_place_in_memory() -> None:
    a = np.arange(1, 13).reshape(2, 3, 2).astype("float32")
    b = np.zeros((2, 3, 4), "float32")
    q = ints(1, 3, 0, 1)
    run(ell_between, a, b, q, 2, 4, 3)
    wanted = np.zeros((2, 3, 4))
    for i in range(2):
        wanted[i][:, q[2 * i : 2 * i + 2]] = a[i]
    np.testing.assert_array_equal(b, wanted)


@T.prim_func
def rows_of_dcsr(
    a: T.handle,
    b: T.handle,
    pi: T.handle,
    qi: T.handle,
    p: T.handle,
    q: T.handle,
    m: T.int32,
    n: T.int32,
    rows: T.int32,
    nnz: T.int32,
) -> None:
    O = T.dense_fixed(1)
    I = T.sparse_variable(O, (m, rows), (pi, qi))
    J = T.sparse_variable(I, (n, nnz), (p, q))
    M = T.dense_fixed(m)
    A = T.match_sparse_buffer(a, [O, I, J])
    B = T.match_sparse_buffer(b, [M])
    with T.sp_iter([T.fuse(O, I, J)], "SSR", "sums") as [o, i, j]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[o, i, j] * T.Cast("float32", j)


def test_rows_that_are_listed() -> None:
    b = floats(7, 7, 7, 7)
    qi, p, q = ints(1, 3), ints(0, 2, 3), ints(0, 2, 1)
    run(rows_of_dcsr, floats(1, 2, 3), b, ints(0, 2), qi, p, q, 4, 3, 2, 3)
    np.testing.assert_array_equal(b, [7, 4, 7, 3])


@T.prim_func
def gram(
    a: T.handle,
    c: T.handle,
    p: T.handle,
    q: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
) -> None:
    """C = A A^T: the second variable over the rows is the one that columns are below."""
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (p, q))
    A = T.match_sparse_buffer(a, [I, J])
    C = T.match_sparse_buffer(c, [I, I])
    with T.sp_iter([I, I, J], "SSR", "gram") as [r, s, j]:
        with T.init():
            C[r, s] = 0.0
        C[r, s] = C[r, s] + A[r, j] * A[s, j]


def test_two_variables_over_one_axis() -> None:
    dense = np.zeros((3, 4))
    dense[0, [1, 3]], dense[1, [0, 1]], dense[2, 3] = (1, 2), (3, 4), 5
    c = np.full((3, 3), np.nan, "float32")
    run(gram, floats(1, 2, 3, 4, 5), c, ints(0, 2, 4, 5), ints(1, 3, 0, 1, 3), 3, 4, 5)
    np.testing.assert_array_equal(c, dense @ dense.T)


@T.prim_func
def other_row(
    a: T.handle,
    b: T.handle,
    p: T.handle,
    q: T.handle,
    pk: T.handle,
    qk: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
    nnz_k: T.int32,
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (p, q))
    K = T.sparse_variable(J, (n, nnz_k), (pk, qk))
    A = T.match_sparse_buffer(a, [I, J, K], default_value=-1.0)
    B = T.match_sparse_buffer(b, [I, J, K])
    with T.sp_iter([I, J, K], "SSS", "shift") as [i, j, k]:
        B[i, j, k] = A[i + 1, j, k]


def test_coordinates_below_a_coordinate_that_is_looked_up() -> None:
    p, q, pk, qk = ints(0, 2, 3), ints(0, 2, 2), ints(0, 2, 3, 5), ints(0, 1, 1, 0, 1)
    b = np.zeros(5, "float32")
    run(other_row, floats(10, 20, 30, 40, 50), b, p, q, pk, qk, 2, 3, 3, 5)
    np.testing.assert_array_equal(b, [-1, -1, 50, -1, -1])


@T.prim_func
def three_way(
    out: T.handle,
    pa: T.handle,
    qa: T.handle,
    pb: T.handle,
    qb: T.handle,
    pc: T.handle,
    qc: T.handle,
    n: T.int32,
    na: T.int32,
    nb: T.int32,
    nc: T.int32,
) -> None:
    I = T.dense_fixed(1)
    JA = T.sparse_variable(I, (n, na), (pa, qa))
    JB = T.sparse_variable(I, (n, nb), (pb, qb))
    JC = T.sparse_variable(I, (n, nc), (pc, qc))
    N = T.dense_fixed(n)
    S = T.dense_fixed(3)
    OUT = T.match_sparse_buffer(out, [S, N], "int32")
    LAST = T.alloc_sparse_buffer([S], "int32")
    with T.sp_iter([S], "S", "start") as [s]:
        LAST[s] = -1
    with T.sp_iter([I, T.union(JA, JB, JC)], "SS", "any") as [i, j]:
        OUT[i, j] = LAST[i] + 10
        LAST[0] = j
    with T.sp_iter([I, T.intersect(JA, JB, JC)], "SS", "all") as [i, j]:
        OUT[i + 1, j] = LAST[i + 1] + 10
        LAST[1] = j
    with T.sp_iter([I, T.intersect(JC, JB)], "SS", "both") as [i, j]:
        OUT[i + 2, j] = LAST[i + 2] + 10
        LAST[2] = j


def test_merged_coordinates_ascend() -> None:
    rows = [{0, 2, 5, 8}, {2, 3, 8}, {2, 8, 9}]
    out = np.zeros((3, 11), "int32")
    arrays = [array for row in rows for array in (ints(0, len(row)), ints(*sorted(row)))]
    run(three_way, out, *arrays, 11, *(len(row) for row in rows))
    for line, wanted in zip(out, (rows[0] | rows[1] | rows[2], {2, 8}, {2, 8})):
        order = sorted(wanted)
        assert list(np.flatnonzero(line)) == order
        assert list(line[order]) == [10 + before for before in (-1, *order[:-1])]


# ---------------------------------------------------------------------------- starts


@T.prim_func
def two_parts(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    p: T.handle,
    q: T.handle,
    p2: T.handle,
    q2: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
    nnz2: T.int32,
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (p, q))
    J2 = T.sparse_variable(I, (n, nnz2), (p2, q2))
    A = T.match_sparse_buffer(a, [I, J])
    B = T.match_sparse_buffer(b, [I, J2])
    C = T.match_sparse_buffer(c, [I])
    with T.sp_iter([I], "S", "zero") as [i]:
        C[i] = 0.5
    with T.sp_iter([I, J], "SR", "first") as [i, j]:
        T.sp_iter_attr({"initialized_by": "zero"})
        with T.init():
            C[i] = 100.0
        C[i] = C[i] + A[i, j]
    with T.sp_iter([I, J2], "SR", "second") as [i, j]:
        T.sp_iter_attr({"initialized_by": "zero"})
        with T.init():
            C[i] = 100.0
        C[i] = C[i] + B[i, j]


def test_parts_that_another_iteration_starts() -> None:
    c = floats(np.nan, np.nan)
    run(
        two_parts,
        floats(1, 2),
        floats(4),
        c,
        ints(0, 1, 2),
        ints(0, 0),
        ints(0, 0, 1),
        ints(2),
        *(2, 3, 2, 1),
    )
    np.testing.assert_array_equal(c, [1.5, 6.5])


@T.prim_func
def nested_start(
    a: T.handle, b: T.handle, p: T.handle, q: T.handle, m: T.int32, nnz: T.int32
) -> None:
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (m, nnz), (p, q))
    A = T.match_sparse_buffer(a, [I, J])
    B = T.match_sparse_buffer(b, [I])
    T_ = T.alloc_sparse_buffer([I])
    with T.sp_iter([I], "S", "outer") as [i]:
        T_[i] = 2.0
        with T.sp_iter([J], "R", "inner") as [j]:
            with T.init():
                B[i] = T_[i]
            B[i] = B[i] + A[i, j]


@T.prim_func
def fused_sums(
    a: T.handle, b: T.handle, p: T.handle, n: T.int32, most: T.int32, nnz: T.int32
) -> None:
    I = T.dense_fixed(n)
    J = T.dense_variable(I, (most, nnz), p)
    A = T.match_sparse_buffer(a, [I, J])
    B = T.match_sparse_buffer(b, [I])
    with T.sp_iter([T.fuse(I, J)], "SR", "sums") as [i, j]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j] * T.Cast("float32", j)


def test_fused_axes_start_the_rows_that_have_positions() -> None:
    b = floats(7, 7, 7)
    run(fused_sums, floats(1, 2, 3, 4), b, ints(0, 2, 2, 4), 3, 2, 4)
    np.testing.assert_array_equal(b, [2, 7, 4])


def test_an_iteration_inside_starts_its_own_results() -> None:
    b = floats(np.nan, np.nan, np.nan)
    run(nested_start, floats(1, 2, 3), b, ints(0, 2, 2, 3), ints(0, 1, 2), 3, 3)
    np.testing.assert_array_equal(b, [5, 2, 3 + 2])


def test_memory_of_the_program_holds_nothing_at_first() -> None:
    @T.prim_func
    def unset(b: T.handle, m: T.int32) -> None:
        I = T.dense_fixed(m)
        B = T.match_sparse_buffer(b, [I])
        M = T.alloc_sparse_buffer([I])
        with T.sp_iter([I], "S", "copy") as [i]:
            B[i] = M[i]

    b = floats(1, 2)
    run(unset, b, 2)
    assert np.isnan(b).all()


def test_extra_elements_belong_to_the_memory() -> None:
    @T.prim_func
    def with_extra(a: T.handle, m: T.int32) -> None:
        I = T.dense_fixed(m)
        A = T.match_sparse_buffer(a, [I], "int32", extra_storage=1)
        with T.sp_iter([I], "S", "fill") as [i]:
            A[i] = i + 1

    a = ints(0, 0, 0)
    run(with_extra, a, 2)
    assert list(a) == [1, 2, 0]
    with pytest.raises(ArgumentError, match="over the axes I has 3 stored elements, got an array"):
        run(with_extra, ints(0, 0), 2)


def test_plain_buffers_loops_and_branches() -> None:
    @T.prim_func
    def mixed(
        a: T.handle,
        p: T.handle,
        q: T.handle,
        W: T.Buffer((4,), "float32"),
        m: T.int32,
        nnz: T.int32,
    ) -> None:
        I = T.dense_fixed(m)
        J = T.sparse_variable(I, (4, nnz), (p, q))
        A = T.match_sparse_buffer(a, [I, J])
        with T.sp_iter([I, J], "SS", "weights") as [i, j]:
            if j < 2:
                A[i, j] = W[j]
            else:
                for k in range(2):
                    A[i, j] = A[i, j] + W[k]

    a = floats(1, 2, 3)
    run(mixed, a, ints(0, 2, 3), ints(0, 3, 1), floats(10, 20, 30, 40), 2, 3)
    np.testing.assert_array_equal(a, [10, 32, 20])


# ---------------------------------------------------------------------------- refusals


def arguments(**changes: Any) -> list[Any]:
    """Arguments of `csr_reduce`, some of them others."""
    given = {
        "a": floats(1, 2, 3),
        "b": floats(0, 0),
        "indptr": ints(0, 2, 3),
        "indices": ints(0, 2, 1),
        "m": 2,
        "n": 3,
        "nnz": 3,
    }
    return list({**given, **changes}.values())


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"a": floats(1, 2)}, r"buffer 'A' \(parameter 'a'\) over the axes I, J has 3 stored elements"),
    ({"a": np.zeros(3)}, r"buffer 'A' \(parameter 'a'\) has elements of float32, got .* float64"),
    ({"a": [1, 2, 3]}, "buffer 'A' .* needs an array, got list"),
    ({"a": np.zeros(6, "float32")[::2]}, "buffer 'A' .* is compact, got an array with strides"),
    ({"b": floats(1)}, "buffer 'B' .* over the axes I has 2 stored elements, got an array of 1"),
    ({"m": "two"}, "parameter 'm' is a int32, got 'two'"),
    ({"m": -1}, "the indptr of axis 'J' has 3 elements|the length of axis 'I' is -1"),
    ({"indptr": np.array([0, 2, 3])}, "the indptr of axis 'J' .* elements of int32, got .* int64"),
)


@pytest.mark.parametrize(("changes", "problem"), REFUSED, ids=[text for _, text in REFUSED])
def test_arguments_that_do_not_fit(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        run(csr_reduce, *arguments(**changes))


def test_the_arguments_themselves_fit() -> None:
    given = arguments()
    run(csr_reduce, *given)
    assert list(given[1]) == [3, 3]


def test_too_few_arguments() -> None:
    with pytest.raises(ArgumentError, match="'main' takes 7 arguments, got 6"):
        run(csr_reduce, *arguments()[:-1])


def test_illegal_programs_are_not_run() -> None:
    with pytest.raises(VerifyError, match=r"'J' is not sorted"):
        run(program("csrmm_dense_iter", "unsorted"), *([None] * 9))


def test_division_by_zero() -> None:
    @T.prim_func
    def divided(a: T.handle, m: T.int32, d: T.int32) -> None:
        I = T.dense_fixed(m)
        A = T.match_sparse_buffer(a, [I], "int32")
        with T.sp_iter([I], "S", "divide") as [i]:
            A[i] = i // d

    run(divided, ints(0, 0), 2, 1)
    with pytest.raises(UserError, match="integer division by zero in 'divided'"):
        run(divided, ints(0, 0), 2, 0)


def test_vectors_of_sparse_elements_have_no_meaning() -> None:
    @T.prim_func
    def vectors(a: T.handle, m: T.int32) -> None:
        I = T.dense_fixed(m)
        A = T.match_sparse_buffer(a, [I])
        with T.sp_iter([I], "S", "fill") as [i]:
            A[T.ramp(i, 1, 4)] = T.broadcast(T.float32(1), 4)

    with pytest.raises(VerifyError, match="as index on axis 'I'"):
        run(vectors, floats(0, 0), 2)
