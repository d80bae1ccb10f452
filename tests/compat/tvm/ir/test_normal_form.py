"""The form in which programs are compared: index arithmetic is simplified, the rest stays."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.compat.tvm.ir.normal_form import normal_form
from tileloom.expr import Expr, Range, Var, const
from tileloom.script import parse
from tileloom.tir import IRModule, structural_equal

X, Y = Var("x", "int32"), Var("y", "int32")
F = Var("f", "float32")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (X + Y * 4, Y * 2 * 2 + X, True),
        (X * 2 - X, X, True),
        (X < Y, Y > X, True),
        (F * F + F, F + F * F, False),  # floats stay as they are
        (F + (X + 0).astype("float32"), F + X.astype("float32"), True),
        (X + 1, X + 2, False),
    ],
)
def test_expressions(one: Expr, other: Expr, same: bool) -> None:
    assert (normal_form(one) is normal_form(other)) == same
    assert normal_form(F * 2.0) is F * 2.0


def test_containers() -> None:
    assert normal_form([X + 0, "a"]) == (X, "a") and normal_form({"k": X * 1}) == {"k": X}
    found = normal_form(Range(X - X, Y + 0))
    assert found.min is const(0) and found.extent is Y
    assert normal_form(3) == 3


def test_modules_keep_their_attributes() -> None:
    text = """
@T.prim_func
def main(a: T.Buffer((8,), "int32")):
    for i in range(8):
        a[INDEX] = 1
"""
    one: Any
    other: Any
    one, other = (parse(text.replace("INDEX", index)) for index in ("i % 8", "i // 8 + i"))
    assert structural_equal(normal_form(one), normal_form(other))
    for attrs in ({}, {"key": 7}):
        found = normal_form(IRModule({"main": one}, attrs))
        assert dict(found.attrs or {}) == attrs
        assert structural_equal(found["main"], normal_form(other))
    assert normal_form(IRModule({"main": one})).functions.keys() == {"main"}
