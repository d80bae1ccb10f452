"""Sums, differences and products, element by element, with matrices in compressed rows.

The columns of each row ascend and none occurs twice, so rows are merged. What decides which row is
read on is arithmetic on comparisons, not branches, which could not be foretold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText
from .two_matrices import scalar, two_matrices

_PARALLEL = "for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"
_ONE = "T.int64(1)"


class MergeCase(NamedTuple):
    """What a merging kernel is made for.

    Attributes:
        left, right, result: the types of the index arrays of the matrices and of the result.
        dtype: of the values.
        operator: of two values: `+`, `-` or `*`.
        both: whether elements that only one matrix stores are left out.
    """

    left: str
    right: str
    result: str
    dtype: str
    operator: str
    both: bool


def merge_count(left: str, right: str, both: bool) -> PrimFunc:
    """How many elements each row of the result has.

    Parameters: the index arrays of both matrices, counts[m], bounds[units + 1], the first row of
    each unit, and m, m, the elements of both, and `units`.
    """
    t = KernelText()
    more = "c: T.handle", "v: T.handle", "units: T.int64"
    with two_matrices(t, left, right, *more):
        t("N = T.match_buffer(c, (m,), 'int64')")
        with _rows(t):
            t("at[0] = T.int64(0)")
            with _while_both(t):
                step = "T.Cast('int64', ja == jb)" if both else _ONE
                t(f"at[0] = at[0] + {step}")
                _advance(t)
            rest = "" if both else " + (pe - p[0]) + (qe - q[0])"
            t(f"N[i] = at[0]{rest}")
    return t.parsed()


def merge_fill(case: MergeCase) -> PrimFunc:
    """The elements of the result, of which it is known where rows start.

    Parameters: the index arrays of both matrices, the values of both, indptr[m + 1], indices[nnz]
    and values[nnz] of the result, bounds[units + 1], and m, m, the elements of both, nnz, `units`.
    """
    t = KernelText()
    handles = [f"{name}: T.handle" for name in ("a", "b", "cp", "cx", "c", "v")]
    with two_matrices(t, case.left, case.right, *handles, "nnz: T.int64", "units: T.int64"):
        t(
            f"A = T.match_buffer(a, (na,), '{case.dtype}')",
            f"B = T.match_buffer(b, (nb,), '{case.dtype}')",
            f"P = T.match_buffer(cp, (m + T.int64(1),), '{case.result}')",
            f"X = T.match_buffer(cx, (nnz,), '{case.result}')",
            f"C = T.match_buffer(c, (nnz,), '{case.dtype}')",
        )
        with _rows(t):
            t("at[0] = T.Cast('int64', P[i])")
            with _while_both(t):
                if case.both:
                    with t.inside("if ja == jb:"):
                        _write(t, case, "ja", "A[p[0]]", "B[q[0]]")
                else:
                    x = f"T.Select(ja <= jb, A[p[0]], T.{case.dtype}(0))"
                    y = f"T.Select(jb <= ja, B[q[0]], T.{case.dtype}(0))"
                    _write(t, case, "T.min(ja, jb)", x, y)
                _advance(t)
            if not case.both:
                _rest(t, case)
    return t.parsed()


def _rest(t: KernelText, case: MergeCase) -> None:
    """What is left of either row."""
    with t.inside("for z in range(pe - p[0]):"):
        place = "p[0] + z"
        _write(t, case, f"T.Cast('int64', XA[{place}])", f"A[{place}]", f"T.{case.dtype}(0)")
    with t.inside("for z in range(qe - q[0]):"):
        place = "q[0] + z"
        _write(t, case, f"T.Cast('int64', XB[{place}])", f"T.{case.dtype}(0)", f"B[{place}]")


def _write(t: KernelText, case: MergeCase, column: str, x: str, y: str) -> None:
    t(f"X[at[0]] = T.Cast('{case.result}', {column})", f"C[at[0]] = {x} {case.operator} {y}")
    t(f"at[0] = at[0] + {_ONE}")


@contextmanager
def _rows(t: KernelText) -> Iterator[None]:
    """Each row `i` of each unit, with where it begins in both matrices, and where it ends."""
    t("V = T.match_buffer(v, (units + T.int64(1),), 'int64')")
    with t.inside(_PARALLEL):
        for name in ("p", "q", "at"):
            scalar(t, name, "int64")
        with t.inside("for r in range(V[u + T.int64(1)] - V[u]):"):
            t("i: T.int64 = V[u] + r")
            for place, end, starts in (("p", "pe", "PA"), ("q", "qe", "PB")):
                t(f"{place}[0] = T.Cast('int64', {starts}[i])")
                t(f"{end}: T.int64 = T.Cast('int64', {starts}[i + {_ONE}])")
            yield


@contextmanager
def _while_both(t: KernelText) -> Iterator[None]:
    """As long as both rows have a next element, in the columns `ja` and `jb`."""
    with t.inside("while (p[0] < pe) & (q[0] < qe):"):
        t("ja: T.int64 = T.Cast('int64', XA[p[0]])", "jb: T.int64 = T.Cast('int64', XB[q[0]])")
        yield


def _advance(t: KernelText) -> None:
    t("p[0] = p[0] + T.Cast('int64', ja <= jb)", "q[0] = q[0] + T.Cast('int64', jb <= ja)")


def scale_by_dense(dtype: str, idtype: str) -> PrimFunc:
    """`out[p] = values[p] * x[i, j]` for each element p = (i, j), where x may be broadcast.

    Parameters: values[nnz], x[size], out[nnz], indptr, indices, m, n, nnz, `units`, size, and by
    how many elements of x a row and a column are apart: 0 where all have the same.
    """
    t = KernelText()
    scalars = csr_parameters("units", "size", "row", "column")
    t("@T.prim_func")
    with t.inside(f"def scale(a: T.handle, d: T.handle, c: T.handle, {scalars}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz,), '{dtype}')",
            f"D = T.match_buffer(d, (size,), '{dtype}')",
            f"C = T.match_buffer(c, (nnz,), '{dtype}')",
        )
        match_csr(t, idtype)
        with t.inside(_PARALLEL):
            divide_rows(t)
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                with t.inside("for p in range(P[i], P[i + T.int64(1)]):"):
                    t("C[p] = A[p] * D[i * row + T.Cast('int64', X[p]) * column]")
    return t.parsed()
