"""Products of sparse matrices with dense ones, and reductions of segments, in a place."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ....sparse.kernels.gpu.reductions import ReductionCase, reduce_rows
from ....sparse.kernels.gpu.threads import VECTOR, ThreadGroup, power_from, wide
from ..kinds import KINDS, computed_as
from .place import Array, OperatorPlace
from .rows import Matrix, Rows

Kind = np.dtype[Any]

# Elements that a thread adds up before a row is worth another group of threads.
_MOST = 256
# Threads of a warp, and vectors that one of them sums at most.
_WARP, _TILES = 32, 4
# Elements of a thread, on average, from which on several are loaded at once, and how many.
_MANY, _UNROLLED = 2, 4


def stored_as(kind: Kind, what: str) -> Kind:
    """The type in which kernels take and give values of a type; they compute in a wider one.

    Raises:
        DTypeError: there is none.
    """
    found = computed_as(kind, what)
    return kind if kind in KINDS or kind.itemsize == 2 else found


def vector_lanes(columns: int, item: int) -> int:
    """The elements of the longest vector of which rows of so many columns are multiples."""
    lanes = max(1, VECTOR // item)
    while columns % lanes:
        lanes //= 2
    return lanes


def row_group(columns: int, item: int, mean: float) -> ThreadGroup:
    """Threads for a row of so many columns, of elements of so many bytes, and `mean` terms.

    >>> row_group(64, 4, 50.0)
    ThreadGroup(lanes=4, across=16, down=2, tiles=1)
    >>> row_group(1, 4, 6.0)
    ThreadGroup(lanes=1, across=1, down=8, tiles=1)
    """
    lanes = vector_lanes(columns, item)
    vectors = columns // lanes
    across = min(_WARP, power_from(vectors))
    parts = ceil(vectors / (across * _TILES))
    down = min(_WARP // across, power_from(ceil(mean)))
    return ThreadGroup(lanes, across, down, ceil(vectors / (across * parts)))


def product(
    place: OperatorPlace, matrix: Matrix, values: Array, x: Array, out: Array | None
) -> Array:
    """The product of a matrix by rows with a dense one, in arrays of the place.

    Args:
        out: a place's array for the result; of the type that `stored_as` gives.
    """
    kind = place.kind(x)
    shape = (matrix.count, x.shape[1])
    if not (matrix.nnz and x.shape[1]):
        return _cleared(place, shape, kind, out)
    result = place.empty(shape, kind) if out is None else out
    weights = str(place.kind(values))
    _reduce(matrix, "sum", "0", x, result, (values, matrix.indices), weights, ())
    return result


def reductions(
    rows: Rows, op: str, nothing: str, values: Array, kind: Kind, scalars: tuple[Any, Any]
) -> Array:
    """What becomes of consecutive rows of a matrix.

    Args:
        nothing: what a value becomes itself with, as a literal.
        kind: the type of values and result.
        scalars: what each reduction begins with, and of how many elements a mean is at least.
    """
    result = rows.place.empty((rows.count, values.shape[1]), kind)
    _reduce(rows, op, nothing, values, result, (), "", scalars)
    return result


def _cleared(place: OperatorPlace, shape: tuple[int, ...], kind: Kind, out: Array | None) -> Array:
    if out is None:
        return place.zeros(shape, kind)
    out[...] = 0
    return out


def _reduce(
    rows: Rows, op: str, nothing: str, x: Array, result: Array, weights: tuple[Array, ...],
    weights_kind: str, scalars: tuple[Any, ...],
) -> None:  # fmt: skip
    """Run the kernel."""
    place, columns, kind = rows.place, x.shape[1], str(rows.place.kind(x))
    item = np.dtype(wide(kind)).itemsize
    group = row_group(columns, item, rows.mean)
    chunks = rows.chunks(_MOST * group.down)
    unrolled = _UNROLLED if rows.mean >= _MANY * group.down else 1
    if group.tiles > 2:
        unrolled = min(unrolled, 2)
    case = ReductionCase(
        op, nothing, columns, kind, rows.idtype, group, unrolled, weights_kind, chunks is not None
    )
    cut = () if chunks is None else (*chunks.arrays, *chunks.counts)
    place.run(
        reduce_rows, case, *weights, x, result, rows.starts, rows.count, x.shape[0], rows.nnz,
        *scalars, *cut,
    )  # fmt: skip
