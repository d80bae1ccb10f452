"""What is known of the structure of sparse arrays that have been seen before.

Kernels trust index arrays, so these are checked once for each array, and what statistics say of
them is kept with it, too: which kernel is right depends on how many elements rows have. Who changes
index arrays in place after that must make a new array of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ...sparse.arrays import Csr
from ...sparse.convert import check_csr, has_sorted_indices

Array = np.ndarray[Any, Any]


class Structure:
    """The rows of a CSR matrix, checked.

    Attributes:
        indptr, indices, shape: as the matrix has them.
        nnz: how many elements there are.
        plans: what operators have decided for it.
    """

    __slots__ = ("_is_sorted", "_lengths", "indices", "indptr", "nnz", "plans", "shape")

    def __init__(self, indptr: Array, indices: Array, shape: tuple[int, int]) -> None:
        check_csr(indptr, indices, shape)
        self.indptr = indptr
        self.indices = indices
        self.shape = shape
        self.nnz = int(indptr[-1])
        self.plans: dict[Any, Any] = {}
        self._is_sorted: bool | None = None
        self._lengths: Array | None = None

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

    def share_of_rows_from(self, length: int) -> float:
        """The share of all elements that are in rows of at least so many."""
        if self._lengths is None:
            self._lengths = np.diff(self.indptr)
        lengths = self._lengths
        return float(lengths[lengths >= length].sum()) / max(1, self.nnz)


_KNOWN: dict[int, tuple[Any, Structure]] = {}


def structure_of(array: Any, view: Csr) -> Structure:
    """The structure of a sparse array, checked when it is seen for the first time.

    Args:
        array: what the caller gave.
        view: its parts.

    Raises:
        ArgumentError: the index arrays contradict themselves.
    """
    known = _KNOWN.get(id(array))
    if known is not None and known[0]() is array and _is_same(known[1], view):
        return known[1]
    found = Structure(view.indptr, view.indices, view.shape)
    try:
        key = id(array)
        _KNOWN[key] = (weakref.ref(array, _forget(key)), found)
    except TypeError:  # what cannot be referred to weakly is looked at each time
        pass
    return found


def _is_same(known: Structure, view: Csr) -> bool:
    if known.indices is view.indices and known.indptr is view.indptr:
        return bool(known.shape == view.shape)
    return bool(
        known.shape == view.shape
        and known.indices.ctypes.data == view.indices.ctypes.data
        and known.indptr.ctypes.data == view.indptr.ctypes.data
        and len(known.indices) == len(view.indices)
        and known.indices.dtype == view.indices.dtype
    )


def _forget(key: int) -> Callable[[Any], None]:
    return lambda _gone: _KNOWN.pop(key, None) and None
