"""SciPy's sparse arrays and matrices: their parts, and results of their classes.

SciPy is never imported here: whoever has one of its arrays has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...base.errors import ShapeError, UnsupportedError
from .formats import Bsr, Coo, Csc, Csr, Sparse
from .parts import plain

__all__ = ["dense_like", "dense_reader", "reader", "with_values", "wrap"]

_new = tuple.__new__
_ndarray = np.ndarray
_Reader = Callable[[Any, str], Sparse]
_Class = type[Csr] | type[Csc] | type[Bsr]


def reader(base: type) -> _Reader | None:
    """How an array is read whose class is, or is derived from, this class of SciPy's."""
    name = base.__name__.removesuffix("_array").removesuffix("_matrix")
    return _READERS.get(name)


def _compressed(made: _Class) -> _Reader:
    def read(array: Any, what: str) -> Sparse:
        indptr, indices, data, shape = array.indptr, array.indices, array.data, array.shape
        if (
            data.flags.c_contiguous
            and indices.flags.c_contiguous
            and indptr.flags.c_contiguous
            and type(data) is _ndarray
            and len(shape) == 2
        ):
            view: Sparse = _new(made, (indptr, indices, data, shape))
            return view
        return _unusual(made, array, what)

    return read


def _unusual(made: _Class, array: Any, what: str) -> Sparse:
    """A vector, or a matrix with parts that are no plain arrays."""
    names = ("indptr", "indices", "data")
    indptr, indices, data = (plain(getattr(array, n), f"{what}.{n}") for n in names)
    if len(array.shape) == 1:  # a `csr_array` may be one
        count = int(indptr[-1])
        return Coo((indices[:count],), data[:count], array.shape)
    return made(indptr, indices, data, array.shape)


def _coo(array: Any, what: str) -> Sparse:
    coords, data = array.coords, array.data
    if type(data) is not _ndarray or not data.flags.c_contiguous:
        data = plain(data, f"{what}.data")
    # SciPy's `has_canonical_format` says that there are no duplicates, and nothing of their order.
    view: Coo = _new(Coo, (tuple(coords), data, array.shape, False))
    return view


def _converted(array: Any, what: str) -> Sparse:
    """By way of SciPy's own conversion, which makes new arrays."""
    return _csr(array.tocsr(), what)


_csr = _compressed(Csr)
_READERS: dict[str, _Reader] = {
    "csr": _csr,
    "csc": _compressed(Csc),
    "bsr": _compressed(Bsr),
    "coo": _coo,
    **dict.fromkeys(("dia", "lil", "dok"), _converted),
}


def dense_reader(base: type) -> None:
    """There are no dense arrays of SciPy's own."""


def wrap(view: Sparse, like: Any) -> Any:
    """A `*_array` or `*_matrix` of the format of the view."""
    scipy = sys.modules["scipy.sparse"]
    if view.format not in ("csr", "csc", "bsr", "coo"):
        raise UnsupportedError(f"SciPy has no class for {view.format}, as {view!r} is stored")
    is_array = isinstance(like, scipy.sparray) or len(view.shape) != 2
    kind = getattr(scipy, f"{view.format}_{'array' if is_array else 'matrix'}")
    # Its constructor would look at all indices for a narrower type, and copy them into it.
    made = kind.__new__(kind)
    fields = made.__dict__
    fields.update(_blank(kind), _shape=view.shape)
    if made.shape != view.shape:  # this SciPy keeps the shape elsewhere
        made = kind(view.shape)
    made.data = view.data
    if isinstance(view, Coo):
        made.coords = view.coords
        made.has_canonical_format = view.is_canonical
    else:
        made.indptr, made.indices = view.indptr, view.indices
    return made


@cache
def _blank(kind: Any) -> dict[str, Any]:
    """The attributes of an empty array of this class: making one takes ten microseconds."""
    empty: dict[str, Any] = vars(kind((1, 1)))
    return empty


def with_values(data: Any, like: Any) -> Any:
    """A shallow copy with other values: what SciPy knows of the indices stays known."""
    if like.format not in ("csr", "csc", "bsr", "coo"):
        return wrap(_converted(like, "like")._replace(data=data), like)
    if data.shape != like.data.shape:
        raise ShapeError(f"values of shape {data.shape} for indices of {like.data.shape}")
    kind: Any = type(like)
    made = kind.__new__(kind)
    made.__dict__.update(like.__dict__)
    made.data = data
    return made


def dense_like(array: Any, like: Any) -> Any:
    """SciPy's dense arrays are NumPy's."""
    return array
