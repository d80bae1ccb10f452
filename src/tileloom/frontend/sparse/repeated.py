"""Calls of operators that were made before, with operands of the same types and shapes.

A first call reads its operands, has index arrays checked and chooses a kernel. What that came to is
kept with the sparse array, so that the next call runs the kernel at once. The kernel itself checks
dense operands and `out` in machine code: types, shapes, order, that results share no memory with
what is read. What it refuses is left to the operator, which can serve it after all or says why not.

Only SciPy's arrays by rows have this: their index arrays are attributes, and that they are still
the same objects is all that is left to be asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base.aligned import LINE
from ...base.errors import UserError
from ...sparse.arrays import Csr
from .results import empty
from .structure import KNOWN

Array = np.ndarray[Any, Any]
_ndarray = np.ndarray


class RepeatedCall(NamedTuple):
    """A call of an operator, but for its operands.

    Attributes:
        kernel: takes the matrix's values if they count, dense operands, the result, `rest`.
        streamed: the one for results that begin with a cache line, or `kernel` again.
        shape, dtype: of the result.
        nnz: elements of the sparse matrix.
        weighs: whether its values count.
        rest: further arguments.
    """

    kernel: Any
    streamed: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nnz: int
    weighs: bool
    rest: tuple[Any, ...]


def prepare(array: Any, parts: Csr, key: tuple[Any, ...], call: RepeatedCall) -> None:
    """Keep a call for `run_again`, if that can serve such an array.

    Args:
        array: what the caller gave.
        parts: its parts.
        key: the operator, and all of the dense operands that chose the kernel.
        call: the call, of which the kernel takes the operands as they are.
    """
    if call.weighs and parts.data.dtype != call.dtype:
        return
    if type(array).__module__.partition(".")[0] != "scipy":
        return
    known = KNOWN.get(id(array))
    if known is None or known[0]() is not array or array.format != "csr":
        return
    indptr, indices, _ = known[1]
    if indptr is array.indptr and indices is array.indices and len(parts.data) == call.nnz:
        known[2][key] = call


def forget(array: Any, operator: str) -> None:
    """Drop the calls of an operator that were kept: its kernel may be another one now."""
    known = KNOWN.get(id(array))
    if known is not None and known[0]() is array:
        for key in [key for key in known[2] if key[0] == operator]:
            del known[2][key]


def run_again(
    array: Any, key: tuple[Any, ...], operands: tuple[Array, ...], out: Any, *scalars: Any
) -> Array | None:
    """The result of a call that was prepared; None where the operator has to look at it.

    Args:
        array: the sparse array that the caller gave.
        key: what `prepare` had.
        operands: the dense ones.
        out: the caller's array for the result, or None.
        scalars: the last arguments of the kernel.
    """
    known = KNOWN.get(id(array))
    if known is None:
        return None
    call: RepeatedCall | None = known[2].get(key)
    if call is None or known[0]() is not array:
        return None
    kernel, streamed, shape, dtype, nnz, weighs, rest = call
    (indptr, indices, extents), values = known[1], array.data
    if (
        array.indptr is not indptr
        or array.indices is not indices
        or array.shape != extents
        or type(values) is not _ndarray
        or len(values) != nnz
        or not values.flags.c_contiguous
    ):
        return None
    result = out
    if out is None:
        result = np.empty(shape, dtype) if streamed is kernel else empty(shape[0], shape[1], dtype)
    elif type(out) is not _ndarray or (not weighs and np.may_share_memory(out, values)):
        return None
    if streamed is not kernel and result.ctypes.data % LINE == 0:
        kernel = streamed
    try:
        if weighs:
            kernel(values, *operands, result, *rest, *scalars)
        else:
            kernel(*operands, result, *rest, *scalars)
    except UserError:
        known[2].pop(key, None)
        return None
    return result  # type: ignore[no-any-return]
