"""Sparse times dense, of arrays that people have, against NumPy in float64."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError, UserError
from tileloom.frontend.sparse import spmm_plan, structure
from tileloom.sparse import explain_spmm, spmm
from tileloom.sparse.arrays import Csr

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def matrix(m: int, n: int, density: float = 0.2, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (sp.random_array((m, n), density=density, format="csr", rng=rng) * 9).astype(dtype)


def operand(n: int, k: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(1).random((n, k)) * 9).astype(dtype)


def check(a: Any, x: Any, found: Any = None, rtol: float = 1e-5) -> None:
    found = spmm(a, x) if found is None else found
    wanted = a.astype("float64") @ np.asarray(x, "float64")
    np.testing.assert_allclose(np.asarray(found, "float64"), wanted, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("k", [0, 1, 3, 16, 37, 64, 80, 130])
def test_numbers_of_columns(k: int) -> None:
    check(matrix(53, 41), operand(41, k))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "int8", "uint16"])
def test_types(dtype: str) -> None:
    a, x = matrix(31, 29, dtype=dtype), operand(29, 20, dtype)
    found = spmm(a, x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, a @ x, rtol=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("float32", "float64", "float64"),
        ("int32", "float32", "float64"),
        ("bool", "bool", "bool"),
        ("bool", "float32", "float32"),
    ],
)
def test_types_are_promoted_as_numpy_has_it(left: str, right: str, result: str) -> None:
    a, x = matrix(31, 29, dtype=left), operand(29, 20, right)
    found = spmm(a, x)
    assert found.dtype == result
    wanted = a.astype("float64") @ x.astype("float64")
    if result == "bool":
        wanted = wanted != 0
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1e-3)


def test_short_floats_are_summed_in_long_ones() -> None:
    a = matrix(40, 500, density=0.9)
    short = Csr(a.indptr, a.indices, a.data.astype("float16"), a.shape)
    x = operand(500, 8).astype("float16")
    found = spmm(short, x)
    assert found.dtype == "float16"
    check(sp.csr_array((short.data.astype("float32"), a.indices, a.indptr)), x, found, rtol=2e-3)
    out = np.zeros((40, 8), "float16")
    np.testing.assert_array_equal(spmm(short, x, out), found)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(DTypeError, match="complex64, for which there is no kernel"):
        spmm(matrix(3, 4, dtype="complex64"), operand(4, 2))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 7), (7, 1), (64, 64)])
def test_shapes_and_index_types(shape: tuple[int, int], index_dtype: str) -> None:
    a = matrix(*shape, density=0.3)
    a.indptr, a.indices = a.indptr.astype(index_dtype), a.indices.astype(index_dtype)
    check(a, operand(shape[1], 16))


def test_rows_without_elements_unsorted_columns_and_duplicates() -> None:
    indptr = np.array([0, 0, 4, 4, 6, 6], "int32")
    indices = np.array([3, 0, 3, 1, 2, 2], "int32")
    a = sp.csr_array((np.arange(1.0, 7.0, dtype="float32"), indices, indptr), shape=(5, 4))
    check(a, operand(4, 33))


def test_index_arrays_of_two_types() -> None:
    a = matrix(20, 20)
    mixed = Csr(a.indptr.astype("int64"), a.indices, a.data, a.shape)
    check(a, operand(20, 8), spmm(mixed, operand(20, 8)))


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr", "dia", "lil", "dok"])
def test_formats_of_scipy(kind: str) -> None:
    a = matrix(24, 36).asformat(kind)
    check(a, operand(36, 16))
    check(a, operand(36, 16))  # what was found before is used again


def test_values_may_change_where_structure_is_kept() -> None:
    for kind in ("csr", "csc", "coo"):
        a, x = matrix(24, 36).asformat(kind), operand(36, 16)
        check(a, x)
        a.data *= 3
        check(a, x)


def test_other_structure_is_seen() -> None:
    a, b, x = matrix(24, 36), matrix(24, 36, seed=5), operand(36, 16)
    check(a, x)
    a.indptr, a.indices, a.data = b.indptr, b.indices, b.data
    check(a, x)


def test_what_is_kept_goes_with_the_array() -> None:
    a = matrix(24, 36)
    spmm(a, operand(36, 16))
    key = id(a)
    assert key in structure.KNOWN
    del a
    gc.collect()
    assert key not in structure.KNOWN


def test_dense_operands_of_any_strides() -> None:
    a, x = matrix(24, 36), operand(36, 32)
    for view in (x[:, ::2], np.asfortranarray(x), x[::-1], x[:, 3:20]):
        check(a, view)
    assert spmm(a, x.tolist()).dtype == "float64"


def test_results_into_arrays_that_are_there() -> None:
    a, x = matrix(24, 36), operand(36, 32)
    out = np.full((24, 32), np.nan, "float32")
    assert spmm(a, x, out) is out
    check(a, x, out)
    memory = np.full(24 * 32 + 1, np.nan, "float32")[1:].reshape(24, 32)  # amid a cache line
    check(a, x, spmm(a, x, memory))


def test_large_results_are_written_past_the_caches() -> None:
    a, x = matrix(5000, 300, density=0.01), operand(300, 64)
    check(a, x)
    out = np.empty(5000 * 64 + 1, "float32")[1:].reshape(5000, 64)
    check(a, x, spmm(a, x, out))


@pytest.mark.parametrize("k", [128, 256])
def test_long_rows_part_by_part(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spmm_plan, "cache_sizes", lambda: (1 << 15, 40_000, 1 << 25))
    a, x = matrix(90, 400, density=0.6), operand(400, k)
    lengths = np.diff(a.indptr)
    assert lengths.min() > 150
    check(a, x)
    assert explain_spmm(a, k).startswith("parts: ")
    some = matrix(90, 400, density=0.6)
    some.data[: some.indptr[30]] = 0
    some.eliminate_zeros()  # rows without elements
    check(some, x)


@pytest.mark.parametrize(
    ("features", "density", "sort", "reason"),
    [
        (17, 0.6, True, "17 columns; parts need a multiple"),
        (128, 0.05, True, "20.0 elements a row"),
        (128, 0.6, False, "the columns are not sorted"),
        (128, 0.6, True, "stays in the second-level cache"),
    ],
)
def test_the_choice_is_explained(
    features: int, density: float, sort: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = matrix(90, 400, density=density)
    if not sort:
        a.indices[:2] = a.indices[1::-1].copy()
        monkeypatch.setattr(spmm_plan, "cache_sizes", lambda: (1 << 15, 40_000, 1 << 25))
    found = explain_spmm(a, features)
    assert found.startswith("rows: ")
    assert reason in found


def test_calls_from_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spmm_plan, "cache_sizes", lambda: (1 << 15, 40_000, 1 << 25))
    a, x = matrix(300, 400, density=0.6), operand(400, 128)
    wanted = a @ x
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: spmm(a, x), range(40)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_many_threads_and_one() -> None:
    a, x = matrix(3000, 300, density=0.05), operand(300, 40)
    before = tileloom.get_num_threads()
    try:
        for threads in (1, 2, 5):
            tileloom.set_num_threads(threads)
            check(matrix(3000, 300, density=0.05), x)
            check(a, x)
    finally:
        tileloom.set_num_threads(before)


def test_not_a_number_and_infinity() -> None:
    a = sp.csr_array(np.array([[1, 0], [0, 2]], "float32"))
    x = np.array([[np.nan, np.inf], [1, -np.inf]], "float32")
    np.testing.assert_array_equal(spmm(a, x), [[np.nan, np.inf], [2, -np.inf]])


# ---------------------------------------------------------------------------- other libraries


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    a, x = matrix(24, 36), operand(36, 16)
    t = torch.sparse_csr_tensor(
        torch.from_numpy(a.indptr), torch.from_numpy(a.indices), torch.from_numpy(a.data), (24, 36)
    )
    found = spmm(t, torch.from_numpy(x))
    assert isinstance(found, torch.Tensor)
    check(a, x, found.numpy())
    out = torch.empty(24, 16)
    assert spmm(t, torch.from_numpy(x), out) is out
    check(a, x, out.numpy())
    check(a, x, spmm(t.to_sparse_coo(), torch.from_numpy(x)).numpy())
    half = spmm(t.bfloat16(), torch.from_numpy(x).bfloat16())
    assert half.dtype == torch.bfloat16
    check(a, x, half.float().numpy(), rtol=2e-2)


def test_pydata() -> None:
    sparse = pytest.importorskip("sparse")
    a, x = matrix(24, 36), operand(36, 16)
    for array in (sparse.COO.from_scipy_sparse(a), sparse.GCXS.from_scipy_sparse(a)):
        check(a, x, spmm(array, x))


# ---------------------------------------------------------------------------- refusals


def test_misfits_are_refused() -> None:
    a = matrix(24, 36)
    with pytest.raises(ShapeError, match=r"a has shape \(24, 36\) and x has shape \(35, 4\)"):
        spmm(a, operand(35, 4))
    with pytest.raises(ShapeError, match="x must be a matrix of 36 rows"):
        spmm(a, np.zeros(36, "float32"))
    with pytest.raises(ArgumentError, match="a is a dense numpy array"):
        spmm(np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ArgumentError, match="x is a scipy csr_array"):
        spmm(a, a)
    x = operand(36, 4)
    with pytest.raises(ShapeError, match=r"out has shape \(24, 5\)"):
        spmm(a, x, np.zeros((24, 5), "float32"))
    with pytest.raises(DTypeError, match="out holds float64"):
        spmm(a, x, np.zeros((24, 4)))
    with pytest.raises(ArgumentError, match="row-major"):
        spmm(a, x, np.zeros((4, 24), "float32").T)


def test_index_arrays_that_contradict_themselves_are_refused() -> None:
    a = matrix(24, 36)
    a.indices[5] = 36
    with pytest.raises(IndexingError, match="index 36 at position 5, in row 0"):
        spmm(a, operand(36, 4))
    b = matrix(24, 36)
    b.indptr[3] = b.indptr[4] + 1
    with pytest.raises(UserError, match="indptr falls from 27 to 26"):
        spmm(b, operand(36, 4))


def test_how_much_is_near_the_diagonal() -> None:
    def share(a: Any, reach: int) -> float:
        return structure.Structure(a.indptr, a.indices, a.shape).share_near(reach)

    band = sp.csr_array(sp.diags_array([np.ones(400), np.ones(390)], offsets=[0, 10]))
    assert share(band, 10) == 1
    assert share(band, 9) == pytest.approx(400 / 790, abs=0.01)
    assert share(sp.csr_array(np.ones((10, 1000), "float32")), 99) == pytest.approx(0.18, abs=0.03)
    assert share(matrix(0, 5), 1) == share(matrix(5, 0), 1) == 1
