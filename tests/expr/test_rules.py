"""Every rule of the tables, on all combinations of small and extreme values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import (
    LT,
    Add,
    Analyzer,
    Broadcast,
    ConstIntBound,
    Div,
    Expr,
    ExprLike,
    FloorDiv,
    Ramp,
    Range,
    Select,
    Var,
    const,
    evaluate,
)
from tileloom.expr.rules import FAMILIES, language
from tileloom.expr.rules.language import Dispatch, RewriteRule, Wild, WildConstant, c1, f, g, x, y
from tileloom.expr.walk import free_vars, substitute

SAMPLES = {
    "int8": [-128, -127, -3, -1, 0, 1, 2, 4, 127],
    "uint8": [0, 1, 2, 3, 4, 128, 254, 255],
    "int32": [-7, -2, -1, 0, 1, 2, 3, 8],
    "bool": [0, 1],
    "float32": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 3e38],
}
#: For rules of four parts and more.
FEWER = SAMPLES | {
    "int8": [-128, -3, 0, 2, 4, 127],
    "uint8": [0, 1, 2, 4, 255],
    "int32": [-7, -2, 0, 2, 8],
}
RULES = [
    pytest.param(rule, id=f"{family}: {rule}")
    for family, rules in FAMILIES.items()
    for rule in rules
]


class Point:
    """Facts at one point: every expression is bounded by its value."""

    def __init__(self, env: Mapping[Var, int]) -> None:
        self.env = env

    def bound_of(self, expr: Expr) -> ConstIntBound:
        value = evaluate(expr, self.env)
        return ConstIntBound(value, value)


def same(a: int, b: int) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return a == b


def instances(rule: RewriteRule, kind: str) -> Iterator[tuple[Expr, dict[Any, Any]]]:
    """The pattern over constants and variables of a type, with the variables' values."""
    wilds = sorted(
        (v for v in free_vars(rule.pattern) if isinstance(v, Wild)), key=lambda v: v.serial
    )
    types = [kind if wild.dtype.is_int else str(wild.dtype) for wild in wilds]
    samples = FEWER if len(wilds) > 3 else SAMPLES
    variables = {w: Var(w.name, t) for w, t in zip(wilds, types)}
    for values in itertools.product(*(samples[t] for t in types)):  # type: ignore[call-overload]
        parts, env = {}, {}
        for wild, t, value in zip(wilds, types, values):
            parts[wild] = const(value, t) if isinstance(wild, WildConstant) else variables[wild]
            env[variables[wild]] = value
        yield instance(rule.pattern, parts), env


def instance(pattern: Expr, parts: Any) -> Expr:
    """Substitution that takes the constants of the pattern along to the type."""
    return substitute(pattern, parts)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: RewriteRule) -> None:
    """Both sides agree wherever the left side has a value, and the rule does apply somewhere."""
    with_integers = any(v.dtype.is_int for v in free_vars(rule.pattern))
    fired = 0
    for kind in ("int8", "uint8", "int32") if with_integers else ("bool",):
        for before, env in instances(rule, kind):
            after = rule.rewrite(before, Point(env))
            if after is None:
                continue
            fired += 1
            assert after.dtype is before.dtype
            try:
                expected = evaluate(before, env)
            except UserError:
                continue  # division by zero
            assert same(evaluate(after, env), expected), (str(before), str(after), env)
    assert fired, str(rule)


@pytest.mark.parametrize(
    "wrong",
    [
        language.rule(x - y, y - x),
        # Right without wrap-around only, and right for floor division only.
        language.rule(FloorDiv(x * c1, c1), x),
        language.rule(Div(x, c1), FloorDiv(x, c1)),
        language.rule(LT(x + c1, y + c1), LT(x, y)),
        language.rule(Add(f, g), f, lambda g: g == 0),
    ],
    ids=lambda rules: str(rules[0].pattern),
)
def test_a_wrong_rule_is_caught(wrong: list[RewriteRule]) -> None:
    with pytest.raises(AssertionError):
        for rule in wrong:
            test_rule(rule)


def test_numbers_are_no_truth_values() -> None:
    x, y = Var("x"), Var("y")
    assert str(Analyzer().simplify(Select(x != y, const(1), const(0)))) == "T.Select(x != y, 1, 0)"


def test_dispatch_finds_the_rules_of_a_node() -> None:
    dispatch = Dispatch([rule for rules in FAMILIES.values() for rule in rules])
    x, y = Var("x", "int8"), Var("y", "int8")
    found = dispatch.candidates(Select(x < y, x, y))
    assert 0 < len(found) < 10
    assert all(type(rule.pattern) is Select for rule in found)
    assert dispatch.candidates(Select(x < y, x, y)) is found


# ---------------------------------------------------------------------------- vectors

I, J = Var("i"), Var("j")


def ramp(base: Any, stride: int, lanes: int = 4) -> Expr:
    return Ramp(base + I * 0 if isinstance(base, int) else base, const(stride), lanes)


def splat(value: ExprLike, lanes: int = 4) -> Expr:
    return Broadcast(const(value) if isinstance(value, int) else value, lanes)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (ramp(I, 1) + splat(J), "T.Ramp(i + j, 1, 4)"),
        (splat(J) - ramp(I, 2), "T.Ramp(j - i, -2, 4)"),
        (ramp(I, 1) + ramp(J, 3), "T.Ramp(i + j, 4, 4)"),
        (ramp(I, 2) * splat(3), "T.Ramp(i * 3, 6, 4)"),
        (ramp(I * 8, 4) // splat(4), "T.Ramp(i * 2, 1, 4)"),
        (ramp(I * 8, 2) // splat(8), "T.Broadcast(i, 4)"),
        (ramp(I * 8, 2) % splat(8), "T.Ramp(0, 2, 4)"),
        (ramp(I * 8 + 3, 8) % splat(8), "T.Broadcast(3, 4)"),
        (ramp(I * 8, 4) % splat(8), "T.Ramp(i * 8, 4, 4) % T.Broadcast(8, 4)"),
        (splat(I) * splat(2), "T.Broadcast(i * 2, 4)"),
        (ramp(I, 1) < splat(100), "T.Broadcast(T.bool(True), 4)"),
        (splat(8) <= ramp(J, 1), "T.Broadcast(8, 4) <= T.Ramp(j, 1, 4)"),
        (ramp(I, 0), "T.Broadcast(i, 4)"),
        (Broadcast(splat(I, 2), 2), "T.Broadcast(i, 4)"),
        (Select(splat(I < J), splat(I), splat(J)), "T.Broadcast(T.min(i, j), 4)"),
        (
            Select(splat(I < J), ramp(I, 1), splat(J)),
            "T.Select(i < j, T.Ramp(i, 1, 4), T.Broadcast(j, 4))",
        ),
        (ramp(I, 1).astype("int64"), 'T.Ramp(T.Cast("int64", i), T.int64(1), 4)'),
    ],
)  # fmt: skip
def test_vector_rules(expr: Expr, expected: str) -> None:
    analyzer = Analyzer({I: Range(0, 8)})
    simple = analyzer.simplify(expr)
    assert str(simple) == expected
    for i, j in itertools.product(range(8), (-3, 0, 5)):
        env = {I: i, J: j}
        assert evaluate(simple, env) == evaluate(expr, env)
    assert analyzer.simplify(simple) is simple
