"""Products of the rows of two dense matrices at the elements of a sparse one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .dots import DenseRows, RowDots
from .text import KernelText


class SddmmCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        features: columns of the dense matrices.
        dtype: of values, dense matrices and result.
        idtype: of the index arrays.
        lanes: of a vector, more than one.
        values: what becomes of the values of the sparse matrix: "multiply" the products with them,
            or "ignore" them.
        ahead: elements of the sparse matrix by which rows of the second dense one are fetched
            early; 0 for not at all.
        lines: how many cache lines of each are fetched.
    """

    features: int
    dtype: str
    idtype: str
    lanes: int
    values: str = "multiply"
    ahead: int = 0
    lines: int = 0


def sddmm_groups(case: SddmmCase) -> PrimFunc:
    """`out[p] = values[p] * (x[i] . y[j])` for element p, at (i, j), by groups of elements.

    A group is as many neighbouring elements as a vector has lanes, whatever rows they are in, so
    that rows of few elements do not leave lanes without work.

    Parameters: values[nnz] unless they are ignored, x[m, features], y[n, features], out[nnz],
    rows[nnz] and columns[nnz] of the elements, m, n, nnz and `units`, into how many parts the
    elements are divided.
    """
    t = KernelText()
    dots = _dots(case)
    lanes = case.lanes
    with function(t, case, "rows: T.handle, ix: T.handle", ("units",)):
        t(f"R = T.match_buffer(rows, (nnz,), '{case.idtype}')")
        t(f"X = T.match_buffer(ix, (nnz,), '{case.idtype}')")
        with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
            t(f"whole: T.int64 = nnz // T.int64({lanes})")
            t("lo: T.int64 = whole * u // units")
            t("hi: T.int64 = whole * (u + T.int64(1)) // units")
            dots.allocate(t)
            with t.inside("for g in range(hi - lo):"):
                t(f"p: T.int64 = (lo + g) * {lanes}")
                with t.inside(f"if R[p] == R[p + {lanes - 1}]:"):
                    t("i: T.int64 = T.Cast('int64', R[p])")
                    store(t, case, dots.group(t, "p"), "p")
                with t.inside("else:"):
                    store(t, case, dots.group(t, "p", "R"), "p")
            with t.inside("if u == units - T.int64(1):"):
                t(f"p: T.int64 = whole * {lanes}")
                dots.clear(t)
                store(t, case, dots.some(t, "p", "nnz - p", "R"), "p", "nnz - p")
    return t.parsed()


def _dots(case: SddmmCase) -> RowDots:
    x, y = (DenseRows(name, case.features, case.dtype, case.lanes) for name in ("B", "C"))
    return RowDots(x, y, case.ahead, case.lines)


@contextmanager
def function(
    t: KernelText, case: SddmmCase, indices: str, scalars: Sequence[str]
) -> Iterator[None]:
    """The function, with the buffers that both kernels have.

    Args:
        indices: parameters between the result and the sizes.
        scalars: parameters after the sizes.
    """
    numbers = ", ".join(f"{name}: T.int64" for name in ("m", "n", "nnz", *scalars))
    t("@T.prim_func")
    weighs = case.values == "multiply"
    arrays = ", ".join(f"{name}: T.handle" for name in ("axyo" if weighs else "xyo"))
    with t.inside(f"def sddmm({arrays}, {indices}, {numbers}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"B = T.match_buffer(x, (m, {case.features}), '{case.dtype}')",
            f"C = T.match_buffer(y, (n, {case.features}), '{case.dtype}')",
            f"O = T.match_buffer(o, (nnz,), '{case.dtype}')",
        )
        if weighs:
            t(f"A = T.match_buffer(a, (nnz,), '{case.dtype}')")
        yield


def store(t: KernelText, case: SddmmCase, dots: str, place: str, count: str = "") -> None:
    """Store the results of elements from `place` on: a vector of them, or the first `count`."""
    each, mask = elements(case, place, count)
    result = f"A.vload({each}{mask}) * {dots}" if case.values == "multiply" else dots
    t(f"O.vstore({each}, {result}{mask})")


def elements(case: SddmmCase, place: str, count: str) -> tuple[str, str]:
    """Where a vector of elements is, and the argument that leaves out all but the first ones."""
    each = f"[T.Ramp({place}, 1, {case.lanes})]"
    if not count:
        return each, ""
    lane = f"T.Ramp(T.int64(0), T.int64(1), {case.lanes})"
    return each, f", predicate={lane} < T.Broadcast({count}, {case.lanes})"
