"""The interpreter's rules for integers: what their source computes, and what interval holds it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.base import DType, dtype
from tileloom.expr import Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub
from tileloom.tir import run_support
from tileloom.tir.run_ints import INT_DIVISIONS, INT_RULES, ValueCode, wrap

INTERVALS = [(0, 0), (1, 1), (0, 3), (-3, 4), (-5, -2), (2, 6), (-128, -126), (125, 127)]
SMALL = ["int8", "uint8", "int32"]


def wrapped(value: int, kind: DType) -> int:
    """A number as a type keeps it, by Python's integers."""
    value %= 1 << kind.bits
    return value - (1 << kind.bits) if kind.code == "int" and value >> (kind.bits - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


EXACT: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: truncated,
    Mod: lambda a, b: a - b * truncated(a, b),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}


def run(code: str, a: int, b: int) -> Any:
    return eval(code, {**run_support.HELPERS, "a": a, "b": b})


def pairs(kind: DType) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    found = [i for i in INTERVALS if wrapped(i[0], kind) == i[0] and wrapped(i[1], kind) == i[1]]
    return [(a, b) for a in found for b in found]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("op", EXACT)
def test_results_are_wrapped_and_within_their_interval(op: Any, name: str) -> None:
    kind = dtype(name)
    for (a0, a1), (b0, b1) in pairs(kind):
        found = INT_RULES[op](kind, ValueCode("a", a0, a1), ValueCode("b", b0, b1), 3)
        for a, b in itertools.product(range(a0, a1 + 1), range(b0, b1 + 1)):
            if b or op not in INT_DIVISIONS:
                value = run(found.code, a, b)
                assert value == wrapped(EXACT[op](a, b), kind), (found, a, b)
                assert found.lo <= value <= found.hi, (found, a, b)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("op", EXACT)
def test_intervals_are_as_small_as_their_ends_tell(op: Any, name: str) -> None:
    """What cannot leave its type is not wrapped, and its interval has no value too many."""
    kind = dtype(name)
    for (a0, a1), (b0, b1) in pairs(kind):
        if op in INT_DIVISIONS and (b0 < 1 or (a0 < 0 and op in (Div, Mod))):
            continue
        found = INT_RULES[op](kind, ValueCode("a", a0, a1), ValueCode("b", b0, b1), 3)
        values = [EXACT[op](a, b) for a in range(a0, a1 + 1) for b in range(b0, b1 + 1)]
        if op in (Mod, FloorMod):
            most = min(b1 - 1, a1) if a0 >= 0 else b1 - 1
            assert (found.lo, found.hi) == (0, most)
        elif all(wrapped(value, kind) == value for value in values):
            assert (found.lo, found.hi) == (min(values), max(values))
        else:
            assert (found.lo, found.hi) == (wrapped(1 << kind.bits - 1, kind), -1 + (
                1 << kind.bits - 1)) if kind.code == "int" else (0, 255)  # fmt: skip
            assert found.code.count("&") == 1 and found.depth > 3
            continue
        assert "&" not in found.code and found.depth == 3


@pytest.mark.parametrize(("op", "code"), [
    (Div, "_tdiv(a, b)"), (Mod, "_tmod(a, b)"), (FloorDiv, "(a // b)"), (FloorMod, "(a % b)"),
])  # fmt: skip
def test_divisors_of_any_sign(op: Any, code: str) -> None:
    """Nothing is known of the result but its type, which `-min / -1` alone leaves."""
    kind = dtype("int8")
    for a in ((-3, 9), (-127, 9), (0, 9)):
        found = INT_RULES[op](kind, ValueCode("a", *a), ValueCode("b", -2, 5), 3)
        assert found == ValueCode(code, -128, 127, 3)
    found = INT_RULES[op](kind, ValueCode("a", -128, 9), ValueCode("b", -2, 5), 3)
    assert ("&" in found.code) == (op in (Div, FloorDiv))
    assert run(found.code, -128, -1) == (-128 if op in (Div, FloorDiv) else 0)
    zero = INT_RULES[op](kind, ValueCode("a", 0, 9), ValueCode("b", 0, 5), 3)
    assert (zero.lo, zero.hi) == (-128, 127)


@pytest.mark.parametrize("op", [Div, Mod])
def test_dividends_of_any_sign(op: Any) -> None:
    """Truncation differs from rounding down below zero alone."""
    kind = dtype("int8")
    rounded = {Div: "(a // b)", Mod: "(a % b)"}[op]
    assert INT_RULES[op](kind, ValueCode("a", 0, 9), ValueCode("b", 1, 5), 3).code == rounded
    assert INT_RULES[op](kind, ValueCode("a", -1, 9), ValueCode("b", 1, 5), 3).code != rounded
    floor = {Div: FloorDiv, Mod: FloorMod}[op]
    assert INT_RULES[floor](kind, ValueCode("a", -1, 9), ValueCode("b", 1, 5), 3).code == rounded


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_wrapping(name: str) -> None:
    kind = dtype(name)
    low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if name[0] == "i" else (
        0, (1 << kind.bits) - 1)  # fmt: skip
    assert wrap("a", low, high, kind, 2) == ValueCode("a", low, high, 2)
    for ends in ((low - 1, high), (low, high + 1), (low - 1, high + 1)):
        found = wrap("a", *ends, kind, 2)
        assert (found.lo, found.hi, found.depth) == (low, high, 4 if low else 3)
        for value in (*range(low - 2, low + 3), -1, 0, 1, *range(high - 2, high + 3)):
            assert run(found.code, value, 0) == wrapped(value, kind)
    assert wrap("a", -1, 0, kind, 0).code == ("a" if low else f"(a & {high})")


def test_truth_values() -> None:
    found = wrap("a", 0, 1, dtype("bool"), 2)
    assert (found.lo, found.hi, found.depth) == (0, 1, 3)
    assert [run(found.code, a, 0) for a in (-1, 0, 1, 2)] == [True, False, True, True]


def test_divisions_of_single_elements() -> None:
    for op, divide in INT_DIVISIONS.items():
        for a, b in itertools.product(range(-9, 10), [-4, -3, -1, 1, 2, 5]):
            assert divide(a, b) == EXACT[op](a, b)
