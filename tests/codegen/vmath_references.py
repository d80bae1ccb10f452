"""What the functions should give: NumPy in a wider type, and mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special

#: More digits than a double, where the platform has such a type.
LONG = np.longdouble
HAS_LONG = np.finfo(LONG).nmant > 60


def _sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def _gated(x: Any, limit: float, tail: Callable[[Any], Any]) -> Any:
    """`x` times a probability, which of `-|x|` is `tail(|x|)` and beyond the limit 0."""
    size = np.minimum(np.abs(x), limit)
    below = size * tail(size)
    return np.where(x < 0, -below, x - below)


def _silu(x: Any) -> Any:
    return _gated(x, 800.0, lambda a: np.exp(-a) / (1 + np.exp(-a)))


def _gelu(x: Any) -> Any:
    """The normal distribution in more digits than a double, for the tail's sake."""
    below = [float(mp.ncdf(-abs(v))) if abs(v) < 40 else 0.0 for v in x.astype(float).tolist()]
    size = np.minimum(np.abs(x), 40.0)
    below = size * np.array(below)
    return np.where(x < 0, -below, x - below)


def _gelu_tanh(x: Any) -> Any:
    def tail(a: Any) -> Any:
        decay = np.exp(
            -2 * np.sqrt(2 / LONG("3.14159265358979323846")) * (a + LONG("0.044715") * a**3)
        )
        return decay / (1 + decay)

    return _gated(x.astype(LONG), 25.0, tail)


def _mp_gelu_tanh(x: Any) -> Any:
    return x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)))


#: By name: NumPy's function, for double and longer types, and mpmath's.
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (np.exp, mp.exp),
    "exp2": (np.exp2, lambda x: mp.mpf(2) ** x),
    "exp10": (lambda x: np.power(x.dtype.type(10), x), lambda x: mp.mpf(10) ** x),
    "expm1": (np.expm1, mp.expm1),
    "log": (np.log, mp.log),
    "log2": (np.log2, lambda x: mp.log(x, 2)),
    "log10": (np.log10, mp.log10),
    "log1p": (np.log1p, mp.log1p),
    "tanh": (np.tanh, mp.tanh),
    "sigmoid": (_sigmoid, lambda x: 1 / (1 + mp.exp(-x))),
    "silu": (_silu, lambda x: x / (1 + mp.exp(-x))),
    "gelu": (_gelu, lambda x: x * mp.ncdf(x)),
    "gelu_tanh": (_gelu_tanh, _mp_gelu_tanh),
    "erf": (scipy.special.erf, mp.erf),
    "erfc": (scipy.special.erfc, mp.erfc),
    "sin": (np.sin, mp.sin),
    "cos": (np.cos, mp.cos),
    "tan": (np.tan, mp.tan),
    "asin": (np.arcsin, mp.asin),
    "acos": (np.arccos, mp.acos),
    "atan": (np.arctan, mp.atan),
    "sinh": (np.sinh, mp.sinh),
    "cosh": (np.cosh, mp.cosh),
    "asinh": (np.arcsinh, mp.asinh),
    "acosh": (np.arccosh, mp.acosh),
    "atanh": (np.arctanh, mp.atanh),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "sqrt": (np.sqrt, mp.sqrt),
    "cbrt": (np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
}

BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "pow": (np.power, mp.power),
    "atan2": (np.arctan2, mp.atan2),
    "hypot": (np.hypot, mp.hypot),
}

#: Where the arguments of a function lie.
DOMAIN: dict[str, tuple[float, float]] = {
    "exp": (-745.0, 709.7),
    "exp2": (-1074.0, 1023.9),
    "exp10": (-323.0, 308.2),
    "expm1": (-40.0, 709.0),
    "log1p": (-1.0, np.inf),
    "sigmoid": (-745.0, 40.0),
    "silu": (-745.0, 40.0),
    "gelu": (-38.4, 10.0),
    "gelu_tanh": (-21.4, 10.0),
    "sinh": (-710.0, 710.0),
    "cosh": (-710.0, 710.0),
    "tanh": (-20.0, 20.0),
    "erf": (-6.0, 6.0),
    "erfc": (-6.0, 27.2),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "atanh": (-1.0, 1.0),
    "acosh": (1.0, np.inf),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), (0.0, np.inf)),
}


def to_long(x: Any) -> Any:
    """A number of mpmath's as NumPy's long double."""
    if not mp.isfinite(x):
        return LONG(float(x))
    high = float(x)
    if not np.isfinite(high):
        return LONG(mp.nstr(x, 25))
    return LONG(high) + LONG(float(x - mp.mpf(high)))


def multiprecision(f: Callable[..., Any], *arrays: Any) -> Any:
    """`f` of mpmath in each element, as long double."""
    with mp.workprec(160):
        points = zip(*(x.tolist() for x in arrays), strict=True)
        return np.array([to_long(f(*map(mp.mpf, point))) for point in points], LONG)
