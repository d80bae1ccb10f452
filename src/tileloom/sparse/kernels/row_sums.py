"""Sums of what each row of a sparse matrix has, or their products, or the greatest or least.

A row's terms are added up vector by vector, its first vector being the one that is not full: so a
row that fits into one takes no branch, whatever its length. The sums over lanes are then made for
as many rows at once as a vector has lanes (`fold.py`), and stored as a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .fold import sums_of_lanes
from .text import KernelText, first_lanes, ramp, spread

#: The terms of elements from a place on, a vector of them or one; bound names end in the number.
#: A mask leaves out lanes, in which there is to be what changes no sum.
Terms = Callable[[str, int, str], str]
#: The result of rows from one on, of their sums; a mask leaves out rows.
Results = Callable[[str, str, str], str]


class RowSums(NamedTuple):
    """How the terms of rows are summed in a script.

    The script has where rows begin in `P`, and the first row and the end of a unit in `lo` and
    `hi`; results go to `C`.

    Attributes:
        dtype: of the terms.
        lanes: of a vector; 1 for a kernel without vectors.
        item: the bytes of a term.
        sets: sums that go on next to each other.
        nothing: the sum of no terms.
        both: the sum of two terms.
    """

    dtype: str
    lanes: int
    item: int
    sets: int = 1
    nothing: str = "0"
    both: str = "{} + {}"

    @property
    def start(self) -> str:
        """A vector of sums of nothing."""
        return spread(f"T.{self.dtype}({self.nothing})", self.lanes)

    def allocate(self, t: KernelText) -> None:
        """Memory for sums."""
        for name, size in {"S": self.lanes * self.sets, "D": self.lanes**2}.items():
            t(f"{name}_ = T.allocate([{size}], '{self.dtype}', 'local')")
            t(f"{name} = T.Buffer(({size},), '{self.dtype}', data={name}_, scope='local')")

    def rows(self, t: KernelText, terms: Terms, results: Results) -> None:
        """The results of all rows of a unit."""
        lanes = self.lanes
        if lanes == 1:
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                total = self._scalar_row(t, terms)
                t(f"C[i] = {results(total, 'i', '')}")
            return
        for e in range(lanes):
            t(f"D[{ramp('0', e * lanes, lanes)}] = {self.start}")
        with t.inside(f"for g in range((hi - lo) // T.int64({lanes})):"):
            t(f"first: T.int64 = lo + g * {lanes}")
            total = self._group(t, terms, str(lanes))
            t(f"C[T.Ramp(first, 1, {lanes})] = {results(total, 'first', '')}")
        t(f"rest: T.int64 = (hi - lo) % T.int64({lanes})")
        with t.inside("if rest > T.int64(0):"):
            t("first: T.int64 = hi - rest")
            mask = first_lanes("rest", lanes)
            result = results(self._group(t, terms, "rest"), "first", mask)
            t(f"C.vstore([T.Ramp(first, 1, {lanes})], {result}, predicate={mask})")

    def _group(self, t: KernelText, terms: Terms, count: str) -> str:
        lanes = self.lanes
        with t.inside(f"for e in range({count}):"):
            self._row(t, terms, "first + e", f"D[T.Ramp(e * {lanes}, 1, {lanes})]")
        names = [f"d{e}" for e in range(lanes)]
        for e, name in enumerate(names):
            t(f"{name}: T.{self.dtype}x{lanes} = D[{ramp('0', e * lanes, lanes)}]")
        return sums_of_lanes(t, names, self.dtype, self.item, self.both)

    def _row(self, t: KernelText, terms: Terms, row: str, into: str) -> None:
        """The sums of a row, lane by lane."""
        lanes, sets = self.lanes, self.sets
        _bounds(t, row)
        t(f"whole: T.int64 = T.max(size - T.int64(1), T.int64(0)) // T.int64({lanes})")
        t(f"some: T.int64 = size - whole * {lanes}", "start: T.int64 = begin + some")
        own = into if sets == 1 else self._set(0)
        t(f"{own} = {terms('begin', 0, first_lanes('some', lanes))}")
        if sets == 1:
            with t.inside("for h in range(whole):"):
                self._add(t, terms, f"start + h * {lanes}", own, 0)
            return
        self._sets(t, terms, "whole", "start", f"begin + size - (h + T.int64(1)) * {lanes}")
        t(f"{into} = {self._total()}")

    def _scalar_row(self, t: KernelText, terms: Terms) -> str:
        _bounds(t, "i")
        t(f"{self._set(0)} = {self.start}")
        self._sets(t, terms, "size", "begin", "begin + size - T.int64(1) - h")
        return self._total()

    def _sets(self, t: KernelText, terms: Terms, count: str, start: str, rest: str) -> None:
        """Add so many vectors from a place on, of which the last ones are at others."""
        sets, lanes = self.sets, self.lanes
        for k in range(1, sets):
            t(f"{self._set(k)} = {self.start}")
        with t.inside(f"for h in range({count} // T.int64({sets})):"):
            for k in range(sets):
                place = f"{start} + h * {sets * lanes} + {k * lanes}"
                self._add(t, terms, place, self._set(k), k)
        if sets > 1:
            with t.inside(f"for h in range({count} % T.int64({sets})):"):
                self._add(t, terms, rest, self._set(0), 0)

    def _add(self, t: KernelText, terms: Terms, place: str, total: str, k: int) -> None:
        t(f"p{k}: T.int64 = {place}")
        t(f"{total} = {self.both.format(total, terms(f'p{k}', k, ''))}")

    def _set(self, k: int) -> str:
        return f"S[{ramp('0', k * self.lanes, self.lanes)}]"

    def _total(self) -> str:
        total = self._set(0)
        for k in range(1, self.sets):
            total = self.both.format(total, self._set(k))
        return total


def _bounds(t: KernelText, row: str) -> None:
    t(f"begin: T.int64 = T.Cast('int64', P[{row}])")
    t(f"size: T.int64 = T.Cast('int64', P[{row} + T.int64(1)]) - begin")
