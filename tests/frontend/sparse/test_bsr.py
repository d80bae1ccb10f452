"""Block-sparse times dense, against NumPy in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from sampling import sampled
from tileloom.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tileloom.frontend.sparse import bsr
from tileloom.frontend.sparse.rows import compressed_rows
from tileloom.sparse import explain_spmm, spmm
from tileloom.sparse.arrays import Bsc, Bsr

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def blocks(
    m: int, n: int, block: tuple[int, int], density: float = 0.3, dtype: str = "float32",
    index: str = "int32",
) -> Bsr:  # fmt: skip
    """m by n blocks."""
    rng = np.random.default_rng(m + n)
    there = sp.csr_array(rng.random((m, n)) < density)
    data = (rng.standard_normal((there.nnz, *block)) * 5).astype(dtype)
    indptr, indices = there.indptr.astype(index), there.indices.astype(index)
    return Bsr(indptr, indices, data, (m * block[0], n * block[1]))


def as_dense(a: Bsr) -> Array:
    found: Array = (
        sp.bsr_array((a.data, a.indices, a.indptr), shape=a.shape).toarray().astype(float)
    )
    return found


def operand(n: int, k: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(1).standard_normal((n, k)) * 5).astype(dtype)


def check(a: Bsr, x: Any, found: Any = None, rtol: float = 1e-5, atol: float = 1e-3) -> None:
    found = spmm(a, x) if found is None else found
    wanted = as_dense(a) @ np.asarray(x, float)
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("block", [(32, 32), (16, 16), (4, 4), (1, 4), (3, 5), (2, 1), (7, 13)])
def test_shapes_of_blocks(block: tuple[int, int]) -> None:
    a = blocks(6, 5, block)
    check(a, operand(a.shape[1], 70))


@pytest.mark.parametrize("k", [0, 1, *sampled([3, 2, 21, 16, 130, 48, 64], 2)])
def test_numbers_of_columns(k: int) -> None:
    a = blocks(5, 4, (6, 4))
    check(a, operand(a.shape[1], k))


@pytest.mark.parametrize(
    ("dtype", "bytes_of_vectors"),
    sampled(product(["float32", "float64"], [16, 32, 64]), 2, several=True),
)
def test_vectors(dtype: str, bytes_of_vectors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bsr, "vector_bytes", lambda: bytes_of_vectors)
    a = blocks(5, 4, (9, 8), dtype=dtype)
    check(a, operand(a.shape[1], 37, dtype))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_types(dtype: str, index: str) -> None:
    a = blocks(6, 5, (4, 3), dtype=dtype, index=index)
    x = operand(a.shape[1], 20, dtype)
    found = spmm(a, x)
    assert found.dtype == dtype
    wanted = sp.bsr_array((a.data, a.indices, a.indptr), shape=a.shape).toarray() @ x
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 if dtype[0] == "f" else 0)


def test_types_are_promoted_as_numpy_has_it() -> None:
    a = blocks(6, 5, (4, 3))
    x = operand(a.shape[1], 20, "float64")
    assert spmm(a, x).dtype == "float64"
    check(a, x)
    short = a._replace(data=a.data.astype("float16"))
    x = x.astype("float16")
    out = np.zeros((a.shape[0], 20), "float16")
    assert spmm(short, x, out) is out
    check(a, x, out, rtol=1e-2, atol=0.3)
    with pytest.raises(DTypeError, match="out holds float32, the result is float16"):
        spmm(short, x, np.zeros((a.shape[0], 20), "float32"))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 9), (9, 1)])
def test_few_blocks(shape: tuple[int, int]) -> None:
    a = blocks(*shape, (4, 4), density=0.6)
    check(a, operand(a.shape[1], 33))


def test_rows_without_blocks_unsorted_and_twice() -> None:
    indptr, indices = np.array([0, 0, 4, 4, 6]), np.array([3, 0, 3, 1, 2, 2])
    a = Bsr(indptr, indices, operand(6, 12).reshape(6, 4, 3), (16, 12))
    found = spmm(a, operand(12, 40))
    wanted = np.zeros((16, 12))
    for i in range(4):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            wanted[i * 4 : i * 4 + 4, j * 3 : j * 3 + 3] += a.data[p]
    np.testing.assert_allclose(found, wanted @ operand(12, 40), rtol=1e-4, atol=1e-3)


def test_no_blocks_at_all() -> None:
    a = blocks(4, 3, (5, 5), density=0)
    assert not spmm(a, operand(15, 20)).any()


@pytest.mark.parametrize("m", [40, 2])
def test_in_parallel(m: int) -> None:
    a = blocks(m, 20, (16, 16), density=0.5)
    check(a, operand(a.shape[1], 150), atol=1e-2)
    many, few = (blocks(rows, 30, (16, 16), density=0.9) for rows in (40, 1))
    plans = [
        bsr.planned(bsr.block_rows(each, each)[0], (16, 16), 512, np.dtype("float32"))
        for each in (many, few)
    ]
    assert plans[0].units > plans[0].cuts == 1
    assert plans[1].cuts > plans[1].units == 1


def test_rows_of_very_different_length() -> None:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.zipf(1.5, 60), 50)
    indices = np.concatenate([rng.permutation(50)[:length] for length in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    a = Bsr(indptr, indices, operand(len(indices), 64).reshape(-1, 8, 8), (480, 400))
    check(a, operand(400, 96), atol=1e-2)


def test_what_is_read_of_scipy_is_not_copied_and_may_change() -> None:
    parts = blocks(6, 5, (4, 3))
    a = sp.bsr_array((parts.data, parts.indices, parts.indptr), shape=parts.shape)
    x = operand(15, 24)
    check(parts, x, spmm(a, x))
    parts.data[...] *= 2
    check(parts, x, spmm(a, x))
    np.testing.assert_allclose(spmm(a.T.tobsr(), operand(24, 3)), a.T @ operand(24, 3), rtol=1e-4)


def test_blocks_by_columns() -> None:
    a = blocks(5, 6, (4, 3))
    by_columns = sp.csr_array((np.arange(len(a.indices)), a.indices, a.indptr)).tocsc()
    b = Bsc(by_columns.indptr, by_columns.indices, a.data[by_columns.data], a.shape)
    for _ in range(2):
        check(a, operand(18, 20), spmm(b, operand(18, 20)))


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    a = blocks(6, 5, (4, 4))
    parts = map(torch.from_numpy, (a.indptr, a.indices, a.data))
    tensor = torch.sparse_bsr_tensor(*parts, a.shape)
    x = torch.from_numpy(operand(20, 17))
    found = spmm(tensor, x)
    assert isinstance(found, torch.Tensor)
    check(a, x, found)


def test_results_into_arrays_that_are_there() -> None:
    a = blocks(6, 5, (4, 4))
    x = operand(20, 32)
    out = np.full((24, 32), np.nan, "float32")
    assert spmm(a, x, out) is out
    check(a, x, out)
    with pytest.raises(ShapeError, match=r"out has shape \(24, 31\), the result has \(24, 32\)"):
        spmm(a, x, np.zeros((24, 31), "float32"))
    with pytest.raises(ArgumentError, match="out shares memory with x"):
        spmm(blocks(5, 5, (4, 4)), x, x)


def test_what_does_not_fit_is_refused() -> None:
    a = blocks(6, 5, (4, 4))
    with pytest.raises(ShapeError, match="x must be a matrix of 20 rows"):
        spmm(a, operand(24, 8))
    with pytest.raises(IndexingError, match="index 5 at position 0, in row 0, is out of range"):
        spmm(a._replace(indices=a.indices + 5 - a.indices[0]), operand(20, 8))


def test_plans_say_what_they_do() -> None:
    said = explain_spmm(blocks(6, 5, (4, 4)), 64)
    assert said.startswith("blocks: 4 x 4, in tiles of 4 rows and ")
    assert explain_spmm(blocks(6, 5, (1, 4)), 64).startswith("rows: ")


def test_elements_and_blocks_of_an_array_are_kept_apart() -> None:
    a = blocks(6, 5, (4, 4))
    check(a, operand(20, 8))
    structure, values = compressed_rows(a, a, "a")
    assert structure.nnz == values.size == a.nnz
    check(a, operand(20, 8))


@pytest.mark.slow
@pytest.mark.parametrize("height", range(1, 34))
def test_heights(height: int) -> None:
    rng = np.random.default_rng(height)
    for width in rng.integers(1, 40, 3):
        k = int(rng.integers(1, 200))
        a = blocks(7, 6, (height, int(width)))
        check(a, operand(a.shape[1], k), atol=1e-2)
