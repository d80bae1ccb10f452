"""Products of a sparse matrix in compressed rows with a vector."""

from __future__ import annotations

from typing import NamedTuple

from ...tir import PrimFunc
from .row_sums import RowSums
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText, ramp

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


def spmv_rows(case: SpmvCase) -> PrimFunc:
    """`out[i] = sum over the elements (i, j) of values * x[j]`.

    Parameters: values[nnz], x[n], out[m], indptr, indices, m, n, nnz and `units`, into how many
    parts of about the same work the rows are divided.
    """
    t = KernelText()
    lanes = case.lanes

    def products(place: str, k: int, mask: str) -> str:
        at = ramp(place, 0, lanes)
        if mask:
            some = f", predicate={mask}"
            t(f"j: T.{case.idtype}x{lanes} = X.vload([{at}]{some})")
            return f"A.vload([{at}]{some}) * B.vload([j]{some})"
        t(f"j{k}: T.{case.idtype}{f'x{lanes}' if lanes > 1 else ''} = X[{at}]")
        return f"A[{at}] * B[j{k}]"

    sums = RowSums(case.dtype, lanes, case.item, case.sets)
    t("@T.prim_func")
    with t.inside(f"def spmv(a: T.handle, b: T.handle, c: T.handle, {csr_parameters('units')}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz,), '{case.dtype}')",
            f"B = T.match_buffer(b, (n,), '{case.dtype}')",
            f"C = T.match_buffer(c, (m,), '{case.dtype}')",
        )
        match_csr(t, case.idtype)
        with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
            divide_rows(t, _ROW_COST)
            sums.allocate(t)
            sums.rows(t, products, lambda total, row, mask: total)
    return t.parsed()
