"""The formats: what their parts must be, and what they are as objects."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UserError
from tileloom.sparse.arrays import (
    Bsc,
    Bsr,
    Coo,
    Csc,
    Csr,
    Gcxs,
    compact,
    dense_like,
    element_type,
    view,
    with_values,
    wrap,
)

INDPTR, INDICES, DATA = np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([1.0, 2.0, 3.0])
BLOCKS = np.zeros((3, 2, 5))
GRID = np.arange(12).reshape(4, 3)


def examples() -> list[Any]:
    return [
        Csr(INDPTR, INDICES, DATA, (2, 3)),
        Csc(INDPTR, INDICES, DATA, (3, 2)),
        Bsr(INDPTR, INDICES, BLOCKS, (4, 15)),
        Bsc(INDPTR, INDICES, BLOCKS, (6, 10)),
        Coo((INDICES, INDICES), DATA, (3, 3)),
        Gcxs(INDPTR, INDICES, DATA, (3, 2, 4), (1,)),
    ]


@pytest.mark.parametrize("a", examples(), ids=lambda a: a.format)
def test_parts_are_kept_as_they_are(a: Any) -> None:
    assert a.data is (BLOCKS if "bs" in a.format else DATA) and a.device == "cpu"
    assert all(type(extent) is int for extent in a.shape)
    if isinstance(a, Coo):
        assert all(axis is INDICES for axis in a.coords)
    else:
        assert a.indptr is INDPTR and a.indices is INDICES


@pytest.mark.parametrize("a", examples(), ids=lambda a: a.format)
def test_they_are_values_of_their_own(a: Any) -> None:
    same = type(a)(*a)
    assert a == a and a != same and len({a, same}) == 2
    for other in (copy.copy(a), pickle.loads(pickle.dumps(a))):
        assert type(other) is type(a) and other.shape == a.shape
        np.testing.assert_array_equal(other.data, a.data)
    with pytest.raises(AttributeError):
        a.data = None
    assert repr(a).startswith(f"{type(a).__name__}({a.shape[0]} x {a.shape[1]}")


@pytest.mark.parametrize("a", examples(), ids=lambda a: a.format)
def test_they_are_a_library_of_arrays_too(a: Any) -> None:
    other = np.ones_like(a.data)
    assert view(a) is a and wrap(a, a) is a and dense_like(DATA, a) is DATA
    b = with_values(other, a)
    assert type(b) is type(a) and b.data is other and b.shape == a.shape
    with pytest.raises(ShapeError):
        with_values(other[:1], a)


def test_stored_numbers_are_counted() -> None:
    assert [a.nnz for a in examples()] == [3, 3, 30, 30, 3, 3]


def test_a_gcxs_is_a_matrix() -> None:
    a = Gcxs(np.zeros(9, np.int32), [], np.zeros(0, np.float32), (3, 2, 4, 5), (1, 2))
    assert a.matrix.shape == (8, 15) and a.matrix.indptr is a.indptr


E = np.zeros(0, np.int64)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Csr(INDPTR, INDICES, DATA, (3, 3)), ShapeError, "has 3 entries, not 4"),
        (lambda: Csr(INDPTR, INDICES, DATA[:2], (2, 3)), ShapeError, "3 indices, but 2 entries"),
        (lambda: Csr(INDPTR, INDICES, DATA, (2, 3, 4)), ShapeError, "rank 3, not 2"),
        (lambda: Csr(INDPTR, INDICES, DATA, (-2, 3)), ShapeError, "negative extent"),
        (
            lambda: Csr(INDPTR, INDICES, DATA, cast("Any", (2.0, 3))),
            ShapeError,
            "no sequence of integers",
        ),
        (lambda: Csr(INDPTR, INDICES, BLOCKS, (2, 3)), ShapeError, "Csr.data has rank 3, not 1"),
        (lambda: Csr(INDPTR, [[0, 2, 1]], DATA, (2, 3)), ShapeError, "Csr.indices has rank 2"),
        (lambda: Csr(INDPTR * 1.0, INDICES, DATA, (2, 3)), DTypeError, "elements of float64"),
        (lambda: Csr(INDPTR, INDICES, np.ma.array(DATA), (2, 3)), ArgumentError, "mask"),
        (lambda: Csr(INDPTR, INDICES, BLOCKS[:, 0, 0], (2, 3)), ArgumentError, "is strided"),
        (lambda: Csr(INDPTR, INDICES, 3.0, (2, 3)), ArgumentError, "not an array but float"),
        (lambda: Csc(INDPTR, INDICES, DATA, (2, 3)), ShapeError, "has 3 entries, not 4"),
        (lambda: Bsr(INDPTR, INDICES, BLOCKS, (5, 15)), ShapeError, "not made of blocks"),
        (lambda: Bsr(E[:1], E, np.zeros((0, 0, 2)), (4, 4)), ShapeError, "not made of blocks"),
        (lambda: Bsc(INDPTR, INDICES, BLOCKS, (4, 15)), ShapeError, "has 3 entries, not 4"),
        (lambda: Coo((INDICES,), DATA, (3, 3)), ShapeError, "coordinates of 1 axes"),
        (lambda: Coo((INDICES[:2],), DATA, (3,)), ShapeError, "has 2 entries, but data has 3"),
        (lambda: Gcxs(INDPTR, INDICES, DATA, (3, 2, 4), (3,)), ShapeError, "compressed axes (3,)"),
        (lambda: Gcxs(INDPTR, INDICES, DATA, (2, 1, 4), (1, 0)), ShapeError, "compressed axes"),
        (lambda: Gcxs(INDPTR, INDICES, DATA, (3, 2, 4), (0,)), ShapeError, "entries, not 4"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Any, error: type[UserError], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


def test_lists_and_other_integers_become_arrays_of_int64() -> None:
    a = Csr([0, 1], np.array([3], "uint16"), [2.5], (1, 4))
    assert (a.indptr.dtype, a.indices.dtype, a.data.dtype) == (np.int64, np.int64, np.float64)
    assert Csr([0], [], [], (0, 4)).indices.dtype == np.int64


def test_coordinates_may_be_strided() -> None:
    pairs = np.array([[0, 1], [2, 0], [1, 1]])
    a = Coo(tuple(pairs.T), DATA, (3, 2))
    assert np.shares_memory(a.coords[1], pairs) and not a.coords[1].flags.c_contiguous
    assert np.shares_memory(a.stacked, pairs)
    np.testing.assert_array_equal(a.stacked, pairs.T)
    assert compact(a.coords[1]).flags.c_contiguous and compact(DATA) is DATA


@pytest.mark.parametrize(
    "rows",
    [
        (INDICES, INDICES.copy()),
        tuple(np.arange(12).reshape(4, 3)[[0, 2]]),
        (GRID[0], GRID[1], GRID[3]),
        (GRID[0], GRID.view(np.int32)[2, 1::2]),
        (np.arange(6)[:3], np.arange(6, dtype=np.int32)[3:]),
        (np.arange(6)[:3], np.arange(6)[::2]),
        (INDICES,),
    ],
)
def test_coordinates_of_any_origin_are_stacked(rows: Any) -> None:
    a = Coo(rows, DATA, (12,) * len(rows))
    np.testing.assert_array_equal(a.stacked, np.stack(rows))


def test_memory_of_several_owners_is_copied() -> None:
    a = Coo((np.arange(6)[:3], np.arange(6)[:3]), DATA, (6, 6))
    assert a.stacked.flags.owndata


def test_coordinates_of_no_axes() -> None:
    assert Coo((), [4.0], ()).stacked.shape == (0, 1)


@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "float32", "float64", "bool"])
def test_element_types_of_kernels(name: str) -> None:
    assert element_type(np.zeros(1, name)) == name


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("complex64", "complex64, and kernels have no complex numbers"),
        ("complex128", "as two arrays"),
        (">f4", "foreign byte order"),
        ("longdouble", "which kernels do not have"),
        ("M8[s]", "datetime64[s]"),
        ("O", "object"),
    ],
)
def test_element_types_that_kernels_do_not_have(kind: str, text: str) -> None:
    with pytest.raises(DTypeError) as caught:
        element_type(np.zeros(1, kind), "a.data")
    assert text in str(caught.value) and str(caught.value).startswith("a.data has elements of ")


def test_no_library_is_loaded() -> None:
    """Not by the package, and not by a look at an array that is of none of them."""
    script = (
        "import sys, numpy; from tileloom.sparse.arrays import *\n"
        "from tileloom.base.errors import UserError\n"
        "dense([1.0]); view(Csr([0, 0], [], [], (1, 1)))\n"
        "try: view(numpy.eye(2))\n"
        "except UserError: pass\n"
        "print(*{'scipy', 'torch', 'sparse'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )  # fmt: skip
    assert done.stdout.strip() == ""
