"""Sparse arrays as plain index arrays: one class a format, over memory that belongs to others.

The fields are NumPy arrays, or PyTorch tensors where the memory is a GPU's. Making one in public
checks in constant time that the parts fit together; what the indices say is checked by `validate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...base.errors import ShapeError
from .parts import as_index, as_part, as_shape, stacked

__all__ = ["Bsc", "Bsr", "Coo", "Csc", "Csr", "Gcxs", "Sparse"]

# A NumPy array, or a PyTorch tensor on a GPU.
Array = Any


class _CompressedFields(NamedTuple):
    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, int]


class _CooFields(NamedTuple):
    coords: tuple[Array, ...]
    data: Array
    shape: tuple[int, ...]
    is_canonical: bool


class _GcxsFields(NamedTuple):
    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, ...]
    compressed_axes: tuple[int, ...]


class _Format:
    """What all formats have. They compare by identity, since arrays do not compare as one."""

    __slots__ = ()

    format: ClassVar[str]
    data: Array
    shape: Any

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        extents = " x ".join(map(str, self.shape)) or "scalar"
        kind = str(self.data.dtype).removeprefix("torch.")
        return f"{type(self).__name__}({extents}, {len(self.data)} stored, {kind}, {self.device})"

    @property
    def device(self) -> str:
        """Where the memory is: `cpu`, or a device of PyTorch's such as `cuda:0`."""
        return "cpu" if isinstance(self.data, np.ndarray) else str(self.data.device)


class _Compressed(_Format, _CompressedFields):
    """A matrix of which one axis is compressed, element by element or block by block."""

    __slots__ = ()

    axis: ClassVar[int]  # the compressed one
    block_rank: ClassVar[int]  # 2 where an entry is a block, 0 where it is a number

    def __new__(
        cls, indptr: Any, indices: Any, data: Any, shape: Sequence[int]
    ) -> Self:  # the fields with checks; readers of other libraries' arrays go without
        extents = as_shape(shape, rank=2)
        name = cls.__name__
        values = as_part(data, f"{name}.data", rank=1 + cls.block_rank)
        starts, others = as_index(indptr, f"{name}.indptr"), as_index(indices, f"{name}.indices")
        if len(others) != len(values):
            raise ShapeError(f"{name} has {len(others)} indices, but {len(values)} entries of data")
        block = values.shape[1:] if cls.block_rank else (1, 1)
        for extent, size in zip(extents, block, strict=True):
            if size == 0 or extent % size:
                raise ShapeError(f"{name} of shape {extents} is not made of blocks of {block}")
        rows = extents[cls.axis] // block[cls.axis]
        if len(starts) != rows + 1:
            raise ShapeError(f"{name}.indptr has {len(starts)} entries, not {rows + 1}")
        return tuple.__new__(cls, (starts, others, values, extents))

    @property
    def nnz(self) -> int:
        """The numbers that are stored, all those of a block counted."""
        entries = int(self.indptr[-1])
        return entries * self.data.shape[1] * self.data.shape[2] if self.block_rank else entries


class Csr(_Compressed):
    """A matrix by compressed rows: row `i` has `indices[indptr[i]:indptr[i + 1]]`, and as `data`.

    Args:
        indptr: int32 or int64 of shape `(rows + 1,)`.
        indices: columns, of the type of `indptr` as a rule; nothing is said of their order.
        data: values, as many as indices. Of the same column twice in a row the values add up. What
            lies behind `indptr[-1]` entries, where SciPy's arrays may have room, is not used.
        shape: rows and columns.

    Raises:
        ShapeError, DTypeError: the parts do not fit together.

    >>> a = Csr([0, 2, 3], [0, 2, 1], np.float32([1, 2, 3]), (2, 3))
    >>> a
    Csr(2 x 3, 3 stored, float32, cpu)
    >>> indptr, indices, data, shape = a
    >>> a.nnz, a.indices is indices
    (3, True)
    """

    __slots__ = ()
    format, axis, block_rank = "csr", 0, 0


class Csc(_Compressed):
    """A matrix by compressed columns: as `Csr`, with rows and columns exchanged.

    >>> Csc([0, 1, 1, 2], [0, 1], [1.0, 2.0], (2, 3))
    Csc(2 x 3, 2 stored, float64, cpu)
    """

    __slots__ = ()
    format, axis, block_rank = "csc", 1, 0


class Bsr(_Compressed):
    """A matrix of dense blocks by compressed rows of blocks.

    Args:
        indptr: of shape `(rows of blocks + 1,)`.
        indices: columns of blocks.
        data: of shape `(blocks, block rows, block columns)`.
        shape: of the matrix, in numbers; multiples of a block's.

    >>> a = Bsr([0, 1, 2], [1, 0], np.ones((2, 2, 3)), (4, 6))
    >>> a, a.nnz
    (Bsr(4 x 6, 2 stored, float64, cpu), 12)
    """

    __slots__ = ()
    format, axis, block_rank = "bsr", 0, 2


