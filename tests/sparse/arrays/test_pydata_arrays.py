"""Arrays of pydata/sparse: memory is shared, results are of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.sparse.arrays import (
    Bsr,
    Coo,
    Csc,
    Csr,
    Gcxs,
    dense,
    dense_like,
    view,
    with_values,
    wrap,
)

sparse = pytest.importorskip("sparse")
if not hasattr(sparse, "COO"):  # without the package, that is this folder's parent
    pytest.skip("pydata/sparse is not installed", allow_module_level=True)

MATRIX = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 5, 6], [7, 0, 0, 0]])
CUBE = np.where(np.arange(24) % 3 == 1, np.arange(24), 0).reshape(2, 3, 4)
VALUE_TYPES = ["int8", "uint16", "int64", "bool", "float32", "float64", "complex64"]


@pytest.mark.parametrize("array", [MATRIX, CUBE, CUBE[0, 0], CUBE[:1, None]], ids=lambda a: a.shape)
def test_coordinates(array: Any) -> None:
    for values in VALUE_TYPES:
        a = sparse.COO.from_numpy(array.astype(values))
        v: Any = view(a)
        assert type(v) is Coo and v.is_canonical and v.data is a.data and v.shape == a.shape
        assert all(np.shares_memory(axis, a.coords) for axis in v.coords)
        back = wrap(v, like=a)
        assert type(back) is type(a) and back.data is a.data
        assert np.shares_memory(back.coords, a.coords)
        np.testing.assert_array_equal(back.todense(), a.todense())
        if values != "bool":
            other = with_values(v.data * 2, like=a)
            np.testing.assert_array_equal(other.todense(), 2 * a.todense())
            assert np.shares_memory(other.coords, a.coords)


@pytest.mark.parametrize(
    ("array", "axes", "format"),
    [
        (MATRIX, [0], Csr),
        (MATRIX, [1], Csc),
        (CUBE, [0], Gcxs),
        (CUBE, [2], Gcxs),
        (CUBE, [0, 2], Gcxs),
        (CUBE[0, 0], None, Coo),
    ],
)
def test_compressed_arrays(array: Any, axes: Any, format: Any) -> None:
    a = sparse.GCXS.from_numpy(array.astype("float32"), compressed_axes=axes)
    v: Any = view(a)
    assert type(v) is format and v.shape == a.shape and v.data is a.data
    if format is Coo:
        assert v.coords[0] is a.indices
    else:
        assert v.indptr is a.indptr and v.indices is a.indices
        back = wrap(v, like=a)
        assert type(back) is type(a) and back.compressed_axes == a.compressed_axes
        assert back.indices is a.indices
    np.testing.assert_array_equal(wrap(v, like=a).todense(), array)
    other = with_values(v.data * 2, like=a)
    assert type(other) is type(a) and other.indices is a.indices
    np.testing.assert_array_equal(other.todense(), 2 * array)
    np.testing.assert_array_equal(a.todense(), array)


def test_the_matrix_of_a_compressed_array() -> None:
    """Rows are what is compressed, columns the other axes, both in row-major order."""
    a = sparse.GCXS.from_numpy(CUBE, compressed_axes=[0, 2])
    v: Any = view(a)
    m = v.matrix
    dense = np.zeros(m.shape)
    rows = np.repeat(np.arange(m.shape[0]), np.diff(m.indptr))
    dense[rows, m.indices] = m.data
    np.testing.assert_array_equal(dense, CUBE.transpose(0, 2, 1).reshape(8, 3))


def test_types_of_indices() -> None:
    for indices, kept in (("int32", "int32"), ("int64", "int64"), ("uint8", "int64")):
        a = sparse.COO.from_numpy(MATRIX, idx_dtype=np.dtype(indices))
        assert a.coords.dtype == indices
        assert {axis.dtype.name for axis in view(a).coords} == {kept}  # type: ignore[union-attr]
        b = sparse.GCXS.from_coo(a, idx_dtype=np.dtype(indices))
        assert view(b).indices.dtype == kept  # type: ignore[union-attr]


def test_what_the_package_itself_converts() -> None:
    a = sparse.DOK.from_numpy(MATRIX.astype("float32"))
    v: Any = view(a)
    assert type(v) is Coo and type(wrap(v, like=a)) is sparse.COO
    np.testing.assert_array_equal(wrap(v, like=a).todense(), MATRIX)
    np.testing.assert_array_equal(with_values(v.data * 2, like=a).todense(), 2 * MATRIX)


def test_coordinates_in_any_order_are_put_in_order() -> None:
    loose = Coo(([1, 0, 1], [0, 2, 0]), [1.0, 2.0, 3.0], (2, 3))
    made = wrap(loose, like=sparse.COO.from_numpy(MATRIX))
    assert made.nnz == 2 and made.todense().tolist() == [[0, 0, 2], [4, 0, 0]]


def test_what_is_refused() -> None:
    ones = sparse.COO.from_numpy(MATRIX, fill_value=np.int64(1))
    with pytest.raises(
        UnsupportedError, match="a has the fill value 1; what is not stored is zero"
    ):
        view(ones, what="a")
    assert view(ones - ones.fill_value).nnz  # the hint
    with pytest.raises(UnsupportedError, match="fill value"):
        view(sparse.GCXS.from_coo(ones))
    blocks = Bsr([0, 1], [0], np.ones((1, 2, 2)), (2, 2))
    with pytest.raises(UnsupportedError, match="pydata/sparse has no class for bsr"):
        wrap(blocks, like=ones)
    with pytest.raises(ArgumentError, match="b is a pydata/sparse COO; a dense array is meant"):
        dense(ones, what="b")


def test_dense_results_are_numpys() -> None:
    assert dense_like(MATRIX, like=sparse.COO.from_numpy(MATRIX)) is MATRIX
