"""Dense operands: what memory an array stands for, and whether it needs a gradient."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import ArgumentError
from ...runtime import as_numpy
from .libraries import found_for, reader_in
from .operand import DenseOperand
from .parts import plain
from .refusals import describe, not_dense

__all__ = ["dense", "requires_grad"]

_new = tuple.__new__
_Reader = Callable[[Any, str], DenseOperand]


def dense(x: Any, *, what: str = "x") -> DenseOperand:
    """A dense array as an operand, without a copy.

    NumPy arrays of any strides, PyTorch tensors, whatever speaks DLPack, the array interface or
    `__array__`; lists, tuples and numbers become new arrays.

    Args:
        x: the array.
        what: what errors call it.

    Raises:
        ArgumentError: it is sparse, masked, or no array.

    >>> x = np.zeros((3, 4), np.float32)
    >>> array, is_row_major, requires_grad = dense(x[:, ::2], what="b")
    >>> array.base is x, is_row_major, requires_grad
    (True, False, False)
    >>> dense([[1.0, 2.0]]).array.shape
    (1, 2)
    """
    kind = type(x)
    if kind is _ndarray:
        operand: DenseOperand = _new(DenseOperand, (x, x.flags.c_contiguous, False))
        return operand
    read = _READERS.get(kind) or found_for(kind, _READERS, _reader_of)
    return read(x, what)


def requires_grad(array: Any) -> bool:
    """Whether a gradient is to be recorded for an array: a tensor that requires one, unless
    PyTorch is told not to record (`torch.no_grad`).

    >>> requires_grad(np.zeros(3))
    False
    """
    return bool(getattr(array, "requires_grad", False)) and sys.modules["torch"].is_grad_enabled()


_ndarray = np.ndarray
_READERS: dict[type, _Reader] = {}


def _reader_of(base: type) -> _Reader | None:
    if base is np.ndarray:
        return _read_subclass
    if base is object:
        return _read_other
    found: _Reader | None = reader_in(base, "dense_reader")
    if found is None and reader_in(base, "reader") is not None:
        return _refuse
    return found


def _operand(array: np.ndarray[Any, Any]) -> DenseOperand:
    return DenseOperand(array, bool(array.flags.c_contiguous))


def _read_subclass(x: Any, what: str) -> DenseOperand:
    return _operand(plain(x, what, strided=True))


def _refuse(x: Any, what: str) -> DenseOperand:
    way = next((name for name in ("toarray", "todense") if hasattr(x, name)), None)
    raise not_dense(x, what, f"{what}.{way}() has the zeros too" if way else None)


def _read_other(x: Any, what: str) -> DenseOperand:
    shares = hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__")
    shares = shares and not isinstance(x, np.generic)
    try:
        array = as_numpy(x) if shares else np.asarray(x)
    except (ArgumentError, ValueError, TypeError, RuntimeError, BufferError) as error:
        raise ArgumentError(f"{what} cannot be read as an array: {error}") from None
    if array.dtype.kind in "OUSMm":
        raise ArgumentError(f"{what} is {describe(x)}; an array of numbers is meant here")
    return _operand(array)
