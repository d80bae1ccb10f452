"""Which kernel computes a sampled product of two dense matrices, and why."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import UserError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import view
from ...sparse.kernels.sddmm import SddmmCase, sddmm_groups
from ...sparse.kernels.sddmm_parts import sddmm_parts
from ...target.machine import cache_sizes
from .choices import parsed, recorded
from .compiled import compiled, vector_bytes
from .rows import compressed_rows
from .structure import Structure

Array = np.ndarray[Any, Any]

# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# Into how many parts of work for each thread elements are divided, below so many multiplications.
# They are of the same size, and few of them leave more in the caches for the next call.
_UNITS, _MOST_UNITS = ((5_000_000, 2), (50_000_000, 4)), 16
# Bytes of the second matrix from which on its rows are fetched early; the cache lines of a short
# row; by how many elements short rows and long ones are fetched, and how many cache lines of each,
# as the processor goes on with long ones by itself.
_FETCHED, _LINES = 1 << 20, 8
_SHORT_ROW, _LONG_ROW = (16, 8), (4, 16)
# Vectors of a row that are multiplied at once, part by part.
_TILE = 8
# Elements that a row must have in a part, and in all, to be worth its while.
_OF_PART, _LONG = 8, 64
# The share of all elements that must be in such rows.
_MOST = 0.5


class SddmmPlan(Record):
    """How a sampled product is computed.

    Attributes:
        format: "groups" or "parts".
        kernel: the compiled kernel.
        index: its arrays that say where elements are.
        scalars: its arguments after the sizes.
        reason: the statistics that decided.
    """

    format: str
    kernel: Any
    index: tuple[Array, Array]
    scalars: tuple[int, ...]
    reason: str


def explain_sddmm(mask: Any, features: int, dtype: Any = "float32") -> str:
    """How `sddmm(mask, x, y)` is computed for matrices of so many columns, and why.

    >>> import scipy.sparse
    >>> explain_sddmm(scipy.sparse.eye_array(4, format="csr", dtype="float32"), 16)
    'groups: 16 columns; parts need a multiple of ...'
    """
    structure, _ = compressed_rows(mask, view(mask, what="mask"), "mask")
    plan = planned(structure, features, np.dtype(dtype), "multiply")
    return f"{plan.format}: {plan.reason}"


def planned(
    structure: Structure, features: int, kind: np.dtype[Any], values: str, format: str = "auto"
) -> SddmmPlan:
    """The plan for a structure, matrices of so many columns, and a type of four bytes or more.

    Args:
        structure: of the mask.
        features: columns of both matrices.
        kind: the type in which is computed.
        values: whether the mask's own count, as of `sddmm`.
        format: "auto" or what is wanted: "groups", "parts", or "parts 900" for 900 rows of `y` in a
            part.

    Raises:
        UserError: the wanted format cannot serve.
    """
    wanted, size = parsed(format, ("groups", "parts"))
    if wanted == "auto":
        found = recorded(
            "sddmm", structure, features, kind, lambda s, f, k, name: planned(s, f, k, values, name)
        )
        if found is not None:
            return found
    lanes = max(2, vector_bytes() // kind.itemsize)
    ahead, lines = _fetches(structure.shape[1], features * kind.itemsize)
    case = SddmmCase(
        features, str(kind), str(structure.indices.dtype), lanes, values, ahead, lines
    )  # fmt: skip
    width = _part(structure, features, kind.itemsize, lanes)
    if wanted == "groups":
        width = "as asked for"
    elif wanted == "parts" and isinstance(width, str):
        raise UserError(f"parts cannot serve: {width}")
    if isinstance(width, str):
        work = structure.nnz * features
        each = next((units for most, units in _UNITS if work < most), _MOST_UNITS)
        units = 1 if work < _SERIAL else each * get_num_threads()
        index = _rows_of_elements(structure), structure.indices
        return SddmmPlan("groups", compiled(sddmm_groups, case), index, (units,), width)
    width = size or width
    count = ceil(structure.shape[1] / width)
    kernel = compiled(sddmm_parts, case, min(_TILE, features // lanes))
    scalars = 4 * get_num_threads(), _long(count), width
    reason = f"{structure.mean:.0f} elements a row, {count} parts of {width} rows"
    return SddmmPlan("parts", kernel, (structure.indptr, structure.indices), scalars, reason)


def sddmm_choices(structure: Structure, features: int, kind: np.dtype[Any]) -> list[str]:
    """The formats that may serve, that of the model first."""
    lanes = max(2, vector_bytes() // kind.itemsize)
    width = _part(structure, features, kind.itemsize, lanes)
    if isinstance(width, str):
        return ["groups"]
    return ["parts", "groups", f"parts {2 * width}", f"parts {max(1, width // 2)}"]


def _rows_of_elements(structure: Structure) -> Array:
    found: Array | None = structure.plans.get("rows of elements")
    if found is None:
        rows = np.arange(structure.shape[0], dtype=structure.indptr.dtype)
        found = structure.plans["rows of elements"] = np.repeat(rows, structure.lengths)
    return found


def _fetches(rows: int, width: int) -> tuple[int, int]:
    """By how many elements rows of so many bytes are fetched early, and how many lines of each."""
    lines = ceil(width / LINE)
    if rows * width <= _FETCHED:
        return 0, 0
    ahead, most = _SHORT_ROW if lines <= _LINES else _LONG_ROW
    return ahead, min(lines, most)


def _long(count: int) -> int:
    """From how many elements on rows go part by part, of so many parts."""
    return max(_LONG, _OF_PART * count)


def _part(structure: Structure, features: int, item: int, lanes: int) -> int | str:
    """The rows of a part that stays in the second-level cache, or why there are none."""
    if features % lanes or features < 4 * lanes:
        return f"{features} columns; parts need a multiple of {lanes} from {4 * lanes} on"
    tile = min(_TILE, features // lanes)
    if features % (tile * lanes):
        return f"{features} columns are no multiple of {tile * lanes}"
    if structure.mean < _LONG:
        return f"{structure.mean:.1f} elements a row; parts need rows of {_LONG} and more"
    width = max(1, 6 * cache_sizes()[1] // 10 // (tile * lanes * item))
    count = ceil(structure.shape[1] / width)
    if count < 2:
        return "the second matrix stays in the second-level cache"
    if not structure.is_sorted:
        return "the columns are not sorted"
    share = structure.share_of_rows_from(_long(count))
    if share < _MOST:
        return f"{share:.0%} of the elements are in rows of {_long(count)} and more"
    return width
