"""Types of elements that the operators have kernels for, and in which others are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import DTypeError

#: Types with kernels of their own.
KINDS = frozenset(
    map(np.dtype, ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16"))
) | frozenset(map(np.dtype, ("uint32", "uint64")))


def computed_as(kind: np.dtype[Any], what: str) -> np.dtype[Any]:
    """The type in which values of a type are computed: sums of short floats would lose too much.

    Raises:
        DTypeError: there is none.

    >>> computed_as(np.dtype("float16"), "a @ x"), computed_as(np.dtype("bool"), "a @ x")
    (dtype('float32'), dtype('int64'))
    """
    if kind in KINDS:
        return kind
    if kind == np.dtype("bool"):
        return np.dtype("int64")
    if kind.itemsize == 2 and kind.kind in "fV":  # float16, bfloat16
        return np.dtype("float32")
    raise DTypeError(f"{what} has elements of type {kind}, for which there is no kernel")
