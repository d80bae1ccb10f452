"""Sums over relations: graph convolutions of graphs with several kinds of edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import DTypeError, ShapeError, UserError
from ...base.late import load
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Coo, dense, dense_like, requires_grad, view
from ...sparse.convert import coo_to_csr
from ...sparse.kernels.rgms import RgmsCase
from ...sparse.kernels.rgms import rgms as kernel_of
from .compiled import compiled, vector_bytes
from .kinds import computed_as
from .operands import refuse_gradient
from .results import given, refuse_out
from .rows import compressed_rows

Array = np.ndarray[Any, Any]

# Multiplications below which threads would cost more than they save.
_SERIAL = 200_000


class Relations(Record):
    """Sparse matrices of one shape, by relation, row and column (CSF); made by `relations`.

    Attributes:
        starts: where the rows of each relation begin, of shape (relations + 1,).
        rows: the rows that relations have, ascending in each.
        indptr: where the elements of each of these rows begin.
        columns: of the elements.
        values: of the elements.
        shape: relations, rows and columns of the matrices.
    """

    starts: Array
    rows: Array
    indptr: Array
    columns: Array
    values: Array
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return self.shape[0]


def relations(adjacency: Any) -> Relations:
    """Sparse matrices of one shape, in the form that `rgms` computes with.

    Args:
        adjacency: a sequence of sparse matrices of shape (m, n), or a sparse array of shape
            (relations, m, n) by coordinates. Values at the same place add up.

    Raises:
        ShapeError: the matrices differ in shape, or there are none.

    >>> import scipy.sparse
    >>> a = scipy.sparse.csr_array(np.array([[0, 1], [0, 0]], "float32"))
    >>> relations([a, a.T]).rows
    array([0, 1], dtype=int32)
    """
    if isinstance(adjacency, Relations):
        return adjacency
    if not isinstance(adjacency, Sequence):
        return _of_array(view(adjacency, what="adjacency"))
    if not adjacency:
        raise ShapeError("no relation is given", hint="pass at least one sparse matrix")
    found = [
        compressed_rows(a, view(a, what=f"adjacency[{k}]"), f"adjacency[{k}]")
        for k, a in enumerate(adjacency)
    ]
    shapes = {structure.shape for structure, _ in found}
    if len(shapes) > 1:
        raise ShapeError(f"the relations have different shapes: {sorted(shapes)}")
    lengths = [np.diff(structure.indptr) for structure, _ in found]
    rows = [np.flatnonzero(each) for each in lengths]
    counts = np.concatenate([each[own] for each, own in zip(lengths, rows, strict=True)])
    (shape,) = shapes
    return relations_of(
        [len(own) for own in rows],
        np.concatenate(rows),
        counts,
        np.concatenate([structure.indices for structure, _ in found]),
        np.concatenate([values for _, values in found]),
        (len(found), *shape),
    )


def _of_array(parts: Any) -> Relations:
    if not isinstance(parts, Coo) or len(parts.shape) != 3:
        raise UserError(
            f"adjacency is {parts!r}: relations are a sequence of sparse matrices, or a sparse "
            "array of three dimensions by coordinates"
        )
    count, m, n = parts.shape
    relation, row, column = (np.asarray(part, np.int64) for part in parts.coords)
    csr = coo_to_csr(relation * m + row, column, (count * m, n))
    lengths = np.diff(csr.indptr)
    own = np.flatnonzero(lengths)
    per = np.bincount(own // max(1, m), minlength=count)
    values = parts.data[csr.source]
    return relations_of(per, own % max(1, m), lengths[own], csr.indices, values, (count, m, n))


def relations_of(
    per: Any, rows: Array, counts: Array, columns: Array, values: Array, shape: tuple[int, ...]
) -> Relations:
    """Relations from how many rows each has, the rows, how many elements these have, and those."""
    largest = max(*shape, len(columns), len(rows))
    kind = np.dtype("int32" if largest < np.iinfo(np.int32).max else "int64")

    def starts(lengths: Any) -> Array:
        found = np.zeros(len(lengths) + 1, kind)
        np.cumsum(lengths, out=found[1:])
        return found

    first, second, third = shape
    return Relations(
        starts(per),
        rows.astype(kind, copy=False),
        starts(counts),
        columns.astype(kind, copy=False),
        np.ascontiguousarray(values),
        (first, second, third),
    )


def rgms(adjacency: Any, x: Any, w: Any, out: Any = None) -> Any:
    """`sum(a @ x @ w[r] for r, a in enumerate(adjacency))` (relational graph convolution).

    Nothing but the result is stored: sums over neighbours are multiplied with the weights of their
    relation while they are in registers and near caches.

    Args:
        adjacency: what `relations` takes, or what it gives, which saves its time at each call.
        x: features of shape (n, k).
        w: weights of shape (relations, k, l).
        out: a row-major array of shape (m, l) and of the result's type for the result.

    Returns:
        `out`, or a new array of shape (m, l): a tensor where `x` is one.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.
        UnsupportedError: the gradient of a matrix would have to be recorded.

    For tensors `x` and `w` that require gradients these are recorded.

    Source: R-GCN (Schlichtkrull et al., 2018), computed as SparseTIR's RGMS (Ye et al., 2023).

    >>> import scipy.sparse
    >>> a = scipy.sparse.csr_array(np.array([[0, 1], [0, 0]], "float32"))
    >>> x, w = np.array([[1, 2], [3, 4]], "float32"), np.ones((2, 2, 1), "float32")
    >>> rgms([a, a.T], x, w)
    array([[7.],
           [3.]], dtype=float32)
    """
    if isinstance(adjacency, Sequence):
        for r, matrix in enumerate(adjacency):
            refuse_gradient(matrix, f"adjacency[{r}]", "rgms")
    else:
        refuse_gradient(adjacency, "adjacency", "rgms")
    known = relations(adjacency)
    if requires_grad(x) or requires_grad(w):
        refuse_out(out)
        return load("tileloom.frontend.torch.relation_gradients").rgms(known, x, w)
    features, weights = dense(x, what="x").array, dense(w, what="w").array
    count, m, n = known.shape
    if features.ndim != 2 or len(features) != n:
        raise ShapeError(f"x has shape {features.shape}, the relations have {n} columns")
    if weights.ndim != 3 or weights.shape[:2] != (count, features.shape[1]):
        wanted = f"({count}, {features.shape[1]}, l)"
        raise ShapeError(f"w has shape {weights.shape}; with x of shape {features.shape} and "
                         f"{count} relations it is {wanted}")  # fmt: skip
    kind = np.result_type(known.values, features, weights)
    if kind.kind != "f":
        raise DTypeError(f"rgms computes with floating-point numbers, not {kind}")
    own = computed_as(kind, "rgms")
    values, features, weights = (
        np.ascontiguousarray(a, dtype=own) for a in (known.values, features, weights)
    )
    result = np.empty((m, weights.shape[2]), own)
    if out is not None and own == kind:
        result = given(out, result.shape, kind, x=features, w=weights)
    case = RgmsCase(
        features.shape[1], weights.shape[2], str(own), str(known.rows.dtype),
        max(1, vector_bytes() // own.itemsize),
    )  # fmt: skip
    work = len(known.rows) * weights.shape[1] * weights.shape[2]
    units = 1 if work < _SERIAL else 16 * get_num_threads()
    compiled(kernel_of, case)(
        values, features, weights, result, known.starts, known.rows, known.indptr, known.columns,
        m, n, count, len(known.rows), len(known.columns), units,
    )  # fmt: skip
    if out is None:
        return dense_like(result.astype(kind, copy=False), x)
    if own != kind:
        given(out, result.shape, kind)[...] = result
    return out
