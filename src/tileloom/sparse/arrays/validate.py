"""Whether the indices of a sparse array are those of an array of its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import IndexingError
from ...base.late import load
from .formats import Bsc, Bsr, Coo, Gcxs, Sparse
from .view import view

__all__ = ["validate"]


def validate(array: Any, *, sorted: bool | None = None, what: str = "x") -> Sparse:
    """Look at all indices of a sparse array, which calls of operators do not.

    Args:
        array: whatever `view` reads; what is on a GPU is copied from there.
        sorted: True: the indices of each row ascend, none is there twice. False: they are in any
            order, none is there twice. None: nothing is asked. Nothing is asked of coordinates.
        what: what errors call it.

    Returns:
        The view of the array.

    Raises:
        UserError: an index out of range, an `indptr` that falls, what `sorted` asks.

    >>> from tileloom.sparse.arrays import Coo
    >>> validate(Coo(([0, 1], [0, 7]), [1.0, 2.0], (2, 3)), what="a")
    Traceback (most recent call last):
    tileloom.base.errors.IndexingError: index 7 at position 1 of a's axis 1 is out of range; ...
    """
    found = view(array, what=what)
    if isinstance(found, Coo):
        _check_coords(found, what)
        return found
    matrix = found.matrix if isinstance(found, Gcxs) else found
    extents: tuple[int, ...] = matrix.shape
    if isinstance(matrix, Bsr | Bsc):
        extents = tuple(n // size for n, size in zip(extents, matrix.data.shape[1:], strict=True))
    if matrix.axis == 1:
        extents = extents[::-1]
    indptr, indices = _on_cpu(matrix.indptr), _on_cpu(matrix.indices)
    # SciPy's arrays may have room for more entries than there are.
    used = indices[: max(int(indptr[-1]), 0)]
    load("tileloom.sparse.convert").check_csr(indptr, used, extents, sorted=sorted)
    return found


def _on_cpu(part: Any) -> np.ndarray[Any, Any]:
    return part if isinstance(part, np.ndarray) else np.asarray(part.cpu())


def _check_coords(array: Coo, what: str) -> None:
    for axis, (indices, extent) in enumerate(zip(array.coords, array.shape, strict=True)):
        found = _on_cpu(indices)
        bad = np.flatnonzero((found < 0) | (found >= extent))
        if len(bad):
            raise IndexingError(
                f"index {found[bad[0]]} at position {bad[0]} of {what}'s axis {axis} is out of "
                f"range; the axis has extent {extent}"
            )
