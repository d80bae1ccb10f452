"""Vectorised elementary functions keep the errors that `accuracy.py` promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.vmath_accuracy import ULPS
from codegen.vmath_kernels import NUMPY, kernel, ulps
from codegen.vmath_references import BINARY, DOMAIN, HAS_LONG, LONG, UNARY, multiprecision
from tileloom.codegen import vmath

EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan),
    *(1e-45, -1e-45, 5e-324, -5e-324, 2.0**-126, 2.0**-1022),
    *(88.72283, 88.72284, -87.33655, -103.97208, -103.9721, 89.41598, 89.416),
    *(
        709.782712893384,
        709.7827128933841,
        -745.1332191019411,
        -745.1332191019412,
        710.4758600739439,
    ),
    *(127.99999, 128.0, -149.0, -150.0, 1023.9999999999999, 1024.0, -1074.0, -1075.0, -1075.1),
    *(0.55, 1.0 - 2.0**-24, 1.0 + 2.0**-23, 65536.0, 2.0**30, 3e38, 1e308, 1.5707964, 3.9, 9.1),
]


def _every_exponent(kind: str, count: int) -> Any:
    """Numbers whose encodings are evenly spaced, and the edges."""
    if kind == "f32":
        codes = np.linspace(0, 2**32 - 1, count).astype(np.uint32).view(np.float32)
    else:
        codes = np.linspace(0, 2.0**64 - 2048, count).astype(np.uint64)
        codes = (codes ^ np.random.default_rng(1).integers(0, 2**50, count, np.uint64)).view("f8")
    with np.errstate(all="ignore"):
        return np.concatenate([codes, np.asarray(EDGES).astype(NUMPY[kind])])


def _in_domain(name: str, kind: str, count: int) -> Any:
    """Numbers of usual sizes where the function is defined."""
    low, high = DOMAIN.get(name, (-np.inf, np.inf))
    rng = np.random.default_rng(7)
    points = np.concatenate(
        [
            rng.uniform(max(low, -800), min(high, 800), count),
            rng.normal(size=count),
            rng.uniform(-1, 1, count) * np.exp(rng.uniform(-30, 3, count)),
        ]
    )
    return points[(points > low) & (points < high)].astype(NUMPY[kind])


def _check(name: str, kind: str, result: Any, exact: Any, bound: Any, *args: Any) -> None:
    errors = ulps(result, exact)
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
    place = [x[worst] for x in args]
    assert errors[worst] <= bound, f"{name}({place}) = {result[worst]!r}, not {exact[worst]!r}"


@pytest.mark.parametrize("name", UNARY)
def test_single_precision_over_all_exponents(name: str) -> None:
    count = 20_000 if name == "gelu" else 150_000  # whose reference is computed one by one
    x = np.concatenate([_every_exponent("f32", count), _in_domain(name, "f32", count // 8)])
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(np.float64))
    _check(name, "f32", kernel(name, "f32", 16)(x), exact, ULPS[name][0], x)


@pytest.mark.skipif(not HAS_LONG, reason="no type with more digits than a double")
@pytest.mark.parametrize("name", sorted(UNARY.keys() - {"erf", "erfc", "gelu"}))
def test_double_precision_over_all_exponents(name: str) -> None:
    x = np.concatenate([_every_exponent("f64", 60_000), _in_domain(name, "f64", 10_000)])
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(LONG))
    _check(name, "f64", kernel(name, "f64", 8)(x), exact, ULPS[name][1], x)


@pytest.mark.skipif(not HAS_LONG, reason="no type with more digits than a double")
@pytest.mark.parametrize("name", UNARY)
def test_double_precision_against_many_digits(name: str) -> None:
    x = _in_domain(name, "f64", 1500 if name in ("erf", "erfc", "gelu") else 150)
    exact = multiprecision(UNARY[name][1], x)
    _check(name, "f64", kernel(name, "f64", 8)(x), exact, ULPS[name][1], x)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(name: str, kind: str) -> None:
    if kind == "f64" and not HAS_LONG:
        pytest.skip("no type with more digits than a double")
    with np.errstate(all="ignore"):
        edges = np.array([*EDGES, 3.0, -3.0, 2.5, -2.0, 1e9 + 1, 7.0]).astype(NUMPY[kind])
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    rng = np.random.default_rng(5)
    more = rng.lognormal(size=(4, 20_000))
    wild = np.exp(rng.uniform(-80, 80, 20_000)), rng.normal(size=20_000) * 3
    near = 1 + rng.normal(size=20_000) * 1e-3, rng.normal(size=20_000) * 3e4
    x = np.concatenate([x, more[0], -more[1], wild[0], near[0]]).astype(NUMPY[kind])
    y = np.concatenate([y, more[2], np.rint(more[3]), wild[1], near[1]]).astype(NUMPY[kind])
    wide = np.float64 if kind == "f32" else LONG
    with np.errstate(all="ignore"):
        exact = BINARY[name][0](x.astype(wide), y.astype(wide))
    result = kernel(name, kind, 8, 2)(x, y)
    _check(name, kind, result, exact, ULPS[name][kind == "f64"], x, y)
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", BINARY)
def test_two_arguments_against_many_digits(name: str) -> None:
    rng = np.random.default_rng(11)
    x, y = rng.lognormal(sigma=3, size=400), rng.normal(size=400) * 20
    exact = multiprecision(BINARY[name][1], x, y)
    _check(name, "f64", kernel(name, "f64", 4, 2)(x, y), exact, ULPS[name][1], x, y)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_and_awkward_angles(name: str, kind: str) -> None:
    """Near multiples of pi/2 as close as floats come, and up to the largest finite number."""
    rng = np.random.default_rng(2)
    multiples = np.rint(np.exp(rng.uniform(0, 25, 500))) * (np.pi / 2)
    powers = 2.0 ** rng.integers(10, 127 if kind == "f32" else 1023, 300) * rng.uniform(1, 2, 300)
    worst = [5.319372648326541e255, 6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72]
    with np.errstate(over="ignore"):
        x = np.concatenate([multiples, powers, -powers, worst]).astype(NUMPY[kind])
    x = x[np.isfinite(x)]
    from mpmath import mp

    with mp.workprec(1400):
        f = UNARY[name][1]
        exact = np.array([LONG(mp.nstr(f(mp.mpf(float(v))), 30)) for v in x], LONG)
    _check(name, kind, kernel(name, kind, 4)(x), exact, ULPS[name][kind == "f64"], x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sin"])
def test_every_single(name: str) -> None:
    run, chunk = kernel(name, "f32", 16), 1 << 24
    for start in range(0, 1 << 32, chunk):
        x = np.arange(start, start + chunk, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            exact = UNARY[name][0](x.astype(np.float64))
        _check(name, "f32", run(x), exact, ULPS[name][0], x)


def test_every_function_has_a_promise() -> None:
    assert all(map(vmath.supported, ULPS))
    assert set(vmath.NAMES) == set(ULPS)
    assert not vmath.supported("tir.exp")
