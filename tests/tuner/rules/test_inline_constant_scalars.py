"""InlineConstantScalars: numbers that blocks of their own make."""

from __future__ import annotations

from tileloom import te
from tileloom.expr import const
from tileloom.tir import PrimFunc
from tileloom.tuner.rules.inline_constant_scalars import InlineConstantScalars

from .programs import apply, assert_same, blocks, chain


def scaled(shape: tuple[int, ...]) -> PrimFunc:
    """Block "one" makes a constant of a shape, "B" multiplies with one of its elements."""
    one = te.compute(shape, lambda *at: const(3.0, "float32"), name="one")
    a = te.placeholder((8,), name="A")
    zero = [0] * len(shape)
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] * one(*zero), name="B")])


def test_numbers_are_inlined_and_tensors_are_not() -> None:
    func = scaled(())
    (sch,) = apply(InlineConstantScalars(), func, "one")
    assert blocks(sch) == ["B"]
    assert_same(func, [sch])
    assert blocks(apply(InlineConstantScalars(), scaled((2,)), "one")[0]) == ["one", "B"]


def test_what_reads_something_stays() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0, shape=())
    assert blocks(apply(InlineConstantScalars(), func, "B0")[0]) == ["B0", "B1"]


def test_a_number_that_is_the_result_stays() -> None:
    func = te.create_prim_func([te.compute((), lambda: const(3.0, "float32"), name="one")])
    assert blocks(apply(InlineConstantScalars(), func, "one")[0]) == ["one"]
