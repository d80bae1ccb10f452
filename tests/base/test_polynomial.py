"""Polynomials against plain integer arithmetic on random formulas and values."""

from __future__ import annotations

import itertools
import json
import random
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


@settings(max_examples=150, deadline=None)
@given(formulas, sizes)
def test_forms_have_the_values_of_their_formulas(formula: Any, values: dict[str, int]) -> None:
    try:
        want = evaluate(formula, values)
        made = build(formula)
    except ZeroDivisionError:
        return
    assert value_of(made, values) == want


@settings(max_examples=120, deadline=None)
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


@settings(max_examples=50, deadline=None)
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


SIDES: tuple[Any, ...] = tuple(Polynomial.symbol(name) for name in NAMES)
A, B, C = SIDES
#: Forms with their texts, whose bounds are exact where all names lie between 1 and 9.
EXACT: list[tuple[Any, str]] = [
    (A * 2 - B + 3, "2*a - b + 3"),
    (-A * B + C, "-a*b + c"),
    (A * B - C * C, "a*b - c*c"),
    ((A + B) * (A - B), "a*a - b*b"),
    ((A + B) * (A + B), "a*a + 2*a*b + b*b"),
    (A * B * C // (B * C), "a"),
    ((A * B + B * C) // B, "a + c"),
    ((A * 6 + B) // 3, "2*a + b//3"),
    ((A * 6 - B) // 3, "-((b + 2)//3) + 2*a"),
    ((A * 6 + B) % 3, "b%3"),
    ((-A) // 4, "-((a + 3)//4)"),
    ((3 - A) // 4, "-(a//4)"),
    ((7 - 2 * A) // 4, "-((2*a)//4) + 1"),
    ((A + 15) // 16 * 2, "2*((a + 15)//16)"),
    (-(A % 4) * B, "-(a%4)*b"),
    (A // 2 * (B % 3), "(a//2)*(b%3)"),
    ((A * B) // 4, "(a*b)//4"),
    ((A * 2) // (B * 2), "(2*a)//(2*b)"),
    ((A * B + A + B + 1) // (B + 1), "a + 1"),
    ((A * B + B) // (A + 1), "b"),
    ((A * A + 2 * A * B + B * B) // (A + B), "a + b"),
    (12 // (A * 4), "12//(4*a)"),
    ((A * 4 + 8) // (4 * B), "(4*a + 8)//(4*b)"),
    (least(A, B) * 2, "2*min(a, b)"),
    (greatest(A - 1, 0), "max(a - 1, 0)"),
    (least(A, 5) - greatest(B, 2), "-max(b, 2) + min(a, 5)"),
    ((A + B) // (C + 1), "(a + b)//(c + 1)"),
    (A // 4 % (B * 2), "a//4%(2*b)"),
    ((A * B * 4 + 8 * B + C) // (B * 4), "a + c//(4*b) + 2"),
    ((A + B * 8) // 8 + (A + B * 8) % 8, "a%8 + a//8 + b"),
    (least(A, B) // 2, "min(a, b)//2"),
    ((2 * A) % B, "(2*a)%b"),
    (A % (B + 1), "a%(b + 1)"),
    (least(2 * A, B + 1), "min(2*a, b + 1)"),
    (A // 1, "a"),
    (A // 3 * 3 - A, "-a + 3*(a//3)"),
    (A - A // 3, "a - (a//3)"),
    (A - A // 3 * 2, "a - 2*(a//3)"),
    (least(A, B) - A, "-a + min(a, b)"),
    (greatest(A, B) - B, "-b + max(a, b)"),
]


@pytest.mark.parametrize(("made", "text"), EXACT, ids=[text for _, text in EXACT])
def test_texts_names_and_bounds(made: Polynomial, text: str) -> None:
    assert str(made) == text
    used = {name for name in NAMES if name in text.replace("max", "").replace("min", "")}
    assert made.names == used
    points = itertools.product(range(1, 10), repeat=3)
    values = [made.value(dict(zip(NAMES, point))) for point in points]
    low, high = dict.fromkeys(NAMES, 1), dict.fromkeys(NAMES, 9)
    assert made.between(low, high) == (min(values), max(values))


@pytest.mark.parametrize(
    ("made", "number"),
    [
        ((A * B + B) % B, 0), ((A * 6 + 4) % 3, 1), ((A * A - B * B) % (A + B), 0), (0 * A, 0),
        ((A * 12) // (A * 4), 3), (A % 1, 0), (A - A, 0), (A - A + 4, 4), (least(3, 4), 3),
        (greatest(3, 4), 4), (Polynomial.of(7), 7), (polynomial.quotient(-7, 2), -4),
        (polynomial.remainder(-7, 2), 1), (value_of(7, {}), 7),
    ],
)  # fmt: skip
def test_numbers_stay_numbers(made: Any, number: int) -> None:
    assert type(made) is int and made == number


def test_signs_and_zero() -> None:
    """Names of any sign; what is divided into parts of nothing is divided by one."""
    low, high = {"a": -4, "b": -3, "c": 0}, {"a": 5, "b": 2, "c": 3}
    points = [dict(zip(NAMES, p)) for p in itertools.product(*map(range, (-4, -3, 0), (6, 3, 4)))]
    for made in (A * 3 - B * 2, A - B + C * 4, A // 3 + C, A % 3 - C, least(A, B) + C):
        values = [made.value(point) for point in points]
        assert made.between(low, high) == (min(values), max(values))
    for made in (A * B, -A * B * C, A // B, A % B, A // C, A % C, (A + 1) // (B + C)):
        least_, most = made.between(low, high)
        assert all(least_ <= made.value(point) <= most for point in points)
    assert (A // B).value({"a": 5, "b": 0}) == 5
    assert (A % B).value({"a": 5, "b": 0}) == 0


def test_bounds_of_sums_of_products_are_exact() -> None:
    """Where every name occurs once, the ends of the names give those of the sum."""
    pick = random.Random(5)
    for _ in range(150):
        names = list("abcdef")
        pick.shuffle(names)
        low = {name: pick.randint(-4, 4) for name in names}
        high = {name: low[name] + pick.randint(0, 5) for name in names}
        total: Any = pick.randint(-5, 5)
        least_ = most = total
        while names:
            factor: int = pick.choice([-3, -1, 1, 2])
            product: Any = 1
            ends = {1}
            for name in names[: pick.randint(1, 3)]:
                names.remove(name)
                product = product * Polynomial.symbol(name)
                ends = {e * end for e in ends for end in (low[name], high[name])}
            total = total + product * factor
            least_ += min(e * factor for e in ends)
            most += max(e * factor for e in ends)
        assert isinstance(total, Polynomial)
        found = total.between(low, high)
        assert found[0] <= least_ and most <= found[1]
        if min(low.values()) >= 0:
            assert found == (least_, most)
