"""What PyTorch's guards say of sizes, which holds whenever a graph is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import lcm
from typing import Any

import sympy
from torch.utils._sympy import functions

from ...base.errors import UnsupportedError
from ...base.polynomial import value_of
from ...graph.space import Space
from ...graph.symbols import polynomial_of
from .size_expressions import extent_of

#: Neighbours of a size that are looked at to find out what it is a multiple of.
_MOST_TRIED = 16
ORDERS = (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)


def assume(space: Space, fact: Any, known: Mapping[Any, int]) -> None:
    """Tell the space what a guard of PyTorch says, which holds for the sizes at hand."""
    try:
        less, more = (polynomial_of(extent_of(part, known)) for part in (fact.lts, fact.gts))
    except UnsupportedError:
        return
    strictly = isinstance(fact, (sympy.Gt, sympy.Lt))
    number = more - less - int(strictly)
    if value_of(number, space.hints) >= 0:
        space.decide(number)


def is_number(fact: Any) -> bool:
    """Whether an equation says which number a size expression is."""
    return isinstance(fact, sympy.Eq) and fact.rhs.is_Integer


def equate(space: Space, fact: Any, known: dict[Any, int]) -> None:
    """Take a polynomial for the number that it is in all calls of this graph."""
    try:
        polynomial = polynomial_of(extent_of(fact.lhs, known))
    except UnsupportedError:
        return
    number = int(fact.rhs)
    if value_of(polynomial, space.hints) == number:
        space.decide(polynomial - number)
        space.decide(number - polynomial)
        known[fact.lhs] = number


def stated(guards: Iterable[Any]) -> list[Any]:
    """What guards say, taken apart where they say several things at once."""
    return [part for guard in guards for part in sympy.And.make_args(guard)]


def factors_of(guards: Iterable[Any], values: Mapping[Any, Any]) -> dict[Any, int]:
    """What symbols are multiples of: 4 where the guards hold for no other `s` near its value.

    Nothing relies on that: sizes that are no multiples are compiled for by themselves.
    """
    equations = [guard for guard in guards if isinstance(guard, sympy.Eq)]
    kinds = (functions.FloorDiv, functions.Mod, functions.PythonMod)
    divided = {part.args for each in equations for part in each.atoms(*kinds)}
    found: dict[Any, int] = {}
    for above, below in divided:
        if not (above.is_Symbol and below.is_Integer and above in values):
            continue
        number, size = int(values[above]), int(below)
        about = [each for each in equations if above in each.free_symbols]
        if number % size == 0 and all(
            any(_is_false(each, {**values, above: number + k}) for each in about)
            for k in range(1, min(size, _MOST_TRIED))
        ):
            found[above] = lcm(found.get(above, 1), size)
    return found


def _is_false(equation: Any, values: Mapping[Any, Any]) -> bool:
    try:
        return bool(equation.xreplace(values) == sympy.false)
    except ZeroDivisionError:  # a size that is a divisor elsewhere
        return False
