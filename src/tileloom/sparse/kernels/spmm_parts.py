"""Products of a sparse matrix with a dense one whose rows are read many times.

Where rows of the sparse matrix have many elements each row of the dense matrix is wanted again and
again, but is gone from the second-level cache when it is. So the dense matrix is cut into parts of
consecutive rows that stay there: all long rows of a unit take in what they have in a part before
the next part's turn comes. Their columns are sorted, so that each goes on where it stopped.
"""

from __future__ import annotations

from ...tir import PrimFunc
from .spmm import SpmmCase, add_element, function, row, units
from .text import KernelText, ramp, spread, vectors


def spmm_parts(case: SpmmCase, packs: bool) -> PrimFunc:
    """`out[i] = sum over the elements (i, j) of values * x[j]`, part by part of `x`.

    Parameters: those of `spmm_rows`, then `long`, from how many elements on a row is long, `width`,
    the rows of a part, and two arrays with an element for each row of the sparse matrix, in which
    the kernel notes the long rows and how far they are.

    Args:
        case: `tile` vectors of the result are summed at once; `features` is a multiple of them.
        packs: copy the columns of a part that are summed at once, as rows that are far apart would
            share few of a cache's sets.
    """
    t = KernelText()
    size = case.lanes * case.tile
    with function(t, case, "long", "width", arrays=("rows", "place")):
        t(
            "R = T.match_buffer(rows, (m,), 'int64')",
            f"Q = T.match_buffer(place, (m,), '{case.idtype}')",
        )
        with units(t, case):
            t("count_ = T.allocate([1], 'int64', 'local')")
            t("count = T.Buffer((1,), 'int64', data=count_, scope='local')")
            if packs:
                t(f"packed_ = T.allocate([width * {size}], '{case.dtype}', 'global')")
                t(f"K = T.Buffer((width, {size}), '{case.dtype}', data=packed_)")
            t("count[0] = T.int64(0)")
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                with t.inside("if P[i + T.int64(1)] - P[i] < long:"):
                    row(t, case)
                with t.inside("else:"):
                    t("R[lo + count[0]] = i", "count[0] = count[0] + T.int64(1)")
            if case.features == size:
                _tile(t, case, "0", packs)
            else:
                with t.inside(f"for kt in range({case.features // size}):"):
                    _tile(t, case, f"kt * {size}", packs)
    return t.parsed()


def _tile(t: KernelText, case: SpmmCase, base: str, packs: bool) -> None:
    """Some columns of the result, for all long rows of the unit."""
    size = case.lanes * case.tile
    with t.inside("for h in range(count[0]):"):
        t("Q[lo + h] = P[R[lo + h]]")
    with t.inside("for part in range((n + width - T.int64(1)) // width):"):
        t("first: T.int64 = part * width", "end: T.int64 = T.min(first + width, n)")
        if packs:
            with t.inside("for j in range(end - first):"):
                for at, lanes in vectors(size, case.lanes):
                    t(f"K[j, {ramp('0', at, lanes)}] = B[first + j, {ramp(base, at, lanes)}]")
        with t.inside("for h in range(count[0]):"):
            t("i: T.int64 = R[lo + h]")
            _segment(t, case, base, packs)


def _segment(t: KernelText, case: SpmmCase, base: str, packs: bool) -> None:
    """What row `i` has in a part."""
    each = vectors(case.lanes * case.tile, case.lanes)
    with t.inside("if part == T.int64(0):"):
        for at, lanes in each:
            t(f"S[{ramp('0', at, lanes)}] = {spread(f'T.{case.dtype}(0)', lanes)}")
    with t.inside("else:"):
        for at, lanes in each:
            t(f"S[{ramp('0', at, lanes)}] = C[i, {ramp(base, at, lanes)}]")
    t(f"at_ = T.allocate([1], '{case.idtype}', 'local')")
    t(f"at = T.Buffer((1,), '{case.idtype}', data=at_, scope='local')")
    t("at[0] = Q[lo + h]")
    last = f"T.Cast('{case.idtype}', end)"
    inside = f"T.if_then_else(at[0] < P[i + T.int64(1)], X[at[0]] < {last}, T.bool(False))"
    with t.inside(f"while {inside}:"):
        if packs:
            _packed(t, case)
        else:
            add_element(t, case, each, base, "at[0]", 0)
        t(f"at[0] = at[0] + T.{case.idtype}(1)")
    t("Q[lo + h] = at[0]")
    for at, lanes in each:
        t(f"C[i, {ramp(base, at, lanes)}] = S[{ramp('0', at, lanes)}]")


def _packed(t: KernelText, case: SpmmCase) -> None:
    t("j0: T.int64 = T.Cast('int64', X[at[0]]) - first", f"v0: T.{case.dtype} = A[at[0]]")
    for at, lanes in vectors(case.lanes * case.tile, case.lanes):
        total = f"S[{ramp('0', at, lanes)}]"
        t(f"{total} = {total} + {spread('v0', lanes)} * K[j0, {ramp('0', at, lanes)}]")
