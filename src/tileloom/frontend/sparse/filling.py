"""How full the blocks of a matrix by rows would be, and where its elements are in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.record import Record
from ...sparse.convert import bsr
from .structure import Structure

Array = np.ndarray[Any, Any]

#: The edges of blocks that are tried: those of finite elements, and of weights that were pruned.
EDGES = (2, 3, 4, 6, 8, 16, 32)
# Elements of a sample, of smaller matrices all.
_SAMPLE = 1 << 15
# What is filled less than this is not looked at further: larger blocks are filled less.
_LEAST = 0.25


class Blocks(Record):
    """A matrix by rows as blocks.

    Attributes:
        structure: that of the blocks by rows, counted in blocks.
        edge: of a block, which is square.
        places: for each element where it is in the blocks.
        filling: the part of the blocks that are elements.
    """

    structure: Structure
    edge: int
    places: Array
    filling: float

    @property
    def size(self) -> int:
        """The elements of all blocks, and padding."""
        return self.structure.nnz * self.edge**2


def fillings(structure: Structure) -> dict[int, float]:
    """By the edges that divide both extents: which part of the blocks are elements, about.

    Strips of rows all over the matrix are looked at, all strips of a small one.

    >>> fillings(Structure(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), (2, 2)))
    {2: 1.0}
    """
    found: dict[int, float] | None = structure.plans.get("fillings")
    if found is None:
        found = structure.plans["fillings"] = {}
        for edge in EDGES:
            halves = [e for e in found if edge % e == 0]
            if any(extent % edge for extent in structure.shape) or not structure.nnz:
                continue
            # A block's blocks are no less full than itself.
            if any(found[e] < _LEAST for e in halves):
                continue
            found[edge] = _filling(structure, edge)
    return found


def reuse(structure: Structure) -> float:
    """How many elements in neighbouring rows a row of the dense matrix serves, about.

    >>> reuse(Structure(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), (2, 2)))
    2.0
    """
    return max([1.0, *(edge * filling for edge, filling in fillings(structure).items())])


def _filling(structure: Structure, edge: int) -> float:
    strips = structure.shape[0] // edge
    starts = structure.indptr[::edge].astype(np.int64)
    if structure.nnz <= _SAMPLE:
        counts, elements = np.diff(starts), structure.indices
    else:
        wanted = max(1, _SAMPLE * strips // structure.nnz)
        chosen = np.unique(np.linspace(0, strips - 1, wanted).astype(np.int64))
        counts = starts[chosen + 1] - starts[chosen]
        each = [structure.indices[starts[s] : starts[s + 1]] for s in chosen]
        elements = np.concatenate(each)
    if not len(elements):
        return 0.0
    strip = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    keys = np.sort(strip * structure.shape[1] + elements // edge)
    blocks = 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
    return len(keys) / (blocks * edge**2)


def blocks_of(structure: Structure, edge: int) -> Blocks | None:
    """The matrix as blocks; None where an element is stored twice."""
    key = ("blocks", edge)
    if key not in structure.plans:
        structure.plans[key] = _blocks(structure, edge)
    found: Blocks | None = structure.plans[key]
    return found


def _blocks(structure: Structure, edge: int) -> Blocks | None:
    try:
        made = bsr(structure.indptr, structure.indices, structure.shape, (edge, edge))
    except UserError:
        return None
    m, n = structure.shape
    source = made.source.reshape(-1)
    full = np.flatnonzero(source >= 0)
    kind = np.int32 if made.source.size <= np.iinfo(np.int32).max else np.int64
    places = np.empty(structure.nnz, kind)
    places[source[full]] = full
    found = Structure(made.indptr, made.indices, (m // edge, n // edge))
    return Blocks(found, edge, places, structure.nnz / max(1, made.source.size))
