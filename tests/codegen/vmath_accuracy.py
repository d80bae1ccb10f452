"""What `codegen.vmath` promises: the largest error of each function, which the tests enforce.

In units of the last place of the exact result, over all finite arguments, subnormal ones and
results included; half precision is rounded from single. Infinite, zero and NaN results are those of
C and NumPy. 0 stands for no error at all, 0.5 for correct rounding.
"""

from __future__ import annotations

#: Largest error in single and in double precision.
ULPS: dict[str, tuple[float, float]] = {
    "exp": (1.0, 1.0),
    "exp2": (1.0, 1.0),
    "exp10": (1.1, 1.1),
    "expm1": (1.5, 2.0),
    "log": (1.25, 1.0),
    "log2": (2.0, 1.75),
    "log10": (2.0, 1.5),
    "log1p": (2.0, 1.5),
    "tanh": (1.75, 1.75),
    "sigmoid": (2.0, 2.0),
    "silu": (2.75, 3.0),
    "gelu": (4.25, 4.0),
    "gelu_tanh": (2.75, 3.0),
    "erf": (1.5, 1.25),
    "erfc": (0.6, 3.0),
    "sin": (1.75, 1.0),
    "cos": (1.75, 1.0),
    "tan": (0.6, 2.5),
    "asin": (2.0, 2.25),
    "acos": (1.5, 1.5),
    "atan": (1.6, 1.75),
    "atan2": (2.0, 1.75),
    "sinh": (1.5, 2.0),
    "cosh": (2.0, 2.0),
    "asinh": (0.6, 2.0),
    "acosh": (0.6, 2.0),
    "atanh": (0.6, 2.25),
    "pow": (0.6, 1.0),
    "rsqrt": (1.5, 1.5),
    "cbrt": (1.0, 1.0),
    "hypot": (0.6, 1.25),
    "sqrt": (0.5, 0.5),
    "fma": (0.5, 0.5),
    "ldexp": (0.5, 0.5),
    "fmod": (0.0, 0.0),
    "nextafter": (0.0, 0.0),
    "floor": (0.0, 0.0),
    "ceil": (0.0, 0.0),
    "trunc": (0.0, 0.0),
    "round": (0.0, 0.0),
    "rint": (0.0, 0.0),
    "nearbyint": (0.0, 0.0),
    "fabs": (0.0, 0.0),
    "copysign": (0.0, 0.0),
    "min": (0.0, 0.0),
    "max": (0.0, 0.0),
    "isnan": (0.0, 0.0),
    "isinf": (0.0, 0.0),
    "isfinite": (0.0, 0.0),
}


def table() -> str:
    """The promises as a table in Markdown."""
    lines = ["| function | float32 | float64 |", "|---|---|---|"]
    for name, (single, double) in ULPS.items():
        lines.append(f"| {name} | {single:g} | {double:g} |")
    return "\n".join(lines)
