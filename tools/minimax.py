"""Derive the polynomial coefficients that `tileloom.codegen.vmath` uses.

`python tools/minimax.py` lists the recipes, `python tools/minimax.py exp.32` prints one of them.
A recipe is fitted by Remez' exchange on a dense Chebyshev grid, in high precision, minimising
`max |w(x) (f(x) - p(x))|`. Coefficients are then rounded to the target format one after the other
from the lowest power, and the rest is fitted again after each, so that the rounding error of the
low powers is taken up by the high ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

Real = Any  # mpmath is untyped
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Recipe:
    """A fit of `f` on `[low, high]` by a polynomial of `degree`, weighted by `weight`."""

    f: Function
    low: float
    high: float
    degree: int
    weight: Function = lambda x: mp.mpf(1)
    bits: int = 64


def _grid(low: Real, high: Real, count: int) -> list[Real]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]


def _extrema(errors: list[Real], wanted: int) -> list[int]:
    """Indices of `wanted` alternating local extremes, the smallest ones at the ends dropped."""
    runs: list[int] = []
    for i, error in enumerate(errors):
        if runs and (error >= 0) == (errors[runs[-1]] >= 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > wanted:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def _solve(xs: list[Real], fs: list[Real], ws: list[Real], powers: range) -> tuple[Any, Real]:
    """The polynomial that misses `fs` at `xs` by alternating equal weighted errors."""
    n = len(xs)
    a, b = mp.matrix(n, n), mp.matrix(n, 1)
    for i, (x, f, w) in enumerate(zip(xs, fs, ws, strict=True)):
        for j, power in enumerate(powers):
            a[i, j] = x**power
        a[i, n - 1] = (-1) ** i / w
        b[i] = f
    solution = mp.lu_solve(a, b)
    return [solution[i] for i in range(n - 1)], abs(solution[n - 1])


def _horner(coefficients: list[Real], x: Real) -> Real:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _remez(xs: list[Real], fs: list[Real], ws: list[Real], powers: range) -> tuple[Any, Real]:
    """Coefficients for `powers` and the largest weighted error on the grid."""
    count = len(powers) + 1
    picks = [round(i) for i in np.linspace(0, len(xs) - 1, count)]
    best: tuple[Any, Real] = ([], mp.inf)
    for _ in range(30):
        cs, level = _solve(
            [xs[i] for i in picks], [fs[i] for i in picks], [ws[i] for i in picks], powers
        )
        values = [_horner(cs, x) * x ** powers[0] for x in xs]
        errors = [w * (v - f) for v, f, w in zip(values, fs, ws, strict=True)]
        worst = max(abs(e) for e in errors)
        if worst < best[1]:
            best = (cs, worst)
        if worst <= level * mp.mpf("1.001"):
            break
        fresh = _extrema(errors, count)
        if len(fresh) < count or fresh == picks:
            break
        picks = fresh
    return best


def _round(c: Real, bits: int) -> float:
    return float(np.float32(float(c))) if bits == 32 else float(c)


def fit(recipe: Recipe) -> tuple[list[float], float]:
    """Rounded coefficients from the lowest power, and log2 of the largest weighted error."""
    with mp.workdps(60):
        low, high = mp.mpf(recipe.low), mp.mpf(recipe.high)
        xs = _grid(low, high, 24 * (recipe.degree + 2))
        fs = [recipe.f(x) for x in xs]
        ws = [recipe.weight(x) for x in xs]
        rounded: list[float] = []
        for power in range(recipe.degree + 1):
            cs, _ = _remez(xs, fs, ws, range(power, recipe.degree + 1))
            c = _round(cs[0], recipe.bits)
            rounded.append(c)
            fs = [f - c * x**power for f, x in zip(fs, xs, strict=True)]
        worst = max(abs(w * f) for f, w in zip(fs, ws, strict=True))
        return rounded, float(mp.log(worst, 2))


def show(name: str, recipe: Recipe) -> str:
    """The recipe's coefficients as Python source."""
    coefficients, error = fit(recipe)
    body = "".join(f"    {c!r},\n" for c in coefficients)
    return f"# {name}: weighted error 2^{error:.1f}\n(\n{body})"


def split(value: Real, *bits: int) -> list[float]:
    """`value` as an unevaluated sum of floats of so many bits each (for argument reduction)."""
    parts = []
    for width in bits:
        exponent = int(mp.floor(mp.log(abs(value), 2))) + 1
        scale = mp.mpf(2) ** (width - exponent)
        part = mp.nint(value * scale) / scale
        parts.append(float(part))
        value -= part
    return parts
