"""Any sparse matrix as compressed rows, with what is known of its structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError, UnsupportedError
from ...sparse.arrays import Bsc, Bsr, Coo, Csc, Csr, Sparse
from ...sparse.convert import coo_to_csr, transpose
from .operands import check_on_cpu
from .structure import Structure, remembered, structure_of

Array = np.ndarray[Any, Any]


def compressed_rows(array: Any, parts: Sparse, what: str) -> tuple[Structure, Array]:
    """The structure of a matrix by rows, and its values in their order.

    Of a matrix that is stored otherwise the structure is found once; its values are put in order
    at each call.

    Args:
        array: what the caller gave.
        parts: its parts.
        what: what errors call it.

    Raises:
        ArgumentError: the index arrays contradict themselves.
        ShapeError: it is no matrix.
        UnsupportedError: it is in a GPU's memory.
    """
    structure, source = row_order(array, parts, what)
    return structure, in_row_order(parts.data, structure, source)


def row_order(array: Any, parts: Sparse, what: str) -> tuple[Structure, Array | None]:
    """As `compressed_rows`, with the places of values among the matrix's own in place of these.

    They are None where the values are in order.
    """
    check_on_cpu(parts, what)
    if len(parts.shape) != 2:
        raise ShapeError(f"{what} has shape {parts.shape}, which is no matrix")
    if type(parts) is Csr:
        return structure_of(array, parts), None
    return remembered(array, parts, lambda: converted_rows(parts))


def in_row_order(values: Array, structure: Structure, source: Array | None) -> Array:
    """A matrix's own values in the order of its rows, for what `row_order` gives."""
    if source is not None:
        ordered: Array = values.reshape(-1)[source]
        return ordered
    return values if len(values) == structure.nnz else values[: structure.nnz]


def converted_rows(parts: Sparse) -> tuple[Structure, Array | None]:
    """The structure by rows, and for each element where its value is; None if in order.

    The index arrays are NumPy's; of the values no more than the shape is asked.
    """
    match parts:
        case Csr():
            return Structure(parts.indptr, parts.indices, parts.shape), None
        case Csc():
            m, n = parts.shape
            found = transpose(parts.indptr, parts.indices, (n, m))
            return Structure(found.indptr, found.indices, parts.shape), found.source
        case Coo():
            rows, columns = parts.coords
            csr = coo_to_csr(rows, columns, parts.shape)
            is_ordered = bool(np.all(csr.source[:-1] < csr.source[1:]))
            source = None if is_ordered else csr.source
            return Structure(csr.indptr, csr.indices, parts.shape), source
        case Bsr() | Bsc():
            return _of_blocks(parts)
        case _:
            raise UnsupportedError(f"a matrix in the format {parts.format}")


def _of_blocks(parts: Bsr | Bsc) -> tuple[Structure, Array]:
    """The elements of blocks, which all count."""
    count, height, width = parts.data.shape
    starts = np.repeat(np.arange(len(parts.indptr) - 1), np.diff(parts.indptr))
    major, minor = (starts, parts.indices) if isinstance(parts, Bsr) else (parts.indices, starts)
    inner = np.indices((height, width)).reshape(2, -1)
    rows = (major[:count, None].astype(np.int64) * height + inner[0]).reshape(-1)
    columns = (minor[:count, None].astype(np.int64) * width + inner[1]).reshape(-1)
    csr = coo_to_csr(rows, columns, parts.shape)
    kind = parts.indices.dtype
    fits = max(len(csr.indices), *parts.shape) <= np.iinfo(kind).max
    indptr = csr.indptr.astype(kind) if fits else csr.indptr
    indices = csr.indices.astype(kind) if fits else csr.indices
    return Structure(indptr, indices, parts.shape), csr.source
