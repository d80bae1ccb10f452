"""Conditions below a loop: where they hold, and which one another implies, by counting."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from tileloom.expr import GE, GT, LE, LT, And, Var, const, free_vars
from tileloom.expr.evaluate import evaluate
from tileloom.expr.linear import Linear
from tileloom.lower.loops.loop_guards import (
    Guard,
    GuardFinder,
    bounds_of,
    has_likely,
    is_exact,
    is_under,
)
from tileloom.script import from_source
from tileloom.tir import For, IfThenElse, Stmt, collect

HEAD = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), n: T.int32, I: T.Buffer((8,), "int32")):
    for i in range(LOW, LOW + 10):
"""


def loop_of(body: str, low: int = 0) -> For:
    lines = "\n".join("        " + line for line in body.splitlines())
    func: Any = from_source(HEAD.replace("LOW", str(low)) + lines + "\n")
    return next(loop for loop in collect(func.body, For) if loop.loop_var.name == "i")


def has_guard(stmt: Stmt) -> bool:
    return bool(collect(stmt, IfThenElse))


def guards_of(loop: For) -> list[Guard]:
    return GuardFinder(loop, has_guard).found


@pytest.mark.parametrize("coefficient", [-5, -2, -1, 1, 2, 3])
@pytest.mark.parametrize("compare", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("other", ["{}", "n * 2 + {}", "{} - n"])
def test_where_a_condition_holds(coefficient: int, compare: str, other: str) -> None:
    for offset in (-7, 0, 1, 11):
        text = f"i * {coefficient} {compare} {other.format(offset)}"
        loop = loop_of(f"if T.likely({text}):\n    A[i] = 1.0")
        (guard,) = guards_of(loop)
        found = bounds_of(loop, guard)
        assert found is not None and (found.low is None) != (found.high is None)
        assert is_exact(guard, loop)
        names = {var.name: var for var in free_vars(guard.condition)}
        for n in (-3, 0, 4) if "n" in names else (0,):
            env = {names["n"]: n} if "n" in names else {}
            low = None if found.low is None else evaluate(found.low, env)
            high = None if found.high is None else evaluate(found.high, env)
            for i in range(-30, 30):
                inside = (low is None or i >= low) and (high is None or i < high)
                assert inside == eval(text, {}, {"i": i, "n": n}), (text, found)


@pytest.mark.parametrize(
    "condition",
    [
        "i * 4 + j < n",
        "i * 4 + j * 2 + 1 < 37",
        "n - j <= i * 3",
        "i * 4 - j > 11",
        "j - i * 2 < n",
    ],
)
def test_what_holds_for_all_inner_iterations(condition: str) -> None:
    loop = loop_of(f"for j in range(1, 5):\n    if T.likely({condition}):\n        A[i] = 1.0")
    (guard,) = guards_of(loop)
    found = bounds_of(loop, guard)
    assert found is not None and not is_exact(guard, loop)
    names = {var.name: var for var in free_vars(guard.condition)}
    for n in (-2, 5, 17):
        env = {names["n"]: n} if "n" in names else {}
        low = None if found.low is None else evaluate(found.low, env)
        high = None if found.high is None else evaluate(found.high, env)
        for i in range(-30, 30):
            inside = (low is None or i >= low) and (high is None or i < high)
            every = all(eval(condition, {}, {"i": i, "j": j, "n": n}) for j in range(1, 5))
            assert inside == every, (condition, i, n)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("if i < n:\n    A[i] = 1.0", 0),  # not said to be likely
        ("if T.likely(n < 5):\n    A[i] = 1.0", 0),  # the same in all iterations
        ("if T.likely(i < n) and T.likely(i > 2) and n < 3:\n    A[i] = 1.0", 2),
        ("if T.likely(i == n):\n    A[i] = 1.0", 0),
        ("if T.likely(I[0] < i):\n    A[i] = 1.0", 0),
        ("x: T.int32 = i * 2\nif T.likely(x < n):\n    A[i] = 1.0", 1),
        ("for j in range(i):\n    if T.likely(j < n):\n        A[i] = 1.0", 1),
        ("for j in range(4):\n    if T.likely(j < n):\n        A[i] = 1.0", 0),
        ("if T.likely(i < n):\n    A[i] = 1.0\nelse:\n    if T.likely(i > 3):\n        A[i] = 2.0",
         2),
        ("if T.likely(T.Cast(\"float32\", i) < 2.0):\n    A[i] = 1.0", 0),
    ],
)  # fmt: skip
def test_which_conditions_are_found(body: str, count: int) -> None:
    loop = loop_of(body)
    assert len(guards_of(loop)) == count
    assert any(has_likely(b.condition) for b in collect(loop.body, IfThenElse)) == (
        "likely" in body
    )


