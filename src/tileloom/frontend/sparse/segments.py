"""Reductions and softmax within consecutive rows of an array."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from ...base.late import load
from ...runtime import get_num_threads
from ...sparse.arrays import dense, dense_like, requires_grad
from ...sparse.kernels.segment_softmax import segment_softmax as softmax_kernel
from ...sparse.kernels.segments import BOTH, SegmentsCase, segment_reductions
from .compiled import compiled, vector_bytes
from .gpu.place import OperatorPlace, place_of
from .gpu.reduce import reductions
from .gpu.segments import segments, softmax
from .kinds import computed_as

Array = np.ndarray[Any, Any]

# Elements below which threads would cost more than they save.
_SERIAL = 100_000
# Elements of a segment, on average, from which on vectors are long ones, and several are summed.
_LONG = 16
_SHORT_BYTES, _LANES = 32, 16


def segment_reduce(
    values: Any, indptr: Any, op: str = "sum", initial: Any = None, *,
    target: Any = None, device: str | None = None,
) -> Any:  # fmt: skip
    """What becomes of each segment of consecutive rows, column by column.

    Args:
        values: a dense array of shape (nnz,) or (nnz, k).
        indptr: where each segment begins, and where the last ends: 0, then what never falls, up to
            nnz.
        op: "sum", "mean", "max", "min" or "prod". NaN is the greatest and the least of all.
        initial: what each reduction begins with, as in NumPy and PyTorch. A mean is that of the
            segment's elements with it added to their sum.
        target, device: see `spmm`. Where values are on a GPU, `indptr` is, too, or on the CPU; a
            tensor there is checked when it is seen for the first time.

    Returns:
        An array of shape (segments,) or (segments, k): a tensor where `values` is one. Its type is
        that of the values, but means of integers are float64, and sums and products of booleans
        int64. A segment without elements gives `initial`, or else what `torch.segment_reduce`
        does: the sum 0, the product 1, the mean NaN, the maximum minus infinity or the least
        integer, the minimum infinity or the greatest integer.

    Raises:
        ArgumentError, ShapeError: `indptr` does not cut the rows into segments.
        DTypeError: there is no kernel for the type.

    For tensors that require gradients these are recorded; several elements that are the maximum or
    the minimum of a segment share its gradient, as in PyTorch.

    >>> import numpy as np
    >>> segment_reduce(np.float32([1, 2, 3]), [0, 2, 2, 3])
    array([3., 0., 3.], dtype=float32)
    >>> segment_reduce(np.array([[1, 7], [4, 2]]), [0, 2], "max")
    array([[4, 7]])
    """
    if op not in BOTH:
        raise ArgumentError(f"unknown op {op!r}", hint=f"one of {', '.join(BOTH)}")
    if requires_grad(values):
        recorded = load("tileloom.frontend.torch.segment_gradients").reduce
        return recorded(values, indptr, op, initial, target, device)
    rows = _rows(values)
    place = place_of(target, device, values, values=rows)
    if place is not None:
        return dense_like(_reduced(place, rows, indptr, op, initial), values)
    starts = _starts(indptr, len(rows))
    found, kind = _kinds(rows.dtype, op)
    rows = np.ascontiguousarray(rows, found)
    nothing = _nothing(op, found)
    first = nothing if initial is None else _initial(initial, found)
    count, width = len(starts) - 1, rows.shape[1] if rows.ndim == 2 else 0
    result = np.empty((count, *rows.shape[1:]), found)
    if result.size:
        mean = len(rows) / count
        sets = 4 if mean >= _LONG and width * found.itemsize <= vector_bytes() else 1
        case = _case(op, nothing, width, rows, starts, sets)
        least = 0 if initial is None else 1
        units = _units(rows.size + 2 * result.size)
        kernel = compiled(segment_reductions, case)
        kernel(rows, result, starts, count, len(rows), units, first, least)
    return dense_like(result if kind == found else result.astype(kind), values)


def _reduced(place: OperatorPlace, values: Any, indptr: Any, op: str, initial: Any) -> Any:
    """`segment_reduce` in a place."""
    own = place.own(values)
    found, kind = _kinds(place.kind(own), op)
    found = kind if op != "mean" and kind.itemsize == 2 and kind.kind in "fV" else found
    nothing = _nothing(op, found)
    first = nothing if initial is None else _initial(initial, found)
    literal = f"'{nothing}'" if isinstance(nothing, float) else str(nothing)
    flat = place.prepared(own, found).reshape(len(own), prod(own.shape[1:]))
    starts = segments(place, indptr, len(own), _checked_starts)
    result = place.empty((starts.count, flat.shape[1]), found)
    if starts.count and flat.shape[1]:
        scalars = first, 0 if initial is None else 1
        result = reductions(starts, op, literal, flat, found, scalars)
    return place.prepared(result, kind).reshape((starts.count, *own.shape[1:]))


def segment_softmax(
    values: Any, indptr: Any, *, target: Any = None, device: str | None = None
) -> Any:
    """The softmax of each segment of consecutive rows, column by column.

    Args:
        values: a dense array of shape (nnz,) or (nnz, k).
        indptr: where each segment begins, and where the last ends: 0, then what never falls, up to
            nnz.
        target, device: see `segment_reduce`.

    Returns:
        A new array of the shape and the type of `values`, float64 for integers: a tensor where
        `values` is one. A segment with a NaN or infinity is NaN, as with `torch.softmax`; only
        minus infinity next to what is greater gives 0.

    Raises:
        ArgumentError, ShapeError: `indptr` does not cut the rows into segments.
        DTypeError: there is no kernel for the type.

    For tensors that require gradients these are recorded.

    >>> import numpy as np
    >>> segment_softmax(np.array([0.0, 0.0, 5.0]), [0, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    if requires_grad(values):
        recorded = load("tileloom.frontend.torch.segment_gradients").softmax
        return recorded(values, indptr, target, device)
    rows = _rows(values)
    place = place_of(target, device, values, values=rows)
    if place is not None:
        return dense_like(_softmax(place, rows, indptr), values)
    starts = _starts(indptr, len(rows))
    kind = np.dtype("float64") if rows.dtype.kind in "iub" else rows.dtype
    found = computed_as(kind, "values")
    rows = np.ascontiguousarray(rows, found)
    result = np.empty_like(rows)
    if result.size:
        width = rows.shape[1] if rows.ndim == 2 else 0
        kernel = compiled(softmax_kernel, _case("sum", "0", width, rows, starts))
        count = len(starts) - 1
        kernel(rows, result, starts, count, len(rows), _units(4 * rows.size + 2 * count))
    return dense_like(result if kind == found else result.astype(kind), values)


def _softmax(place: OperatorPlace, values: Any, indptr: Any) -> Any:
    """`segment_softmax` in a place."""
    own = place.own(values)
    kind = place.kind(own)
    kind = np.dtype("float64") if kind.kind in "iub" else kind
    flat = place.prepared(own, computed_as(kind, "values"))
    flat = flat.reshape(len(own), prod(own.shape[1:]))
    found = softmax(segments(place, indptr, len(own), _checked_starts), flat)
    return place.prepared(found, kind).reshape(tuple(own.shape))


# ---------------------------------------------------------------------------- operands


def _rows(values: Any) -> Any:
    """The values: rows of a matrix, or elements of a vector."""
    rows = dense(values, what="values").array
    if rows.ndim not in (1, 2):
        raise ShapeError(f"values has shape {tuple(rows.shape)}; it must be a vector or a matrix")
    return rows


def _starts(indptr: Any, count: int) -> Array:
    """Where segments of so many rows begin."""
    starts = dense(indptr, what="indptr").array
    if not isinstance(starts, np.ndarray):
        raise UnsupportedError(f"indptr is on {starts.device}, and values are on cpu")
    return _checked_starts(starts, count)


def _checked_starts(starts: Array, count: int) -> Array:
    """Where segments of so many rows begin, in a type that kernels have."""
    if starts.ndim != 1 or not len(starts):
        raise ShapeError(f"indptr has shape {starts.shape}; it must be a vector, [0] at least")
    if starts.dtype.kind not in "iu":
        raise DTypeError(f"indptr holds {starts.dtype}; it must hold integers")
    _check(starts, count)
    kind = starts.dtype if starts.dtype in (np.int32, np.int64) else np.dtype("int64")
    return np.ascontiguousarray(starts, kind)


def _check(starts: Array, count: int) -> None:
    if starts[0] != 0:
        raise ArgumentError(f"indptr begins with {starts[0]}; the first segment begins at 0")
    falls = starts[1:] < starts[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise ArgumentError(
            f"indptr falls from {starts[at]} to {starts[at + 1]} at segment {at}; "
            "no segment has less than 0 rows"
        )
    if starts[-1] != count:
        raise ShapeError(f"indptr ends with {starts[-1]}, but values has {count} rows")


def _kinds(kind: np.dtype[Any], op: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The types in which values are reduced, and of the result."""
    if op == "mean" and kind.kind in "iub":
        return np.dtype("float64"), np.dtype("float64")
    if kind == np.dtype("bool"):
        found = np.dtype("uint8" if op in ("max", "min") else "int64")
        return found, kind if op in ("max", "min") else found
    return computed_as(kind, "values"), kind


def _nothing(op: str, kind: np.dtype[Any]) -> Any:
    """What a value becomes itself with."""
    if op not in ("max", "min"):
        return 1 if op == "prod" else 0
    if kind.kind in "fV":  # bfloat16 is "V"
        return float("-inf" if op == "max" else "inf")
    limits = np.iinfo(kind)
    return int(limits.min if op == "max" else limits.max)


def _initial(initial: Any, kind: np.dtype[Any]) -> Any:
    try:
        found = kind.type(initial).item()
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or (kind.kind in "iu" and found != initial):
        raise ArgumentError(f"initial is {initial!r}; it must be a number of type {kind}")
    return found


# ---------------------------------------------------------------------------- kernels


def _case(
    op: str, nothing: Any, width: int, rows: Array, starts: Array, sets: int = 1
) -> SegmentsCase:
    item, size = rows.itemsize, vector_bytes()
    if not width and len(rows) < _LONG * len(starts):
        size = min(size, _SHORT_BYTES)
    lanes = max(2, min(size // item, _LANES))
    literal = f"'{nothing}'" if isinstance(nothing, float) else str(nothing)
    return SegmentsCase(op, literal, width, str(rows.dtype), str(starts.dtype), lanes, item, sets)


def _units(work: int) -> int:
    return 1 if work < _SERIAL else (4 if work < 5_000_000 else 16) * get_num_threads()
