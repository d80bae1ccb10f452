"""SciPy's arrays and matrices: memory is shared, results are of their classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, ShapeError, UnsupportedError
from tileloom.sparse.arrays import (
    Bsc,
    Bsr,
    Coo,
    Csc,
    Csr,
    Gcxs,
    dense_like,
    view,
    with_values,
    wrap,
)

sp = pytest.importorskip("scipy.sparse")

DENSE = np.array(
    [[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 5, 6], [7, 0, 0, 0], [0, 0, 0, 8]]
)
VALUE_TYPES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
INDEXED = {"csr": Csr, "csc": Csc, "bsr": Bsr}
CLASSES = [f"{name}_{family}" for name in (*INDEXED, "coo") for family in ("array", "matrix")]


def example(name: str, values: str = "float32", indices: str = "int32") -> Any:
    """The matrix `DENSE` of a class, with indices of a type, which SciPy would narrow."""
    blocks = {"blocksize": (2, 2)} if name.startswith("bsr") else {}
    a = getattr(sp, name)(DENSE.astype(values), **blocks)
    if a.format == "coo":
        a.coords = tuple(axis.astype(indices) for axis in a.coords)
    else:
        a.indptr, a.indices = a.indptr.astype(indices), a.indices.astype(indices)
    return a


@pytest.mark.parametrize("indices", ["int32", "int64"])
@pytest.mark.parametrize("name", CLASSES)
def test_parts_are_those_of_the_array(name: str, indices: str) -> None:
    for values in VALUE_TYPES:
        a = example(name, values, indices)
        v: Any = view(a)
        assert v.data is a.data and v.data.dtype == values and v.shape == (6, 4)
        if a.format == "coo":
            assert type(v) is Coo and not v.is_canonical
            assert all(mine is theirs for mine, theirs in zip(v.coords, a.coords, strict=True))
        else:
            assert type(v) is INDEXED[a.format]
            assert v.indptr is a.indptr and v.indices is a.indices and v.indices.dtype == indices
            assert v.nnz == a.nnz


@pytest.mark.parametrize("indices", ["int32", "int64"])
@pytest.mark.parametrize("name", CLASSES)
def test_results_share_memory_and_are_of_the_class(name: str, indices: str) -> None:
    a = example(name, indices=indices)
    v: Any = view(a)
    back = wrap(v, like=a)
    assert type(back) is type(a) and back.shape == a.shape and back.data is a.data
    parts = ("coords",) if a.format == "coo" else ("indptr", "indices")
    assert all(getattr(back, part) is getattr(a, part) for part in parts)
    np.testing.assert_array_equal(back.toarray(), DENSE)
    np.testing.assert_array_equal(back @ np.eye(4, dtype="float32"), DENSE)
    np.testing.assert_array_equal((back + back.T.T).toarray(), 2 * DENSE)
    back.sum_duplicates()
    assert back.copy().shape == a.shape and back.tocsr()[:2].shape == (2, 4)


@pytest.mark.parametrize("name", CLASSES)
def test_a_result_of_another_shape(name: str) -> None:
    """What is made before knows nothing of what is made after."""
    a = example(name)
    other = Csr([0, 1, 1, 2], [4, 0], np.array([5, 6], "float32"), (3, 5))
    made = wrap(other, like=a)
    assert type(made).__name__ == f"csr_{name[4:]}"
    assert made.toarray().tolist() == [[0, 0, 0, 0, 5], [0] * 5, [6, 0, 0, 0, 0]]
    assert made.has_sorted_indices and made.nnz == 2
    unsorted = wrap(Csr([0, 2], [1, 0], np.array([1, 2], "float32"), (1, 2)), like=a)
    assert not unsorted.has_sorted_indices
    assert wrap(Csr([0], [], np.zeros(0), (0, 3)), like=a).toarray().shape == (0, 3)


@pytest.mark.parametrize("name", CLASSES)
def test_other_values_for_the_same_indices(name: str) -> None:
    a = example(name)
    if a.format != "coo":
        a.has_sorted_indices  # noqa: B018  # SciPy looks, and remembers
    values = (view(a).data * 2).astype("float64")
    b = with_values(values, like=a)
    assert type(b) is type(a) and b.data is values and b.dtype == np.float64
    np.testing.assert_array_equal(b.toarray(), 2 * DENSE)
    np.testing.assert_array_equal(a.toarray(), DENSE)
    if a.format == "coo":
        assert b.coords is a.coords and b.has_canonical_format == a.has_canonical_format
    else:
        assert b.indices is a.indices and b.indptr is a.indptr
        assert vars(b)["_has_sorted_indices"] is a.has_sorted_indices
    with pytest.raises(ShapeError):
        with_values(values[:1], like=a)


@pytest.mark.parametrize("name", ["dia", "lil", "dok"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_what_scipy_itself_converts(name: str, family: str) -> None:
    a = example(f"csr_{family}").asformat(name)
    v: Any = view(a)
    assert type(v) is Csr
    assert type(wrap(v, like=a)).__name__ == f"csr_{family}"
    np.testing.assert_array_equal(wrap(v, like=a).toarray(), DENSE)
    np.testing.assert_array_equal(with_values(v.data * 2, like=a).toarray(), 2 * DENSE)


def test_coordinates_of_any_rank() -> None:
    dense = np.zeros((2, 3, 4))
    dense[1, 2, 3], dense[0, 1, 0] = 5, 6
    a = sp.coo_array(dense)
    v: Any = view(a)
    assert len(v.coords) == 3 and v.shape == (2, 3, 4)
    np.testing.assert_array_equal(wrap(v, like=a).toarray(), dense)
    vector = sp.coo_array(dense[1, 2])
    np.testing.assert_array_equal(wrap(view(vector), like=vector).toarray(), dense[1, 2])


def test_a_vector_by_compressed_rows() -> None:
    a = sp.csr_array(np.array([0.0, 3.0, 0.0, 4.0]))
    v: Any = view(a)
    assert type(v) is Coo and v.shape == (4,) and v.coords[0].tolist() == [1, 3]
    assert np.shares_memory(v.coords[0], a.indices) and np.shares_memory(v.data, a.data)
    np.testing.assert_array_equal(wrap(v, like=a).toarray(), a.toarray())


def test_room_that_is_not_used() -> None:
    a = sp.csr_array((3, 3), dtype="float32")
    a.indices, a.data = np.full(5, 99), np.ones(5, np.float32)
    assert view(a).nnz == 0
    b = sp.csr_array(np.array([0.0, 3.0]))
    b.indices, b.data = np.append(b.indices, 99), np.append(b.data, 5)
    v: Any = view(b)
    assert v.nnz == 1 and v.coords[0].tolist() == [1]


@pytest.mark.parametrize("is_canonical", [False, True])
def test_what_is_known_of_coordinates(is_canonical: bool) -> None:
    a = Coo(([0, 1], [1, 0]), [1.0, 2.0], (2, 2), is_canonical)
    assert wrap(a, like=example("coo_array")).has_canonical_format is is_canonical


def test_subclasses_and_read_only_and_mapped_memory(tmp_path: Path) -> None:
    class Mine(sp.csr_array):  # type: ignore[misc, name-defined]
        pass

    a = Mine(DENSE.astype("float32"))
    a.data.flags.writeable = False
    v = view(a)
    assert type(v) is Csr and v.data is a.data
    assert type(with_values(v.data, like=a)) is Mine
    assert type(wrap(v, like=a)) is sp.csr_array
    np.save(tmp_path / "data.npy", a.data)
    a.data = np.load(tmp_path / "data.npy", mmap_mode="r")
    assert type(view(a).data) is np.ndarray and np.shares_memory(view(a).data, a.data)


@pytest.mark.parametrize("name", CLASSES)
def test_masked_and_strided_parts_are_refused(name: str) -> None:
    for change, text in ((np.ma.array, "x.data is a masked array"), (strided, "x.data is strided")):
        a = example(name)
        a.data = change(a.data)
        with pytest.raises(ArgumentError, match=text):
            view(a)
    a = example(name)
    a.data = strided(a.data)
    assert view(a.copy()).nnz == a.nnz  # the hint


def strided(array: Any) -> Any:
    return np.stack([array, array], -1)[..., 0]


@pytest.mark.parametrize("part", ["indptr", "indices"])
def test_strided_indices_are_refused(part: str) -> None:
    a = example("csr_array")
    setattr(a, part, strided(getattr(a, part)))
    with pytest.raises(ArgumentError, match=rf"b\.{part} is strided"):
        view(a, what="b")


def test_formats_that_scipy_has_not() -> None:
    a = example("csr_array")
    for other in (
        Bsc([0, 1], [0], np.ones((1, 2, 2)), (2, 2)),
        Gcxs([0, 1], [0], [1.0], (1, 2, 2), (0,)),
    ):
        with pytest.raises(UnsupportedError, match=f"SciPy has no class for {other.format}"):
            wrap(other, like=a)


def test_dense_results_are_numpys() -> None:
    assert dense_like(DENSE, like=example("csr_matrix")) is DENSE
