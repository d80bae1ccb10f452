"""What is printed reads back as an equal program, and prints as the same text again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from script.random_programs import Programs
from tileloom.script import parse, show
from tileloom.tir import IRModule, assert_structural_equal


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.booleans())
def test_random_functions_round_trip(random: Random, sugar: bool) -> None:
    func = Programs(random).function()
    text = show(func, syntax_sugar=sugar)
    again = parse(text)
    assert_structural_equal(func, again)
    assert show(again, syntax_sugar=sugar) == text


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_modules_round_trip(random: Random) -> None:
    functions = {name: Programs(random).function(2) for name in ("main", "other")}
    module = IRModule(functions, {"system_lib_prefix": "x", "list": [1, 2.5, float("inf")]})
    text = show(module)
    again = parse(text)
    assert_structural_equal(module, again)
    assert show(again) == text


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_many_random_functions_round_trip(random: Random) -> None:
    func = Programs(random).function(4)
    text = show(func)
    assert_structural_equal(func, parse(text))


def test_long_programs_do_not_nest_calls() -> None:
    lets = "".join(f"    x{i}: T.int32 = {f'x{i - 1}' if i else 'n'} + 1\n" for i in range(1500))
    text = f"@T.prim_func\ndef main(n: T.int32):\n{lets}    T.evaluate(x1499)"
    assert show(parse(text)).partition("\n\n")[2] == text


def test_long_sums_do_not_nest_calls() -> None:
    total = " + ".join(f"A[{i}]" for i in range(600))
    text = f'@T.prim_func\ndef main(A: T.Buffer((600,), "float32")):\n    A[0] = {total}'
    assert show(parse(text)).partition("\n\n")[2] == text
