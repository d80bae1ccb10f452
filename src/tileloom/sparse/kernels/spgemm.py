"""Products of two sparse matrices in compressed rows, in the two phases of Gustavson (1978).

The rows of the first are divided into units of about as many multiplications, whose bounds are an
array; the first phase counts the elements of each row of the result, the second computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .bitmap import allocate_bitmap, each_bit, each_word, mark
from .text import KernelText
from .two_matrices import scalar, two_matrices

#: Elements of the first matrix by which rows of the second are fetched early.
_AHEAD = 6
_DYNAMIC = "annotations={'schedule': 'dynamic'}"


class SpgemmCase(NamedTuple):
    """What kernels are made for.

    Attributes:
        left, right, result: the types of the index arrays of the matrices and of the result.
        dtype: of the values.
        levels: of the bitmap of columns.
        sorted: whether the columns of each row of the second matrix ascend.
    """

    left: str
    right: str
    result: str = "int32"
    dtype: str = "float32"
    levels: int = 2
    sorted: bool = False


def spgemm_work(left: str, right: str) -> PrimFunc:
    """How many multiplications each row of the result takes.

    Parameters: the arrays of both matrices, work[m], and m, k, the elements of both, and `units`.
    """
    t = KernelText()
    with two_matrices(t, left, right, "w: T.handle", "units: T.int64"):
        t("W = T.match_buffer(w, (m,), 'int64')")
        with t.inside(f"for u in T.parallel(units, {_DYNAMIC}):"):
            t("lo: T.int64 = m * u // units", "hi: T.int64 = m * (u + T.int64(1)) // units")
            scalar(t, "total", "int64")
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r", "total[0] = T.int64(0)")
                with t.inside("for p in range(PA[i], PA[i + T.int64(1)]):"):
                    t("k: T.int64 = T.Cast('int64', XA[p])")
                    length = "PB[k + T.int64(1)] - PB[k]"
                    t(f"total[0] = total[0] + T.Cast('int64', {length})")
                t("W[i] = total[0]")
    return t.parsed()


def spgemm_count(case: SpgemmCase) -> PrimFunc:
    """How many elements each row of the result has.

    Parameters: the index arrays of both matrices, counts[m], where the work of each row is at
    first, bounds[units + 1], the first row of each unit, and m, k, the elements of both, n and
    `units`. Where columns are marked more often than there are words all words are looked at;
    otherwise there is a list of those that were touched.
    """
    t = KernelText()
    case = case._replace(levels=1)
    with two_matrices(
        t, case.left, case.right, "c: T.handle", "v: T.handle", "n: T.int64", "units: T.int64"
    ):
        t("N = T.match_buffer(c, (m,), 'int64')")
        with _units(t, case, listed=True):
            scalar(t, "count", "int64")
            scalar(t, "touched", "int64")
            t("count[0] = T.int64(0)")
            with t.inside("if N[i] > words0:"):
                with _products(t, "X"):
                    mark(t, 1)
                with t.inside("for e in range(words0):"):
                    t("count[0] = count[0] + T.Cast('int64', T.popcount(Z0[e]))")
                    t("Z0[e] = T.uint64(0)")
            with t.inside("else:"):
                t("touched[0] = T.int64(0)")
                with _products(t, "X"):
                    mark(t, 1)
                    t("L[touched[0]] = w0")
                    t("touched[0] = touched[0] + T.Cast('int64', o0 == T.uint64(0))")
                with t.inside("for e in range(touched[0]):"):
                    t("count[0] = count[0] + T.Cast('int64', T.popcount(Z0[L[e]]))")
                    t("Z0[L[e]] = T.uint64(0)")
            t("N[i] = count[0]")
    return t.parsed()


def spgemm_fill(case: SpgemmCase) -> PrimFunc:
    """The elements of the result, of which it is known where rows start; columns ascend.

    Parameters: the index arrays of both matrices, the values of both, indptr[m + 1], indices[nnz]
    and values[nnz] of the result, bounds[units + 1], and m, k, the elements of both, n, nnz and
    `units`.
    """
    t = KernelText()
    handles = [f"{name}: T.handle" for name in ("a", "b", "cp", "cx", "c", "v")]
    with two_matrices(
        t, case.left, case.right, *handles, "n: T.int64", "nnz: T.int64", "units: T.int64"
    ):
        t(
            f"A = T.match_buffer(a, (na,), '{case.dtype}')",
            f"B = T.match_buffer(b, (nb,), '{case.dtype}')",
            f"P = T.match_buffer(cp, (m + T.int64(1),), '{case.result}')",
            f"X = T.match_buffer(cx, (nnz,), '{case.result}')",
            f"C = T.match_buffer(c, (nnz,), '{case.dtype}')",
        )
        with _units(t, case, sums=True):
            scalar(t, "low", "int64")
            scalar(t, "high", "int64")
            first, last = ("n", "T.int64(-1)") if case.sorted else ("T.int64(0)", "n - T.int64(1)")
            t(f"low[0] = {first}", f"high[0] = {last}")
            with _products(t, "XB", spans=case.sorted):
                mark(t, case.levels)
                t("S[j] = S[j] + A[p] * B[q]")
            scalar(t, "at", "int64")
            t("at[0] = T.Cast('int64', P[i])")

            def write() -> None:
                t(f"X[at[0]] = T.Cast('{case.result}', j)", "C[at[0]] = S[j]")
                t(f"S[j] = T.{case.dtype}(0)", "at[0] = at[0] + T.int64(1)")

            def word() -> None:
                each_bit(t, 0, "j", write)
                t("Z0[e0] = T.uint64(0)")

            each_word(t, case.levels, "low[0]", "high[0]", word)
    return t.parsed()


@contextmanager
def _units(
    t: KernelText, case: SpgemmCase, sums: bool = False, listed: bool = False
) -> Iterator[None]:
    """Each row `i` of each unit, with a bitmap of columns, which is zero.

    Args:
        sums: whether there is a sum for each column, which is zero, too.
        listed: whether there is room for a list of words of the bitmap.
    """
    t("V = T.match_buffer(v, (units + T.int64(1),), 'int64')")
    with t.inside(f"for u in T.parallel(units, {_DYNAMIC}):"):
        t("lo: T.int64 = V[u]", "hi: T.int64 = V[u + T.int64(1)]")
        allocate_bitmap(t, case.levels)
        if sums:
            t(f"sums_ = T.allocate([n], '{case.dtype}', 'global')")
            t(f"S = T.Buffer((n,), '{case.dtype}', data=sums_)")
            with t.inside("for z in range(n):"):
                t(f"S[z] = T.{case.dtype}(0)")
        if listed:
            t("list_ = T.allocate([words0], 'int64', 'global')")
            t("L = T.Buffer((words0,), 'int64', data=list_)")
        with t.inside("for r in range(hi - lo):"):
            t("i: T.int64 = lo + r")
            yield


@contextmanager
def _products(t: KernelText, fetched: str = "", spans: bool = False) -> Iterator[None]:
    """Each element `p` of row `i` with each element `q` of the row that it meets, in column `j`.

    Args:
        fetched: the arrays of the second matrix of which what comes next is fetched early.
        spans: let `low` and `high` span the columns of the rows, which ascend.
    """
    with t.inside("for p in range(PA[i], PA[i + T.int64(1)]):"):
        if fetched:
            t(f"late: T.int64 = T.min(T.Cast('int64', p) + T.int64({_AHEAD}), na - T.int64(1))")
            t("next: T.int64 = T.Cast('int64', PB[T.Cast('int64', XA[late])])")
        for name in fetched:
            array = {"X": "XB", "B": "B"}[name]
            t(f"T.evaluate(T.prefetch(T.address_of({array}[next]), 0, 3, 1))")
        t("k: T.int64 = T.Cast('int64', XA[p])")
        if spans:
            with t.inside("if PB[k] < PB[k + T.int64(1)]:"):
                t("low[0] = T.min(low[0], T.Cast('int64', XB[PB[k]]))")
                t("high[0] = T.max(high[0], T.Cast('int64', XB[PB[k + T.int64(1)] - 1]))")
        with t.inside("for q in range(PB[k], PB[k + T.int64(1)]):"):
            t("j: T.int64 = T.Cast('int64', XB[q])")
            yield
