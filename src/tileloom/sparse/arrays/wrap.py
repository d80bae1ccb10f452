"""Results of the caller's own kind, over the memory of plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .formats import Sparse
from .libraries import Library, library_of
from .refusals import not_sparse

__all__ = ["dense_like", "with_values", "wrap"]

_KNOWN: dict[type, Library | None] = {}


def _library(kind: type) -> Library | None:
    try:
        return _KNOWN[kind]
    except KeyError:
        return _KNOWN.setdefault(kind, library_of(kind))


def wrap(view: Sparse, like: Any) -> Any:
    """A sparse array of the library of another, over the memory of a view.

    The format stays that of the view; `like` says the library, and of SciPy whether it is a
    `*_array` or a `*_matrix`.

    Args:
        view: what the result is made of.
        like: the sparse array that the caller gave.

    Raises:
        ArgumentError: `like` is no sparse array.
        UnsupportedError: the library has no class for the format.

    >>> import scipy.sparse
    >>> from tileloom.sparse.arrays import Csr
    >>> parts = np.array([0, 1, 2]), np.array([1, 0]), np.array([1.0, 2.0])
    >>> a = wrap(Csr(*parts, (2, 2)), like=scipy.sparse.eye_array(2))
    >>> type(a).__name__, a.data is parts[2]
    ('csr_array', True)
    """
    library = _library(type(like))
    if library is None:
        raise not_sparse(like, "like")
    return library.wrap(view, like)


def with_values(data: Any, like: Any) -> Any:
    """A sparse array with the indices of another, which it shares, and other values.

    What reorders the indices of one of them in place (SciPy's `sort_indices`) does so for both.

    Args:
        data: values, in the order and the shape in which `view` gives those of `like`.
        like: the sparse array that the caller gave.

    >>> import scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> b = with_values(np.array([5.0, 6.0]), like=a)
    >>> b.toarray().tolist(), b.indices is a.indices
    ([[0.0, 5.0], [6.0, 0.0]], True)
    """
    library = _library(type(like))
    if library is None:
        raise not_sparse(like, "like")
    return library.with_values(data, like)


def dense_like(array: Any, like: Any) -> Any:
    """A dense result as the caller's library has them: a tensor for PyTorch, or else the array.

    Args:
        array: a NumPy array, or a tensor on a GPU.
        like: an array that the caller gave, sparse or dense.

    >>> x = np.zeros(3)
    >>> dense_like(x, like=[1, 2]) is x
    True
    """
    if type(like) is _ndarray:
        return array
    library = _library(type(like))
    return array if library is None else library.dense_like(array, like)


_ndarray = np.ndarray
