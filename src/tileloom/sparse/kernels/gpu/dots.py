"""Dot products of rows of two dense matrices where a sparse one has elements."""

from __future__ import annotations

from typing import NamedTuple

from ....tir import PrimFunc
from ..text import KernelText, ramp, spread
from .threads import ThreadGroup, converted, fold, launch, local, vector_of, wide

# Steps of a thread that are written out.
_STEPS = 8


class DotsCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        columns: of the dense matrices, a multiple of the lanes of a thread.
        dtype: of these.
        result: the type of the result.
        idtype: of the index arrays.
        group: how threads divide a dot product.
        values: what those of the sparse matrix, in the type of the result, do with dot products:
            "multiply" them, "add" to them, or "ignore".
        is_scaled: whether dot products are multiplied by a number first.
    """

    columns: int
    dtype: str
    result: str
    idtype: str
    group: ThreadGroup
    values: str
    is_scaled: bool = False


def sampled_dots(case: DotsCase) -> PrimFunc:
    """`out[e] = scale * sum of x[rows[e]] * y[columns[e]]`, with the values of the sparse matrix.

    Parameters: values[nnz] unless they are ignored; x[m, columns], y[n, columns], out[nnz],
    rows[nnz], columns[nnz], m, n, nnz and, if there is one, `scale`.
    """
    t = KernelText()
    group, kind = case.group, wide(case.dtype)
    handles = [*(["a"] if case.values != "ignore" else []), "x", "y", "c", "ir", "ix"]
    scalars = [f"{name}: T.int64" for name in ("m", "n", "nnz")]
    scalars += [f"scale: T.{kind}"] if case.is_scaled else []
    params = ", ".join([*(f"{name}: T.handle" for name in handles), *scalars])
    t("@T.prim_func")
    with t.inside(f"def sampled_dots({params}):"):
        t("T.func_attr({'tir.noalias': True})")
        if case.values != "ignore":
            t(f"A = T.match_buffer(a, (nnz,), '{case.result}')")
        t(f"X = T.match_buffer(x, (m, {case.columns}), '{case.dtype}')")
        t(f"Y = T.match_buffer(y, (n, {case.columns}), '{case.dtype}')")
        t(f"C = T.match_buffer(c, (nnz,), '{case.result}')")
        t(f"I = T.match_buffer(ir, (nnz,), '{case.idtype}')")
        t(f"J = T.match_buffer(ix, (nnz,), '{case.idtype}')")
        with launch(t, group, "nnz"):
            local(t, "S", group.lanes, kind)
            local(t, "D", 1, kind)
            t(f"S[{ramp('0', 0, group.lanes)}] = {spread(f'T.{kind}(0)', group.lanes)}")
            t("i: T.int64 = T.Cast('int64', I[item])", "j: T.int64 = T.Cast('int64', J[item])")
            _products(t, case, kind)
            t("D[0] = " + " + ".join(f"S[{e}]" for e in range(group.lanes)))
            fold(t, "D", 1, "{} + {}", 1, group.across)
            with t.inside("if own < nnz and lane == 0:"):
                t(f"C[own] = {_result(case, kind)}")
    return t.parsed()


def _products(t: KernelText, case: DotsCase, kind: str) -> None:
    """Multiply the columns of a thread, and add them up lane by lane."""
    width = case.group.lanes * case.group.across
    whole, rest = divmod(case.columns, width)
    rounds, left = divmod(whole, _STEPS)
    if rest:
        with t.inside(f"if lane * {case.group.lanes} < {rest}:"):
            _steps(t, case, kind, [str(whole * width)])
    if rounds:
        with t.inside(f"for h in range({rounds}):"):
            _steps(t, case, kind, [f"h * {_STEPS * width} + {u * width}" for u in range(_STEPS)])
    if left:
        _steps(t, case, kind, [str((rounds * _STEPS + u) * width) for u in range(left)])


def _steps(t: KernelText, case: DotsCase, kind: str, bases: list[str]) -> None:
    lanes = case.group.lanes
    total = f"S[{ramp('0', 0, lanes)}]"
    for u, base in enumerate(bases):
        column = ramp(f"{base} + lane * {lanes}", 0, lanes)
        for name, row in (("X", "i"), ("Y", "j")):
            value = converted(f"{name}[{row}, {column}]", case.dtype, kind, lanes)
            t(f"{name.lower()}{u}: T.{vector_of(kind, lanes)} = {value}")
    for u in range(len(bases)):
        t(f"{total} = {total} + x{u} * y{u}")


def _result(case: DotsCase, kind: str) -> str:
    dot = "scale * D[0]" if case.is_scaled else "D[0]"
    value = converted("A[own]", case.result, kind)
    found = {"ignore": dot, "multiply": f"{value} * ({dot})", "add": f"{value} + {dot}"}
    return converted(found[case.values], kind, case.result)
