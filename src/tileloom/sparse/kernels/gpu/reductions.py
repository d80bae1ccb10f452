"""Reductions of rows: products of sparse matrices with dense ones, and what becomes of segments.

A group of threads has a row of the result. Where some rows are far longer than others, each has a
chunk of a row instead: what becomes of the only chunk of a row is the result, what becomes of
others is kept until a second launch reduces it. So no two threads store to one place, and the order
of additions is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ....tir import PrimFunc
from ..segments import BOTH
from ..text import KernelText, ramp, spread
from .threads import ThreadGroup, converted, fold, launch, local, vector_of, wide


class ReductionCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        op: one of `BOTH`.
        nothing: what a value becomes itself with, as a literal.
        columns: of the dense matrix.
        dtype: of dense matrix and result.
        idtype: of the index arrays.
        group: how threads divide a row.
        unrolled: elements that are loaded before any of them is added.
        weights: the type of the elements of a sparse matrix, whose columns say which rows of the
            dense one are multiplied with them; empty where rows are reduced as they come.
        is_cut: whether long rows are cut into chunks.
    """

    op: str
    nothing: str
    columns: int
    dtype: str
    idtype: str
    group: ThreadGroup
    unrolled: int = 1
    weights: str = ""
    is_cut: bool = False

    @property
    def wide(self) -> str:
        """The type of sums."""
        return wide(self.dtype)

    def both(self, left: str, right: str) -> str:
        """Two values as one."""
        return BOTH[self.op].format(left, right)


class _Pass(NamedTuple):
    """One launch: reduces rows of a buffer.

    Attributes:
        items: how many results there are.
        starts: the buffer of where their rows begin.
        source: the buffer of rows, and its type.
        weights: the type of weights, if there are.
    """

    items: str
    starts: str
    source: str
    dtype: str
    weights: str = ""


def reduce_rows(case: ReductionCase) -> PrimFunc:
    """`out[i] = op of weights[p] * x[indices[p]]` over `p` from `indptr[i]` to `indptr[i + 1]`.

    Parameters: weights[nnz] and indices[nnz] if there are weights; x[n, columns], out[m, columns],
    indptr[m + 1], m, n, nnz; where there are no weights, also `initial` and `least`, of how many
    elements a mean is at least. Where rows are cut, further: starts[chunks + 1] of chunks,
    places[chunks], their rows or, for parts of longer ones, -1 less the place among `slots` of
    these, rows[longs] of the longer ones, parts[longs + 1], their first of the slots, chunks,
    slots, longs.
    """
    t = KernelText()
    with _function(t, case):
        if not case.is_cut:
            first = _Pass("m", "P", "B", case.dtype, case.weights)
            with _reduced(t, case, first):
                _store(t, case, "item")
            return t.parsed()
        t(f"W = T.alloc_buffer((slots, {case.columns}), '{case.wide}')")
        with _reduced(t, case, _Pass("chunks", "Q", "B", case.dtype, case.weights)):
            t("to: T.int64 = T.Cast('int64', D[item])")
            with t.inside("if to >= T.int64(0):"):
                _store(t, case, "to")
            with t.inside("else:"):
                for k, column, inside in _columns(case):
                    with t.inside(inside):
                        t(f"W[T.int64(-1) - to, {column}] = {_sums(case, k)}")
        with _reduced(t, case, _Pass("longs", "R", "W", case.wide)):
            t("to: T.int64 = T.Cast('int64', H[item])")
            _store(t, case, "to")
    return t.parsed()


@contextmanager
def _function(t: KernelText, case: ReductionCase) -> Iterator[None]:
    """The function, with its buffers."""
    handles = [*(("a", "ix") if case.weights else ()), "b", "c", "ip"]
    scalars = ["m: T.int64", "n: T.int64", "nnz: T.int64"]
    if not case.weights:
        scalars += [f"initial: T.{case.wide}", f"least: T.{case.wide}"]
    if case.is_cut:
        scalars += [f"{name}: T.handle" for name in ("iq", "ii", "ih", "ir")]
        scalars += [f"{name}: T.int64" for name in ("chunks", "slots", "longs")]
    params = ", ".join([*(f"{name}: T.handle" for name in handles), *scalars])
    t("@T.prim_func")
    with t.inside(f"def reduce_rows({params}):"):
        t("T.func_attr({'tir.noalias': True})")
        if case.weights:
            t(f"A = T.match_buffer(a, (nnz,), '{case.weights}')")
            t(f"X = T.match_buffer(ix, (nnz,), '{case.idtype}')")
        t(f"B = T.match_buffer(b, (n, {case.columns}), '{case.dtype}')")
        t(f"C = T.match_buffer(c, (m, {case.columns}), '{case.dtype}')")
        t(f"P = T.match_buffer(ip, (m + T.int64(1),), '{case.idtype}')")
        if case.is_cut:
            t(f"Q = T.match_buffer(iq, (chunks + T.int64(1),), '{case.idtype}')")
            t("D = T.match_buffer(ii, (chunks,), 'int32')")
            t("H = T.match_buffer(ih, (longs,), 'int32')")
            t("R = T.match_buffer(ir, (longs + T.int64(1),), 'int32')")
        yield


