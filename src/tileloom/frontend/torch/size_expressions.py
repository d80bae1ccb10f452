"""PyTorch's size expressions as extents: from SymPy to `graph.symbols`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import sympy
from torch.utils._sympy import functions

from ...base.errors import UnsupportedError
from ...graph import ops
from ...graph.nodes import Tensor
from ...graph.symbols import bounds_of, larger, smaller

Extents = Mapping[Any, int]


def extent_of(expression: Any, known: Extents) -> int:
    """A SymPy expression over symbols, or other expressions, whose extents are known.

    >>> n = sympy.Symbol("n", integer=True)
    >>> extent_of(functions.FloorDiv(n + 3, 2) * 4, {n: 9})
    24

    Raises:
        UnsupportedError: it has other symbols, or is no integer expression.
    """
    if expression.is_Integer:
        return int(expression)
    if expression in known:
        return known[expression]
    if expression.is_Symbol:
        raise UnsupportedError("sizes that depend on data")
    if isinstance(expression, (sympy.Add, sympy.Mul)):
        return _ratio(expression, known)
    for kind, rule in _RULES:
        if isinstance(expression, kind):
            return rule(*(extent_of(part, known) for part in expression.args))
    if isinstance(expression, (sympy.Pow, functions.PowByNatural)):
        return _power(expression, known)
    raise UnsupportedError(f"sizes by {type(expression).__name__}")


def _ratio(expression: Any, known: Extents) -> int:
    """A sum or product; PyTorch writes exact quotients as products with fractions."""
    if _has_fractions(expression):
        above, below = sympy.fraction(sympy.together(expression))
        if below != 1:
            return _quotient(extent_of(above, known), extent_of(below, known))
        expression = above
    parts = [extent_of(part, known) for part in expression.args]
    if isinstance(expression, sympy.Add):
        return sum(parts)
    return reduce(lambda a, b: a * b, parts)


def _has_fractions(expression: Any) -> bool:
    if expression.is_Rational:
        return not expression.is_Integer
    if isinstance(expression, sympy.Pow):
        return bool(expression.exp.is_negative)
    if isinstance(expression, (sympy.Add, sympy.Mul)):
        return any(map(_has_fractions, expression.args))
    return False


def _power(expression: Any, known: Extents) -> int:
    base, exponent = expression.args
    if not exponent.is_Integer or not 0 <= exponent <= 4:
        raise UnsupportedError("sizes by powers")
    return reduce(lambda a, b: a * b, [extent_of(base, known)] * int(exponent), 1)


def _quotient(a: int, b: int) -> int:
    if bounds_of(b)[0] <= 0:
        raise UnsupportedError("sizes divided by what may be no size")
    return a // b


def _rest(a: int, b: int) -> int:
    if bounds_of(b)[0] <= 0:
        raise UnsupportedError("sizes divided by what may be no size")
    return a % b


def _rest_of_size(a: int, b: int) -> int:
    if bounds_of(a)[0] < 0:  # the sign would be that of the dividend
        raise UnsupportedError("remainders of what may be no size")
    return _rest(a, b)


_RULES: tuple[tuple[Any, Callable[..., int]], ...] = (
    (functions.FloorDiv, _quotient),  # and where nothing is left over
    (functions.PythonMod, _rest),
    (functions.Mod, _rest_of_size),
    (functions.ModularIndexing, lambda a, b, c: _rest(_quotient(a, b), c)),
    (functions.CeilDiv, lambda a, b: -_quotient(-a, b)),
    ((sympy.Max, functions.Max), lambda *parts: reduce(larger, parts)),
    ((sympy.Min, functions.Min), lambda *parts: reduce(smaller, parts)),
    (functions.Identity, lambda a: a),
)


# ---------------------------------------------------------------------------- with fractions


def scalar_of(expression: Any, known: Extents) -> Tensor:
    """A SymPy expression that is no integer as a float64 tensor without dimensions.

    Raises:
        UnsupportedError: it has other symbols, or functions that are not known here.
    """
    if expression.is_Number:
        return ops.constant(float(expression), "float64")
    if expression.is_integer:
        return ops.extent(extent_of(expression, known), "float64")
    for kind, rule in _SCALARS:
        if isinstance(expression, kind):
            return reduce(rule, [scalar_of(part, known) for part in expression.args])
    if isinstance(expression, (functions.ToFloat, functions.Identity)):
        return scalar_of(expression.args[0], known)
    if expression.func.__name__ == "OpaqueUnaryFn_sqrt":
        return ops.sqrt(scalar_of(expression.args[0], known))
    raise UnsupportedError(f"numbers by {expression.func.__name__}")


_SCALARS: tuple[tuple[Any, Callable[[Tensor, Tensor], Tensor]], ...] = (
    (sympy.Add, ops.add),
    (sympy.Mul, ops.mul),
    ((functions.IntTrueDiv, functions.FloatTrueDiv), ops.div),
    ((sympy.Pow, functions.FloatPow), ops.pow),
)
