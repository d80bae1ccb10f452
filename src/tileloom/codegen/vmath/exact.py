"""Functions without rounding error, or with the one of a single operation."""

from __future__ import annotations

import math
from collections.abc import Callable

from .lanes import Lanes, Val
from .scaling import nextafter


def _intrinsic(name: str, flags: tuple[str, ...] = ()) -> Callable[..., Val]:
    def emit(k: Lanes, *args: Val) -> Val:
        return k.call(name, *args, flags=flags)

    return emit


def _isnan(k: Lanes, x: Val) -> Val:
    return k.is_nan(x)


def _isinf(k: Lanes, x: Val) -> Val:
    return k.abs(x).equals(math.inf)


def _isfinite(k: Lanes, x: Val) -> Val:
    return k.abs(x) < math.inf


# Which of two zeros of opposite sign is smaller stays open, as in NumPy.
_MINIMUM = _intrinsic("minimum", ("nsz",))
_MAXIMUM = _intrinsic("maximum", ("nsz",))

#: Computed in any width, half precision too.
NATIVE: dict[str, tuple[int, Callable[..., Val]]] = {
    "fabs": (1, _intrinsic("fabs")),
    "copysign": (2, _intrinsic("copysign")),
    "nextafter": (2, nextafter),
    "min": (2, _MINIMUM),
    "max": (2, _MAXIMUM),
    "isnan": (1, _isnan),
    "isinf": (1, _isinf),
    "isfinite": (1, _isfinite),
}

#: Computed in single or double precision.
ROUNDED: dict[str, tuple[int, Callable[..., Val]]] = {
    "sqrt": (1, _intrinsic("sqrt")),
    "floor": (1, _intrinsic("floor")),
    "ceil": (1, _intrinsic("ceil")),
    "trunc": (1, _intrinsic("trunc")),
    "round": (1, _intrinsic("roundeven")),
    "rint": (1, _intrinsic("roundeven")),
    "nearbyint": (1, _intrinsic("roundeven")),
    "fma": (3, _intrinsic("fma")),
}
