"""Values of a matrix in the places that another format has for them."""

from __future__ import annotations

from ...tir import PrimFunc
from .text import KernelText


def pack_values(dtype: str, idtype: str) -> PrimFunc:
    """`out[places[p]] = values[p]`; no two places are the same.

    Parameters: values[nnz], places[nnz], out[size], nnz, size, and `units`, into how many parts the
    values are divided.
    """
    t = KernelText()
    t("@T.prim_func")
    scalars = ", ".join(f"{name}: T.int64" for name in ("nnz", "size", "units"))
    with t.inside(f"def pack(a: T.handle, s: T.handle, c: T.handle, {scalars}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz,), '{dtype}')",
            f"S = T.match_buffer(s, (nnz,), '{idtype}')",
            f"C = T.match_buffer(c, (size,), '{dtype}')",
        )
        with t.inside("for u in T.parallel(units):"):
            t("lo: T.int64 = nnz * u // units", "hi: T.int64 = nnz * (u + T.int64(1)) // units")
            with t.inside("for q in range(hi - lo):"):
                t("C[T.Cast('int64', S[lo + q])] = A[lo + q]")
    return t.parsed()
