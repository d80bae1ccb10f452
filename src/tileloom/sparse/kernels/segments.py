"""Reductions of consecutive rows of a matrix, or elements of a vector: one result for each segment.

Of a matrix all columns of a segment are reduced next to each other; of a vector see `row_sums.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .row_sums import RowSums
from .rows import divide_rows
from .text import KernelText, ramp, spread, tiles

#: How two values become one.
BOTH = {
    "sum": "{} + {}",
    "mean": "{} + {}",
    "prod": "{} * {}",
    "max": "T.max({}, {})",
    "min": "T.min({}, {})",
}
_TILE = 8  # vectors that are reduced at once


class SegmentsCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        op: one of `BOTH`.
        nothing: what a value becomes itself with, as a literal.
        width: columns of the values; 0 where they are a vector.
        dtype: of values and result.
        idtype: of where segments begin.
        lanes: of a vector, more than one.
        item: the bytes of an element.
        sets: partial results that go on next to each other.
    """

    op: str
    nothing: str
    width: int
    dtype: str
    idtype: str
    lanes: int
    item: int
    sets: int = 1

    def both(self, left: str, right: str) -> str:
        """Two values as one."""
        return BOTH[self.op].format(left, right)


def segment_reductions(case: SegmentsCase) -> PrimFunc:
    """`out[i] = op of initial and values[indptr[i]:indptr[i + 1]]`, by columns.

    Parameters: values[nnz, width], out[m, width], indptr[m + 1], m, nnz, `units`, into how many
    parts of about the same work the segments are divided, `initial`, and `least`, of how many
    elements a mean is at least.
    """
    t = KernelText()
    scalars = f"initial: T.{case.dtype}, least: T.{case.dtype}"
    with function(t, case, scalars), units(t):
        if not case.width:
            _of_vector(t, case)
        else:
            size = _TILE * case.lanes * case.sets
            t(f"S_ = T.allocate([{size}], '{case.dtype}', 'local')")
            t(f"S = T.Buffer(({size},), '{case.dtype}', data=S_, scope='local')")
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                t("begin: T.int64 = T.Cast('int64', P[i])")
                t("end: T.int64 = T.Cast('int64', P[i + T.int64(1)])")
                if case.op == "mean":
                    t(f"share: T.{case.dtype} = T.max(T.Cast('{case.dtype}', end - begin), least)")
                for base, tile in column_tiles(t, case.width, case.lanes, _TILE):
                    _tile(t, case, base, tile)
    return t.parsed()


@contextmanager
def function(
    t: KernelText, case: SegmentsCase, scalars: str = "", result: str = "m"
) -> Iterator[None]:
    """The function, with the buffers that all kernels have.

    Args:
        scalars: parameters after the sizes.
        result: the rows of the result.
    """
    numbers = ", ".join(f"{name}: T.int64" for name in ("m", "nnz", "units"))
    more = f", {scalars}" if scalars else ""
    row, rows = (f"{n}, {case.width or ''}" for n in (result, "nnz"))
    t("@T.prim_func")
    with t.inside(f"def segments(v: T.handle, c: T.handle, ip: T.handle, {numbers}{more}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"V = T.match_buffer(v, ({rows}), '{case.dtype}')",
            f"C = T.match_buffer(c, ({row}), '{case.dtype}')",
            f"P = T.match_buffer(ip, (m + T.int64(1),), '{case.idtype}')",
        )
        yield


@contextmanager
def units(t: KernelText) -> Iterator[None]:
    """The segments of each unit."""
    with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
        divide_rows(t)
        yield


def column_tiles(
    t: KernelText, width: int, lanes: int, most: int
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """The columns by tiles of `most` vectors: where each begins, and its vectors from there on.

    What is added to the script for the first stands in a loop where there are several whole ones.
    """
    each = tiles(width, lanes, most)
    whole = width // (most * lanes)
    if whole > 1:
        with t.inside(f"for kt in range({whole}):"):
            yield f"kt * {most * lanes}", list(each[0])
        each = each[whole:]
    for tile in each:
        base = tile[0][0]
        yield str(base), [(first - base, count) for first, count in tile]


# ---------------------------------------------------------------------------- of a vector


def _of_vector(t: KernelText, case: SegmentsCase) -> None:
    lanes = case.lanes
    both = BOTH[case.op]
    sums = RowSums(case.dtype, lanes, case.item, case.sets, case.nothing, both)

    def elements(place: str, k: int, mask: str) -> str:
        at = ramp(place, 0, lanes)
        if mask:
            return f"T.Select({mask}, V.vload([{at}], predicate={mask}), {sums.start})"
        return f"V[{at}]"

    def results(total: str, row: str, mask: str) -> str:
        found = case.both(f"({total})", spread("initial", lanes))
        if case.op != "mean":
            return found
        some = f", predicate={mask}" if mask else ""
        ends, begins = (f"P.vload([T.Ramp({row}{d}, 1, {lanes})]{some})" for d in (" + 1", ""))
        count = f"T.Cast('{case.dtype}x{lanes}', {ends} - {begins})"
        return f"({found}) / T.max({count}, {spread('least', lanes)})"

    sums.allocate(t)
    sums.rows(t, elements, results)


# ---------------------------------------------------------------------------- of a matrix


def _tile(t: KernelText, case: SegmentsCase, base: str, tile: list[tuple[int, int]]) -> None:
    """Some columns of the result of segment `i`."""
    sets = case.sets
    nothing = f"T.{case.dtype}({case.nothing})"

    def total(k: int, first: int, lanes: int) -> str:
        return f"S[{ramp('0', k * _TILE * case.lanes + first, lanes)}]"

    def add(k: int, place: str) -> None:
        t(f"p{k}: T.int64 = {place}")
        for first, lanes in tile:
            row = f"V[p{k}, {ramp(base, first, lanes)}]"
            t(f"{total(k, first, lanes)} = {case.both(total(k, first, lanes), row)}")

    for k in range(sets):
        for first, lanes in tile:
            t(f"{total(k, first, lanes)} = {spread(nothing if k else 'initial', lanes)}")
    with t.inside(f"for h in range((end - begin) // T.int64({sets})):"):
        for k in range(sets):
            add(k, f"begin + h * {sets} + {k}")
    if sets > 1:
        with t.inside(f"for h in range((end - begin) % T.int64({sets})):"):
            add(0, "end - T.int64(1) - h")
    for first, lanes in tile:
        found = total(0, first, lanes)
        for k in range(1, sets):
            found = case.both(found, total(k, first, lanes))
        if case.op == "mean":
            found = f"({found}) / {spread('share', lanes)}"
        t(f"C[i, {ramp(base, first, lanes)}] = {found}")


__all__ = ["BOTH", "SegmentsCase", "column_tiles", "function", "segment_reductions", "units"]
