"""Random expressions: simplified, bounded and taken modulo something, against their values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expr.random_exprs import Generator, value_or_none
from tileloom.expr import Analyzer, Expr, Range, Var, const_int_bound, modular_set

X, Y, Z = VARIABLES = [Var(name) for name in "xyz"]
RANGES = {X: (0, 7), Y: (-5, 6), Z: (3, 18)}
FREE = dict.fromkeys(VARIABLES, (-40, 40))
SEEDS = st.integers(0, 1 << 40)


def bound_analyzer() -> Analyzer:
    return Analyzer({v: Range(low, high - low + 1) for v, (low, high) in RANGES.items()})


def check_same(expr: Expr, simple: Expr, environments: Sequence[dict[Var, int]]) -> None:
    for env in environments:
        expected = value_or_none(expr, env)
        if expected is not None:
            assert value_or_none(simple, env) == expected, (str(expr), str(simple), env)


@settings(max_examples=250)
@given(SEEDS)
def test_simplify_keeps_the_value(seed: int) -> None:
    generator = Generator(seed, VARIABLES)
    expr = generator.either()
    simple = Analyzer().simplify(expr)
    check_same(expr, simple, generator.environments(FREE, 4))
    assert Analyzer().simplify(simple) is simple, (str(expr), str(simple))


@settings(max_examples=250)
@given(SEEDS)
def test_simplify_in_ranges_keeps_the_value(seed: int) -> None:
    generator = Generator(seed, VARIABLES)
    expr = generator.either()
    simple = bound_analyzer().simplify(expr)
    check_same(expr, simple, generator.environments(RANGES, 4))
    assert bound_analyzer().simplify(simple) is simple, (str(expr), str(simple))


@settings(max_examples=200)
@given(SEEDS)
def test_simplify_under_a_condition(seed: int) -> None:
    generator = Generator(seed, VARIABLES)
    condition, expr = generator.condition(), generator.either()
    analyzer = Analyzer()
    with analyzer.constraint(condition):
        simple = analyzer.simplify(expr)
    environments = generator.environments(FREE, 8)
    check_same(expr, simple, [env for env in environments if value_or_none(condition, env)])


@settings(max_examples=150)
@given(SEEDS)
def test_bounds_and_modular_sets_hold_the_value(seed: int) -> None:
    generator = Generator(seed, VARIABLES)
    expr = generator.integer()
    analyzer = bound_analyzer()
    for env in generator.environments(RANGES, 4):
        value = value_or_none(expr, env)
        if value is None:
            continue
        assert value in const_int_bound(expr, RANGES)
        assert value in analyzer.const_int_bound(expr)
        assert value in modular_set(expr)
        assert value in analyzer.modular_set(expr)


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint32", "int16", "uint64"])
def test_wrapping_types_keep_the_value(kind: str) -> None:
    variables = [Var(name, kind) for name in "xyz"]
    values = (-128, 127) if kind[0] == "i" else (0, 255)

    @settings(max_examples=60)
    @given(SEEDS)
    def check(seed: int) -> None:
        generator = Generator(seed, variables, values)
        expr = generator.either()
        simple = Analyzer().simplify(expr)
        environments = generator.environments(dict.fromkeys(variables, values), 4)
        check_same(expr, simple, environments)
        for env in environments:
            value = value_or_none(expr, env)
            if value is not None:
                assert value in const_int_bound(expr)
                assert value in modular_set(expr)
        assert Analyzer().simplify(simple) is simple, (str(expr), str(simple))

    check()
