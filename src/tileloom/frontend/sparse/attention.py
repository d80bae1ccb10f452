"""Attention of rows to the rows that a sparse matrix gives them."""

from __future__ import annotations

import operator
from math import ceil, prod
from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import ArgumentError, DTypeError, ShapeError
from ...base.late import load
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Csr, Sparse, dense, dense_like, requires_grad, view
from ...sparse.kernels.attention import AttentionCase, attention_rows
from ...sparse.kernels.attention_parts import attention_parts
from ...target.machine import cache_sizes
from .compiled import compiled, vector_bytes
from .gpu.attention import attend
from .gpu.place import OperatorPlace, place_of
from .gpu.rows import placed
from .kinds import computed_as
from .operands import refuse_gradient
from .repeated import RepeatedCall, prepare, run_again
from .results import STREAMED, converted, empty, given, refuse_out
from .rows import compressed_rows
from .structure import Structure

Array = np.ndarray[Any, Any]
_ndarray = np.ndarray

VALUES = ("ignore", "add", "multiply")

# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# Bytes of keys or values from which on their rows are fetched early.
_FETCHED = 1 << 20


class AttentionPlan(Record):
    """How attention is computed.

    Attributes:
        kernel: the compiled kernel.
        streamed: the one for results that begin with a cache line, or `kernel` again.
        units: into how many parts of work the rows are divided.
        parts: from how many elements on rows are long, and the rows of `k` and `v` in a part, where
            the kernel goes through these part by part; else nothing.
    """

    kernel: Any
    streamed: Any
    units: int
    parts: tuple[int, ...]


def graph_attention(
    mask: Any, q: Any, k: Any, v: Any, scale: float | None = None, out: Any = None,
    *, values: str = "ignore", target: Any = None, device: str | None = None,
) -> Any:  # fmt: skip
    """`softmax(scale * q @ k.T) @ v`, where row i attends to the columns that row i of `mask` has.

    The scores are never stored: they are computed, weighed and used row by row.

    Args:
        mask: a sparse matrix of shape (m, n): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`. All elements that it stores count, also zeros.
        q: queries of shape (m, d), or of several heads, (heads, m, d).
        k: keys of shape (n, d) or (heads, n, d).
        v: what is summed, of shape (n, e) or (heads, n, e).
        scale: of the products of queries and keys; `1 / sqrt(d)` where it is not given.
        out: a row-major array of shape (m, e) or (heads, m, e) and of the result's type for the
            result.
        values: what the values of `mask` are for, before the softmax: "ignore" them, "add" them to
            the scaled products (biases), or "multiply" these with them (weights of edges).
        target, device: see `spmm`. On a GPU scores are stored between its kernels.

    Returns:
        `out`, or a new array of shape (m, e) or (heads, m, e): a tensor where `v` is one. Rows
        without elements are 0. Rows whose scores are all negative infinity, or have NaN or positive
        infinity among them, are NaN, as a softmax of these is.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.
        UnsupportedError: a gradient would have to be recorded elsewhere than on the CPU.

    For tensors that require gradients these are recorded: for `q`, `k`, `v` and, where they count,
    the values of `mask`.

    Sources: scaled dot-product attention (Vaswani et al., 2017) along the edges of a graph, as in
    "Masked Label Prediction" (Shi et al., 2020).

    >>> import scipy.sparse
    >>> mask = scipy.sparse.csr_array(np.array([[1, 1], [0, 1]], bool))
    >>> x = np.eye(2, dtype="float32")
    >>> graph_attention(mask, x, x, x, scale=0)
    array([[0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    """
    if values not in VALUES:
        raise ArgumentError(f"values={values!r}", hint=f"one of {', '.join(VALUES)}")
    if type(q) is type(k) is type(v) is _ndarray and q.ndim == 2 and target is device is None:
        factor = max(1, q.shape[1]) ** -0.5 if scale is None else scale
        key = ("attention", q.shape, v.shape, v.dtype, values)
        again = run_again(mask, key, (q, k, v), out, factor)
        if again is not None:
            return again
    parts = view(mask, what="mask")
    arrays = [dense(array, what=what).array for array, what in ((q, "q"), (k, "k"), (v, "v"))]
    place = place_of(target, device, v, mask=parts.data, q=arrays[0], k=arrays[1], v=arrays[2])
    if place is None and any(map(requires_grad, (mask, q, k, v, scale))):
        refuse_out(out)
        recorded: Any = load("tileloom.frontend.torch.attention_gradients").attention
        return recorded(mask, q, k, v, scale, values)
    if place is not None:
        for array, what in ((mask, "mask"), (q, "q"), (k, "k"), (v, "v"), (scale, "scale")):
            if values != "ignore" or array is not mask:
                refuse_gradient(array, what, "graph_attention on GPUs")
        return _in_place(place, mask, parts, arrays, v, scale, out, values)
    structure, weights = compressed_rows(mask, parts, "mask")
    _check(structure.shape, *arrays)
    kind = _kind([array.dtype for array in (*arrays, weights)[: 3 + (values != "ignore")]])
    own = computed_as(kind, "graph_attention")
    shape = (*arrays[0].shape[:-1], arrays[2].shape[-1])
    if out is not None:
        memory = given(out, shape, kind, q=arrays[0], k=arrays[1], v=arrays[2], mask=weights)
    if scale is None:
        scale = max(1, arrays[0].shape[-1]) ** -0.5
    is_direct = out is not None and kind == own
    result = memory if is_direct else empty(prod(shape[:-1]), shape[-1], own).reshape(shape)
    operands = [_prepared(a, own) for a in arrays]
    used = [] if values == "ignore" else [weights.astype(own, copy=False)]
    _attend(structure, used, operands, result, scale, values)
    if type(parts) is Csr and all(map(operator.is_, operands, (q, k, v))) and result.size:
        _prepare(mask, parts, structure, result, values, operands)
    if kind != own:
        result = converted(result, kind, out)
    return out if out is not None else dense_like(result, v)


