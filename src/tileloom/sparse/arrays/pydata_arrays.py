"""Arrays of pydata/sparse: their parts, and results of their classes.

The package is never imported here: whoever has one of its arrays has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...base.errors import UnsupportedError
from .formats import Coo, Csc, Csr, Gcxs, Sparse
from .parts import INDEX_TYPES, as_index, plain

__all__ = ["dense_like", "dense_reader", "reader", "with_values", "wrap"]

_new = tuple.__new__


def reader(base: type) -> Callable[[Any, str], Sparse] | None:
    """How an array is read whose class is, or is derived from, this class of the package."""
    return {"COO": _coo, "GCXS": _gcxs, "DOK": _dok}.get(base.__name__)


def _refuse_fill_value(array: Any, what: str) -> None:
    if array.fill_value != 0:
        raise UnsupportedError(
            f"{what} has the fill value {array.fill_value}; what is not stored is zero here",
            hint=f"compute with {what} - {what}.fill_value, of which the fill value is zero",
        )


def _coo(array: Any, what: str) -> Sparse:
    _refuse_fill_value(array, what)
    coords, data = array.coords, array.data
    if not data.flags.c_contiguous or coords.dtype not in INDEX_TYPES:
        coords = [as_index(axis, f"{what}.coords", strided=True) for axis in coords]
        data = plain(data, f"{what}.data")
    view: Coo = _new(Coo, (tuple(coords), data, array.shape, True))
    return view


def _gcxs(array: Any, what: str) -> Sparse:
    _refuse_fill_value(array, what)
    shape, data = array.shape, plain(array.data, f"{what}.data")
    indptr = as_index(array.indptr, f"{what}.indptr")
    indices = as_index(array.indices, f"{what}.indices")
    if len(shape) < 2:
        return Coo([indices] * len(shape), data, shape)
    axes = tuple([int(axis) for axis in array.compressed_axes])
    if len(shape) > 2:
        return Gcxs(indptr, indices, data, shape, axes)
    made: type[Csr] | type[Csc] = Csr if axes[0] == 0 else Csc
    view: Sparse = _new(made, (indptr, indices, data, shape))
    return view


def _dok(array: Any, what: str) -> Sparse:
    """By way of the package's own conversion, which makes new arrays."""
    return _coo(array.to_coo(), what)


def dense_reader(base: type) -> None:
    """There are no dense arrays of the package's own."""


def wrap(view: Sparse, like: Any) -> Any:
    """A `COO` for coordinates, which it puts in order, and a `GCXS` for what is compressed."""
    package = sys.modules["sparse"]
    if isinstance(view, Coo):
        known = {"has_duplicates": not view.is_canonical, "sorted": view.is_canonical}
        return package.COO(view.stacked, view.data, shape=view.shape, **known)
    axes = view.compressed_axes if isinstance(view, Gcxs) else (getattr(view, "axis", None),)
    if view.format not in ("csr", "csc", "gcxs"):
        raise UnsupportedError(f"pydata/sparse has no class for {view.format}, as {view!r} is")
    parts = (view.data, view.indices, view.indptr)
    return package.GCXS(parts, shape=view.shape, compressed_axes=axes)


def with_values(data: Any, like: Any) -> Any:
    """The entries of `like` with other values."""
    if reader(type(like)) is _dok:
        like = like.to_coo()
    if hasattr(like, "coords"):
        ordered = {"has_duplicates": False, "sorted": True}
        return type(like)(like.coords, data, shape=like.shape, **ordered)
    parts = (data, like.indices, like.indptr)
    return type(like)(parts, shape=like.shape, compressed_axes=like.compressed_axes)


def dense_like(array: Any, like: Any) -> Any:
    """Dense arrays of the package are NumPy's."""
    return array
