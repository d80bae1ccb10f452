"""Sparse arrays of other libraries as plain index arrays, without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .formats import Sparse
from .libraries import found_for, reader_in
from .refusals import not_sparse

__all__ = ["view"]

_Reader = Callable[[Any, str], Sparse]


def view(array: Any, *, what: str = "x") -> Sparse:
    """The parts of a sparse array, over the memory that it has.

    ============ ====================================================== =================
    library      class or layout                                        format
    ============ ====================================================== =================
    SciPy        `csr_array`, `csc_array`, `bsr_array`, and `*_matrix`  `Csr` `Csc` `Bsr`
    SciPy        `coo_array` of any rank; `csr_array` of rank 1         `Coo`
    SciPy        `dia`, `lil`, `dok`, by its own conversion: a copy     `Csr`
    PyTorch      `sparse_csr`, `sparse_csc`, `sparse_bsr`, `sparse_bsc` `Csr` ... `Bsc`
    PyTorch      `sparse_coo`, coalesced or not                         `Coo`
    pydata       `COO`; `DOK`, by its own conversion: a copy            `Coo`
    pydata       `GCXS` of rank 2, by the axis that is compressed       `Csr` `Csc`
    pydata       `GCXS` of rank 3 and more; of rank 1                   `Gcxs`; `Coo`
    ============ ====================================================== =================

    Nothing is checked of what the indices say (see `validate`), nor whether kernels have the type
    of the elements (see `element_type`).

    Args:
        array: the array, or one of the formats, which is given back.
        what: what errors call it.

    Raises:
        ArgumentError: it is dense, or no array at all; or parts of it are masked or strided.
        UnsupportedError: batches of matrices, dense dimensions, layouts that are not in the table,
            arrays whose fill value is not zero.

    >>> import numpy as np
    >>> import scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> view(a)
    Csr(2 x 2, 2 stored, float32, cpu)
    >>> view(a).indices is a.indices
    True
    >>> view(np.eye(3), what="a")
    Traceback (most recent call last):
    tileloom.base.errors.ArgumentError: a is a dense numpy array; a sparse array is meant here
      hint: ...
    """
    kind = type(array)
    read = _READERS.get(kind) or found_for(kind, _READERS, _reader_of)
    return read(array, what)


_READERS: dict[type, _Reader] = {}


def _reader_of(base: type) -> _Reader | None:
    found: _Reader | None = _refuse if base is object else reader_in(base, "reader")
    return found


def _refuse(array: Any, what: str) -> Sparse:
    raise not_sparse(array, what)
