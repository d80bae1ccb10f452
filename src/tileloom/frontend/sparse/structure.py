"""What is known of the structure of sparse arrays that have been seen before.

Kernels trust index arrays, so these are checked once for each array, and what statistics say of
them is kept with it, too: which kernel is right depends on how many elements rows have. Who changes
index arrays in place after that must make a new array of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from ...sparse.arrays import Bsc, Bsr, Coo, Csr, Sparse
from ...sparse.convert import check_csr, has_sorted_indices, transpose

Array = np.ndarray[Any, Any]
Found = TypeVar("Found")

# Elements of a sample.
_SAMPLE = 1 << 14


class Structure:
    """The rows of a CSR matrix, checked.

    Attributes:
        indptr, indices, shape: as the matrix has them, of one type and without spare room.
        nnz: how many elements there are.
        plans: what operators have decided for it.
    """

    __slots__ = (
        "_is_sorted", "_lengths", "_transposed", "indices", "indptr", "nnz", "plans", "shape",
    )  # fmt: skip

    def __init__(self, indptr: Array, indices: Array, shape: tuple[int, int]) -> None:
        check_csr(indptr, indices, shape)
        self.nnz = int(indptr[-1])
        kind = np.result_type(indptr, indices)
        self.indptr = indptr.astype(kind, copy=False)
        self.indices = indices[: self.nnz].astype(kind, copy=False)
        self.shape = shape
        self.plans: dict[Any, Any] = {}
        self._is_sorted: bool | None = None
        self._lengths: Array | None = None
        self._transposed: tuple[Structure, Array] | None = None

    @property
    def is_sorted(self) -> bool:
        """Whether the columns of each row ascend."""
        if self._is_sorted is None:
            self._is_sorted = bool(has_sorted_indices(self.indptr, self.indices))
        return self._is_sorted

    @property
    def mean(self) -> float:
        """Elements of a row, on average."""
        return self.nnz / max(1, self.shape[0])

    @property
    def lengths(self) -> Array:
        """The elements of each row."""
        if self._lengths is None:
            self._lengths = np.diff(self.indptr)
        return self._lengths

    @property
    def transposed(self) -> tuple[Structure, Array]:
        """The structure by columns, and for each of its elements which one it is by rows."""
        if self._transposed is None:
            found = transpose(self.indptr, self.indices, self.shape)
            structure = Structure(found.indptr, found.indices, self.shape[::-1])
            self._transposed = structure, found.source
        return self._transposed

    def share_near(self, reach: int) -> float:
        """The share of all elements that are at most so many columns off the diagonal, about."""
        places = np.linspace(0, self.nnz - 1, min(self.nnz, _SAMPLE)).astype(np.int64)
        if not len(places):
            return 1.0
        rows = np.searchsorted(self.indptr, places, side="right") - 1
        middle = rows * (self.shape[1] / self.shape[0])
        return float(np.mean(np.abs(self.indices[places] - middle) <= reach))

    def rows_from(self, length: int) -> int:
        """How many rows have at least so many elements."""
        return int(np.count_nonzero(self.lengths >= length))

    def share_of_rows_from(self, length: int) -> float:
        """The share of all elements that is in rows of at least so many."""
        return float(self.lengths[self.lengths >= length].sum()) / max(1, self.nnz)


#: By the identity of what callers gave: a reference to it, its index arrays when it was seen, and
#: what was found, by what for.
KNOWN: dict[int, tuple[Any, tuple[Any, ...], dict[Any, Any]]] = {}
_ROWS = "rows"


def structure_of(array: Any, view: Csr) -> Structure:
    """The structure of a CSR matrix, checked when it is seen for the first time.

    Args:
        array: what the caller gave.
        view: its parts.

    Raises:
        ArgumentError: the index arrays contradict themselves.
    """
    known = KNOWN.get(id(array))
    if known is not None and known[0]() is array:
        indptr, indices, shape = known[1]
        if indptr is view.indptr and indices is view.indices and shape == view.shape:
            kept: Structure | None = known[2].get(_ROWS)
            if kept is not None:
                return kept
    return remembered(array, view, lambda: Structure(view.indptr, view.indices, view.shape))


def remembered(array: Any, view: Sparse, find: Callable[[], Found], purpose: str = _ROWS) -> Found:
    """What is found for an array, looked for once as long as it lives and its indices stay.

    Args:
        array: what the caller gave.
        view: its parts.
        find: looks for it.
        purpose: tells several things from each other that are found for an array.
    """
    key, parts = id(array), _index_parts(view)
    known = KNOWN.get(key)
    if known is not None and known[0]() is array and all(map(_is_same, known[1], parts)):
        kept: Found | None = known[2].get(purpose)
        if kept is not None:
            return kept
        known[2][purpose] = found = find()
        return found
    found = find()
    with suppress(TypeError):  # what cannot be referred to weakly is looked at each time
        KNOWN[key] = (weakref.ref(array, _forget(key)), parts, {purpose: found})
    return found


def _index_parts(view: Sparse) -> tuple[Any, ...]:
    if isinstance(view, Coo):
        return (*view.coords, view.shape)
    if isinstance(view, Bsr | Bsc):
        return (view.indptr, view.indices, view.shape, view.data.shape)
    return (view.indptr, view.indices, view.shape)


def _is_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if not isinstance(old, np.ndarray):
        return _is_same_tensor(old, new) if hasattr(old, "data_ptr") else bool(old == new)
    if old.shape != new.shape or old.dtype != new.dtype or old.strides != new.strides:
        return False
    return bool(old.ctypes.data == new.ctypes.data)


def _is_same_tensor(old: Any, new: Any) -> bool:
    """Whether tensors in a GPU's memory are one: nothing is read there."""
    if old.shape != new.shape or old.dtype != new.dtype or old.stride() != new.stride():
        return False
    return bool(old.device == new.device and old.data_ptr() == new.data_ptr())


def _forget(key: int) -> Callable[[Any], None]:
    return lambda _gone: KNOWN.pop(key, None) and None
