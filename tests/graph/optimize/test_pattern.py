"""Rules as text: what is a rule, and the orders in which its left side may be met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.optimize.rule_values import build, tensor
from tileloom.base.errors import InternalError
from tileloom.graph.nodes import Graph
from tileloom.graph.op import apply1
from tileloom.graph.optimize import RULES, OptimizeReport, optimize
from tileloom.graph.optimize.pattern import (
    MAX_CONSTANT,
    Any_,
    Apply_,
    NumberPattern,
    PatternCase,
    Term,
    _work,
    cases_of,
    parse_term,
)
from tileloom.target.cost import work_of


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a - b = b", 1),
        ("a + b = b", 2),
        ("a + a = a * 2", 1),
        ("(a + b) * c = c", 4),
        ("(a + b) * (a - b) = a", 4),
        ("exp(a) * exp(b) = exp(a + b)", 2),
    ],
)
def test_orders_of_the_left_side(text: str, count: int) -> None:
    assert len(cases_of(text)) == count


@pytest.mark.parametrize("text", ["a = a", "0 = a", "-1.5 = a"])
def test_left_sides_that_are_no_op(text: str) -> None:
    with pytest.raises(InternalError, match="must be an op"):
        cases_of(text)


@pytest.mark.parametrize("text", ["a if b else c", "'a'", "a @ b", "a[0]", "None"])
def test_what_is_no_term(text: str) -> None:
    with pytest.raises(InternalError, match="is no term of a rule"):
        parse_term(text)


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("A", []),
        ("a1", []),
        ("2.0", []),
        ("exp(A)", ["exp"]),
        ("A + B", ["add"]),
        ("exp(A) * 2.0", ["exp", "mul"]),
        ("exp(a) * 2.0", []),
        ("A * (exp(a) / 2.0)", ["mul"]),
        ("exp(a) + log(A / b)", ["add", "log", "div"]),
        ("-A", ["neg"]),
    ],
)
def test_work_of_terms(text: str, ops: list[str]) -> None:
    """What is made of constants alone is computed once and for all."""
    assert _work(parse_term(text)) == sum(map(work_of, ops))


@pytest.mark.parametrize(
    ("text", "fits", "others"),
    [
        ("0", [0, 0.0, -0.0, [0.0, -0.0]], [1, 1e-30, False, np.nan, [0, 1], []]),
        ("0.0", [0.0, [0.0, 0.0]], [-0.0, [0.0, -0.0]]),
        ("-0.0", [-0.0], [0.0, [-0.0, 0.0]]),
        ("1", [1, 1.0, [1, 1]], [True, 2, [1, 2]]),
        ("-2.5", [-2.5, [-2.5]], [2.5]),
        ("True", [True, [True, True]], [False, 1, 1.0, [True, False]]),
        ("False", [False], [0, 0.0, True]),
    ],
)
def test_constants_that_are_a_number(text: str, fits: list[Any], others: list[Any]) -> None:
    pattern = parse_term(text)
    assert isinstance(pattern, NumberPattern)
    assert all(pattern.fits(np.asarray(value)) for value in fits)
    assert not any(pattern.fits(np.asarray(value)) for value in others)
    assert pattern.fits(np.full(MAX_CONSTANT, fits[0]))
    assert not pattern.fits(np.full(MAX_CONSTANT + 1, fits[0]))


def letters(term: Term) -> set[str]:
    """The names of the tensors of a term."""
    if isinstance(term, Apply_):
        return set().union(*map(letters, term.args))
    return {term.name} if isinstance(term, Any_) else set()


OF_CONSTANTS = [
    pytest.param(rule, case, name, id=f"{rule.id}-{name}")
    for rule in RULES
    for case in {c.text: c for _, c in rule.cases if isinstance(c, PatternCase)}.values()
    for name in sorted(n for n in letters(case.left) if n[0].islower())
]


@pytest.mark.parametrize(("rule", "case", "name"), OF_CONSTANTS)
def test_constants_are_constants_of_few_elements(rule: Any, case: Any, name: str) -> None:
    """A rule for constants does not fire for a tensor in the place of one, nor for a large one."""
    kind = "float32" if "float" in rule.safety else "int32"

    def fires(**instead: Any) -> bool:
        constant = apply1("constant", (), value=np.full(1, 4, kind))
        env = {n: constant if n[0].islower() else tensor(kind, 1) for n in letters(case.left)}
        env |= instead
        inputs = [t for t in env.values() if t.value is None]
        report = OptimizeReport()
        optimize(Graph(inputs, [build(case.left, env, kind)]), f"none,+{rule.id}", report)
        return report.fired[rule.id] > 0

    assert fires()
    assert fires(**{name: apply1("constant", (), value=np.full(MAX_CONSTANT, 4, kind))})
    assert not fires(**{name: apply1("constant", (), value=np.full(MAX_CONSTANT + 1, 4, kind))})
    assert not fires(**{name: tensor(kind, 1)})
