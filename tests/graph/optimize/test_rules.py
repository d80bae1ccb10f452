"""Every rule of the table holds in its class, on random numbers and on special ones.

A rule that is added is tried without being named here; one that is written as a function needs an
example in `rule_examples`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from graph.optimize.near_misses import NEAR_MISSES
from graph.optimize.rule_examples import EXAMPLES
from graph.optimize.rule_values import (
    CONSTANTS,
    FLOATS,
    INTS,
    ULPS,
    Array,
    build,
    conditions_of,
    holds,
    inputs_for,
    same_bits,
    steps,
    tensor,
    tensors_of,
)
from tileloom.base import dtype
from tileloom.base.settings import override
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor
from tileloom.graph.op import apply1
from tileloom.graph.optimize import RULES, OptimizeReport, optimize
from tileloom.graph.optimize.pattern import PatternCase, cases_of
from tileloom.graph.optimize.rule import Rule, kind_of
from tileloom.graph.run import run

BY_ID = {rule.id: rule for rule in RULES}
TEXTUAL = [rule for rule in RULES if isinstance(rule.cases[0][1], PatternCase)]
CODED = [rule for rule in RULES if rule not in TEXTUAL]
TYPES = [*FLOATS, *INTS, "bool"]


def patterns(rule: Rule) -> list[PatternCase]:
    """One form of each text of the rule."""
    cases = [apply for _, apply in rule.cases if isinstance(apply, PatternCase)]
    first: dict[object, PatternCase] = {}
    for case in cases:
        first.setdefault(case.text, case)
    return list(first.values())


def constant(value: object, kind: str) -> Tensor:
    with np.errstate(all="ignore"):
        return apply1("constant", (), value=np.asarray(value).astype(dtype(kind).numpy))


def bindings(case: PatternCase, kind: str) -> Iterator[dict[str, Tensor]]:
    """Constants that the rule accepts; tensors are inputs."""
    names = tensors_of(case.left)
    small = [name for name in names if name[0].islower()]
    for values in itertools.product(CONSTANTS[kind_of(dtype(kind))], repeat=len(small)):  # type: ignore[call-overload]
        env = {name: constant(v, kind) for name, v in zip(small, values, strict=True)}
        env |= {name: tensor(kind, 1, name=name) for name in names if name not in small}
        if case.guard is None or case.guard(env):
            yield env


def given_for(case: PatternCase, kind: str) -> dict[str, Array]:
    """Values of the tensors of a pattern."""
    names = [n for n in tensors_of(case.left) if n[0].isupper()]
    conditions = conditions_of(case.left)
    given = inputs_for(names, kind)
    return {n: a != 0 if n in conditions else a for n, a in given.items()}


def evaluate(
    case: PatternCase, env: Any, kind: str, wide: str | None = None,
    zero: float = 0.0,
) -> Any:  # fmt: skip
    """All steps of both sides; in another type where one is named."""
    given = given_for(case, kind)
    if wide is not None:
        given = {n: a if a.dtype == bool else a.astype(wide) for n, a in given.items()}
        env = {n: constant(t.value.astype("f8"), wide) for n, t in env.items() if n[0].islower()}
    env = env | {n: tensor(str(dtype(a.dtype)), len(a), name=n) for n, a in given.items()}
    arrays = {env[name]: array for name, array in given.items()}
    left, right = (build(side, env, wide or kind, zero) for side in (case.left, case.right))
    return steps(left, arrays), steps(right, arrays), arrays, left


def zeros_of(rule: Rule, kind: str) -> list[float]:
    return [0.0, -0.0] if dtype(kind).is_float and "0" in rule.text else [0.0]


def trials(rule: Rule) -> list[str]:
    """The element types that a rule is for."""
    signed = "-1" in rule.text or rule.id == "abs-of-neg"
    kinds = [kind for kind in TYPES if kind_of(dtype(kind)) in rule.safety]
    return [kind for kind in kinds if not (signed and dtype(kind).is_unsigned)]


def failure(rule: Rule, kind: str, safety: str) -> str:
    """What is wrong with a rule for a type; nothing if all is well."""
    tried = 0
    for case in patterns(rule):
        for env, zero in itertools.product(bindings(case, kind), zeros_of(rule, kind)):
            left, right, arrays, _ = evaluate(case, env, kind, zero=zero)
            wide_left = left
            if dtype(kind).is_float and safety != "exact":
                wide_left, wide_right, *_ = evaluate(case, env, kind, "float64", zero)
                if safety == "reassociating":
                    left, right = wide_left, wide_right
            ulps = ULPS.get(rule.id, 0)
            fine = holds(safety, left, right, wide_left, kind, len(arrays), ulps)
            if not fine.all():
                return complaint(rule, env, arrays, left, right, fine)
            tried += 1
    return "" if tried else "never tried"


RULE_TYPES = [(rule, kind) for rule in TEXTUAL for kind in trials(rule)]


@pytest.mark.parametrize(
    ("rule", "kind"), RULE_TYPES, ids=[f"{rule.id}-{kind}" for rule, kind in RULE_TYPES]
)
def test_rule_holds_in_its_class(rule: Any, kind: Any) -> None:
    found = failure(rule, kind, rule.safety[kind_of(dtype(kind))])
    assert not found, found


@pytest.mark.parametrize(
    ("text", "safety"),
    [
        ("A * C - A * B = A * (B - C)", "reassociating"),  # rule 9 as the source prints it
        ("A + 0 = A", "exact"),
        ("A - A = 0", "exact"),
        ("A * 0 = 0", "exact"),
        ("(A + c1) + c2 = A + (c1 + c2)", "finite-only"),
        ("A / c = A * reciprocal(c)", "exact"),
        ("sqrt(A) * sqrt(B) = sqrt(A * B)", "finite-only"),
        ("log(exp(A)) = A", "finite-only"),
        ("maximum(A, B) = A", "reassociating"),
    ],
)
def test_a_wrong_claim_is_found_out(text: str, safety: Any) -> None:
    wrong: Any = Rule("wrong", "arithmetic", text, {"float": safety}, cases_of(text))
    assert failure(wrong, "float32", safety)


def complaint(rule: Any, env: Any, arrays: Any, left: Any, right: Any, fine: Any) -> str:
    worst = int(np.argmin(fine))
    values = {t.name: a[worst] for t, a in arrays.items()}
    constants = {name: t.value for name, t in env.items() if t.value is not None}
    return f"{rule.text} at {values} {constants}: {left[-1][worst]} and {right[-1][worst]}"


@pytest.mark.parametrize("rule", TEXTUAL, ids=lambda rule: rule.id)
def test_rule_fires_alone(rule: Any) -> None:
    """With all else off the graph of the left side becomes one with the values of the right."""
    kind = next(k for k in ("float32", "int32", "bool") if kind_of(dtype(k)) in rule.safety)
    for case in patterns(rule):
        env = next(bindings(case, kind))
        _, right, arrays, result = evaluate(case, env, kind)
        graph, report = Graph(list(arrays), [result]), OptimizeReport()
        after = optimize(graph, f"none,+fold,+{rule.id}", report)
        assert report.fired[rule.id] == 1, graph
        assert len(after.nodes) <= len(graph.nodes) + 2
        found = run(after, list(arrays.values()))[0]
        assert same_bits(found, right[-1], ULPS.get(rule.id, 0)).all()


@pytest.mark.parametrize(
    "rule", [r for r in TEXTUAL if r.safety.get("float", "exact") != "exact"], ids=lambda r: r.id
)
def test_class_is_no_stricter_than_needed(rule: Any) -> None:
    """A rule that is not exact does change something."""
    changed = False
    for case in patterns(rule):
        some = itertools.islice(bindings(case, "float32"), 20)
        for env, zero in itertools.product(some, zeros_of(rule, "float32")):
            left, right, *_ = evaluate(case, env, "float32", zero=zero)
            changed |= not same_bits(left[-1], right[-1]).all()
    assert changed


@pytest.mark.parametrize("kind", ["float32", "int32", "float16"])
def test_exact_rules_change_no_bit_of_compiled_results(kind: str) -> None:
    """All at once: what is compiled with them on is what is compiled with everything off."""
    made = [
        (rule, case, env)
        for rule in TEXTUAL
        if kind in trials(rule) and rule.safety[kind_of(dtype(kind))] == "exact"
        for case in patterns(rule)
        for env in itertools.islice(bindings(case, kind), 3)
    ]
    given = inputs_for(["A", "B", "C", "D"], kind)
    inputs = {name: tensor(kind, len(a), name=name) for name, a in given.items()}
    bools = {name: ops.greater(t, 0) for name, t in inputs.items()}
    results = []
    for _, case, env in made:
        conditions = conditions_of(case.left)
        values = {n: bools[n] if n in conditions else t for n, t in inputs.items()}
        results.append(build(case.left, env | values, kind))
    graph = Graph(list(inputs.values()), results)
    with override(optimize=("none",)):
        wanted = compile_graph(graph, exact=True)(*given.values())
    found = compile_graph(graph, exact=True)(*given.values())
    for (rule, _, _), a, b in zip(made, found, wanted, strict=True):
        fine = same_bits(a, b, ULPS.get(rule.id, 0))
        worst = int(np.argmin(fine))
        at = {name: array[worst] for name, array in given.items()}
        assert fine.all(), f"{rule.id} at {at}: {a[worst]}, without {b[worst]}"


# ---------------------------------------------------------------------------- rules as functions


def test_every_rule_is_tried() -> None:
    """By the examples of its family, in the test of the file that it is written in."""
    assert set(EXAMPLES) == {rule.id for rule in CODED} >= set(NEAR_MISSES)
    assert {rule.family for rule in CODED} == {
        "broadcasts", "casts", "products", "reductions", "reshapes", "slices",
    }  # fmt: skip


def test_ids_are_unique_and_numbers_of_the_source_are_all_there() -> None:
    assert len(BY_ID) == len(RULES)
    numbers = {rule.source for rule in RULES if rule.source}
    # 10 is 9 with products the other way round, 61 and 62 are of complex numbers, 63 a case of 64.
    assert set(range(1, 67)) - numbers == {10, 61, 62, 63}
