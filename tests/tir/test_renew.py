"""Fresh variables in program order."""

from __future__ import annotations

from typing import Any

from tileloom.expr import Analyzer, Range, Var
from tileloom.script import from_source
from tileloom.tir import For, assert_structural_equal, collect, renewed

TEXT = """
from tileloom.script import tir as T

@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.float32(0)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            B[vi] = B[vi] + A[vi, vj]
"""


def test_everything_defined_is_new_and_the_structure_stays() -> None:
    func: Any = from_source(TEXT)
    new: Any = func.replace(body=renewed(func.body))
    assert_structural_equal(func, new)
    old_vars = {loop.loop_var for loop in collect(func.body, For)}
    serials = [loop.loop_var.serial for loop in collect(new.body, For)]
    assert serials == sorted(serials)
    assert old_vars.isdisjoint(loop.loop_var for loop in collect(new.body, For))


def test_sums_come_out_alike() -> None:
    """`i + j` simplifies to the order of creation, which `renewed` makes that of appearance."""
    b, a = Var("b"), Var("a")
    assert str(Analyzer({a: Range(0, 4), b: Range(0, 4)}).simplify(a + b)) == "b + a"
