"""`spmm` and `spmv` in a place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....sparse.arrays import Sparse
from .place import Array, OperatorPlace
from .reduce import product, stored_as
from .rows import placed


def multiplied(place: OperatorPlace, a: Any, parts: Sparse, x: Array, out: Any) -> Array:
    """The product of a sparse matrix with a dense one, or with a vector, which fit.

    Args:
        a: what the caller gave.
        parts: its parts.
        x: the dense operand.
        out: the caller's array for the result, or None.
    """
    own = placed(place, a, parts, "a")
    values, columns = own.in_row_order(place.own(parts.data)), place.own(x)
    kind = np.result_type(place.kind(values), place.kind(columns))
    found = stored_as(kind, "a @ x")
    shape = (parts.shape[0], *columns.shape[1:])
    values, columns = place.prepared(values, found), place.prepared(columns, found)
    target = None
    if out is not None:
        target = place.given(out, shape, kind, x=columns, a=values)
    direct = None if target is None or kind != found else target.reshape(shape[0], -1)
    columns = columns if columns.ndim == 2 else columns.reshape(-1, 1)
    result = product(place, own.matrix, values, columns, direct).reshape(shape)
    if kind != found:
        result = place.prepared(result, kind)
        if target is not None:
            target[...] = result
    return result if target is None else target
