"""Rows of sparse matrices in the memory of a place, with what is found for them once.

Index arrays come to the CPU when a matrix is seen for the first time; what kernels need beside
those that the matrix has is made of them there, and stays on the device as long as the matrix does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import ShapeError
from ....base.record import Record
from ....sparse.arrays import Coo, Csr, Sparse
from ..rows import converted_rows, row_order
from ..structure import Structure, remembered
from .place import Array, OperatorPlace

HostArray = np.ndarray[Any, Any]


class Chunks(Record):
    """Rows, of which long ones are cut.

    Attributes:
        arrays: where chunks start; the row of each, or -1 less its place among those of long rows;
            the long rows; which chunk of those is the first of each.
        counts: of chunks, of those of long rows, and of long rows.
    """

    arrays: tuple[Array, Array, Array, Array]
    counts: tuple[int, int, int]


class Rows:
    """Where rows begin.

    Attributes:
        place: in whose memory.
        indptr: in the CPU's memory.
        starts: in the place's.
        count, nnz: how many rows there are, and elements.
        idtype: the type of indices.
    """

    def __init__(
        self, place: OperatorPlace, indptr: HostArray, starts: Array | None = None
    ) -> None:
        self.place = place
        self.indptr = indptr
        self.starts = place.upload(indptr) if starts is None else starts
        self.count = len(indptr) - 1
        self.nnz = int(indptr[-1])
        self.idtype = str(indptr.dtype)
        self._chunks: dict[int, Chunks | None] = {}

    @property
    def mean(self) -> float:
        """Elements of a row, on average."""
        return self.nnz / max(1, self.count)

    def chunks(self, most: int) -> Chunks | None:
        """Chunks of about `most` elements, if some row has more than twice as many."""
        if most not in self._chunks:
            self._chunks[most] = self._cut(most)
        return self._chunks[most]

    def _cut(self, most: int) -> Chunks | None:
        lengths = np.diff(self.indptr).astype(np.int64)
        pieces = np.where(lengths > 2 * most, -(-lengths // most), 1)
        longs = np.flatnonzero(pieces > 1)
        if not len(longs):
            return None
        row = np.repeat(np.arange(self.count), pieces)
        number = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = self.indptr[row] + number * lengths[row] // pieces[row]
        starts = np.append(starts, self.nnz).astype(self.indptr.dtype)
        is_part = pieces[row] > 1
        places = np.where(is_part, np.negative(np.cumsum(is_part)), row)
        parts = np.concatenate([[0], np.cumsum(pieces[longs])])
        arrays = starts, *(each.astype(np.int32) for each in (places, longs, parts))
        first, second, third, fourth = map(self.place.upload, arrays)
        counts = len(row), int(parts[-1]), len(longs)
        return Chunks((first, second, third, fourth), counts)


class Matrix(Rows):
    """A sparse matrix by rows, without its values.

    Attributes:
        structure: as the CPU has it.
        shape: of the matrix.
        indices: the columns of its elements, in the place's memory.
    """

    def __init__(
        self, place: OperatorPlace, structure: Structure, index: tuple[Array, Array] | None = None
    ) -> None:
        super().__init__(place, structure.indptr, None if index is None else index[0])
        self.structure = structure
        self.shape = structure.shape
        self.indices = place.upload(structure.indices) if index is None else index[1]
        self._rows: Array | None = None
        self._transposed: tuple[Matrix, Array] | None = None

    @property
    def rows(self) -> Array:
        """The row of each element."""
        if self._rows is None:
            rows = np.arange(self.count, dtype=self.indptr.dtype)
            self._rows = self.place.upload(np.repeat(rows, self.structure.lengths))
        return self._rows

    @property
    def transposed(self) -> tuple[Matrix, Array]:
        """The matrix by columns, and for each of its elements which one it is by rows."""
        if self._transposed is None:
            structure, order = self.structure.transposed
            self._transposed = (
                Matrix(self.place, structure),
                self.place.upload(order.astype(np.int64)),
            )
        return self._transposed


class Placed(Record):
    """A matrix as somebody has it.

    Attributes:
        matrix: by rows.
        source: for each element of that where its value is; None if they are in order.
    """

    matrix: Matrix
    source: Array | None

    def in_row_order(self, values: Array) -> Array:
        """The matrix's own values in the order of its rows."""
        if self.source is not None:
            return self.matrix.place.picked(values.reshape(-1), self.source)
        return values[: self.matrix.nnz]


def placed(place: OperatorPlace, array: Any, parts: Sparse, what: str) -> Placed:
    """A matrix in a place, looked at once.

    Args:
        array: what the caller gave.
        parts: its parts.
        what: what errors call it.

    Raises:
        ArgumentError: the index arrays contradict themselves.
        ShapeError: it is no matrix.
    """
    if len(parts.shape) != 2:
        raise ShapeError(f"{what} has shape {tuple(parts.shape)}, which is no matrix")
    if isinstance(parts.data, np.ndarray):
        structure, source = row_order(array, parts, what)
        return _once(structure, place, lambda: _placed(place, structure, source))
    return remembered(array, parts, lambda: _from_device(place, parts), f"on {place.device}")


def _once(structure: Structure, place: OperatorPlace, find: Callable[[], Placed]) -> Placed:
    key = ("placed", place)
    found: Placed | None = structure.plans.get(key)
    if found is None:
        found = structure.plans[key] = find()
    return found


def _placed(place: OperatorPlace, structure: Structure, source: HostArray | None) -> Placed:
    return Placed(
        Matrix(place, structure), None if source is None else place.upload(source.astype(np.int64))
    )


def _from_device(place: OperatorPlace, parts: Any) -> Placed:
    """The structure of what is in a GPU's memory, of whose index arrays the CPU gets a copy."""
    if isinstance(parts, Coo):
        coords = tuple(axis.cpu().numpy() for axis in parts.coords)
        structure, source = converted_rows(parts._replace(coords=coords))
        return _placed(place, structure, source)
    host = {"indptr": parts.indptr.cpu().numpy(), "indices": parts.indices.cpu().numpy()}
    structure, source = converted_rows(parts._replace(**host))
    index = None
    if type(parts) is Csr and host["indptr"].dtype == host["indices"].dtype:
        kind = structure.indptr.dtype
        index = place.prepared(parts.indptr, kind), place.prepared(parts.indices, kind)
        index = index[0], index[1][: structure.nnz]
        return Placed(Matrix(place, structure, index), None)
    return _placed(place, structure, source)
