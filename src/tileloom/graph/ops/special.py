"""Special functions, as compositions.

Source: Cody 1969, "Rational Chebyshev approximations for the error function".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..nodes import Tensor
from .binary import add, div, greater, less, maximum, minimum, mul, not_equal, sub
from .choose import where
from .composite import build, composite
from .unary import abs as absolute
from .unary import exp, neg, reciprocal, square, trunc

_NEAR = (
    (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02,
     3.20937758913846947e03, 1.85777706184603153e-1),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03,
     2.84423683343917062e03),
)  # fmt: skip
_MIDDLE = (
    (5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e01,
     2.98635138197400131e02, 8.81952221241769090e02, 1.71204761263407058e03,
     2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8),
    (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02,
     1.62138957456669019e03, 3.29079923573345963e03, 4.36261909014324716e03,
     3.43936767414372164e03, 1.23033935480374942e03),
)  # fmt: skip
_FAR = (
    (3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4, 1.63153871373020978e-2),
    (2.56852019228982242e00, 1.87295284992346725e00, 5.27905102951428412e-1,
     6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip


def _rational(x: Tensor, pair: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    """Cody's form: the last coefficient above belongs to the highest power."""
    over, under = pair
    p, q = mul(x, over[-1]), x
    for a, b in zip(over[:-2], under[:-1], strict=True):
        p, q = mul(add(p, a), x), mul(add(q, b), x)
    return div(add(p, over[-2]), add(q, under[-1]))


def _erfc(x: Tensor) -> Tensor:
    y = absolute(x)
    near = sub(1.0, mul(x, _rational(square(minimum(y, 0.5)), _NEAR)))
    # Beyond 27 the result is 0 in any type, and 1 / y² of the other form stays finite.
    far = minimum(maximum(y, 0.46875), 27.0)
    inverse = reciprocal(square(far))
    series = mul(inverse, _rational(inverse, _FAR))
    tail = where(
        less(far, 4.0),
        _rational(far, _MIDDLE),
        div(sub(1 / math.sqrt(math.pi), series), far),
    )
    # exp(-y²) in two factors, the first of which has an exact argument.
    coarse = div(trunc(mul(far, 16.0)), 16.0)
    rest = mul(sub(far, coarse), add(far, coarse))
    tail = mul(mul(exp(neg(square(coarse))), exp(neg(rest))), tail)
    tail = where(greater(y, 26.9), 0.0, tail)
    tail = where(less(x, 0.0), sub(2.0, tail), tail)
    result = where(greater(y, 0.46875), tail, near)
    return where(not_equal(x, x), x, result)


composite("erfc", _erfc, levels={"": 0})


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), with all digits where that is tiny."""
    return build("erfc", x)
