"""Buffers of integers that are tables of an index expression, as `cache_index` makes them.

Where each element of a buffer only ever gets one value, which its indices tell, a load is as good
as that value, whenever it happens. That is known when all stores have been seen: what is taken for
a table too early, as an accumulator is between its init and its update, is `broken` later on, and
the program has to be read anew without it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...expr import Expr
from ...tir import Buffer, BufferLoad
from ..integer_sets import Integers, Space
from .tidy import function_of


class Tables:
    """What is known of the buffers of integers of a program.

    Args:
        integers: asks for the numbers of expressions.
        no_tables: buffers that are none.

    Attributes:
        broken: buffers of which numbers have been told that do not hold.
    """

    def __init__(self, integers: Integers, no_tables: Collection[Buffer] = ()) -> None:
        self.integers = integers
        self.no_tables = no_tables
        self.broken: set[Buffer] = set()
        self._cells: dict[Buffer, tuple[int, Any]] = {}
        self._maps: dict[Buffer, Any | None] = {}
        self._used: set[Buffer] = set()
        integers.resolve = self.number

    def declare(self, buffer: Buffer, depth: int, domain: Any) -> None:
        """Learn of an allocation, inside some loops: each iteration has elements of its own."""
        box = self.integers.box(buffer.shape)
        counts = buffer.dtype.is_int or buffer.dtype.is_bool
        if box is not None and counts and buffer not in self.no_tables:
            self._cells[buffer] = depth, domain.flat_product(box)

    def store(self, buffer: Buffer, element: Any, value: Any | None) -> None:
        """Learn of a store.

        Args:
            buffer: one that has been declared; of others nothing is remembered.
            element: from the instances of the store to the indices.
            value: what is stored, as a function of the same instances; None if it is not known.
        """
        if buffer not in self._cells:
            return
        known = self._maps.get(buffer)
        found = None
        if value is not None and (known is not None or buffer not in self._maps):
            values = self.integers.isl.Map.from_pw_aff(value)
            cells = self._outer(self._cells[buffer][0], element).flat_range_product(element)
            found = cells.reverse().apply_range(values)
            found = found if known is None else known.union(found)
            found = found.coalesce() if found.is_single_valued() else None
        self._maps[buffer] = found
        if found is None and buffer in self._used:
            self.broken.add(buffer)

    def number(self, space: Space, expr: Expr) -> Any | None:
        """The value of a load from a table, as a function over a space."""
        if not isinstance(expr, BufferLoad) or expr.predicate is not None:
            return None
        table = self._maps.get(expr.buffer)
        if table is None:
            return None
        depth, cells = self._cells[expr.buffer]
        numbers = [space.number(var) for var in space.variables[:depth]]
        numbers += [space.number(index) for index in expr.indices]
        if any(number is None for number in numbers) or not cells.is_subset(table.domain()):
            return None
        values = function_of(self.integers, space.map(numbers).apply_range(table))
        if values is None:
            return None
        self._used.add(expr.buffer)
        return values.get_at(0)

    def _outer(self, depth: int, element: Any) -> Any:
        """From instances to the loops around the allocation."""
        rank = element.dim(self.integers.in_dim)
        dims = [f"d{k}" for k in range(rank)]
        return self.integers.map(f"{{ [{','.join(dims)}] -> [{','.join(dims[:depth])}] }}")
