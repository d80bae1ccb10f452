"""Softmax within segments: consecutive rows of a matrix, column by column, or elements of a vector.

The greatest value is found first, then powers are stored and summed, then divided by their sum.
Segments of a vector that fit into one vector register stay there meanwhile. Lanes without an
element take the power of 0, as that of infinity or of what is out of range takes far longer.
"""

from __future__ import annotations

from ...tir import PrimFunc
from .fold import over_lanes
from .segments import SegmentsCase, column_tiles, function, units
from .text import KernelText, first_lanes, ramp, spread

_TILE = 4  # vectors of columns at once


def segment_softmax(case: SegmentsCase) -> PrimFunc:
    """`out[p] = exp(values[p] - most) / sum of these`, over the elements of p's segment.

    Parameters: values[nnz, width], out[nnz, width], indptr[m + 1], m, nnz and `units`, into how
    many parts of about the same work the segments are divided.
    """
    t = KernelText()
    with function(t, case, result="nnz"), units(t):
        size = _TILE * case.lanes if case.width else case.lanes
        for name in "ML":
            t(f"{name}_ = T.allocate([{size}], '{case.dtype}', 'local')")
            t(f"{name} = T.Buffer(({size},), '{case.dtype}', data={name}_, scope='local')")
        with t.inside("for r in range(hi - lo):"):
            t("i: T.int64 = lo + r")
            t("begin: T.int64 = T.Cast('int64', P[i])")
            t("size: T.int64 = T.Cast('int64', P[i + T.int64(1)]) - begin")
            if not case.width:
                _of_vector(t, case)
            for base, tile in column_tiles(t, case.width, case.lanes, _TILE):
                _tile(t, case, base, tile)
    return t.parsed()


# ---------------------------------------------------------------------------- of a vector


def _of_vector(t: KernelText, case: SegmentsCase) -> None:
    lanes = case.lanes
    kind, at, each = f"T.{case.dtype}x{lanes}", f"[T.Ramp(begin, 1, {lanes})]", ramp("0", 0, lanes)
    zero = spread(f"T.{case.dtype}(0)", lanes)
    with t.inside(f"if size <= T.int64({lanes}):"):
        mask = first_lanes("size", lanes)
        least = spread(f"T.{case.dtype}('-inf')", lanes)
        t(f"x: {kind} = T.Select({mask}, V.vload({at}, predicate={mask}), {least})")
        most = over_lanes(t, "x", "most", "T.max({}, {})", case.dtype, lanes)
        t(f"there: {kind} = T.exp(T.Select({mask}, x - {most}, {zero}))")
        t(f"power: {kind} = T.Select({mask}, there, {zero})")
        total = over_lanes(t, "power", "total", "{} + {}", case.dtype, lanes)
        t(f"C.vstore({at}, power / {total}, predicate={mask})")
    with t.inside("else:"):
        place = f"[T.Ramp(begin + h * {lanes}, 1, {lanes})]"
        tail = f"[T.Ramp(begin + size - {lanes}, 1, {lanes})]"  # the rest, and some before it
        whole = f"for h in range(size // T.int64({lanes})):"
        t(f"M[{each}] = V{tail}", f"L[{each}] = {zero}")
        with t.inside(whole):
            t(f"M[{each}] = T.max(M[{each}], V{place})")
        most = over_lanes(t, f"M[{each}]", "greatest", "T.max({}, {})", case.dtype, lanes)
        with t.inside(whole):
            t(f"e: {kind} = T.exp(V{place} - {most})")
            t(f"C{place} = e", f"L[{each}] = L[{each}] + e")
        t(f"rest: T.int64 = size % T.int64({lanes})")
        mask = first_lanes("rest", lanes)
        end = f"[T.Ramp(begin + size - rest, 1, {lanes})]"
        left = f"V.vload({end}, predicate={mask}) - {most}"
        t(f"last: {kind} = T.exp(T.Select({mask}, {left}, {zero}))")
        t(f"L[{each}] = L[{each}] + T.Select({mask}, last, {zero})")
        total = over_lanes(t, f"L[{each}]", "sum", "{} + {}", case.dtype, lanes)
        t(f"share: {kind} = {spread(f'T.{case.dtype}(1)', lanes)} / {total}")
        t(f"C.vstore({end}, last * share, predicate={mask})")
        with t.inside(whole):
            t(f"C{place} = C{place} * share")


# ---------------------------------------------------------------------------- of a matrix


def _tile(t: KernelText, case: SegmentsCase, base: str, tile: list[tuple[int, int]]) -> None:
    """Some columns of segment `i`."""
    places = [(ramp("0", first, lanes), ramp(base, first, lanes), lanes) for first, lanes in tile]
    for own, _, lanes in places:
        t(f"M[{own}] = {spread(f'''T.{case.dtype}('-inf')''', lanes)}")
        t(f"L[{own}] = {spread(f'T.{case.dtype}(0)', lanes)}")
    with t.inside("for p in range(size):"):
        for own, at, _ in places:
            t(f"M[{own}] = T.max(M[{own}], V[begin + p, {at}])")
    with t.inside("for p in range(size):"):
        for k, (own, at, lanes) in enumerate(places):
            kind = f"T.{case.dtype}" + (f"x{lanes}" if lanes > 1 else "")
            t(f"e{k}: {kind} = T.exp(V[begin + p, {at}] - M[{own}])")
            t(f"C[begin + p, {at}] = e{k}", f"L[{own}] = L[{own}] + e{k}")
    for own, _, lanes in places:
        t(f"L[{own}] = {spread(f'T.{case.dtype}(1)', lanes)} / L[{own}]")
    with t.inside("for p in range(size):"):
        for own, at, _ in places:
            t(f"C[begin + p, {at}] = C[begin + p, {at}] * L[{own}]")