def test_conditions_that_are_not_linear_have_no_bounds() -> None:
    for condition in ("i % 3 < n", "i * i < n", "i // 2 + i < n", "i * n < 7"):
        loop = loop_of(f"if T.likely({condition}):\n    A[i] = 1.0")
        assert [bounds_of(loop, guard) for guard in guards_of(loop)] == [None]
    wide = "T.Cast('int64', i) + T.Cast('int64', n) * T.int64(3) < T.int64(5)"
    loop = loop_of(f"if T.likely({wide}):\n    A[i] = 1.0")
    for guard in guards_of(loop):
        assert bounds_of(loop, guard) is None


def test_limits_beyond_the_type_are_its_ends() -> None:
    i = Var("i", "int8")
    loop = For(i, const(0, "int8"), const(100, "int8"), "serial", loop_of("A[i] = 1.0").body)
    for rest, high in ((-500, 127), (500, -128), (-90, 91)):
        excess = Linear(i.dtype, {i: 1}, rest)
        found = bounds_of(loop, Guard(LT(i, const(0, "int8")), (excess, excess), False))
        assert found is not None and found.low is None
        assert evaluate(found.high, {}) == high  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- under conditions


@pytest.mark.parametrize("seed", range(6))
def test_one_condition_under_another(seed: int) -> None:
    """What is said to be only done where a condition holds is only done there."""
    chance = random.Random(seed)
    i, j, n = Var("i"), Var("j"), Var("n")
    body = loop_of("A[i] = 1.0").body
    known = 0
    for _ in range(60):
        extent = chance.choice([1, 2, 4])
        (a, p), (b, q) = ((chance.choice([-2, 1, 2, 4]), chance.randint(-6, 6)) for _ in range(2))
        inner, turn = chance.choice([0, 1, 2]), chance.choice([-1, 0, 1, 2])
        conditions = [
            chance.choice([LT, LE])(i * a + j * inner + n * turn, const(p)),
            chance.choice([GT, GE])(const(q), i * b + n * chance.choice([0, turn])),
        ]
        guarded: Stmt = IfThenElse(And(conditions[0], n > -50), body)
        stmt = For(j, const(0), const(extent), "serial", guarded)
        assert is_under(conditions[0], stmt)
        if not is_under(conditions[1], stmt):
            continue
        known += 1
        for at in product(range(-8, 9), range(extent), range(-8, 9)):
            env = dict(zip((i, j, n), at, strict=True))
            assert not evaluate(conditions[0], env) or evaluate(conditions[1], env), conditions
    assert known >= 2


@pytest.mark.parametrize(
    ("inside", "outside", "extent", "wanted"),
    [
        # a tile of four columns is only begun where its number is in range
        ("i * 4 + j < 39", "i < 10", 4, True), ("i * 4 + j < 40", "i < 10", 4, True),
        ("i * 4 + j < 41", "i < 10", 4, False), ("i * 4 + j < 41", "i < 11", 4, True),
        ("i * 4 - j < 37", "i < 10", 4, True), ("i * 4 - j < 38", "i < 10", 4, False),
        ("i * 4 < n * 4", "i < n", 1, True), ("i * 4 < n * 4 + 1", "i < n", 1, False),
        ("i * 4 <= n * 4", "i <= n", 1, True), ("i < n", "i * 2 < n * 2", 1, False),
        ("n < i", "i < n", 1, False), ("i * 3 < n * 3", "i * 2 < n * 2", 1, False),
    ],
)  # fmt: skip
def test_when_a_condition_implies_another(
    inside: str, outside: str, extent: int, wanted: bool
) -> None:
    loop = loop_of(
        f"for j in range({extent}):\n    if T.likely({inside}):\n        A[i] = 1.0\n"
        f"if T.likely({outside}):\n    A[i] = 2.0"
    )
    first, second = collect(loop.body, IfThenElse)
    inner = collect(loop.body, For)[0]
    assert is_under(second.condition, inner) is wanted
    assert is_under(first.condition, inner)
