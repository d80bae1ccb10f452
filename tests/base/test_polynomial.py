"""Polynomials against plain integer arithmetic on random formulas and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.base import polynomial
from tileloom.base.polynomial import Polynomial, greatest, least, value_of

NAMES = ("a", "b", "c")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "min": least,
    "max": greatest,
}

numbers = st.integers(-20, 20)
leaves = numbers | st.sampled_from(NAMES)
formulas = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner), max_leaves=6
)
sizes = st.fixed_dictionaries({name: st.integers(1, 12) for name in NAMES})


def build(formula: Any) -> Any:
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return Polynomial.symbol(formula)
    op, x, y = formula
    return OPERATIONS[op](build(x), build(y))


def evaluate(formula: Any, values: dict[str, int]) -> Any:
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return values[formula]
    op, x, y = formula
    plain = {**OPERATIONS, "min": min, "max": max}
    return plain[op](evaluate(x, values), evaluate(y, values))  # type: ignore[operator]


@settings(max_examples=400, deadline=None)
@given(formulas, sizes)
def test_forms_have_the_values_of_their_formulas(formula: Any, values: dict[str, int]) -> None:
    try:
        want = evaluate(formula, values)
        made = build(formula)
    except ZeroDivisionError:
        return
    assert value_of(made, values) == want


@settings(max_examples=300, deadline=None)
@given(formulas, sizes)
def test_values_are_between_the_bounds(formula: Any, values: dict[str, int]) -> None:
    try:
        want, made = evaluate(formula, values), build(formula)
        if isinstance(made, int):
            return
        low, high = made.between(dict.fromkeys(NAMES, 1), dict.fromkeys(NAMES, 12))
    except ZeroDivisionError:
        return
    assert low <= want <= high, (made, low, high, want)


@settings(max_examples=100, deadline=None)
@given(formulas)
def test_forms_survive_as_data(formula: Any) -> None:
    try:
        made = build(formula)
    except ZeroDivisionError:
        return
    plain = made.plain() if isinstance(made, Polynomial) else made
    assert Polynomial.of(json.loads(json.dumps(plain))) == made


s: Any
b: Any
b, s = Polynomial.symbol("b"), Polynomial.symbol("s")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((b * s * 64) // (s * 64), b),
        ((b * s) // s * s, b * s),
        ((s + 2) * 64 // (s + 2), 64),
        (-(-s // 16), (s + 15) // 16),
        ((s * 16 + 5) // 16, s),
        ((s * 16 + 5) % 16, 5),
        (b * s - s * b, 0),
        ((b + 1) * (s + 1), b * s + b + s + 1),
    ],
)
def test_normal_forms(one: Any, other: Any) -> None:
    assert one == other
    assert hash(one) == hash(other)


def test_bounds_cancel() -> None:
    low, high = {"b": 1, "s": 1}, {"b": 100, "s": 100}
    assert (b * s - s).between(low, high) == (0, 9900)
    assert ((s + 15) // 16 * 16 - s).between(low, high) == (0, 15)


def test_bounds_of_parts_and_what_is_left() -> None:
    low, high = {"b": 1, "s": 1}, {"b": 100, "s": 100}
    assert (s - s // 3).between(low, high) == (1, 67)
    assert (s - least(s, b)).between(low, high)[0] == 0
    assert (greatest(s, b) - b).between(low, high)[0] == 0
    assert (s - (b % s)).between(low, high)[0] == 1
    assert (s - greatest(s - 3, 0)).between(low, high) == (1, 3)
    assert (least(s + b, 2 * s) - s).between(low, high)[0] == 1


def test_the_bounds_of_an_atom_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a split: each is made of all before it, which used to double the work each time."""
    found = []

    def counted(*about: Any) -> tuple[int, int]:
        found.append(about)
        return ranges(*about)

    ranges = polynomial._range
    monkeypatch.setattr(polynomial, "_range", counted)
    start: Any
    size, start = (s + 3) // 4, 0
    for _ in range(6):
        part = greatest(0, least(size, s - start))
        start = start + part
    low, high = (start - s).between({"s": 1}, {"s": 1000})
    assert low <= 0 <= high
    assert len(found) == 13  # the quotient, and the least and the greatest of each part


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (lambda a, b: (a * 4 + b * 8) // 4, "a + 2*b"),
        (lambda a, b: (a * 4 + b * 8 + 3) // 4, "a + 2*b"),
        (lambda a, b: (a * 4 + b * 8 + 3) % 4, "3"),
        (lambda a, b: (a * b + a) // (b + 1), "a"),
        (lambda a, b: (a * 6 + b * 3) // (a * 2 + b), "3"),
        (lambda a, b: (a * a * 2 + a * b) // (a * 2 + b), "a"),
        (lambda a, b: (a * 4 + b * 6) // 4, "(6*b)//4 + a"),
        (lambda a, b: (a * b + a + 1) // (b + 1), "(a*b + a + 1)//(b + 1)"),
    ],
)
def test_quotients(formula: Any, text: str) -> None:
    assert str(formula(Polynomial.symbol("a"), Polynomial.symbol("b"))) == text
