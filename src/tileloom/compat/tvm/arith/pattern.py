"""`tvm.arith.pattern`: linear equations."""

from __future__ import annotations

from collections.abc import Sequence

from ....expr import Analyzer, Expr, Var, const, substitute
from .._names import missing


def detect_linear_equation(expr: Expr, var_list: Sequence[Var]) -> list[Expr]:
    """The coefficients of the variables and, last, what is left; empty if it is not linear.

    >>> x, y = Var("x"), Var("y")
    >>> detect_linear_equation(x * 4 + y * x + y * 3 + 1, [x]), detect_linear_equation(x * x, [x])
    ([y + 4, y * 3 + 1], [])
    """
    analyzer = Analyzer()
    zeros = {var: const(0, var.dtype) for var in var_list}
    base = analyzer.simplify(substitute(expr, zeros))
    total, found = base, []
    for var in var_list:
        at_one = substitute(expr, {**zeros, var: const(1, var.dtype)})
        found.append(analyzer.simplify(at_one - base))
        total = total + found[-1] * var
    return [*found, base] if analyzer.can_prove_equal(total, expr) else []


__all__ = ["detect_linear_equation"]
__getattr__ = missing(__name__)
