"""Products of block-sparse matrices with dense ones."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Bsc, Bsr, DenseOperand
from ...sparse.convert import transpose
from ...sparse.kernels.bsr import BsrCase, spmm_blocks
from ...target.machine import cache_sizes
from .compiled import compiled, vector_bytes
from .operands import check_on_cpu, promoted
from .results import converted, empty, given
from .structure import Structure, remembered

Array = np.ndarray[Any, Any]

# Multiplications below which threads would cost more than they save.
_SERIAL = 400_000
# Vectors of this many bytes come in 32 registers, of which 24 hold sums; narrower ones in 16, of
# which 12 do.
_WIDE, _MANY, _FEW = 64, 24, 12
# A block of fewer rows reads the dense matrix so fast that it is always fetched ahead.
_LOW = 12
# What a tile costs for each block besides its multiplications, in cycles.
_BLOCK = 8


class BsrPlan(Record):
    """How a product with blocks is computed.

    Attributes:
        case: what the kernel is made for.
        kernel: the compiled kernel.
        units: into how many parts of work the strips of blocks are divided.
        cuts: into how many parts their columns.
    """

    case: BsrCase
    kernel: Any
    units: int
    cuts: int


def has_kernel(parts: Bsr | Bsc) -> bool:
    """Whether blocks are multiplied as such: those of one row are better off as elements."""
    return bool(parts.data.shape[1] > 1)


def bsr_spmm(a: Any, parts: Bsr | Bsc, operand: DenseOperand, out: Any) -> Array:
    """The product of a matrix of blocks and a dense one, which fits.

    Args:
        a: what the caller gave.
        parts: its parts.
        operand: the dense matrix.
        out: the caller's array for the result, or None.
    """
    structure, values = block_rows(a, parts)
    values, columns, kind = promoted(values, operand, "a @ x")
    features, found = columns.shape[1], columns.dtype
    block = parts.data.shape[1:]
    key = ("bsr", features, found)
    plan = structure.plans.get(key)
    if plan is None:
        plan = structure.plans[key] = planned(structure, block, features, found)
    if out is None or kind != found:
        result = empty(parts.shape[0], features, found)
    else:
        result = given(out, (parts.shape[0], features), kind, x=columns, a=values)
    if features:
        plan.kernel(
            values, columns, result, structure.indptr, structure.indices, *structure.shape,
            structure.nnz, plan.units, plan.cuts,
        )  # fmt: skip
    return result if kind == found else converted(result, kind, out)


def block_rows(a: Any, parts: Bsr | Bsc) -> tuple[Structure, Array]:
    """The structure of the blocks by rows, checked once, and the blocks in their order."""
    check_on_cpu(parts, "a")
    height, width = parts.data.shape[1:]
    shape = parts.shape[0] // height, parts.shape[1] // width
    if isinstance(parts, Bsr):
        structure = remembered(
            a, parts, lambda: Structure(parts.indptr, parts.indices, shape), "blocks"
        )
        nnz = structure.nnz
        return structure, parts.data if len(parts.data) == nnz else parts.data[:nnz]

    def by_rows() -> tuple[Structure, Array]:
        found = transpose(parts.indptr, parts.indices, shape[::-1])
        return Structure(found.indptr, found.indices, shape), found.source

    structure, source = remembered(a, parts, by_rows, "blocks")
    return structure, parts.data[source]


def explain_blocks(a: Any, parts: Bsr | Bsc, features: int, kind: np.dtype[Any]) -> str:
    """How `bsr_spmm` goes about it."""
    structure, _ = block_rows(a, parts)
    case = planned(structure, parts.data.shape[1:], features, kind).case
    fetched = ", what the next block needs fetched early" if case.fetches else ""
    return (
        f"blocks: {case.height} x {case.width}, in tiles of {case.rows} rows and "
        f"{case.vectors} vectors of {case.lanes}{fetched}"
    )


# ---------------------------------------------------------------------------- choice of a tile


def planned(
    structure: Structure,
    block: tuple[int, int],
    features: int,
    kind: np.dtype[Any],
    checked: bool = False,
) -> BsrPlan:
    """The plan for blocks of a shape; `checked` is as of `BsrCase`."""
    height, width = block
    lanes = max(1, vector_bytes() // kind.itemsize)
    rows, vectors = tile(height, ceil(features / lanes), vector_bytes() >= _WIDE)
    size = structure.shape[1] * width * features * kind.itemsize
    fetches = height < _LOW or size > 2 * cache_sizes()[1]
    case = BsrCase(
        features, height, width, str(kind), str(structure.indices.dtype), lanes, rows, vectors,
        fetches, checked,
    )  # fmt: skip
    work = structure.nnz * height * width * features
    units = cuts = 1
    if work >= _SERIAL:
        wanted = (4 if work < 20_000_000 else 16) * get_num_threads()
        units = max(1, min(wanted, structure.shape[0]))
        cuts = max(1, min(wanted // units, case.panels))
    return BsrPlan(case, compiled(spmm_blocks, case), units, cuts)


def tile(height: int, vectors: int, is_wide: bool) -> tuple[int, int]:
    """Rows and vectors of the tile by which a strip of some rows and vectors is done soonest.

    In a cycle a core does two multiplications, or reads two operands; and a sum waits four cycles
    for the one before.

    Args:
        height: rows of a block.
        vectors: of a row of the dense matrix.
        is_wide: whether there are 32 registers.

    >>> tile(32, 32, True), tile(4, 32, True), tile(32, 32, False), tile(5, 1, True)
    ((8, 3), (4, 4), (4, 2), (5, 1))
    """
    registers = _MANY if is_wide else _FEW
    most = max(4, 16 // height) if is_wide else 2
    shapes = [
        (rows, wide)
        for rows in range(1, min(height, registers) + 1)
        for wide in range(1, max(1, min(vectors, most, registers // rows)) + 1)
    ]

    def cycles(shape: tuple[int, int]) -> float:
        total = 0.0
        for wide, across in _parts(vectors, shape[1]):
            for rows, down in _parts(height, shape[0]):
                each = max(rows * wide / 2, (rows + wide) / 2, 4)
                total += across * down * (32 * each + _BLOCK)
        return total

    return min(shapes, key=lambda shape: (cycles(shape), -shape[1]))


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """The sizes of the parts into which an extent is cut, and how often each occurs."""
    return [(size, extent // size), (extent % size, int(extent % size > 0))]
