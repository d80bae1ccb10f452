"""Which values are an affine map of loops: products of variables are none."""

from __future__ import annotations

import pytest

from schedule.common import check_same, refused, schedule
from tileloom.expr import Expr, Range, Var, const
from tileloom.schedule.analysis.affine import is_affine

I, J = Var("i"), Var("j")

SQUARES = """
@T.prim_func
def main(A: T.Buffer((10, 4), "float32"), B: T.Buffer((10, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(10, INDEX)
            vj = T.axis.spatial(4, j)
            B[vi, vj] = A[vi, vj] + 1.0
"""


@pytest.mark.parametrize(
    "values",
    [[I * I], [I * J], [J, I * I], [I * I, J], [I, J * J], [I // 2 * (I % 2), J]],
    ids=str,
)
@pytest.mark.parametrize("partial", [False, True])
def test_products_of_variables(values: list[Expr], partial: bool) -> None:
    domains = {I: Range(0, 4), J: Range(0, 4)}
    assert not is_affine(values, domains, const(True), partial)
    assert not is_affine(values, domains, I < 3, partial)


@pytest.mark.parametrize("index", ["i * i", "i * j", "i * (i + 1) // 2"])
def test_steps_on_blocks_at_products(index: str) -> None:
    text = SQUARES.replace("INDEX", index)
    sch = schedule(text)
    refused(sch, "not affine", "reorder", *reversed(sch.get_loops("B")))
    sch.unroll(sch.get_loops("B")[1])
    check_same(sch, text)
