"""Sparse matrices times vectors, of arrays that people have, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tileloom.frontend.sparse import compiled
from tileloom.sparse import spmm, spmv
from tileloom.sparse.arrays import Csr
from tileloom.sparse.kernels.spmv import SpmvCase, spmv_rows

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def matrix(m: int, n: int, density: float = 0.2, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(0)
    return (sp.random_array((m, n), density=density, format="csr", rng=rng) * 9).astype(dtype)


def vector(n: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(1).random(n) * 9).astype(dtype)


def of_lengths(lengths: Any, columns: int = 500, dtype: str = "float32") -> Any:
    """A matrix with so many elements in each row, not sorted, some of them at one place."""
    rng = np.random.default_rng(2)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, columns, indptr[-1])
    values = (rng.random(indptr[-1]) * 9).astype(dtype)
    return sp.csr_array((values, indices, indptr), shape=(len(lengths), columns))


def check(a: Any, x: Any, found: Any = None, rtol: float = 1e-5) -> None:
    found = spmv(a, x) if found is None else found
    wanted = a.astype("float64") @ np.asarray(x, "float64")
    np.testing.assert_allclose(np.asarray(found, "float64"), wanted, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "density"),
    [("float32", 0.03), ("float32", 0.5), ("float64", 0.5), ("int32", 0.03), ("int64", 0.5),
     ("int8", 0.5), ("uint16", 0.03)],
)  # fmt: skip
def test_types(dtype: str, density: float) -> None:
    a, x = matrix(61, 290, density, dtype), vector(290, dtype)
    found = spmv(a, x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, a @ x, rtol=1e-5)


def test_types_are_promoted_as_numpy_has_it() -> None:
    assert spmv(matrix(5, 6, dtype="int32"), vector(6)).dtype == "float64"
    a, x = matrix(5, 6, 0.5, "bool"), vector(6) > 4
    np.testing.assert_array_equal(spmv(a, x), a @ x)
    half = matrix(40, 500, 0.9)
    short = Csr(half.indptr, half.indices, half.data.astype("float16"), half.shape)
    found = spmv(short, vector(500, "float16"))
    assert found.dtype == "float16"
    check(half, vector(500), found, rtol=1e-2)
    with pytest.raises(DTypeError, match="complex64, for which there is no kernel"):
        spmv(matrix(3, 4, dtype="complex64"), vector(4))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 7), (7, 1), (64, 64), (1, 5000)])
def test_shapes_and_index_types(shape: tuple[int, int], index_dtype: str) -> None:
    a = matrix(*shape, density=0.3)
    a.indptr, a.indices = a.indptr.astype(index_dtype), a.indices.astype(index_dtype)
    check(a, vector(shape[1]))


@pytest.mark.parametrize("mean", [4, 60])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_of_rows_around_those_of_vectors(dtype: str, mean: int) -> None:
    edges = [size * k + d for size in (4, 8, 16, 32) for k in (1, 2, 3) for d in (-1, 0, 1)]
    lengths = [0, 0, 1, 2, *edges, 0, *([1] * 90 if mean == 4 else [90] * 90), 0]
    check(of_lengths(lengths, dtype=dtype), vector(500, dtype))


def test_lengths_of_rows_by_a_power_law() -> None:
    lengths = np.minimum(np.random.default_rng(3).zipf(1.6, 9000) - 1, 4000)
    a, x = of_lengths(lengths), vector(500)
    before = tileloom.get_num_threads()
    try:
        for threads in (1, 2, 5):
            tileloom.set_num_threads(threads)
            check(a.copy(), x)
            check(a, x)
    finally:
        tileloom.set_num_threads(before)


@pytest.mark.parametrize(("lanes", "sets"), [(1, 1), (1, 4), (4, 1), (4, 2), (8, 1), (16, 4)])
def test_every_kernel(lanes: int, sets: int) -> None:
    a, x = of_lengths([*range(70), 0, 300]), vector(500)
    kernel = compiled.compiled(spmv_rows, SpmvCase("float32", "int64", lanes, 4, sets))
    for units in (1, 3, 90):
        out = np.full(72, np.nan, "float32")
        indptr, indices = a.indptr.astype("int64"), a.indices.astype("int64")
        kernel(a.data, x, out, indptr, indices, 72, 500, a.nnz, units)
        check(a, x, out)


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr", "lil"])
def test_formats_of_scipy(kind: str) -> None:
    a = matrix(24, 36).asformat(kind)
    check(a, vector(36))
    check(a, vector(36))  # what was found before is used again


def test_vectors_of_any_strides() -> None:
    a, x = matrix(24, 36), vector(72)
    check(a, x[::2])
    check(a, x[:36][::-1])
    assert spmv(a, x[:36].tolist()).dtype == "float64"


def test_results_into_arrays_that_are_there() -> None:
    a, x = matrix(53, 36), vector(36)
    memory = np.full(60, np.nan, "float32")
    assert spmv(a, x, memory[1:54]).base is memory
    check(a, x, memory[1:54])
    assert np.isnan(memory[[0, *range(54, 60)]]).all()


def test_not_a_number_and_infinity() -> None:
    a = sp.csr_array(np.array([[1, 0, 0], [0, 2, 0], [0, 0, 0], [0, 2, 2]], "float32"))
    x = np.array([np.nan, np.inf, -np.inf], "float32")
    np.testing.assert_array_equal(spmv(a, x), [np.nan, np.inf, 0, np.nan])


def test_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    a, x = matrix(24, 36), vector(36)
    t = torch.from_numpy(a.toarray()).to_sparse_csr()
    found = spmv(t, torch.from_numpy(x))
    assert isinstance(found, torch.Tensor)
    check(a, x, found.numpy())
    out = torch.empty(24)
    assert spmv(t, torch.from_numpy(x), out) is out
    check(a, x, out.numpy())
    half = spmv(t.bfloat16(), torch.from_numpy(x).bfloat16())
    assert half.dtype == torch.bfloat16


def test_misfits_are_refused() -> None:
    a, x = matrix(24, 36), vector(36)
    with pytest.raises(ShapeError, match=r"x has shape \(35,\): x must be a vector of 36 elements"):
        spmv(a, x[:35])
    with pytest.raises(ShapeError, match=r"spmm\(a, x\)"):
        spmv(a, x[:, None])
    with pytest.raises(ShapeError, match=r"spmv\(a, x\)"):
        spmm(a, x)
    with pytest.raises(ShapeError, match="no matrix"):
        spmv(sp.coo_array(x), x)
    with pytest.raises(ArgumentError, match="a is a dense numpy array"):
        spmv(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ShapeError, match=r"out has shape \(25,\)"):
        spmv(a, x, np.zeros(25, "float32"))
    with pytest.raises(DTypeError, match="out holds float64"):
        spmv(a, x, np.zeros(24))
    with pytest.raises(ArgumentError, match="row-major"):
        spmv(a, x, np.zeros(48, "float32")[::2])
    with pytest.raises(ArgumentError, match="out shares memory with x"):
        spmv(a, x, x[:24])
    with pytest.raises(ArgumentError, match="out shares memory with a"):
        spmv(a, x, a.data[:24])
    b = matrix(24, 36)
    b.indices[5] = 36
    with pytest.raises(IndexingError, match="index 36 at position 5, in row 0"):
        spmv(b, x)
