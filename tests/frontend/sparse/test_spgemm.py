"""Sparse times sparse, of arrays that people have, against SciPy and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import DTypeError, ShapeError
from tileloom.frontend.sparse import pairs
from tileloom.sparse import spgemm
from tileloom.sparse.arrays import Csr

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def matrix(m: int, n: int, density: float = 0.2, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (sp.random_array((m, n), density=density, format="csr", rng=rng) * 9).astype(dtype)


def unsorted(a: Any) -> Any:
    """The same matrix, with the columns of each row in descending order."""
    starts = np.repeat(a.indptr[:-1] + a.indptr[1:] - 1, np.diff(a.indptr))
    order = starts - np.arange(a.nnz)
    return sp.csr_array((a.data[order], a.indices[order], a.indptr), shape=a.shape)


def keys(a: Any) -> Array:
    """The places of the elements, as one number each."""
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    return np.asarray(rows * a.shape[1] + a.indices)


def check(a: Any, b: Any, rtol: float = 1e-12) -> Any:
    """The values are those of SciPy; the structure is that of a product of ones."""
    found, values = spgemm(a, b), a @ b
    ones = [sp.csr_array((np.ones(x.nnz), x.indices, x.indptr), shape=x.shape) for x in (a, b)]
    wanted = ones[0] @ ones[1]
    for other in (wanted, values):
        other.sort_indices()
    assert found.shape == values.shape
    assert found.dtype == values.dtype
    assert found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    full = np.zeros(wanted.nnz, values.dtype)
    full[np.searchsorted(keys(wanted), keys(values))] = values.data
    np.testing.assert_allclose(found.data, full, rtol=rtol)
    return found


@pytest.mark.parametrize("k", [0, 1, 2, 40])
@pytest.mark.parametrize(("m", "n"), [(0, 7), (7, 0), (1, 70), (70, 1), (33, 5000)])
def test_shapes(m: int, k: int, n: int) -> None:
    check(matrix(m, k, 0.3), matrix(k, n, 0.3, seed=1))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float32", "float32"),
        ("float32", "float64"),
        ("int32", "float32"),
        ("int8", "int8"),
        ("uint16", "int16"),
        ("uint64", "uint64"),
        ("int64", "uint8"),
        ("bool", "bool"),
        ("bool", "int8"),
    ],
)
def test_types_and_overflow(left: str, right: str) -> None:
    a, b = matrix(30, 40, 0.4, left), matrix(40, 50, 0.4, right, seed=1)
    check(a, b, 1e-5 if left == right == "float32" else 1e-12)
    check(a * 100 if left == "int8" else a, b, 1e-5)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(DTypeError, match="complex128, for which there is no kernel"):
        spgemm(matrix(3, 4, dtype="complex128"), matrix(4, 3))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"b must have 4 rows"):
        spgemm(matrix(3, 4), matrix(3, 4))


@pytest.mark.parametrize("left", ["int32", "int64"])
@pytest.mark.parametrize("right", ["int32", "int64"])
def test_index_types(left: str, right: str) -> None:
    a, b = matrix(40, 50), matrix(50, 60, seed=1)
    a.indptr, a.indices = a.indptr.astype(left), a.indices.astype(left)
    b.indptr, b.indices = b.indptr.astype(right), b.indices.astype(right)
    found = spgemm(a, b)
    np.testing.assert_allclose(found.toarray(), a.toarray() @ b.toarray())
    assert found.indices.dtype == found.indptr.dtype == np.int32


def test_long_indices_where_short_ones_would_not_count_far_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = matrix(40, 50), matrix(50, 60, seed=1)
    monkeypatch.setattr(pairs, "_MOST", (a @ b).nnz - 1)
    found = spgemm(a, b)
    assert found.indices.dtype == found.indptr.dtype == np.int64
    np.testing.assert_allclose(found.toarray(), a.toarray() @ b.toarray())


@pytest.mark.parametrize("n", [60, 6000])
def test_unsorted_columns_and_duplicates(n: int) -> None:
    a, b = matrix(40, 50), matrix(50, n, 0.1, seed=1)
    check(unsorted(a), b)
    check(a, unsorted(b))
    twice = sp.csr_array((b.data, b.indices // 2, b.indptr), shape=b.shape)
    check(a, twice)
    rows_twice = sp.csr_array((a.data, a.indices // 2, a.indptr), shape=a.shape)
    check(unsorted(rows_twice), unsorted(twice))


def test_rows_of_all_lengths() -> None:
    rng = np.random.default_rng(2)
    lengths = np.minimum(rng.zipf(1.6, 3000), 1500)
    lengths[[5, 77]] = 0, 3000  # an empty row and a full one
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
    rows = [np.sort(rng.choice(3000, k, replace=False)) for k in lengths]
    indices = np.concatenate(rows).astype("int32")
    a = sp.csr_array((rng.random(len(indices)), indices, indptr), shape=(3000, 3000))
    check(a, a)


def test_many_columns_of_which_few_are_used() -> None:
    a = matrix(100, 80, 0.05)
    b = matrix(80, 2_000_000, 1e-5, seed=3)
    check(a, b)
    check(a, sp.csr_array((80, 2_000_000)))


@pytest.mark.parametrize("n", [600_000])
def test_many_columns_of_which_all_are_used(n: int) -> None:
    b = matrix(3, n, 0.3, seed=3)
    check(matrix(4, 3, 0.4), b)
    check(matrix(4, 3, 0.4), unsorted(b))


def test_what_comes_out_as_zero_is_stored() -> None:
    a, b = sp.csr_array([[1.0, 1.0]]), sp.csr_array([[2.0], [-2.0]])
    found = check(a, b)
    assert found.nnz == 1
    assert found.data.tolist() == [0.0]


def test_infinity_and_nan_meet_stored_elements_only() -> None:
    a = matrix(30, 30, 0.1)
    a.data[::7], a.data[::11] = np.inf, np.nan
    b = matrix(30, 30, 0.1, seed=1)
    b.data[::5] = 0.0
    with np.errstate(invalid="ignore"):
        check(a, b)


def test_formats_of_scipy() -> None:
    a, b = matrix(24, 36), matrix(36, 24, seed=1)
    for kind in ("csc", "coo", "bsr", "dia", "lil", "dok"):
        found = spgemm(a.asformat(kind), b.asformat(kind))
        assert isinstance(found, sp.csr_array)
        np.testing.assert_allclose(found.toarray(), (a @ b).toarray())
    old = spgemm(sp.csr_matrix(a), b)
    assert isinstance(old, sp.csr_matrix)
    np.testing.assert_allclose(old.toarray(), (a @ b).toarray())


def test_own_formats() -> None:
    a, b = matrix(24, 36), matrix(36, 24, seed=1)
    found = spgemm(Csr(a.indptr, a.indices, a.data, a.shape), b)
    assert isinstance(found, Csr)
    np.testing.assert_allclose(found.data, spgemm(a, b).data)


def test_values_may_change_where_structure_is_kept() -> None:
    a, b = matrix(24, 36), matrix(36, 24, seed=1)
    for x, y in ((a, b), (a.tocoo(), b.tocsc())):
        before = spgemm(x, y).toarray()
        x.data *= 2
        y.data *= 3
        np.testing.assert_allclose(spgemm(x, y).toarray(), 6 * before)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    a, b = matrix(24, 36), matrix(36, 24, seed=1)
    left, right = torch.tensor(a.toarray()), torch.tensor(b.toarray())
    for layout in ("to_sparse_csr", "to_sparse_csc", "to_sparse"):
        found = spgemm(getattr(left, layout)(), getattr(right, layout)())
        assert found.layout is torch.sparse_csr
        np.testing.assert_allclose(found.to_dense().numpy(), (a @ b).toarray())
    mixed = spgemm(left.to_sparse_csr(), b)
    assert mixed.layout is torch.sparse_csr
    half = spgemm(left.half().to_sparse_csr(), right.half().to_sparse_csr())
    assert half.dtype is torch.float16
    np.testing.assert_allclose(half.to_dense().numpy(), (a @ b).toarray(), rtol=5e-3)


def test_arrays_of_pydata() -> None:
    sparse = pytest.importorskip("sparse")
    a, b = matrix(24, 36), matrix(36, 24, seed=1)
    for kind in (sparse.COO, sparse.GCXS):
        found = spgemm(kind.from_numpy(a.toarray()), kind.from_numpy(b.toarray()))
        assert isinstance(found, sparse.GCXS)
        np.testing.assert_allclose(found.todense(), (a @ b).toarray())
