"""Softmax within segments of consecutive rows, column by column."""

from __future__ import annotations

from typing import NamedTuple

from ....tir import PrimFunc
from ..text import KernelText
from .threads import ThreadGroup, fold, launch, local


class SoftmaxCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        columns: of the values.
        dtype: float32 or float64.
        idtype: of where segments begin.
        group: how threads divide a segment; a thread has one column.
    """

    columns: int
    dtype: str
    idtype: str
    group: ThreadGroup


def softmax_rows(case: SoftmaxCase) -> PrimFunc:
    """`out[p] = exp(values[p] - most) / sum of these`, over the elements of p's segment.

    Parameters: values[nnz, columns], out[nnz, columns], indptr[m + 1], m, nnz.
    """
    t = KernelText()
    group, kind = case.group, case.dtype
    t("@T.prim_func")
    with t.inside("def softmax(v: T.handle, c: T.handle, ip: T.handle, m: T.int64, nnz: T.int64):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"V = T.match_buffer(v, (nnz, {case.columns}), '{kind}')",
            f"C = T.match_buffer(c, (nnz, {case.columns}), '{kind}')",
            f"P = T.match_buffer(ip, (m + T.int64(1),), '{case.idtype}')",
        )
        with launch(t, group, "m", -(-case.columns // group.across)):
            local(t, "M", 1, kind)
            local(t, "L", 1, kind)
            t(
                f"column: T.int32 = T.min(by * {group.across} + lane, {case.columns - 1})",
                f"is_own: T.bool = own < m and by * {group.across} + lane < {case.columns}",
                "begin: T.int64 = T.Cast('int64', P[item])",
                "end: T.int64 = T.Cast('int64', P[item + T.int64(1)])",
                "rest: T.int32 = T.max(T.Cast('int32', end - begin) - part, 0)",
                f"count: T.int32 = (rest + {group.down - 1}) // {group.down}",
                f"M[0] = T.{kind}('-inf')",
                f"L[0] = T.{kind}(0)",
            )
            at = f"begin + T.Cast('int64', part + g * {group.down}), column"
            with t.inside("for g in range(count):"):
                t(f"M[0] = T.max(M[0], V[{at}])")
            fold(t, "M", 1, "T.max({}, {})", group.across, group.threads)
            with t.inside("for g in range(count):"):
                t(f"power: T.{kind} = T.exp(V[{at}] - M[0])", "L[0] = L[0] + power")
                with t.inside("if is_own:"):
                    t(f"C[{at}] = power")
            fold(t, "L", 1, "{} + {}", group.across, group.threads)
            with t.inside("if is_own:"):
                t(f"share: T.{kind} = T.{kind}(1) / L[0]")
                with t.inside("for g in range(count):"):
                    t(f"C[{at}] = C[{at}] * share")
    return t.parsed()
