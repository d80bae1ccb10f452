"""Products of a sparse matrix in compressed rows with a vector.

A row's products are added up vector by vector, its first vector being the one that is not full: so
a row that fits into one takes no branch, whatever its length. The sums over lanes are then made for
as many rows at once as a vector has lanes (`fold.py`), and stored as a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .fold import sums_of_lanes
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText, first_lanes, ramp, spread

#: What a row costs beyond its elements, in elements.
_ROW_COST = 8


class SpmvCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        dtype: of values, vector and result.
        idtype: of the index arrays.
        lanes: of a vector; 1 for a kernel without vectors.
        item: the bytes of an element.
        sets: sums that go on next to each other.
    """

    dtype: str
    idtype: str
    lanes: int
    item: int
    sets: int = 1

    @property
    def zero(self) -> str:
        """A sum of nothing."""
        return spread(f"T.{self.dtype}(0)", self.lanes)


def spmv_rows(case: SpmvCase) -> PrimFunc:
    """`out[i] = sum over the elements (i, j) of values * x[j]`.

    Parameters: values[nnz], x[n], out[m], indptr, indices, m, n, nnz and `units`, into how many
    parts of about the same work the rows are divided.
    """
    t = KernelText()
    with _function(t, case), _units(t, case):
        if case.lanes == 1:
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                _scalar_row(t, case)
        else:
            _groups(t, case)
    return t.parsed()


@contextmanager
def _function(t: KernelText, case: SpmvCase) -> Iterator[None]:
    t("@T.prim_func")
    with t.inside(f"def spmv(a: T.handle, b: T.handle, c: T.handle, {csr_parameters('units')}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz,), '{case.dtype}')",
            f"B = T.match_buffer(b, (n,), '{case.dtype}')",
            f"C = T.match_buffer(c, (m,), '{case.dtype}')",
        )
        match_csr(t, case.idtype)
        yield


@contextmanager
def _units(t: KernelText, case: SpmvCase) -> Iterator[None]:
    """The rows of each unit, with memory for sums."""
    with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
        divide_rows(t, _ROW_COST)
        sizes = {"S": case.lanes * case.sets, "D": case.lanes**2}
        for name, size in sizes.items():
            t(f"{name}_ = T.allocate([{size}], '{case.dtype}', 'local')")
            t(f"{name} = T.Buffer(({size},), '{case.dtype}', data={name}_, scope='local')")
        yield


# ---------------------------------------------------------------------------- vectors


def _groups(t: KernelText, case: SpmvCase) -> None:
    """Rows by groups of as many as a vector has lanes."""
    lanes = case.lanes
    for e in range(lanes):
        t(f"D[{ramp('0', e * lanes, lanes)}] = {case.zero}")
    with t.inside(f"for g in range((hi - lo) // T.int64({lanes})):"):
        t(f"first: T.int64 = lo + g * {lanes}")
        _group(t, case, str(lanes))
        t(f"C[T.Ramp(first, 1, {lanes})] = {_sums(t, case)}")
    t(f"rest: T.int64 = (hi - lo) % T.int64({lanes})")
    with t.inside("if rest > T.int64(0):"):
        t("first: T.int64 = hi - rest")
        _group(t, case, "rest")
        mask = first_lanes("rest", lanes)
        t(f"C.vstore([T.Ramp(first, 1, {lanes})], {_sums(t, case)}, predicate={mask})")


def _group(t: KernelText, case: SpmvCase, count: str) -> None:
    with t.inside(f"for e in range({count}):"):
        _row(t, case, "first + e", f"D[T.Ramp(e * {case.lanes}, 1, {case.lanes})]")


def _sums(t: KernelText, case: SpmvCase) -> str:
    names = [f"d{e}" for e in range(case.lanes)]
    for e, name in enumerate(names):
        place = ramp("0", e * case.lanes, case.lanes)
        t(f"{name}: T.{case.dtype}x{case.lanes} = D[{place}]")
    return sums_of_lanes(t, names, case.dtype, case.item)


def _row(t: KernelText, case: SpmvCase, row: str, into: str) -> None:
    """The partial sums of a row."""
    lanes, sets = case.lanes, case.sets
    t(
        f"begin: T.int64 = T.Cast('int64', P[{row}])",
        f"size: T.int64 = T.Cast('int64', P[{row} + T.int64(1)]) - begin",
        f"whole: T.int64 = T.max(size - T.int64(1), T.int64(0)) // T.int64({lanes})",
        f"some: T.int64 = size - whole * {lanes}",
    )
    mask = first_lanes("some", lanes)
    t(f"j: T.{case.idtype}x{lanes} = X.vload([T.Ramp(begin, 1, {lanes})], predicate={mask})")
    value = f"A.vload([T.Ramp(begin, 1, {lanes})], predicate={mask})"
    product = f"{value} * B.vload([j], predicate={mask})"
    t("start: T.int64 = begin + some")
    if sets == 1:
        t(f"{into} = {product}")
        with t.inside("for h in range(whole):"):
            _add(t, case, f"start + h * {lanes}", into, 0)
        return
    t(f"{_set(case, 0)} = {product}")
    for k in range(1, sets):
        t(f"{_set(case, k)} = {case.zero}")
    with t.inside(f"for h in range(whole // T.int64({sets})):"):
        for k in range(sets):
            _add(t, case, f"start + h * {sets * lanes} + {k * lanes}", _set(case, k), k)
    with t.inside(f"for h in range(whole % T.int64({sets})):"):
        _add(t, case, f"begin + size - (h + T.int64(1)) * {lanes}", _set(case, 0), 0)
    t(f"{into} = {' + '.join(_set(case, k) for k in range(sets))}")


def _add(t: KernelText, case: SpmvCase, place: str, total: str, k: int) -> None:
    """Add the products of full lanes."""
    at = ramp(f"p{k}", 0, case.lanes)
    suffix = f"x{case.lanes}" if case.lanes > 1 else ""
    t(f"p{k}: T.int64 = {place}", f"j{k}: T.{case.idtype}{suffix} = X[{at}]")
    t(f"{total} = {total} + A[{at}] * B[j{k}]")


def _set(case: SpmvCase, k: int) -> str:
    return f"S[{ramp('0', k * case.lanes, case.lanes)}]"


# ---------------------------------------------------------------------------- element by element


def _scalar_row(t: KernelText, case: SpmvCase) -> None:
    sets = case.sets
    t("begin: T.int64 = T.Cast('int64', P[i])")
    t("size: T.int64 = T.Cast('int64', P[i + T.int64(1)]) - begin")
    t(*(f"{_set(case, k)} = {case.zero}" for k in range(sets)))
    with t.inside(f"for h in range(size // T.int64({sets})):"):
        for k in range(sets):
            _add(t, case, f"begin + h * {sets} + {k}", _set(case, k), k)
    if sets > 1:
        with t.inside(f"for h in range(size % T.int64({sets})):"):
            _add(t, case, "begin + size - T.int64(1) - h", _set(case, 0), 0)
    t(f"C[i] = {' + '.join(_set(case, k) for k in range(sets))}")
