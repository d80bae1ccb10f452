"""Tileloom's own formats as a library among others: they are read and given as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import ShapeError
from .formats import Bsc, Bsr, Coo, Csc, Csr, Gcxs, Sparse

__all__ = ["dense_like", "dense_reader", "reader", "with_values", "wrap"]


def reader(base: type) -> Callable[[Any, str], Sparse] | None:
    """How one of the formats is read."""
    return _read if base in (Csr, Csc, Bsr, Bsc, Coo, Gcxs) else None


def _read(view: Sparse, what: str) -> Sparse:
    return view


def dense_reader(base: type) -> None:
    """There are no dense arrays among them."""


def wrap(view: Sparse, like: Any) -> Sparse:
    """The view itself."""
    return view


def with_values(data: Any, like: Sparse) -> Sparse:
    """The same indices with other values."""
    if data.shape != like.data.shape:
        raise ShapeError(f"values of shape {data.shape} for indices of {like.data.shape}")
    return like._replace(data=data)


def dense_like(array: Any, like: Any) -> Any:
    """NumPy's arrays, or tensors on a GPU, go with them."""
    return array
