"""Sums over relations: `out += A[r] @ x @ w[r]` for sparse `A[r]`, without anything in between.

Rows that a relation has are taken a few at a time: their sums over neighbours stay in a small
buffer, which is multiplied with the relation's weights right away. Source: "relational gather,
matrix multiplication, scatter" of SparseTIR (Ye et al., ASPLOS 2023), here without atomic adds, as
each unit of work has rows of the result to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...tir import PrimFunc
from .text import KernelText, ramp, spread, tiles, vectors

#: Rows that are multiplied with the weights together.
GROUP = 8


class RgmsCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        features_in: columns of `x`.
        features_out: columns of the result.
        dtype: of all values.
        idtype: of the index arrays.
        lanes: of a vector.
    """

    features_in: int
    features_out: int
    dtype: str
    idtype: str
    lanes: int


def rgms(case: RgmsCase) -> PrimFunc:
    """`out[i] = sum over relations r and elements (i, j) of A[r] of values * x[j] @ w[r]`.

    Parameters: values[nnz], x[n, features_in], w[relations, features_in, features_out],
    out[m, features_out]; then in compressed form (CSF) where the rows of each relation begin
    [relations + 1], the rows [count], where the elements of each begin [count + 1], their columns
    [nnz]; then m, n, relations, count, nnz and units.
    """
    t = KernelText()
    scalars = ", ".join(f"{s}: T.int64" for s in ("m", "n", "relations", "count", "nnz", "units"))
    handles = ", ".join(f"{h}: T.handle" for h in ("a", "b", "w", "c", "rp", "rr", "ip", "ix"))
    t("@T.prim_func")
    with t.inside(f"def rgms({handles}, {scalars}):"):
        _buffers(t, case)
        with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
            t("lo: T.int64 = m * u // units", "hi: T.int64 = m * (u + T.int64(1)) // units")
            _memory(t, case)
            with t.inside("for i in range(hi - lo):"):
                for first, lanes in vectors(case.features_out, case.lanes):
                    t(f"C[lo + i, {ramp('0', first, lanes)}] = {_zero(case, lanes)}")
            with t.inside("for r in range(relations):"):
                _find(t, 0, "lo")
                _find(t, 1, "hi")
                t("begin: T.int64 = bound[0]", "end: T.int64 = bound[1]")
                with t.inside(f"for g in range((end - begin + {GROUP - 1}) // {GROUP}):"):
                    t(f"first: T.int64 = begin + g * {GROUP}")
                    _sums(t, case)
                    for tile in tiles(case.features_out, case.lanes, 3):
                        _product(t, case, tile)
    return t.parsed()


def _buffers(t: KernelText, case: RgmsCase) -> None:
    f_in, f_out, kind, index = case.features_in, case.features_out, case.dtype, case.idtype
    t(
        "T.func_attr({'tir.noalias': True})",
        f"A = T.match_buffer(a, (nnz,), '{kind}')",
        f"B = T.match_buffer(b, (n, {f_in}), '{kind}')",
        f"W = T.match_buffer(w, (relations, {f_in}, {f_out}), '{kind}')",
        f"C = T.match_buffer(c, (m, {f_out}), '{kind}')",
        f"R = T.match_buffer(rp, (relations + T.int64(1),), '{index}')",
        f"I = T.match_buffer(rr, (count,), '{index}')",
        f"P = T.match_buffer(ip, (count + T.int64(1),), '{index}')",
        f"X = T.match_buffer(ix, (nnz,), '{index}')",
    )


def _memory(t: KernelText, case: RgmsCase) -> None:
    sizes = {
        "S": GROUP * max(1, case.features_in),
        "D": GROUP * 3 * case.lanes,
        "N": 4 * case.lanes,
    }
    for name, size in sizes.items():
        t(
            f"{name}_ = T.allocate([{size}], '{case.dtype}', 'local')",
            f"{name} = T.Buffer(({size},), '{case.dtype}', data={name}_, scope='local')",
        )
    t("bound_ = T.allocate([4], 'int64', 'local')")
    t("bound = T.Buffer((4,), 'int64', data=bound_, scope='local')")


def _find(t: KernelText, slot: int, row: str) -> None:
    """The first of the relation's rows that is not before a row."""
    half = "(bound[2] + bound[3]) // T.int64(2)"
    t("bound[2] = T.Cast('int64', R[r])", "bound[3] = T.Cast('int64', R[r + T.int64(1)])")
    with t.inside("while bound[2] < bound[3]:"):
        with t.inside(f"if T.Cast('int64', I[{half}]) < {row}:"):
            t(f"bound[2] = {half} + T.int64(1)")
        with t.inside("else:"):
            t(f"bound[3] = {half}")
    t(f"bound[{slot}] = bound[2]")


def _zero(case: RgmsCase, lanes: int) -> str:
    return spread(f"T.{case.dtype}(0)", lanes)


def _sums(t: KernelText, case: RgmsCase) -> None:
    """The sums over neighbours of a group of rows; zeros for what the last group lacks."""
    with t.inside(f"for s in range({GROUP}):"):
        for tile in tiles(case.features_in, case.lanes, 4):
            base = tile[0][0]
            for first, lanes in tile:
                t(f"N[{ramp('0', first - base, lanes)}] = {_zero(case, lanes)}")
            elements = "for p in range(P[first + s], P[first + s + T.int64(1)]):"
            with t.inside("if first + s < end:"), t.inside(elements):
                t(f"j: T.{case.idtype} = X[p]", f"v: T.{case.dtype} = A[p]")
                for first, lanes in tile:
                    total = f"N[{ramp('0', first - base, lanes)}]"
                    x = f"B[j, {ramp('0', first, lanes)}]"
                    t(f"{total} = {total} + {spread('v', lanes)} * {x}")
            for first, lanes in tile:
                place = f"S[{ramp(f's * {case.features_in}', first, lanes)}]"
                t(f"{place} = N[{ramp('0', first - base, lanes)}]")


def _product(t: KernelText, case: RgmsCase, tile: Sequence[tuple[int, int]]) -> None:
    """Some columns of the group's sums times the weights, added to the result."""
    width = 3 * case.lanes
    base = tile[0][0]

    def total(row: int, first: int, lanes: int) -> str:
        return f"D[{ramp('0', row * width + first - base, lanes)}]"

    for row in range(GROUP):
        for first, lanes in tile:
            t(f"{total(row, first, lanes)} = {_zero(case, lanes)}")
    with t.inside(f"for k in range({case.features_in}):"):
        for row in range(GROUP):
            t(f"s{row}: T.{case.dtype} = S[{row * case.features_in} + k]")
            for first, lanes in tile:
                place = total(row, first, lanes)
                weights = f"W[r, k, {ramp('0', first, lanes)}]"
                t(f"{place} = {place} + {spread(f's{row}', lanes)} * {weights}")
    for row in range(GROUP):
        with t.inside(f"if first + T.int64({row}) < end:"):
            t(f"i{row}: T.{case.idtype} = I[first + T.int64({row})]")
            for first, lanes in tile:
                place = f"C[i{row}, {ramp('0', first, lanes)}]"
                t(f"{place} = {place} + {total(row, first, lanes)}")
