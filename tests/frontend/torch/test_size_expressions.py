"""PyTorch's formulas of sizes as extents, and what its guards tell of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

sympy = pytest.importorskip("sympy")
pytest.importorskip("torch")

from torch.utils._sympy import functions  # noqa: E402

from tileloom.base.errors import UnsupportedError  # noqa: E402
from tileloom.base.polynomial import value_of  # noqa: E402
from tileloom.frontend.torch.guards import (  # noqa: E402
    assume,
    equate,
    factors_of,
    is_number,
    stated,
)
from tileloom.frontend.torch.size_expressions import extent_of, scalar_of  # noqa: E402
from tileloom.graph.nodes import Graph  # noqa: E402
from tileloom.graph.run import run  # noqa: E402
from tileloom.graph.space import Space  # noqa: E402
from tileloom.graph.symbols import polynomial_of, symbol  # noqa: E402

N, M = (sympy.Symbol(name, integer=True, positive=True) for name in "nm")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (N + 2 * M - 1, 7 + 8 - 1), (N**2, 49), (N**0 * M, 4), (N**4, 7**4), (N * M / 2, 14),
        (functions.FloorDiv(N, 2), 3), (functions.PythonMod(N, 4), 3), (functions.Mod(N, 4), 3),
        (functions.ModularIndexing(N, 2, 2), 1), (functions.CeilDiv(N, 2), 4),
        (functions.Max(N, M), 7), (functions.Min(N, M), 4), (functions.PowByNatural(N, 2), 49),
        (functions.Identity(N), 7), (sympy.Integer(5), 5), (sympy.Max(N, 2, M), 7),
    ],
)  # fmt: skip
def test_formulas(expression: Any, value: int) -> None:
    assert extent_of(expression, {N: 7, M: 4}) == value
    space = Space()
    open_ = {N: symbol(space, "n", 1, 100, 7), M: symbol(space, "m", 1, 100, 4)}
    assert value_of(polynomial_of(extent_of(expression, open_)), space.hints) == value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (sympy.Symbol("k", integer=True), "depend on data"),
        (N**5, "by powers"), (N**M, "by powers"), (functions.PowByNatural(2, N), "by powers"),
        (functions.FloorDiv(N, M - 4), "divided by what may be no size"),
        (functions.PythonMod(N, M - 4), "divided by what may be no size"),
        (functions.Mod(M - 9, N), "remainders of what may be no size"),
        (sympy.sqrt(N), "by powers"), (sympy.Abs(sympy.Symbol("k", integer=True)), "sizes by"),
    ],
)  # fmt: skip
def test_what_is_no_formula_of_sizes(expression: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        extent_of(expression, {N: 7, M: 4})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (sympy.Float(0.5), 0.5), (N + sympy.Float(0.5), 7.5), (N * sympy.Float(0.5), 3.5),
        (functions.IntTrueDiv(N, M), 1.75), (functions.FloatTrueDiv(N, M), 1.75),
        (functions.ToFloat(N), 7.0), (functions.FloatPow(N, sympy.Float(0.5)), 7**0.5),
    ],
)  # fmt: skip
def test_numbers(expression: Any, value: float) -> None:
    found = run(Graph([], [scalar_of(expression, {N: 7, M: 4})]), [])[0]
    assert found.shape == () and found.dtype == np.float64
    np.testing.assert_allclose(found, value)


def test_numbers_by_other_functions() -> None:
    with pytest.raises(UnsupportedError, match="numbers by sin"):
        scalar_of(sympy.sin(N), {N: 7})


@pytest.mark.parametrize(
    ("guards", "values", "factors"),
    [
        ([sympy.Eq(functions.Mod(N, 4), 0)], {N: 8}, {N: 4}),
        ([sympy.Eq(functions.PythonMod(N, 4), 0), sympy.Eq(functions.Mod(N, 6), 0)], {N: 12},
         {N: 12}),
        ([sympy.Eq(functions.Mod(N, 4), 1)], {N: 9}, {}),
        ([sympy.Eq(4 * functions.FloorDiv(N, 4), N)], {N: 8}, {N: 4}),
        # Holds for other sizes as well, is of no symbol, is no equation, or of unknown size.
        ([sympy.Eq(functions.FloorDiv(N, 4), 2)], {N: 8}, {}),
        ([sympy.Eq(functions.Mod(N + 1, 4), 0)], {N: 7}, {}),
        ([sympy.Ge(functions.Mod(N, 4), 0)], {N: 8}, {}),
        ([sympy.Eq(functions.Mod(N, 4), 0)], {}, {}),
        ([sympy.Eq(functions.Mod(N, M), 0)], {N: 8, M: 4}, {}),
    ],
)  # fmt: skip
def test_what_sizes_are_multiples_of(guards: Any, values: Any, factors: Any) -> None:
    assert factors_of(guards, values) == factors


def test_guards_are_taken_apart() -> None:
    both = sympy.And(sympy.Ge(N, 2), sympy.Le(M, 9))
    assert set(stated([both, sympy.Eq(N, M)])) == {
        sympy.Ge(N, 2), sympy.Le(M, 9), sympy.Eq(N, M)
    }  # fmt: skip
    assert is_number(sympy.Eq(N - M, 3, evaluate=False))
    assert not is_number(sympy.Eq(N, M)) and not is_number(sympy.Ge(N, 3))


@pytest.mark.parametrize(
    ("fact", "low", "high"),
    [(sympy.Ge(N, 5), 5, 50), (sympy.Gt(N, 5), 6, 50), (sympy.Le(N, 9), 2, 9),
     (sympy.Lt(N, 9), 2, 8), (sympy.Ge(N, 8), 2, 50), (sympy.Gt(N, 7), 2, 50),
     (sympy.Ge(N, 7), 7, 50)],
)  # fmt: skip
def test_orders_tell_bounds(fact: Any, low: int, high: int) -> None:
    """Of a size that is 7; what does not hold for it is not believed."""
    space = Space()
    n = symbol(space, "n", 2, 50, 7)
    assume(space, fact, {N: n})
    holds = [k for k in range(2, 51) if all(g.value({"n": k}) >= 0 for g in space.guards)]
    assert (holds[0], holds[-1]) == (low, high)


@pytest.mark.parametrize(("number", "kept"), [(14, True), (13, False)])
def test_equations_tell_numbers(number: int, kept: bool) -> None:
    space = Space()
    n = symbol(space, "n", 2, 50, 7)
    known = {N: n}
    equate(space, sympy.Eq(2 * N, number, evaluate=False), known)
    assert (known.get(2 * N) == number) is kept
    holds = [k for k in range(2, 51) if all(g.value({"n": k}) >= 0 for g in space.guards)]
    assert holds == ([7] if kept else list(range(2, 51)))


@pytest.mark.parametrize(
    ("expression", "value"),
    [(functions.FloorDiv(N, M), 7), (functions.PythonMod(N, M), 0), (functions.Mod(N, M), 0),
     (functions.Mod(M - 1, N), 0), (functions.CeilDiv(N, M), 7)],
)  # fmt: skip
def test_divisors_and_dividends_at_their_limits(expression: Any, value: int) -> None:
    assert extent_of(expression, {N: 7, M: 1}) == value
