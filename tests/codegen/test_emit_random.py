"""Machine code of random programs does what the interpreter says."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.emitting import compare, mapped, pairs
from lower.random_programs import loop_program, stencil_program
from tileloom.base import dtype
from tileloom.driver import build
from tileloom.expr import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Expr,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    const,
)
from tileloom.expr.nodes import broadcast_to
from tileloom.tir import PrimFunc
from tileloom.tir.run import run
from tower import random_inputs

ARITHMETIC = [Add, Sub, Mul, Min, Max]
NARROW = ("int8", "uint8", "int16", "uint32")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def check(program: PrimFunc) -> None:
    rng = np.random.default_rng(len(program.params))
    given = random_inputs(program, rng)
    wanted, found = ([np.copy(a) for a in given] for _ in range(2))
    run(program, *wanted)
    build(program)(*found)
    for buffer, a, b in zip(program.buffers, found, wanted, strict=True):
        np.testing.assert_array_equal(a, b, f"{buffer.name}\n{program}")


@pytest.mark.parametrize("first", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_programs_of_loops(first: int) -> None:
    for seed in range(first, first + 20):
        check(loop_program(Random(seed)))


def test_programs_of_blocks() -> None:
    for seed in range(15):
        check(stencil_program(Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("program", [loop_program, stencil_program])
def test_many_programs(program: Any) -> None:
    for seed in range(1000, 1500):
        check(program(Random(seed)))


def numbers(kind: str, leaves: list[Expr], depth: int) -> st.SearchStrategy[Expr]:
    """Integer expressions of one type over `leaves`, which all have its lanes."""
    lanes = leaves[0].dtype.lanes
    info = np.iinfo(kind)
    constants = st.integers(int(info.min), int(info.max)).map(
        lambda v: broadcast_to(const(v, kind), lanes)
    )
    if depth == 0:
        return st.one_of(st.sampled_from(leaves), constants)
    inner = numbers(kind, leaves, depth - 1)
    wide = dtype(kind).with_lanes(lanes)

    def call(name: str, *args: Expr) -> Expr:
        return Call(wide, f"tir.{name}", list(args))

    def let(value: Expr, body: Expr) -> Expr:
        var = Var("t", wide)
        return Let(var, value, Add(Mul(var, body), var))

    return st.one_of(
        inner,
        st.builds(lambda op, a, b: op(a, b), st.sampled_from(ARITHMETIC), inner, inner),
        st.builds(Select, conditions(kind, leaves, depth - 1), inner, inner),
        st.builds(
            lambda c, a, b: call("if_then_else", c, a, b),
            conditions(kind, leaves, depth - 1), inner, inner,
        ),
        st.builds(
            lambda n, a, b: call(f"bitwise_{n}", a, b),
            st.sampled_from(["and", "or", "xor"]), inner, inner,
        ),
        st.builds(lambda a: call("bitwise_not", a), inner),
        st.builds(
            lambda t, a: Cast(wide, Cast(dtype(t).with_lanes(lanes), a)),
            st.sampled_from(["bool", *INTEGERS]), inner,
        ),
        st.builds(let, inner, inner),
    )  # fmt: skip


def conditions(kind: str, leaves: list[Expr], depth: int) -> st.SearchStrategy[Expr]:
    inner = numbers(kind, leaves, depth)
    compare_ = st.builds(lambda op, a, b: op(a, b), st.sampled_from([EQ, NE, LT, LE]), inner, inner)
    if depth == 0:
        return compare_
    deeper = conditions(kind, leaves, depth - 1)
    return st.one_of(
        compare_,
        st.builds(lambda op, a, b: op(a, b), st.sampled_from([And, Or]), deeper, deeper),
        st.builds(Not, deeper),
    )


@settings(max_examples=20)
@given(
    st.data(), st.sampled_from(["int8", "uint8", "int16", "uint32"]), st.sampled_from([1, 4, 16])
)
def test_random_integer_expressions(data: st.DataObject, kind: str, lanes: int) -> None:
    """Narrow types wrap, which index arithmetic in 64 bits must not undo."""
    x, y = pairs(kind, kind)

    def formula(a: Expr, b: Expr) -> Expr:
        return data.draw(numbers(kind, [a, b], 3))

    compare(mapped([kind, kind], [formula], lanes, len(x)), x, y)
