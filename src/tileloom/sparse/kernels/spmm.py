"""Products of a sparse matrix in compressed rows with a dense one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText, ramp, spread, tiles

Tile = Sequence[tuple[int, int]]
_LINE = 64  # bytes that are fetched at once


class SpmmCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        features: columns of the dense matrix.
        dtype: of values, dense matrix and result.
        idtype: of the index arrays.
        lanes: of a vector.
        tile: vectors of a result that are summed at once, in registers.
        ahead: elements of the sparse matrix by which rows of the dense one are fetched early; 0 for
            not at all.
        lines: how many cache lines of a tile are fetched; the hardware goes on by itself.
        sets: sums that go on next to each other, for rows of many elements.
        aligned: the result's rows start at multiples of so many bytes and are written past the
            caches; 0 where they are not.
    """

    features: int
    dtype: str
    idtype: str
    lanes: int
    tile: int
    ahead: int = 0
    sets: int = 1
    aligned: int = 0
    lines: int = 16

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return int("".join(c for c in self.dtype if c.isdigit())) // 8


def spmm_rows(case: SpmmCase) -> PrimFunc:
    """`out[i] = sum over the elements (i, j) of values * x[j]`, row by row.

    Parameters: values[nnz], x[n, features], out[m, features], indptr, indices, m, n, nnz and
    `units`, into how many parts of about the same work the rows are divided.
    """
    t = KernelText()
    with function(t, case), units(t, case), t.inside("for r in range(hi - lo):"):
        t("i: T.int64 = lo + r")
        row(t, case)
    return t.parsed()


@contextmanager
def function(
    t: KernelText, case: SpmmCase, *more: str, arrays: Sequence[str] = ()
) -> Iterator[None]:
    """The function, with the buffers that all kernels have.

    Args:
        more: scalar parameters after `units`.
        arrays: array parameters after those.
    """
    scalars = csr_parameters("units", *more)
    handles = "".join(f", {name}: T.handle" for name in arrays)
    t("@T.prim_func")
    with t.inside(f"def spmm(a: T.handle, b: T.handle, c: T.handle, {scalars}{handles}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz,), '{case.dtype}')",
            f"B = T.match_buffer(b, (n, {case.features}), '{case.dtype}')",
            f"C = T.match_buffer(c, (m, {case.features}), '{case.dtype}')",
        )
        match_csr(t, case.idtype)
        yield


@contextmanager
def units(t: KernelText, case: SpmmCase) -> Iterator[None]:
    """The rows of each unit, with memory for sums."""
    size = case.lanes * case.tile * case.sets
    with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
        divide_rows(t)
        t(
            f"sums_ = T.allocate([{size}], '{case.dtype}', 'local')",
            f"S = T.Buffer(({size},), '{case.dtype}', data=sums_, scope='local')",
        )
        if case.aligned:
            t(f"T.attr(C.data, 'pragma_nontemporal', {case.aligned})")
        yield


def row(t: KernelText, case: SpmmCase) -> None:
    """All of row `i` of the result."""
    each = tiles(case.features, case.lanes, case.tile)
    whole = [tile for tile in each if len(tile) == case.tile and tile[-1][1] == case.lanes]
    width = case.lanes * case.tile
    if len(whole) > 1:
        with t.inside(f"for kt in range({len(whole)}):"):
            _tile_of_row(t, case, _from_zero(whole[0]), f"kt * {width}")
        rest = each[len(whole) :]
    else:
        rest = each
    for tile in rest:
        _tile_of_row(t, case, _from_zero(tile), str(tile[0][0]))


def _from_zero(tile: Tile) -> Tile:
    return [(first - tile[0][0], lanes) for first, lanes in tile]


def _tile_of_row(t: KernelText, case: SpmmCase, tile: Tile, base: str) -> None:
    _start(t, case, tile)
    begin, end = "P[i]", "P[i + T.int64(1)]"
    if case.sets > 1:
        many = f"(({end} - {begin}) // {case.sets})"
        with t.inside(f"for g in range({many}):"):
            for k in range(case.sets):
                add_element(t, case, tile, base, f"{begin} + g * {case.sets} + {k}", k)
        with t.inside(f"for q in range({end} - {begin} - {many} * {case.sets}):"):
            add_element(t, case, tile, base, f"{begin} + {many} * {case.sets} + q", 0)
    else:
        with t.inside(f"for q in range({begin}, {end}):"):
            add_element(t, case, tile, base, "q", 0)
    for first, lanes in tile:
        total = " + ".join(_sum(case, first, lanes, k) for k in range(case.sets))
        t(f"C[i, {ramp(base, first, lanes)}] = {total}")


def _sum(case: SpmmCase, first: int, lanes: int, k: int) -> str:
    return f"S[{ramp('0', k * case.lanes * case.tile + first, lanes)}]"


def _start(t: KernelText, case: SpmmCase, tile: Tile) -> None:
    for k in range(case.sets):
        for first, lanes in tile:
            t(f"{_sum(case, first, lanes, k)} = {spread(f'T.{case.dtype}(0)', lanes)}")


def add_element(t: KernelText, case: SpmmCase, tile: Tile, base: str, place: str, k: int) -> None:
    """Add the element at a place to a set of sums."""
    p, j, v = f"p{k}", f"j{k}", f"v{k}"
    t(f"{p}: T.{case.idtype} = {place}")
    t(f"{j}: T.{case.idtype} = X[{p}]", f"{v}: T.{case.dtype} = A[{p}]")
    if case.ahead:
        last = f"T.Cast('{case.idtype}', nnz) - T.{case.idtype}(1)"
        t(f"f{k}: T.{case.idtype} = X[T.min({p} + {case.ahead}, {last})]")
        bytes_of_tile = (tile[-1][0] + tile[-1][1]) * case.item
        for byte in range(0, min(bytes_of_tile, case.lines * _LINE), _LINE):
            at = ramp(base, byte // case.item, 1)
            t(f"T.evaluate(T.prefetch(T.address_of(B[f{k}, {at}]), 0, 3, 1))")
    for first, lanes in tile:
        total, x = _sum(case, first, lanes, k), f"B[{j}, {ramp(base, first, lanes)}]"
        t(f"{total} = {total} + {spread(v, lanes)} * {x}")
