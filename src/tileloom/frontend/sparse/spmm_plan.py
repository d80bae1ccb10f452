"""Which kernel computes a product of a sparse matrix with a dense one, and why.

The choice is between going through the rows of the sparse matrix once, keeping a part of the dense
matrix in the second-level cache while all long rows take in what they have there, and blocks. It
depends on how many cache lines come from how far, for which there is a model over the statistics of
the matrix. (Its rates were measured on one machine; it is their ratios that count.)
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
from .blocked import BlockedProduct, Later, blocked_product, expected_blocks
from .bsr import explain_blocks, has_kernel
from .choices import parsed, recorded
from .compiled import compiled, vector_bytes
from .filling import fillings, reuse
from .results import STREAMED
from .rows import compressed_rows
from .structure import Structure

# Nanoseconds of one core: for a cache line of the dense matrix from the second-level cache and from
# beyond; for an element of the sparse matrix in itself.
_NEAR, _FAR, _ELEMENT = 0.6, 2.0, 2.0
# For a cache line of a result, which each part loads and stores.
_RESULT = 5.6
# Parts must be so much faster by the model to be chosen.
_CLEARLY = 0.8
# Blocks must be so much faster than parts by the model, and at least so full as expected.
_SURELY, _NEARLY = 0.7, 0.9
# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# As much of the second-level cache holds what is on either side of the diagonal row after row.
_REACH = 0.4
# Bytes of the dense matrix from which on its rows are fetched early, and by which.
_FETCHED, _AHEAD = 1 << 20, 4096
# Blocks that are filled so far are tried where formats are tuned.
_TRIED = 0.25
# Cache lines of a row that are fetched; the hardware sees where that goes, and goes on.
_LINES = 8

FORMATS = ("rows", "parts", "blocks")


class SpmmPlan(Record):
    """How a product is computed.

    Attributes:
        format: "rows", "parts" or "blocks".
        kernel: the compiled kernel.
        streamed: the one for results that begin with a cache line, or `kernel` again.
        units: into how many parts of work the rows are divided.
        parts: from how many elements on rows are long, and the rows of `x` in a part.
        reason: the statistics that decided.
        blocks: the product by blocks; the kernel is then for results that are not finite.
        later: says when blocks are worth being made.
    """

    format: str
    kernel: Any
    streamed: Any
    units: int
    parts: tuple[int, int] | None
    reason: str
    blocks: BlockedProduct | None = None
    later: Later | None = None

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
    """The plan for a structure.

    Args:
        structure: of the sparse matrix.
        features: columns of the dense one.
        kind: the type in which is computed.
        format: "auto" or what is wanted: "rows", "parts", or "blocks 8" for blocks of 8 x 8;
            "rows 4" for tiles of 4 vectors, "parts 900" for 900 rows of `x` in a part.

    Raises:
        UserError: the wanted format cannot serve.
    """
    lanes = max(1, vector_bytes() // kind.itemsize)
    wanted, size = parsed(format, FORMATS)
    if wanted == "auto":
        return recorded("spmm", structure, features, kind, planned) or _by_model(
            structure, features, kind, lanes
        )
    if wanted == "blocks":
        if size is None:
            raise UserError("blocks need a size", hint='"blocks 8" for 8 x 8')
        return _by_blocks(structure, features, kind, size, "as asked for")
    if wanted == "rows":
        return _by_rows(structure, features, kind, lanes, "as asked for", size)
    parts = _parts(structure, features, kind, lanes, size)
    if isinstance(parts, str):
        raise UserError(f"parts cannot serve: {parts}")
    return _by_parts(structure, features, kind, lanes, parts, "as asked for")


def spmm_choices(structure: Structure, features: int, kind: np.dtype[Any]) -> list[str]:
    """The formats that may serve, that of the model first."""
    lanes = max(1, vector_bytes() // kind.itemsize)
    model = _by_model(structure, features, kind, lanes)
    edges = sorted(fillings(structure).items(), key=lambda item: -item[1] * item[0])
    blocks = [f"blocks {edge}" for edge, filling in edges if filling >= _TRIED]
    parts = _parts(structure, features, kind, lanes)
    sizes = () if isinstance(parts, str) else (parts.width // 2, 2 * parts.width)
    found = ["rows", "parts", *blocks, *(f"parts {size}" for size in sizes if size)]
    if isinstance(parts, str):
        found.remove("parts")
    count = ceil(features / lanes)
    tiles = {_tile(count, most): most for most in (16, 8, 4, 2)}
    tiles.pop(_tile(count, None), None)
    found += [f"rows {most}" for most in tiles.values()]
    first = model.format
    if model.later is not None:
        first = f"blocks {model.reason.split()[0]}"
    return [first, *(choice for choice in found if choice != first)]


def _by_model(structure: Structure, features: int, kind: np.dtype[Any], lanes: int) -> SpmmPlan:
    parts = _parts(structure, features, kind, lanes)
    if isinstance(parts, str):
        return _rows_or_blocks(structure, features, kind, lanes, parts)
    rows_time, parts_time = parts.times
    reason = f"{rows_time / 1e6:.3g} ms by rows, {parts_time / 1e6:.3g} by parts (model)"
    if parts_time < _CLEARLY * rows_time:
        blocks = expected_blocks(structure, features, kind)
        if blocks is None or blocks.time > _SURELY * parts_time:
            return _by_parts(structure, features, kind, lanes, parts, reason)
    return _rows_or_blocks(structure, features, kind, lanes, reason)


# ---------------------------------------------------------------------------- blocks


def _rows_or_blocks(
    structure: Structure, features: int, kind: np.dtype[Any], lanes: int, reason: str
) -> SpmmPlan:
    """By rows, until there were so many products that blocks are worth being made."""
    rows = _by_rows(structure, features, kind, lanes, reason)
    expected = expected_blocks(structure, features, kind)
    if expected is None:
        return rows

    def make() -> SpmmPlan:
        try:
            product = blocked_product(structure, expected.edge, features, kind)
        except UserError:  # elements are stored twice
            return rows
        if product.blocks.filling < _NEARLY * expected.filling:
            return rows
        return rows.replace(format="blocks", blocks=product, reason=expected.reason)

    return rows.replace(format="blocks", reason=expected.reason, later=Later(expected.calls, make))


def _by_blocks(
    structure: Structure, features: int, kind: np.dtype[Any], edge: int, reason: str
) -> SpmmPlan:
    lanes = max(1, vector_bytes() // kind.itemsize)
    product = blocked_product(structure, edge, features, kind)
    reason = f"{edge} x {edge}, {product.blocks.filling:.0%} full, {reason}"
    rows = _by_rows(structure, features, kind, lanes, reason)
    return rows.replace(format="blocks", blocks=product)


# ---------------------------------------------------------------------------- row by row


def _by_rows(
    structure: Structure,
    features: int,
    kind: np.dtype[Any],
    lanes: int,
    reason: str,
    most: int | None = None,
) -> SpmmPlan:
    item, threads = kind.itemsize, get_num_threads()
    count = max(1, ceil(features / lanes))
    tile = _tile(count, most)
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


def _tile(count: int, most: int | None) -> int:
    """The vectors that are summed at once, of so many in a row: at most so many."""
    most = most or (16 if count >= 32 else 4)
    return ceil(count / ceil(count / most))


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


def _parts(
    structure: Structure,
    features: int,
    kind: np.dtype[Any],
    lanes: int,
    width: int | None = None,
) -> _Parts | str:
    """How the dense matrix would be cut, or why it cannot be."""
    if features % lanes or features < 4 * lanes:
        return f"{features} columns; parts need a multiple of {lanes} from {4 * lanes} on"
    tile = min(8, features // lanes)
    if features % (tile * lanes):
        return f"{features} columns are no multiple of {tile * lanes}"
    if structure.mean < 64:
        return f"{structure.mean:.1f} elements a row; parts need rows of 64 and more"
    near = 6 * cache_sizes()[1] // 10
    width = width or max(1, near // (tile * lanes * kind.itemsize))
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
    far = (1 - hits) / reuse(structure)
    line = (1 - far) * _NEAR + far * _FAR
    share = structure.share_of_rows_from(long)
    by_rows = max(_ELEMENT, lines * line)
    by_parts = max(_ELEMENT, lines * _NEAR)
    rows = structure.rows_from(long)
    results = rows * count * lines * _RESULT  # loaded and stored once for each part
    each = structure.nnz / get_num_threads()
    mixed = each * (share * by_parts + (1 - share) * by_rows)
    return each * by_rows, mixed + results / get_num_threads()
