"""Derive the polynomial coefficients that `tileloom.codegen.vmath` uses.

`python tools/minimax.py` lists the recipes, `python tools/minimax.py exp.32` prints some of them,
and `python tools/minimax.py --write` makes `src/tileloom/codegen/vmath/coefficients.py` anew.
A recipe is fitted in high precision on a Chebyshev grid, by least squares that Lawson's reweighting
drives towards the least `max |w(x) (f(x) - p(x))|`. Coefficients are then rounded to the target
format one after the other from the lowest power, and the rest is fitted again after each, so that
the rounding error of the low powers is taken up by the high ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

Real = Any  # mpmath is untyped
Function = Callable[[Real], Real]

_ROUNDS = 12  # of reweighting: the error is then within a tenth or so of the least possible


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


def _solve(xs: list[Real], fs: list[Real], ws: list[Real], powers: range) -> list[Real]:
    """The polynomial in `powers` with the least sum of `w (f - p)**2`, by normal equations."""
    moments = [mp.mpf(0)] * (2 * len(powers) - 1)
    right = [mp.mpf(0)] * len(powers)
    for x, f, w in zip(xs, fs, ws, strict=True):
        term = w * x ** (2 * powers[0])
        load = w * f * x ** powers[0]
        for i in range(len(moments)):
            moments[i] += term
            term *= x
        for i in range(len(right)):
            right[i] += load
            load *= x
    a = mp.matrix(len(right), len(right))
    for i in range(len(right)):
        for j in range(len(right)):
            a[i, j] = moments[i + j]
    return list(mp.lu_solve(a, mp.matrix(right)))


def _horner(coefficients: list[Real], x: Real) -> Real:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _fit(xs: list[Real], fs: list[Real], ws: list[Real], powers: range) -> list[Real]:
    """Coefficients for `powers` that nearly minimise the largest weighted error on the grid."""
    lawson = [mp.mpf(1)] * len(xs)
    best: tuple[list[Real], Real] = ([], mp.inf)
    for _ in range(_ROUNDS):
        cs = _solve(xs, fs, [k * w * w for k, w in zip(lawson, ws, strict=True)], powers)
        values = [_horner(cs, x) * x ** powers[0] for x in xs]
        errors = [abs(w * (v - f)) for v, f, w in zip(values, fs, ws, strict=True)]
        worst = max(errors)
        if worst < best[1]:
            best = (cs, worst)
        lawson = [k * (error / worst + mp.mpf("1e-3")) for k, error in zip(lawson, errors)]
    return best[0]


def _round(c: Real, bits: int) -> float:
    return float(np.float32(float(c))) if bits == 32 else float(c)


def fit(recipe: Recipe) -> tuple[list[float], float]:
    """Rounded coefficients from the lowest power, and log2 of the largest weighted error."""
    with mp.workdps(60):
        low, high = mp.mpf(recipe.low), mp.mpf(recipe.high)
        xs = _grid(low, high, 8 * (recipe.degree + 2))
        fs = [recipe.f(x) for x in xs]
        ws = [recipe.weight(x) for x in xs]
        rounded: list[float] = []
        for power in range(recipe.degree + 1):
            cs = _fit(xs, fs, ws, range(power, recipe.degree + 1))
            c = _round(cs[0], recipe.bits)
            rounded.append(c)
            fs = [f - c * x**power for f, x in zip(fs, xs, strict=True)]
        worst = max(abs(w * f) for f, w in zip(fs, ws, strict=True))
        return rounded, float(mp.log(worst, 2))


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


def _sinc(series: Function, order: int, head: Function) -> Function:
    """`(series(x) - head(x)) / x**order` as a function of `z = x**2`."""

    def f(z: Real) -> Real:
        x = mp.sqrt(z)
        return (series(x) - head(x)) / x**order

    return f


def _erfcx(t: Real) -> Real:
    """`exp(a**2) erfc(a)` with `t = (a - 4) / (a + 4)`."""
    a = 4 * (1 + t) / (1 - t)
    return mp.exp(a * a) * mp.erfc(a)


def _flat_erfcx(t: Real) -> Real:
    """The same times `1 + 2 a`: it varies little, so that no terms cancel."""
    return _erfcx(t) * (1 + 8 * (1 + t) / (1 - t))


def _normal_tail(w: Real) -> Real:
    """`exp(a**2 / 2) Phi(-a) (a + 2)` with `w = a / (a + 2)`."""
    a = 2 * w / (1 - w)
    return mp.exp(a * a / 2) * mp.ncdf(-a) * (a + 2)


def _atanh_log2(z: Real) -> Real:
    """The part of `log2((1 + t) / (1 - t)) / t` past its first two powers of `z = t**2`."""
    t = mp.sqrt(z)
    return (2 * mp.atanh(t) / t - 2 - 2 * z / 3) / (mp.log(2) * z * z)


_LN2, _QUARTER_PI = 0.693147180559945309, 0.785398163397448310
_REDUCED = (-0.5001 * _LN2, 0.5001 * _LN2)  # what is left of an exponent: |n ln 2 - x|
_HALF = (-0.5001, 0.5001)
_TENTH = (-0.15054, 0.15054)  # the same in base 10: log10(2) / 2
_MANTISSA = (-0.29290, 0.41422)  # m - 1 for sqrt(1/2) <= m <= sqrt(2)
_OCTANT = (0.0, (1.0002 * _QUARTER_PI) ** 2)
_HYPER = (0.0, (0.5001 * _LN2) ** 2)


def _recipes() -> dict[str, tuple[Recipe, str]]:
    """Every fit with the formula that its coefficients approximate."""
    table: dict[str, tuple[Recipe, str]] = {}

    def add(
        name: str,
        doc: str,
        f: Function,
        span: tuple[float, float],
        degrees: dict[int, int],
        weight: Function,
    ) -> None:
        for bits, degree in degrees.items():
            table[f"{name}.{bits}"] = (Recipe(f, *span, degree, weight, bits), doc)

    def both(single: int, double: int) -> dict[int, int]:
        return {32: single, 64: double}

    def root(f: Function) -> Function:
        return lambda z: f(mp.sqrt(z))

    log2: Any = lambda f: mp.log(1 + f) / mp.log(2) / f  # noqa: E731
    log10: Any = lambda f: mp.log(1 + f) / mp.log(10) / f  # noqa: E731
    add(
        "exp",
        "exp(r) = 1 + r + r**2 P(r)",
        lambda r: (mp.exp(r) - 1 - r) / r**2,
        _REDUCED,
        both(4, 9),
        lambda r: r * r / mp.exp(r),
    )
    add(
        "expm1",
        "exp(r) - 1 = r + r**2 P(r)",
        lambda r: (mp.exp(r) - 1 - r) / r**2,
        _REDUCED,
        both(5, 10),
        lambda r: r * r / mp.expm1(r),
    )
    add(
        "exp2",
        "2**r = 1 + r P(r)",
        lambda r: (mp.mpf(2) ** r - 1) / r,
        _HALF,
        both(5, 10),
        lambda r: r / mp.mpf(2) ** r,
    )
    add(
        "exp2_fast",
        "the same, shorter",
        lambda r: (mp.mpf(2) ** r - 1) / r,
        _HALF,
        {32: 4},
        lambda r: r / mp.mpf(2) ** r,
    )
    add(
        "exp10",
        "10**r = 1 + r P(r)",
        lambda r: (mp.mpf(10) ** r - 1) / r,
        _TENTH,
        both(5, 10),
        lambda r: r / mp.mpf(10) ** r,
    )
    add(
        "log",
        "log(1 + f) = f + f**2 P(f)",
        lambda f: (mp.log(1 + f) - f) / f**2,
        _MANTISSA,
        both(7, 19),
        lambda f: f * f / mp.log(1 + f),
    )
    add("log2", "log2(1 + f) = f P(f)", log2, _MANTISSA, both(8, 20), lambda f: 1 / log2(f))
    add("log10", "log10(1 + f) = f P(f)", log10, _MANTISSA, both(8, 20), lambda f: 1 / log10(f))
    add(
        "sin",
        "sin(r) = r + r**3 P(r**2)",
        _sinc(mp.sin, 3, lambda r: r),
        _OCTANT,
        both(2, 5),
        root(lambda r: r**3 / mp.sin(r)),
    )
    add(
        "cos",
        "cos(r) = 1 - r**2/2 + r**4 P(r**2)",
        _sinc(mp.cos, 4, lambda r: 1 - r * r / 2),
        _OCTANT,
        both(2, 5),
        root(lambda r: r**4 / mp.cos(r)),
    )
    add(
        "sinh",
        "sinh(r) = r + r**3 P(r**2)",
        _sinc(mp.sinh, 3, lambda r: r),
        _HYPER,
        both(2, 5),
        root(lambda r: r**3 / mp.sinh(r)),
    )
    add(
        "cosh",
        "cosh(r) = 1 + r**2 P(r**2)",
        _sinc(mp.cosh, 2, lambda r: 1),
        _HYPER,
        both(2, 6),
        root(lambda r: r**2),
    )
    add(
        "tanh",
        "tanh(x) = x + x**3 P(x**2), |x| < 0.55",
        _sinc(mp.tanh, 3, lambda r: r),
        (0.0, 0.55**2),
        both(4, 10),
        root(lambda r: r**3 / mp.tanh(r)),
    )
    add(
        "atan",
        "atan(t) = t + t**3 P(t**2)",
        _sinc(mp.atan, 3, lambda r: r),
        (0.0, 1.0),
        both(7, 19),
        root(lambda t: t**3 / mp.atan(t)),
    )
    add(
        "asin",
        "asin(t) = t + t**3 P(t**2)",
        _sinc(mp.asin, 3, lambda r: r),
        (0.0, 0.2501),
        both(4, 12),
        root(lambda t: t**3 / mp.asin(t)),
    )
    add(
        "erf",
        "erf(x) = x + x P(x**2), |x| < 1",
        _sinc(mp.erf, 1, lambda x: x),
        (0.0, 1.0),
        both(6, 12),
        root(lambda x: x / mp.erf(x)),
    )
    add(
        "erf_tail",
        "1 - erf(x) = 2**P(x), 0.95 < x < 4",
        lambda x: mp.log(mp.erfc(x), 2),
        (0.95, 4.0),
        {32: 6},
        lambda x: mp.erfc(x),
    )
    add(
        "erfcx",
        "exp(a**2) erfc(a) (1 + 2 a) = P((a - 4) / (a + 4)), 0.5 <= a < 27.3",
        _flat_erfcx,
        (-0.7782, 0.7446),
        {64: 22},
        lambda t: 1 / _flat_erfcx(t),
    )
    add(
        "erfcx_single",
        "exp(a**2) erfc(a) = P((a - 4) / (a + 4)), 0.5 <= a < 10.2",
        _erfcx,
        (-0.7782, 0.4366),
        {64: 11},
        lambda t: 1 / _erfcx(t),
    )
    add(
        "normal_tail",
        "exp(a**2 / 2) Phi(-a) (a + 2) = P(a / (a + 2)), 0 <= a < 14.76",
        _normal_tail,
        (0.0, 0.8806),
        {32: 9},
        lambda t: 1 / _normal_tail(t),
    )
    add(
        "pow_log2",
        "log2(1 + f) = f P(f) for powers of singles",
        log2,
        _MANTISSA,
        {64: 13},
        lambda f: 1 / log2(f),
    )
    add(
        "pow_exp2",
        "2**r = 1 + r P(r) for powers of singles",
        lambda r: (mp.mpf(2) ** r - 1) / r,
        _HALF,
        {64: 6},
        lambda r: r,
    )
    add(
        "pow_atanh",
        "log2((1+t)/(1-t)) = (2/ln 2) (t + t**3/3) + t**5 P(t**2)",
        _atanh_log2,
        (0.0, 0.02945),
        {64: 8},
        lambda z: z * z,
    )
    return table


def _source(name: str, degrees: dict[str, tuple[Recipe, str]]) -> str:
    """One table of `coefficients.py`."""
    doc = next(iter(degrees.values()))[1]
    lines = [f"#: {doc}", f"{name.upper()}: Table = {{"]
    for bits, (recipe, _) in degrees.items():
        coefficients, error = fit(recipe)
        lines.append(
            f"    {bits}: (  # [{recipe.low:.5g}, {recipe.high:.5g}], off by 2**{error:.1f}"
        )
        lines += [f"        {c!r}," for c in coefficients]
        lines.append("    ),")
    return "\n".join([*lines, "}"])


_HEAD = '''"""Polynomial coefficients, lowest power first, by the width of the float they are for.

Made by `python tools/minimax.py --write`: Lawson's minimax fit in 60 digits, weighted for the
relative error of the whole function, each coefficient rounded before the next is fitted. The
interval of the fit and its error stand beside each. Do not edit.
"""

from __future__ import annotations

from typing import TypeAlias

Table: TypeAlias = dict[int, tuple[float, ...]]

'''


def main(arguments: list[str]) -> None:
    """List the recipes, print those named, or write the module of coefficients."""
    recipes = _recipes()
    if not arguments:
        print("\n".join(f"{name:14} {doc}" for name, (_, doc) in recipes.items()))
        return
    write = arguments == ["--write"]
    texts = []
    for name in dict.fromkeys(key.rpartition(".")[0] for key in recipes):
        mine = {
            key.rpartition(".")[2]: value
            for key, value in recipes.items()
            if key.rpartition(".")[0] == name and (write or key in arguments or name in arguments)
        }
        if mine:
            texts.append(_source(name, mine))
            print(texts[-1], flush=True)
    if write:
        root = Path(__file__).resolve().parents[1]
        path = root / "src/tileloom/codegen/vmath/coefficients.py"
        path.write_text(_HEAD + "\n\n".join(texts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
