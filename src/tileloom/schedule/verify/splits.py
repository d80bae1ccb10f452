"""Fused loops split again, so that what is computed of their variables is linear.

Loops that were fused reach indices as quotients and remainders of one variable, `f // 4` and
`f % 4`. To eliminate such a variable isl has to try its values; to eliminate the two variables that
it was made of takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ...expr import Expr, FloorDiv, FloorMod, IntImm, Var, post_order
from ..integer_sets import Integers


def split_variables(
    integers: Integers, relation: Any, variables: Sequence[Var], values: Sequence[Expr]
) -> Any:
    """A map from values of variables, as one of the same range from what these are split into.

    Args:
        relation: from points, with a coordinate for each variable.
        values: expressions that say which quotients of variables occur.

    >>> f, g = Var("f"), Var("g")
    >>> integers = Integers()
    >>> made = integers.map("{ [f, g] -> [f mod 4, floor(f/4) + 2g] : 0 <= f < 8 and 0 <= g < 3 }")
    >>> print(split_variables(integers, made, [f, g], [f % 4, f // 4 + g * 2]).range())
    { [i0, i1] : 0 <= i0 <= 3 and 0 <= i1 <= 5 }
    """
    names, terms, limits = [], [], []
    for k, var in enumerate(variables):
        scales = _scales(var, values)
        parts = [f"v{k}_{n}" for n in range(len(scales))]
        names += parts
        terms.append(" + ".join(f"{n}*{part}" for n, part in zip(scales, parts, strict=True)))
        limits += [
            f"0 <= {part} < {above // scale}"
            for part, (scale, above) in zip(parts, pairwise(scales))  # the last has no limit
        ]
    if len(names) == len(variables):
        return relation
    said = f" : {' and '.join(limits)}"
    places = integers.map(f"{{ [{', '.join(names)}] -> [{', '.join(terms)}]{said} }}")
    return places.apply_range(relation).detect_equalities()


def _scales(var: Var, values: Sequence[Expr]) -> list[int]:
    """The scales of what a variable is split into, each a multiple of the one before.

    Quotients by other numbers stay as they are.
    """
    scales = [1]
    for scale in sorted({found for value in values for found in _divisors(var, value)}):
        if scale > scales[-1] and scale % scales[-1] == 0:
            scales.append(scale)
    return scales


def _divisors(var: Var, value: Expr) -> Iterator[int]:
    """The numbers by which quotients or remainders of a variable are taken."""
    for node in post_order(value):
        if isinstance(node, FloorDiv | FloorMod) and isinstance(node.b, IntImm):
            scale = _scale(var, node.a)
            if scale and node.b.value > 0:
                yield scale * node.b.value


def _scale(var: Var, expr: Expr) -> int:
    """How many steps of the variable are one of an expression; 0 if it is no part of it."""
    match expr:
        case Var():
            return int(expr is var)
        case FloorMod(a, IntImm()):
            return _scale(var, a)
        case FloorDiv(a, IntImm(_, by)):
            return max(0, _scale(var, a) * by)
        case _:
            return 0