# ---------------------------------------------------------------------------- columns of a thread


def _first(case: ReductionCase, k: int) -> str:
    """The first column of a thread's tile, which may be beyond the last one."""
    group = case.group
    return f"by * {group.width} + (lane + {k * group.across}) * {group.lanes}"


def _is_exact(case: ReductionCase) -> bool:
    return case.columns % case.group.width == 0


def _columns(case: ReductionCase) -> Iterator[tuple[int, str, str]]:
    """For each tile its number, its columns, and a condition that they are there."""
    for k in range(case.group.tiles):
        inside = "True" if _is_exact(case) else f"{_first(case, k)} < {case.columns}"
        yield k, ramp(f"c{k}", 0, case.group.lanes), f"if {inside}:"


def _sums(case: ReductionCase, k: int) -> str:
    return f"S[{ramp('0', k * case.group.lanes, case.group.lanes)}]"


# ---------------------------------------------------------------------------- a launch


@contextmanager
def _reduced(t: KernelText, case: ReductionCase, own: _Pass) -> Iterator[None]:
    """Reduce the rows of each item into `S`; then what is stored where, by one thread."""
    group = case.group
    parts = -(-case.columns // group.width)
    with launch(t, group, own.items, parts):
        local(t, "S", group.lanes * group.tiles, case.wide)
        for k in range(group.tiles):
            column = _first(case, k)
            last = case.columns - group.lanes
            t(f"c{k}: T.int32 = {column if _is_exact(case) else f'T.min({column}, {last})'}")
            t(f"{_sums(case, k)} = {spread(f'T.{case.wide}({case.nothing})', group.lanes)}")
        t(f"begin: T.int64 = T.Cast('int64', {own.starts}[item])")
        t(f"end: T.int64 = T.Cast('int64', {own.starts}[item + T.int64(1)])")
        rest = "T.max(T.Cast('int32', end - begin) - part, 0)"
        t(f"count: T.int32 = ({rest} + {group.down - 1}) // {group.down}")
        many = case.unrolled
        if many > 1:
            with t.inside(f"for g in range(count // {many}):"):
                _add(t, case, own, [f"g * {many} + {u}" for u in range(many)])
            with t.inside(f"for r in range(count % {many}):"):
                _add(t, case, own, [f"count // {many} * {many} + r"])
        else:
            with t.inside("for g in range(count):"):
                _add(t, case, own, ["g"])
        both = BOTH[case.op]
        fold(t, "S", group.lanes * group.tiles, both, group.across, group.threads)
        with t.inside(f"if own < {own.items} and part == 0:"):
            yield


def _add(t: KernelText, case: ReductionCase, own: _Pass, steps: list[str]) -> None:
    """Add the thread's elements of these numbers."""
    group, kind = case.group, case.wide
    for u, step in enumerate(steps):
        t(f"p{u}: T.int64 = begin + T.Cast('int64', part + ({step}) * {group.down})")
        if own.weights:
            t(f"v{u}: T.{kind} = {converted(f'A[p{u}]', own.weights, kind)}")
            t(f"j{u}: T.int64 = T.Cast('int64', X[p{u}])")
    row = "j" if own.weights else "p"
    pairs = [(k, u) for u in range(len(steps)) for k in range(group.tiles)]
    for k, u in pairs:
        value = f"{own.source}[{row}{u}, {ramp(f'c{k}', 0, group.lanes)}]"
        value = converted(value, own.dtype, kind, group.lanes)
        t(f"x{k}_{u}: T.{vector_of(kind, group.lanes)} = {value}")
    for k, u in pairs:
        term = f"{spread(f'v{u}', group.lanes)} * x{k}_{u}" if own.weights else f"x{k}_{u}"
        t(f"{_sums(case, k)} = {case.both(_sums(case, k), term)}")


def _store(t: KernelText, case: ReductionCase, row: str) -> None:
    """Store the sums as a row of the result."""
    lanes = case.group.lanes
    if case.op == "mean":
        length = f"P[{row} + T.int64(1)] - P[{row}]"
        t(f"share: T.{case.wide} = T.max(T.Cast('{case.wide}', {length}), least)")
    for k, column, inside in _columns(case):
        value = _sums(case, k)
        if not case.weights:
            value = case.both(spread("initial", lanes), value)
        if case.op == "mean":
            value = f"({value}) / {spread('share', lanes)}"
        with t.inside(inside):
            t(f"C[{row}, {column}] = {converted(value, case.wide, case.dtype, lanes)}")
