"""Which kernel computes a product of a sparse matrix with a dense one, and why.

The choice is between going through the rows of the sparse matrix once, and keeping a part of the
dense matrix in the second-level cache while all long rows take in what they have there. It depends
on how many cache lines come from how far, for which there is a model over the statistics of the
matrix. (Its rates were measured on one machine; it is their ratios that count.)
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import UserError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Bsc, Bsr, view
from ...sparse.kernels.spmm import SpmmCase, spmm_rows
from ...sparse.kernels.spmm_parts import spmm_parts
from ...target.machine import cache_sizes
from .bsr import explain_blocks, has_kernel
from .compiled import compiled, vector_bytes
from .results import STREAMED
from .rows import compressed_rows
from .structure import Structure

# Nanoseconds of one core: for a cache line of the dense matrix from the second-level cache and from
# beyond; for an element of the sparse matrix in itself.
_NEAR, _FAR, _ELEMENT = 0.6, 2.0, 2.0
# Parts must be so much faster by the model to be chosen.
_CLEARLY = 0.8
# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# As much of the second-level cache holds what is on either side of the diagonal row after row.
_REACH = 0.4
# Bytes of the dense matrix from which on its rows are fetched early, and by which.
_FETCHED, _AHEAD = 1 << 20, 4096
# Cache lines of a row that are fetched; the hardware sees where that goes, and goes on.
_LINES = 8

FORMATS = ("rows", "parts")


class SpmmPlan(Record):
    """How a product is computed.

    Attributes:
        format: "rows" or "parts".
        kernel: the compiled kernel.
        streamed: the one for results that begin with a cache line, or `kernel` again.
        units: into how many parts of work the rows are divided.
        parts: from how many elements on rows are long, and the rows of `x` in a part.
        reason: the statistics that decided.
    """

    format: str
    kernel: Any
    streamed: Any
    units: int
    parts: tuple[int, int] | None
    reason: str

    def scratch(self, structure: Structure) -> tuple[Any, ...]:
        """The further arguments of the kernel for a call."""
        if self.parts is None:
            return ()
        m = structure.shape[0]
        return (*self.parts, np.empty(m, np.int64), np.empty(m, structure.indices.dtype))


def explain_spmm(a: Any, features: int, dtype: Any = "float32") -> str:
    """How `spmm(a, x)` is computed for an `x` of so many columns, and why.

    >>> import scipy.sparse
    >>> explain_spmm(scipy.sparse.eye_array(4, format="csr", dtype="float32"), 16)
    'rows: 16 columns; parts need a multiple of ...'
    """
    parts = view(a, what="a")
    if isinstance(parts, Bsr | Bsc) and has_kernel(parts):
        return explain_blocks(a, parts, features, np.dtype(dtype))
    structure, _ = compressed_rows(a, parts, "a")
    plan = planned(structure, features, np.dtype(dtype))
    return f"{plan.format}: {plan.reason}"


def planned(
    structure: Structure, features: int, kind: np.dtype[Any], format: str = "auto"
) -> SpmmPlan:
    """The plan for a structure; `format` is "auto" or what is wanted.

    Raises:
        UserError: the wanted format cannot serve.
    """
    lanes = max(1, vector_bytes() // kind.itemsize)
    parts = _parts(structure, features, kind, lanes)
    if format not in ("auto", *FORMATS):
        raise UserError(f"unknown format {format!r}", hint=f"one of auto, {', '.join(FORMATS)}")
    if format == "parts" and isinstance(parts, str):
        raise UserError(f"parts cannot serve: {parts}")
    if format != "rows" and not isinstance(parts, str):
        rows_time, parts_time = parts.times
        reason = f"{rows_time / 1e6:.3g} ms by rows, {parts_time / 1e6:.3g} by parts (model)"
        if format == "parts" or parts_time < _CLEARLY * rows_time:
            return _by_parts(structure, features, kind, lanes, parts, reason)
    else:
        reason = parts if isinstance(parts, str) else "as asked for"
    return _by_rows(structure, features, kind, lanes, reason)


# ---------------------------------------------------------------------------- row by row


def _by_rows(
    structure: Structure, features: int, kind: np.dtype[Any], lanes: int, reason: str
) -> SpmmPlan:
    item, threads = kind.itemsize, get_num_threads()
    count = max(1, ceil(features / lanes))
    most = 16 if count >= 32 else 4
    tile = ceil(count / ceil(count / most))
    fetched = structure.shape[1] * features * item > _FETCHED
    ahead = max(8, _AHEAD // (min(tile, _LINES) * lanes * item)) if fetched else 0
    sets = 4 if count <= 2 and structure.mean >= 64 else 1
    index = str(structure.indices.dtype)
    case = SpmmCase(features, str(kind), index, lanes, tile, ahead, sets, lines=_LINES)
    kernel = streamed = compiled(spmm_rows, case)
    is_large = structure.shape[0] * features * item > STREAMED
    if is_large and features % lanes == 0 and lanes * item >= 16:
        streamed = compiled(spmm_rows, case._replace(aligned=LINE))
    work = structure.nnz * features
    units = 1 if work < _SERIAL else (4 if work < 5_000_000 else 16) * threads
    return SpmmPlan("rows", kernel, streamed, units, None, reason)


# ---------------------------------------------------------------------------- part by part


class _Parts(Record):
    """What goes part by part, and the times of both ways by the model, in nanoseconds."""

    tile: int
    long: int
    width: int
    times: tuple[float, float]


def _by_parts(
    structure: Structure,
    features: int,
    kind: np.dtype[Any],
    lanes: int,
    parts: _Parts,
    reason: str,
) -> SpmmPlan:
    case = SpmmCase(features, str(kind), str(structure.indices.dtype), lanes, parts.tile)
    # Far apart, rows of a part would share few of the cache's sets.
    packs = parts.tile * lanes < features and features * kind.itemsize >= 1024
    kernel = compiled(spmm_parts, case, packs)
    units = 4 * get_num_threads()
    return SpmmPlan("parts", kernel, kernel, units, (parts.long, parts.width), reason)


def _parts(structure: Structure, features: int, kind: np.dtype[Any], lanes: int) -> _Parts | str:
    """How the dense matrix would be cut, or why it cannot be."""
    if features % lanes or features < 4 * lanes:
        return f"{features} columns; parts need a multiple of {lanes} from {4 * lanes} on"
    tile = min(8, features // lanes)
    if features % (tile * lanes):
        return f"{features} columns are no multiple of {tile * lanes}"
    if structure.mean < 64:
        return f"{structure.mean:.1f} elements a row; parts need rows of 64 and more"
    near = 6 * cache_sizes()[1] // 10
    width = max(1, near // (tile * lanes * kind.itemsize))
    count = ceil(structure.shape[1] / width)
    if count < 2:
        return "the dense matrix stays in the second-level cache"
    if not structure.is_sorted:
        return "the columns are not sorted"
    long = max(64, 8 * count)
    return _Parts(tile, long, width, _times(structure, features, kind, long, count))


def _times(
    structure: Structure, features: int, kind: np.dtype[Any], long: int, count: int
) -> tuple[float, float]:
    """Nanoseconds for rows and for parts."""
    lines = features * kind.itemsize / LINE
    size = structure.shape[1] * features * kind.itemsize
    near = structure.share_near(int(_REACH * cache_sizes()[1] * structure.shape[1] / size))
    hits = near + (1 - near) * min(1.0, 0.8 * cache_sizes()[1] / size)
    line = hits * _NEAR + (1 - hits) * _FAR
    share = structure.share_of_rows_from(long)
    by_rows = max(_ELEMENT, lines * line)
    by_parts = max(_ELEMENT, lines * _NEAR)
    rows = structure.rows_from(long)
    results = rows * count * lines * (_NEAR + _FAR)  # loaded and stored once for each part
    each = structure.nnz / get_num_threads()
    mixed = each * (share * by_parts + (1 - share) * by_rows)
    return each * by_rows, mixed + results / get_num_threads()
