"""`sddmm` in a place, and the scores of attention."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ....sparse.arrays import Sparse
from ....sparse.kernels.gpu.dots import DotsCase, sampled_dots
from ....sparse.kernels.gpu.threads import ThreadGroup, power_from, wide
from .place import Array, OperatorPlace
from .reduce import stored_as, vector_lanes
from .rows import Matrix, placed

# Vectors of a row that a thread multiplies, and threads of a warp.
_EACH, _WARP = 4, 32


def sampled(
    place: OperatorPlace, mask: Any, parts: Sparse, x: Array, y: Array, out: Any, values: str
) -> Array:
    """The values of `mask * (x @ y.T)` in the order and the shape of the mask's own."""
    own = placed(place, mask, parts, "mask")
    data = place.own(parts.data)
    operands = [place.own(x), place.own(y)]
    if values == "multiply":
        operands.append(own.in_row_order(data))
    kind = np.result_type(*map(place.kind, operands))
    found = stored_as(kind, "mask * (x @ y.T)")
    operands = [place.prepared(array, found) for array in operands]
    shape = tuple(data.shape)
    target = None
    if out is not None:
        target = place.given(out, shape, kind, x=operands[0], y=operands[1], mask=data)
    is_direct = own.source is None and kind == found and shape == (own.matrix.nnz,)
    if is_direct and target is not None:
        dots(own.matrix, operands[0], operands[1], target, operands[2:], values)
        return target
    result = place.empty((own.matrix.nnz,), found)
    dots(own.matrix, operands[0], operands[1], result, operands[2:], values)
    if is_direct:
        return result
    target = place.zeros(shape, kind) if target is None else target
    flat, result = target.reshape(-1), place.prepared(result, kind)
    if own.source is None:
        flat[: len(result)] = result
    else:
        flat[own.source] = result
    return target


def dots(
    matrix: Matrix, x: Array, y: Array, result: Array, weights: list[Array], values: str,
    scale: float | None = None,
) -> None:  # fmt: skip
    """Dot products of rows of `x` and `y` where a matrix has elements.

    Args:
        weights: the values of the matrix in the type of the result, unless they are ignored.
        values: what these are for; see `DotsCase`.
        scale: of dot products.
    """
    place, columns = matrix.place, x.shape[1]
    if not matrix.nnz:
        return
    if not columns:  # products of nothing are 0
        x, y = (place.zeros((array.shape[0], 1), place.kind(array)) for array in (x, y))
        columns = 1
    kind, found = str(place.kind(x)), str(place.kind(result))
    lanes = vector_lanes(columns, np.dtype(wide(kind)).itemsize)
    across = min(_WARP, power_from(ceil(columns // lanes / _EACH)))
    group = ThreadGroup(lanes, across)
    case = DotsCase(columns, kind, found, matrix.idtype, group, values, scale is not None)
    scalars = () if scale is None else (scale,)
    place.run(
        sampled_dots, case, *weights, x, y, result, matrix.rows, matrix.indices,
        *matrix.shape, matrix.nnz, *scalars,
    )  # fmt: skip
