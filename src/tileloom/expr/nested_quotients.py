"""Sums with `x // c` and `(x + d) // (c * n)`: what one quotient says about the other.

With `y = x + d`, `n * (y // (c * n))` lies between `y // c - (n - 1)` and `y // c`, and `y // c`
between `x // c + floor(d / c)` and `x // c + ceil(d / c)`. So are the numbers of tiles and of
groups of tiles of an open size bound to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from .bounds import ConstIntBound
from .linear import Context, Linear, atom
from .nodes import FloorDiv, IntImm


def bound_of_sum(ctx: Context, value: Linear) -> ConstIntBound:
    """The bounds of a sum, which know how its quotients depend on each other."""
    low, high = ctx.bound(value)
    if high > 0:
        high = min([high, *(ctx.bound(more)[1] for more in sums_above(ctx, value))])
    if low < 0:
        low = max([low, *(-ctx.bound(more)[1] for more in sums_above(ctx, -value))])
    return ConstIntBound(low, high)


def sums_above(ctx: Context, value: Linear) -> Iterator[Linear]:
    """Sums that are never less than a sum, without one of two quotients that it has."""
    quotients = {
        term: term.b.value
        for term in value.terms
        if isinstance(term, FloorDiv) and isinstance(term.b, IntImm) and term.b.value > 0
    }
    for (fine, c), (coarse, larger) in permutations(quotients.items(), 2):
        n = larger // c
        times = value.terms[coarse] // n if n > 1 else 0
        if n < 2 or larger != c * n or value.terms[coarse] != times * n:
            continue
        apart = ctx.combine(ctx.linear(coarse.a), ctx.linear(fine.a), -1)
        if apart.terms:
            continue
        steps = apart.const // c - (n - 1) if times < 0 else -(-apart.const // c)
        without = value.plus(atom(coarse), -times * n)
        yield without.plus(atom(fine), times).shifted(times * steps)
