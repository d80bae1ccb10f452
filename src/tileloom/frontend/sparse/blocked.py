"""Products of matrices by rows whose elements lie in blocks: when blocks pay, and their use.

The values are put into blocks at each call, since they may have changed. The zeros in blocks that
are not full must not meet what is infinite or no number, where the result would be no number: the
kernel says if any result is not finite, which are then computed by rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.kernels.pack import pack_values
from ...target.machine import cache_sizes
from . import bsr
from .compiled import compiled, vector_bytes
from .filling import Blocks, blocks_of, fillings
from .structure import Structure

Array = np.ndarray[Any, Any]

# Nanoseconds of one core, by the least that rows were seen to take and about the most that blocks
# were. By rows: for a vector of the dense matrix, of which an element takes as many as its row has;
# and for an element at least.
_ROW_VECTOR, _ROW_ELEMENT = 0.42, 0.8
# By blocks: for a vector of each place of a block, and for each vector of the dense matrix that all
# rows of a block share; for an element that is put into its block.
_BLOCK_VECTOR, _BLOCK_READ, _PACKED = 0.19, 0.2, 1.0
# For a cache line of the dense matrix that is not in the second-level cache, which all rows of a
# block share: by rows, and by blocks, where there is less to do meanwhile.
_ROW_FAR, _BLOCK_FAR = 1.0, 1.4
# For a call, which is two by blocks; for an element, once, when blocks are made of it.
_CALL, _MADE = 10_000.0, 40.0
# Rows must take so much longer by the model.
_CLEARLY = 1.05
# Elements from which on several threads put them into blocks.
_SERIAL = 50_000


class Expected(Record):
    """What blocks promise.

    Attributes:
        edge: of the best blocks.
        filling: the part of them that are elements, about.
        time: of a product, in nanoseconds.
        calls: after how many calls they have saved what it takes to make them.
        reason: the statistics.
    """

    edge: int
    filling: float
    time: float
    calls: int
    reason: str


def expected_blocks(structure: Structure, features: int, kind: np.dtype[Any]) -> Expected | None:
    """The blocks that are faster than rows by the model, if there are any."""
    threads, item = get_num_threads(), kind.itemsize
    lanes = vector_bytes() // item
    count = ceil(features / lanes)
    is_narrow = _ROW_VECTOR * count <= _PACKED + _BLOCK_VECTOR * count
    each = structure.nnz / threads
    if kind.kind != "f" or is_narrow or each * _ROW_VECTOR * count < _CALL:
        return None
    best: tuple[float, float, int] | None = None
    for edge, filling in fillings(structure).items():
        rows, blocks = _times(structure.shape[1], features, item, edge, filling)
        times = each * rows, each * blocks + _CALL
        if times[0] > _CLEARLY * times[1] and (best is None or times[1] < best[1]):
            best = *times, edge
    if best is None:
        return None
    by_rows, by_blocks, edge = best
    calls = ceil(structure.nnz * _MADE / (by_rows - by_blocks))
    filling = fillings(structure)[edge]
    reason = (
        f"{edge} x {edge}, {filling:.0%} full; {by_rows / 1e6:.3g} ms by rows, "
        f"{by_blocks / 1e6:.3g} by blocks (model), which are made after {calls} calls"
    )
    return Expected(edge, filling, by_blocks, calls, reason)


def _times(rows: int, features: int, item: int, edge: int, filling: float) -> tuple[float, float]:
    """Nanoseconds of one core for an element, by rows and by blocks.

    Args:
        rows: of the dense matrix.
        features: its columns.
        item: bytes of an element.
        edge: of a block.
        filling: the part of the blocks that are elements.
    """
    count = ceil(features * item / vector_bytes())
    missed = 1 - min(1.0, 0.8 * cache_sizes()[1] / (rows * features * item))
    lines = missed * features * item / 64 / (filling * edge)
    by_rows = max(_ROW_ELEMENT, _ROW_VECTOR * count) + _ROW_FAR * lines
    each = (_BLOCK_VECTOR + _BLOCK_READ / edge) * count
    return by_rows, _PACKED + each / filling + _BLOCK_FAR * lines


class Later:
    """Counts the calls until something is worth being made.

    Args:
        calls: after which it is.
        make: makes it.
    """

    def __init__(self, calls: int, make: Callable[[], Any]) -> None:
        self._left = calls
        self.make = make

    def is_due(self) -> bool:
        """Whether this is the call; to be asked at each."""
        self._left -= 1
        return self._left <= 0


class BlockedProduct:
    """The product of a matrix in blocks with dense ones of some columns.

    Attributes:
        blocks: the matrix.
    """

    def __init__(self, blocks: Blocks, features: int, kind: np.dtype[Any]) -> None:
        self.blocks = blocks
        self._kind = kind
        edge = blocks.edge
        has_padding = blocks.filling < 1
        self._plan = bsr.planned(blocks.structure, (edge, edge), features, kind, has_padding)
        self._pack = compiled(pack_values, str(kind), str(blocks.places.dtype))
        # Blocks whose padding is zero, which it stays; each serves one call at a time.
        self._idle: list[Array] = []

    def multiply(self, values: Array, x: Array, result: Array) -> bool:
        """Compute a product.

        Args:
            values: of the matrix, in the order of its rows.
            x: the dense matrix.
            result: receives the product.

        Returns:
            Whether that is right: not where results are infinite or no numbers.
        """
        blocks, plan, case = self.blocks, self._plan, self._plan.case
        try:
            packed = self._idle.pop()
        except IndexError:
            packed = np.zeros(blocks.size, self._kind)
        count = len(blocks.places)
        units = 1 if count < _SERIAL else 4 * get_num_threads()
        self._pack(values, blocks.places, packed, count, blocks.size, units)
        shape = plan.units * plan.cuts, case.lanes
        checks = (np.zeros(shape, self._kind),) if case.checked else ()
        structure = blocks.structure
        plan.kernel(
            packed.reshape(-1, blocks.edge, blocks.edge), x, result, *checks, structure.indptr,
            structure.indices, *structure.shape, structure.nnz, plan.units, plan.cuts,
        )  # fmt: skip
        self._idle.append(packed)
        return not any(check.any() for check in checks)


def blocked_product(
    structure: Structure, edge: int, features: int, kind: np.dtype[Any]
) -> BlockedProduct:
    """The product by blocks of some edge.

    Raises:
        UserError: blocks cannot serve.
    """
    m, n = structure.shape
    if edge < 2 or m % edge or n % edge or not features or not structure.nnz:
        raise UserError(f"a matrix of shape {m} x {n} is not cut into blocks of {edge} x {edge}")
    blocks = blocks_of(structure, edge)
    if blocks is None:
        raise UserError("blocks cannot serve: elements are stored twice")
    return BlockedProduct(blocks, features, kind)
