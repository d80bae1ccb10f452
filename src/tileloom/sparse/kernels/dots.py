"""Products of rows of two dense matrices, as many at a time as a vector has lanes.

The products of two rows are added up vector by vector. What is left to do then, the sums over the
lanes of each vector of partial sums, is done for as many of them at once as give a vector of
results (`fold.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .fold import sums_of_lanes
from .text import KernelText, ramp, spread, vectors

_LINE = 64  # bytes that are fetched at once
_HELD = 8  # vectors of a row that are kept in registers
_STRAIGHT = 16  # vectors of a row up to which there is no loop over them


class DenseRows(NamedTuple):
    """The rows of a dense matrix in a script.

    Attributes:
        buffer: its name.
        features: elements of a row.
        dtype: of the elements.
        lanes: of a vector.
        within: further indices between that of the row and that of the feature.
        base: the first feature that is meant.
    """

    buffer: str
    features: int
    dtype: str
    lanes: int
    within: str = ""
    base: str = "0"

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return int("".join(c for c in self.dtype if c.isdigit())) // 8

    def at(self, row: str, feature: str) -> str:
        """One element, or a vector of them."""
        return f"{self.buffer}[{row}, {self.within}{feature}]"

    def vector(self, row: str, first: int, lanes: int) -> str:
        """Some features of a row, as many as a vector has lanes; what is beyond the row is 0."""
        place = ramp(self.base, first, self.lanes)
        if lanes == self.lanes:
            return self.at(row, place)
        mask = f"T.Ramp(0, 1, {self.lanes}) < T.Broadcast({lanes}, {self.lanes})"
        return f"{self.buffer}.vload([{row}, {self.within}{place}], predicate={mask})"

    def fetch(self, t: KernelText, row: str, lines: int) -> None:
        """Ask for the first cache lines of a row."""
        step = _LINE // self.item
        for first in range(0, self.features, step)[:lines]:
            place = self.at(row, ramp(self.base, first, 1))
            t(f"T.evaluate(T.prefetch(T.address_of({place}), 0, 3, 1))")


class RowDots(NamedTuple):
    """Products `x[i] . y[j]` in a script.

    The script has the columns of the elements of a sparse matrix in `X`, its first and last
    elements in `nnz`, and memory for a square of elements in `D`.

    Attributes:
        x, y: the matrices.
        ahead: elements of the sparse matrix by which rows of `y` are fetched early; 0 for not at
            all.
        lines: how many cache lines of each.
        origin: the row of the sparse matrix's columns that is row 0 of `y`, where not all are in
            it.
    """

    x: DenseRows
    y: DenseRows
    ahead: int = 0
    lines: int = 0
    origin: str = ""

    def allocate(self, t: KernelText) -> None:
        """Memory for partial sums."""
        lanes, dtype = self.x.lanes, self.x.dtype
        for name, size in (("D", lanes * lanes), ("E", 2 * lanes)):
            t(f"{name}_ = T.allocate([{size}], '{dtype}', 'local')")
            t(f"{name} = T.Buffer(({size},), '{dtype}', data={name}_, scope='local')")

    def hold(self, t: KernelText, row: str) -> Sequence[str]:
        """The vectors of a row of `x`, in registers where it is a short one."""
        each = [self.x.vector(row, *at) for at in vectors(self.x.features, self.x.lanes)]
        if len(each) > _HELD:
            return each
        for k, vector in enumerate(each):
            t(f"x{k}: T.{self.x.dtype}x{self.x.lanes} = {vector}")
        return [f"x{k}" for k in range(len(each))]

    def group(self, t: KernelText, place: str, rows: str = "") -> str:
        """The products of as many elements as a vector has lanes, from one on.

        Args:
            place: the first element.
            rows: a buffer with the row of each element, where they are not all in row `i`.
        """
        lanes, dtype = self.x.lanes, self.x.dtype
        if self.ahead:
            t(f"f: T.int64 = T.min({place} + {self.ahead}, nnz - T.int64({lanes}))")
        held = () if rows else self.hold(t, "i")
        names = [f"d{e}" for e in range(lanes)]
        if self.y.features <= _HELD * lanes:
            for e, name in enumerate(names):
                self._product(t, place, str(e), rows, held, f"{name}: T.{dtype}x{lanes}")
        else:
            with t.inside(f"for e in range({lanes}):"):
                self._product(t, place, "e", rows, held, f"D[T.Ramp(e * {lanes}, 1, {lanes})]")
            self._reload(t, names)
        return sums_of_lanes(t, names, dtype, self.x.item)

    def some(self, t: KernelText, place: str, count: str, rows: str = "") -> str:
        """The products of fewer elements; what is in other lanes means nothing."""
        held = () if rows else self.hold(t, "i")
        with t.inside(f"for e in range({count}):"):
            self.one(t, place, "e", held, rows)
        return self.of_kept(t)

    def one(self, t: KernelText, place: str, e: str, held: Sequence[str], rows: str = "") -> None:
        """Keep the partial sums of one product for lane `e`."""
        lanes = self.x.lanes
        self._product(t, place, e, rows, held, f"D[T.Ramp({e} * {lanes}, 1, {lanes})]", False)

    def of_kept(self, t: KernelText) -> str:
        """The products of which partial sums are kept."""
        names = [f"d{e}" for e in range(self.x.lanes)]
        self._reload(t, names)
        return sums_of_lanes(t, names, self.x.dtype, self.x.item)

    def clear(self, t: KernelText) -> None:
        """Let all partial sums be 0."""
        lanes = self.x.lanes
        for e in range(lanes):
            t(f"D[{ramp('0', e * lanes, lanes)}] = {spread(f'T.{self.x.dtype}(0)', lanes)}")

    def _reload(self, t: KernelText, names: Sequence[str]) -> None:
        lanes = self.x.lanes
        for e, name in enumerate(names):
            t(f"{name}: T.{self.x.dtype}x{lanes} = D[{ramp('0', e * lanes, lanes)}]")

    def _product(
        self, t: KernelText, place: str, e: str, rows: str, held: Sequence[str], into: str,
        fetches: bool = True,
    ) -> None:  # fmt: skip
        """The partial sums of the product of element `place + e`."""
        if self.ahead and fetches:
            t(f"f{e}: T.int64 = T.Cast('int64', X[f + {e}])")
            self.y.fetch(t, f"f{e}", self.lines)
        origin = f" - {self.origin}" if self.origin else ""
        t(f"j{e}: T.int64 = T.Cast('int64', X[{place} + {e}]){origin}")
        row = "i"
        if rows:
            row = f"i{e}"
            t(f"{row}: T.int64 = T.Cast('int64', {rows}[{place} + {e}])")
        self._sums(t, row, f"j{e}", held, into)

    def _sums(self, t: KernelText, i: str, j: str, held: Sequence[str], into: str) -> None:
        lanes = self.x.lanes
        each = vectors(self.x.features, lanes)
        if len(each) <= _STRAIGHT:
            left = held or [self.x.vector(i, *at) for at in each]
            terms = [f"{x} * {self.y.vector(j, *at)}" for x, at in zip(left, each, strict=True)]
            t(f"{into} = {_in_two_sums(terms)}")
            return
        whole, width = self.x.features // (lanes * _HELD), lanes * _HELD
        for k in range(2):
            t(f"E[{ramp('0', k * lanes, lanes)}] = {spread(f'T.{self.x.dtype}(0)', lanes)}")
        with t.inside(f"for kt in range({whole}):"):
            terms = self._terms(i, j, vectors(width, lanes), f"kt * {width}")
            for k in range(2):
                total = f"E[{ramp('0', k * lanes, lanes)}]"
                t(f"{total} = {total} + {' + '.join(terms[k::2])}")
        terms = [f"E[{ramp('0', k * lanes, lanes)}]" for k in range(2)]
        terms += self._terms(i, j, [at for at in each if at[0] >= whole * width], "0")
        t(f"{into} = {_in_two_sums(terms)}")

    def _terms(self, i: str, j: str, each: Sequence[tuple[int, int]], base: str) -> list[str]:
        x, y = self.x._replace(base=base), self.y._replace(base=base)
        return [f"{x.vector(i, *at)} * {y.vector(j, *at)}" for at in each]


def _in_two_sums(terms: Sequence[str]) -> str:
    """The sum of all terms by two sums, as each addition waits for the one before."""
    return " + ".join(f"({' + '.join(terms[k::2])})" for k in range(2) if terms[k::2])
