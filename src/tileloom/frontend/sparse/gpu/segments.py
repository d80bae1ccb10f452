"""Reductions and softmax of consecutive rows in a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....sparse.arrays import Coo, dense
from ....sparse.kernels.gpu.softmax import SoftmaxCase, softmax_rows
from ....sparse.kernels.gpu.threads import ThreadGroup, power_from
from ..structure import remembered
from .place import Array, OperatorPlace
from .rows import Rows

_WARP = 32


def segments(place: OperatorPlace, indptr: Any, count: int, check: Callable[..., Any]) -> Rows:
    """The segments of so many rows; of a GPU's index arrays they are found once for each.

    Args:
        check: gives for what was given what kernels take, in the CPU's memory; or refuses it.
    """
    starts = dense(indptr, what="indptr").array
    if isinstance(starts, np.ndarray):
        return Rows(place, check(starts, count))
    found = remembered(
        indptr,
        Coo((starts,), starts, (count,), True),
        lambda: Rows(place, check(starts.cpu().numpy(), count)),
        "segments",
    )
    return found


def softmax(rows: Rows, values: Array) -> Array:
    """The softmax of each segment of rows of a matrix of float32 or float64, column by column."""
    place, columns = rows.place, values.shape[1]
    kind = place.kind(values)
    result = place.empty(tuple(values.shape), kind)
    if not (rows.nnz and columns):
        return result
    across = min(_WARP, power_from(columns))
    down = min(_WARP // across, power_from(round(rows.mean)))
    case = SoftmaxCase(columns, str(kind), rows.idtype, ThreadGroup(1, across, down))
    place.run(softmax_rows, case, values, result, rows.starts, rows.count, rows.nnz)
    return result