class Bsc(_Compressed):
    """A matrix of dense blocks by compressed columns of blocks; a block is stored as in `Bsr`.

    >>> Bsc([0, 1, 2], [1, 0], np.ones((2, 2, 3)), (4, 6))
    Bsc(4 x 6, 2 stored, float64, cpu)
    """

    __slots__ = ()
    format, axis, block_rank = "bsc", 1, 2


class Coo(_Format, _CooFields):
    """An array of any rank by the coordinates of its entries.

    Args:
        coords: an array of indices for each axis; they may be rows or columns of one array, of any
            stride.
        data: values, as many as coordinates. Values at the same coordinates add up.
        shape: an extent for each axis.
        is_canonical: whether it is known that the coordinates are in row-major order and that none
            occur twice.

    >>> a = Coo(([0, 1], [2, 0], [1, 1]), [1.0, 2.0], (2, 3, 4))
    >>> a, a.nnz, a.is_canonical
    (Coo(2 x 3 x 4, 2 stored, float64, cpu), 2, False)
    """

    __slots__ = ()
    format = "coo"

    def __new__(
        cls, coords: Sequence[Any], data: Any, shape: Sequence[int], is_canonical: bool = False
    ) -> Self:
        extents = as_shape(shape)
        if len(coords) != len(extents):
            raise ShapeError(f"Coo has coordinates of {len(coords)} axes, but shape {extents}")
        values = as_part(data, "Coo.data", rank=1)
        axes = [as_index(c, f"Coo.coords[{k}]", strided=True) for k, c in enumerate(coords)]
        for number, found in enumerate(axes):
            if len(found) != len(values):
                text = f"Coo.coords[{number}] has {len(found)} entries, but data has {len(values)}"
                raise ShapeError(text)
        return tuple.__new__(cls, (tuple(axes), values, extents, bool(is_canonical)))

    @property
    def nnz(self) -> int:
        """The numbers that are stored."""
        return len(self.data)

    @property
    def stacked(self) -> Array:
        """The coordinates as one array of shape `(rank, entries)`; a view where they are its rows.

        >>> both = np.array([[0, 1], [2, 0]])
        >>> np.shares_memory(Coo(tuple(both), [1.0, 2.0], (2, 3)).stacked, both)
        True
        """
        return stacked(self.coords, len(self.data))


class Gcxs(_Format, _GcxsFields):
    """An array of rank 3 and more, stored as a matrix by compressed rows.

    The matrix has the compressed axes as rows and the others as columns, each in row-major order
    (Shaikh and Hasan, "Efficient storage scheme for n-dimensional sparse array: GCRS/GCCS", 2015).

    Args:
        indptr: of shape `(rows of the matrix + 1,)`.
        indices: columns of the matrix.
        data: values, as many as indices.
        shape: an extent for each axis.
        compressed_axes: those that make the rows, in ascending order.

    >>> a = Gcxs([0, 1, 2], [5, 0], [1.0, 2.0], (3, 2, 4), compressed_axes=[1])
    >>> a, a.matrix
    (Gcxs(3 x 2 x 4, 2 stored, float64, cpu), Csr(2 x 12, 2 stored, float64, cpu))
    """

    __slots__ = ()
    format = "gcxs"

    def __new__(
        cls, indptr: Any, indices: Any, data: Any, shape: Sequence[int],
        compressed_axes: Sequence[int],
    ) -> Self:  # fmt: skip
        extents, axes = as_shape(shape), tuple(int(axis) for axis in compressed_axes)
        if list(axes) != sorted({axis for axis in axes if 0 <= axis < len(extents)}):
            raise ShapeError(f"compressed axes {axes} of a Gcxs of shape {extents}")
        made: Self = tuple.__new__(cls, (indptr, indices, data, extents, axes))
        flat = Csr(indptr, indices, data, made.matrix_shape)
        return tuple.__new__(cls, (*flat[:3], extents, axes))

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """The extents of the matrix that is stored."""
        rows = columns = 1
        for axis, extent in enumerate(self.shape):
            if axis in self.compressed_axes:
                rows *= extent
            else:
                columns *= extent
        return rows, columns

    @property
    def matrix(self) -> Csr:
        """The matrix that is stored, over the same memory."""
        return tuple.__new__(Csr, (self.indptr, self.indices, self.data, self.matrix_shape))

    @property
    def nnz(self) -> int:
        """The numbers that are stored."""
        return int(self.indptr[-1])


Sparse = Csr | Csc | Bsr | Bsc | Coo | Gcxs
