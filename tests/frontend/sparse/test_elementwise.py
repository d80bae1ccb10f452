"""Sums, differences and products of sparse matrices, against NumPy and SciPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, DTypeError, ShapeError
from tileloom.frontend.sparse import pairs
from tileloom.sparse import add, multiply, subtract
from tileloom.sparse.arrays import Csr

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]
ALL = [(add, operator.add), (subtract, operator.sub), (multiply, operator.mul)]
each = pytest.mark.parametrize(("ours", "numpy"), ALL)


def matrix(m: int, n: int, density: float = 0.2, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (sp.random_array((m, n), density=density, format="csr", rng=rng) * 9).astype(dtype)


def unsorted(a: Any) -> Any:
    """The same matrix, with the columns of each row in descending order."""
    starts = np.repeat(a.indptr[:-1] + a.indptr[1:] - 1, np.diff(a.indptr))
    order = starts - np.arange(a.nnz)
    return sp.csr_array((a.data[order], a.indices[order], a.indptr), shape=a.shape)


def pattern(a: Any) -> Array:
    """Where an element is stored."""
    ones = sp.csr_array((np.ones(a.nnz), a.indices, a.indptr), shape=a.shape)
    return np.asarray(ones.toarray() != 0)


def check(ours: Any, numpy: Any, a: Any, b: Any) -> Any:
    """Values are those of dense arrays; what is stored is the union or the intersection."""
    found = ours(a, b)
    with np.errstate(all="ignore"):
        values = numpy(a.toarray(), b.toarray())
    np.testing.assert_array_equal(found.toarray(), values)
    assert found.dtype == values.dtype
    assert found.indices.dtype == found.indptr.dtype == np.int32
    both = pattern(a) & pattern(b) if ours is multiply else pattern(a) | pattern(b)
    nan = np.isnan(values) if values.dtype.kind == "f" else False
    np.testing.assert_array_equal(pattern(found), both | nan)
    assert found.nnz == pattern(found).sum()
    assert all(
        (np.diff(found.indices[p:q]) > 0).all()
        for p, q in zip(found.indptr, found.indptr[1:], strict=False)
    )
    return found


@each
@pytest.mark.parametrize("shape", [(0, 7), (7, 0), (1, 70), (70, 1), (40, 50), (300, 400)])
def test_shapes(ours: Any, numpy: Any, shape: tuple[int, int]) -> None:
    check(ours, numpy, matrix(*shape), matrix(*shape, 0.4, seed=1))
    check(ours, numpy, matrix(*shape), sp.csr_array(shape))
    check(ours, numpy, sp.csr_array(shape), matrix(*shape))


@each
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
        ("bool", "int8"),
    ],
)
def test_types_and_overflow(ours: Any, numpy: Any, left: str, right: str) -> None:
    a, b = matrix(30, 40, 0.4, left), matrix(30, 40, 0.4, right, seed=1)
    check(ours, numpy, a, b)
    check(ours, numpy, a * a.dtype.type(13), b)


def test_bools() -> None:
    a, b = matrix(30, 40, 0.4, "bool"), matrix(30, 40, 0.4, "bool", seed=1)
    check(add, operator.or_, a, b)
    check(subtract, operator.xor, a, b)
    check(multiply, operator.and_, a, b)


def test_what_is_refused() -> None:
    with pytest.raises(DTypeError, match="complex128, for which there is no kernel"):
        add(matrix(3, 4, dtype="complex128"), matrix(3, 4))
    with pytest.raises(ShapeError, match="they differ"):
        subtract(matrix(3, 4), matrix(4, 3))
    with pytest.raises(ArgumentError, match="b is a dense numpy array"):
        add(matrix(3, 4), np.ones((3, 4)))
    for shape in ((4, 3), (3,), (3, 4, 1), (2, 1)):
        with pytest.raises(ShapeError, match="is not broadcast to that of a"):
            multiply(matrix(3, 4), np.ones(shape))


@each
@pytest.mark.parametrize("right", ["int32", "int64"])
def test_index_types(ours: Any, numpy: Any, right: str) -> None:
    a, b = matrix(40, 50), matrix(40, 50, seed=1)
    b.indptr, b.indices = b.indptr.astype(right), b.indices.astype(right)
    check(ours, numpy, a, b)
    check(ours, numpy, b, a)


def test_long_indices_where_short_ones_would_not_count_far_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "_MOST", 50)
    a, b = matrix(40, 50), matrix(40, 50, seed=1)
    found = add(a, b)
    assert found.indices.dtype == found.indptr.dtype == np.int64
    np.testing.assert_array_equal(found.toarray(), (a + b).toarray())


@each
def test_unsorted_columns_and_duplicates(ours: Any, numpy: Any) -> None:
    a, b = matrix(40, 50), matrix(40, 50, seed=1)
    check(ours, numpy, unsorted(a), b)
    twice = sp.csr_array((np.round(b.data), b.indices // 2, b.indptr), shape=b.shape)
    check(ours, numpy, a, twice)
    check(ours, numpy, twice, unsorted(twice))


@each
def test_index_arrays_that_are_shared(ours: Any, numpy: Any) -> None:
    a = matrix(40, 50)
    b = sp.csr_array((a.data * 2, a.indices, a.indptr), shape=a.shape)
    found = check(ours, numpy, a, b)
    assert np.shares_memory(found.indices, a.indices)


@each
def test_large_ones_with_rows_of_all_lengths(ours: Any, numpy: Any) -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(2):
        lengths = np.minimum(rng.zipf(1.5, 2000), 900)
        lengths[[5, 77]] = 0, 1000
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
        rows = [np.sort(rng.choice(1000, k, replace=False)) for k in lengths]
        indices = np.concatenate(rows).astype("int32")
        found.append(sp.csr_array((rng.random(len(indices)), indices, indptr), shape=(2000, 1000)))
    check(ours, numpy, *found)


def test_many_columns() -> None:
    a, b = matrix(50, 1_000_000, 1e-5), matrix(50, 1_000_000, 1e-5, seed=1)
    assert abs(add(a, b) - (a + b)).nnz == 0
    assert abs(multiply(a, add(a, b)) - a.multiply(a + b)).nnz == 0


@each
def test_infinity_and_nan(ours: Any, numpy: Any) -> None:
    a, b = matrix(30, 40), matrix(30, 40, seed=1)
    a.data[::7], a.data[::11], b.data[::5] = np.inf, np.nan, -np.inf
    check(ours, numpy, a, b)
    if ours is multiply:
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(ours(a, b).toarray(), a.multiply(b).toarray())


def test_what_comes_out_as_zero_is_stored() -> None:
    a = matrix(20, 30)
    assert subtract(a, a.copy()).nnz == a.nnz
    assert not subtract(a, a.copy()).data.any()


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("shape", [(60, 70), (70,), (1, 70), (60, 1), (1, 1), (1,), ()])
def test_products_with_dense_arrays(shape: tuple[int, ...], dtype: str) -> None:
    for a in (matrix(60, 70, dtype="float32"), unsorted(matrix(60, 70)), matrix(60, 70).tocsc()):
        x = (np.random.default_rng(3).random(shape) * 9).astype(dtype)
        found = multiply(a, x)
        wanted = a.toarray() * x
        assert found.dtype == wanted.dtype
        assert found.nnz == a.nnz
        np.testing.assert_array_equal(found.toarray(), wanted)


def test_dense_arrays_of_any_strides_numbers_and_lists() -> None:
    a, x = matrix(30, 40, dtype="float32"), np.random.default_rng(3).random((60, 40))
    for y in (x[::2], np.asfortranarray(x[:30]), x[29::-1]):
        np.testing.assert_array_equal(multiply(a, y).toarray(), a.toarray() * y)
    assert multiply(a, 2.5).dtype == "float32"
    assert multiply(a, np.float64(2.5)).dtype == "float64"
    np.testing.assert_array_equal(multiply(a, 2.5).toarray(), a.toarray() * 2.5)
    np.testing.assert_array_equal(multiply(a, [3] * 40).toarray(), a.toarray() * np.full(40, 3))


def test_large_products_with_dense_arrays() -> None:
    a, x = matrix(1000, 500), np.random.default_rng(3).random((1000, 500))
    np.testing.assert_array_equal(multiply(a, x).toarray(), a.toarray() * x)


def test_formats() -> None:
    a, b = matrix(24, 36), matrix(24, 36, seed=1)
    for kind in ("csc", "coo", "bsr", "dia", "lil", "dok"):
        found = add(a.asformat(kind), b.asformat(kind))
        assert isinstance(found, sp.csr_array)
        np.testing.assert_array_equal(found.toarray(), (a + b).toarray())
    assert isinstance(add(sp.csr_matrix(a), b), sp.csr_matrix)
    assert isinstance(add(Csr(a.indptr, a.indices, a.data, a.shape), b), Csr)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    a, b = matrix(24, 36), matrix(24, 36, seed=1)
    left, right = torch.tensor(a.toarray()), torch.tensor(b.toarray())
    for layout in ("to_sparse_csr", "to_sparse_csc", "to_sparse"):
        x, y = getattr(left, layout)(), getattr(right, layout)()
        for ours, numpy in ALL:
            found = ours(x, y)
            assert found.layout is torch.sparse_csr
            assert torch.equal(found.to_dense(), numpy(left, right))
        assert torch.equal(multiply(x, right).to_dense(), left * right)
        assert torch.equal(multiply(x, right[0]).to_dense(), left * right[0])


def test_arrays_of_pydata() -> None:
    sparse = pytest.importorskip("sparse")
    a, b = matrix(24, 36), matrix(24, 36, seed=1)
    for kind in (sparse.COO, sparse.GCXS):
        x, y = kind.from_numpy(a.toarray()), kind.from_numpy(b.toarray())
        for ours, numpy in ALL:
            found = ours(x, y)
            assert isinstance(found, sparse.GCXS)
            np.testing.assert_array_equal(found.todense(), numpy(a.toarray(), b.toarray()))
