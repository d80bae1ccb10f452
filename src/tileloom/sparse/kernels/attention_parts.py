"""Attention along the elements of a sparse matrix, where keys and values are read many times.

As in `spmm_parts.py`, these are cut into parts of consecutive rows that stay in the second-level
cache until all long rows of a unit have taken what they have in them. What is summed for a row
waits in the result meanwhile.
"""

from __future__ import annotations

from ...tir import PrimFunc
from .attention import (
    AttentionCase,
    blocks,
    dots_of,
    each_tile,
    finish,
    function,
    row,
    start,
    units,
)
from .text import KernelText, ramp


def attention_parts(case: AttentionCase) -> PrimFunc:
    """The result of `attention_rows`, part by part of `k` and `v`.

    Parameters: those of `attention_rows`, with `long`, from how many elements on a row is long, and
    `width`, the rows of a part, before `scale`. Columns ascend in each row.
    """
    t = KernelText()
    short = dots_of(case)
    with function(t, case, "long", "width"), units(t, case, short):
        t("count_ = T.allocate([1], 'int64', 'local')")
        t("count = T.Buffer((1,), 'int64', data=count_, scope='local')")
        t("stop_ = T.allocate([1], 'int64', 'local')")
        t("stop = T.Buffer((1,), 'int64', data=stop_, scope='local')")
        for name, kind in (("rows", "int64"), ("place", "int64"), ("H", case.dtype)):
            size = f"(hi - lo) * {2 * case.lanes}" if name == "H" else "hi - lo"
            t(f"{name}_ = T.allocate([{size}], '{kind}', 'global')")
            t(f"{name} = T.Buffer(({size},), '{kind}', data={name}_)")
        t("count[0] = T.int64(0)")
        with t.inside("for r in range(hi - lo):"):
            t("i: T.int64 = lo + r")
            with t.inside("if P[i + T.int64(1)] - P[i] < long:"):
                row(t, case, short)
            with t.inside("else:"):
                t("rows[count[0]] = i", "place[count[0]] = T.Cast('int64', P[i])")
                t("count[0] = count[0] + T.int64(1)")
        t("parts: T.int64 = (n + width - T.int64(1)) // width")
        with t.inside("for part in range(parts):"):
            t("bound: T.int64 = T.min((part + T.int64(1)) * width, n)")
            with t.inside("for h in range(count[0]):"):
                t("i: T.int64 = rows[h]")
                _segment(t, case._replace(ahead=(0, 0)))
    return t.parsed()


def _segment(t: KernelText, case: AttentionCase) -> None:
    """What row `i` has in a part."""
    t("begin: T.int64 = place[h]", "stop[0] = begin")
    inside = f"X[stop[0]] < T.Cast('{case.idtype}', bound)"
    last = "T.Cast('int64', P[i + T.int64(1)])"
    with t.inside(f"while T.if_then_else(stop[0] < {last}, {inside}, T.bool(False)):"):
        t("stop[0] = stop[0] + T.int64(1)")
    t("end: T.int64 = stop[0]", "place[h] = end")
    state = ramp("0", 0, case.lanes)
    greatest, total = (
        f"H[{ramp(f'h * {2 * case.lanes}', first, case.lanes)}]" for first in (0, case.lanes)
    )
    with t.inside("if part == T.int64(0):"):
        start(t, case)
    with t.inside("else:"):
        t(f"M[{state}] = {greatest}", f"L[{state}] = {total}")
        for at, tile in each_tile(t, case):
            for first, lanes in tile:
                t(f"S[{ramp(at, first, lanes)}] = C[i, {ramp(at, first, lanes)}]")
    blocks(t, case, dots_of(case), "T.bool(True)")
    with t.inside("if part == parts - T.int64(1):"):
        finish(t, case)
    with t.inside("else:"):
        t(f"{greatest} = M[{state}]", f"{total} = L[{state}]")
        for at, tile in each_tile(t, case):
            for first, lanes in tile:
                t(f"C[i, {ramp(at, first, lanes)}] = S[{ramp(at, first, lanes)}]")