def _kind(kinds: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The type of the result for operands of these."""
    kind = np.result_type(*kinds)
    if kind.kind not in "fV":
        raise DTypeError(f"graph_attention computes with floating-point numbers, not {kind}")
    return kind


def _in_place(
    place: OperatorPlace, mask: Any, parts: Sparse, arrays: list[Any], like: Any,
    scale: float | None, out: Any, values: str,
) -> Any:  # fmt: skip
    """`graph_attention` in a place."""
    matrix = placed(place, mask, parts, "mask")
    _check(matrix.matrix.shape, *arrays)
    weights = matrix.in_row_order(place.own(parts.data))
    operands = [place.own(array) for array in arrays]
    kind = _kind([place.kind(array) for array in (*operands, weights)[: 3 + (values != "ignore")]])
    own = computed_as(kind, "graph_attention")
    shape = (*arrays[0].shape[:-1], arrays[2].shape[-1])
    operands = [place.prepared(array, kind) for array in operands]
    q, k, v = operands
    weights = place.prepared(weights, own) if values != "ignore" else None
    result = (
        place.empty(shape, kind) if out is None else place.given(out, shape, kind, q=q, k=k, v=v)
    )
    if scale is None:
        scale = max(1, q.shape[-1]) ** -0.5
    attend(matrix.matrix, weights, operands, result, scale, values, own)
    return out if out is not None else dense_like(result, like)


def _prepared(array: Array, kind: np.dtype[Any]) -> Array:
    """A row-major operand of a type; of at least one column, as products of nothing are 0."""
    if not array.shape[-1]:
        return np.zeros((*array.shape[:-1], 1), kind)
    return np.ascontiguousarray(array, dtype=kind)


def _attend(
    structure: Structure, weights: list[Array], arrays: list[Array], result: Array, scale: float,
    values: str,
) -> None:  # fmt: skip
    """Compute all heads."""
    d, e = arrays[0].shape[-1], result.shape[-1]
    if not e:
        return
    plan = _planned(structure, d, e, result.dtype, values)
    sizes = (*structure.shape, structure.nnz, plan.units)
    every = (*arrays, result)
    for own in (every,) if result.ndim == 2 else zip(*every, strict=True):
        kernel = plan.kernel
        if plan.streamed is not kernel and own[-1].ctypes.data % LINE == 0:
            kernel = plan.streamed
        kernel(*weights, *own, structure.indptr, structure.indices, *sizes, *plan.parts, scale)


def _prepare(
    mask: Any, parts: Csr, structure: Structure, result: Array, values: str, arrays: list[Array]
) -> None:
    """Let the next call with these run at once, if it has one head."""
    q, _, v = arrays
    if result.ndim != 2 or result.dtype != v.dtype:
        return
    plan = _planned(structure, q.shape[1], v.shape[1], v.dtype, values)
    index = structure.indptr, structure.indices
    sizes = (*structure.shape, structure.nnz, plan.units)
    call = RepeatedCall(
        plan.kernel, plan.streamed, result.shape, v.dtype, structure.nnz, values != "ignore",
        (*index, *sizes, *plan.parts),
    )  # fmt: skip
    prepare(mask, parts, ("attention", q.shape, v.shape, v.dtype, values), call)


def _planned(
    structure: Structure, d: int, e: int, kind: np.dtype[Any], values: str
) -> AttentionPlan:
    """The plan for a structure, `d` columns of queries and `e` of values."""
    key = ("attention", d, e, kind, values)
    found: AttentionPlan | None = structure.plans.get(key)
    if found is not None:
        return found
    m, n = structure.shape
    item = kind.itemsize
    lanes = max(2, vector_bytes() // item)
    ahead = (_ahead(n * d * item, d * item), _ahead(n * e * item, e * item))
    case = AttentionCase(d, e, str(kind), str(structure.indices.dtype), lanes, values, ahead=ahead)
    work = structure.nnz * (d + e)
    threads = get_num_threads()
    parts = _parts(structure, d, e, kind, lanes)
    if parts is not None:
        kernel = streamed = compiled(attention_parts, case)
        units = 4 * threads
    else:
        kernel = streamed = compiled(attention_rows, case)
        if m * e * item > STREAMED and e % lanes == 0 and lanes * item >= 16:
            streamed = compiled(attention_rows, case._replace(aligned=LINE))
        units = 1 if work < _SERIAL else (4 if work < 5_000_000 else 16) * threads
    plan = structure.plans[key] = AttentionPlan(kernel, streamed, units, parts or ())
    return plan


def _parts(
    structure: Structure, d: int, e: int, kind: np.dtype[Any], lanes: int
) -> tuple[int, int] | None:
    """From how many elements on a row is long, and the rows of a part; None for one pass."""
    if d % lanes or e % lanes or max(d, e) > 8 * lanes or structure.mean < 64:
        return None
    near = 6 * cache_sizes()[1] // 10
    width = max(1, near // ((d + e) * kind.itemsize))
    count = ceil(structure.shape[1] / width)
    long = max(64, 8 * count)
    if count < 2 or structure.share_of_rows_from(long) < 0.5 or not structure.is_sorted:
        return None
    return long, width


def _ahead(size: int, row: int) -> int:
    """By how many elements rows of so many bytes are fetched early, of so many bytes in all."""
    if size <= _FETCHED:
        return 0
    return 16 if row <= 128 else 8


def _check(shape: tuple[int, int], q: Any, k: Any, v: Any) -> None:
    """Refuse shapes that do not fit."""
    m, n = shape
    sizes = [tuple(array.shape) for array in (q, k, v)]
    if q.ndim not in (2, 3) or q.shape[-2] != m:
        raise ShapeError(
            f"q has shape {sizes[0]}; "
            f"with a mask of shape {shape} it is ({m}, d) or (heads, {m}, d)"
        )
    heads = sizes[0][:-2]
    if sizes[1] != (*heads, n, q.shape[-1]):
        wanted = (*heads, n, q.shape[-1])
        raise ShapeError(
            f"k has shape {sizes[1]}; with q of shape {sizes[0]} and such a mask it is {wanted}"
        )
    if v.ndim != q.ndim or v.shape[:-1] != k.shape[:-1]:
        wanted_rows = ", ".join(map(str, k.shape[:-1]))
        raise ShapeError(
            f"v has shape {sizes[2]}; with k of shape {sizes[1]} it is ({wanted_rows}, e)"
        )
