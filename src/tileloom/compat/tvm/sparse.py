"""`tvm.sparse` of SparseTIR: lowering, formats and their rules, conversion of arrays.

Arrays come as `tvm.nd` arrays, or NumPy's, and go as `tvm.nd` arrays on the CPU. What the passes do
otherwise than SparseTIR's is in `docs/sparse-programs.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ... import sparse
from ...base.late import TYPE_CHECKING
from ...expr import IndexMap
from ._names import missing
from .ir.module import IRModule, as_module
from .runtime import NDArray
from .runtime.ndarray import array

if TYPE_CHECKING:
    from ...sparse import FormatRewriteRule

Nested = list[list[NDArray]]


def lower_sparse_iter(mod: Any, check_invalid_binary_search: bool = False) -> IRModule:
    """The module with loops and blocks over positions.

    An element that is not stored always has the default value, whatever the option says.
    """
    return as_module(sparse.lower_sparse_iter(mod, check_invalid_binary_search))


def lower_sparse_buffer(mod: Any) -> IRModule:
    """The module with plain buffers of one dimension."""
    return as_module(sparse.lower_sparse_buffer(mod, flatten=True))


def format_decompose(
    mod: Any,
    composable_formats: Sequence[FormatRewriteRule],
    include_format_rewrite_blks: bool = True,
) -> IRModule:
    """The module over the parts of tensors that rules describe."""
    made = sparse.format_decompose(mod, composable_formats, include_format_rewrite_blks)
    return as_module(made)


def specialize_buffer(mod: Any, buf_name: str, idx_map: Callable[..., Any] | IndexMap) -> IRModule:
    """The module with a closed form in place of what it loads from a buffer."""
    return as_module(sparse.specialize_buffer(mod, buf_name, idx_map))


def column_part_hyb(
    num_rows: int,
    num_cols: int,
    indptr_nd: Any,
    indices_nd: Any,
    num_col_parts: int,
    buckets: Sequence[int],
) -> tuple[Nested, Nested, Nested]:
    """Rows, columns and mask of each bucket of each column part.

    >>> rows, columns, mask = column_part_hyb(3, 4, [0, 1, 4, 4], [2, 0, 1, 3], 1, [1, 2])
    >>> rows[0][1].numpy(), columns[0][1].shape
    (array([1, 1], dtype=int32), (2, 2))
    """
    indptr, indices = _indices(indptr_nd), _indices(indices_nd)
    found = sparse.column_part_hyb(num_rows, num_cols, indptr, indices, num_col_parts, buckets)
    rows, columns, mask = ([_arrays(part) for part in parts] for parts in found)
    return rows, columns, mask


def condense(indptr: Any, indices: Any, t: int, g: int) -> tuple[NDArray, NDArray, NDArray]:
    """Strips of `t` rows in groups of `g` columns: where groups begin, their columns, a mask."""
    made = sparse.condense(_indices(indptr), _indices(indices), t, g)
    begins, columns, mask = _arrays([made.indptr, made.indices, made.mask])
    return begins, columns, mask


def csf_to_ell3d(
    csf_indptr_0: Any,
    csf_indices_0: Any,
    csf_indptr_1: Any,
    csf_indices_1: Any,
    nnz_rows_bkt: Sequence[int],
    nnz_cols_bkt: Sequence[int],
) -> tuple[list[NDArray], list[NDArray], list[NDArray], list[NDArray]]:
    """Where the groups of each relation begin, their rows, columns and mask, by bucket."""
    made = sparse.csf_to_ell3d(
        _indices(csf_indptr_0),
        _indices(csf_indices_0),
        _indices(csf_indptr_1),
        _indices(csf_indices_1),
        nnz_rows_bkt,
        nnz_cols_bkt,
    )
    return (
        _arrays(bucket.indptr for bucket in made),
        _arrays(bucket.rows for bucket in made),
        _arrays(bucket.indices for bucket in made),
        _arrays(bucket.mask for bucket in made),
    )


def _indices(given: Any) -> np.ndarray[Any, Any]:
    return np.asarray(given, np.int32)


def _arrays(found: Iterable[np.ndarray[Any, Any]]) -> list[NDArray]:
    """Copies with the type that SparseTIR has throughout."""
    return [array(values.astype(np.int32)) for values in found]


_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    if name == "FormatRewriteRule":  # the room of sparse tensors is loaded when it is used
        return sparse.FormatRewriteRule
    return _missing(name)


def __dir__() -> list[str]:
    return sorted({*globals(), "FormatRewriteRule"})
