"""Squares of values transposed in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import Expr, Shuffle, Var


def transposed(rows: Sequence[Expr]) -> tuple[list[tuple[Var, Expr]], list[Expr]]:
    """The columns of a square whose rows are vectors, by shuffles of two vectors each.

    Args:
        rows: as many vectors as each has lanes, a power of two.

    Returns:
        Variables to bind, each by way of those before it, and the columns in terms of them.

    >>> from tileloom.expr import Ramp, const
    >>> bound, columns = transposed([Ramp(const(2 * k), const(1), 2) for k in range(2)])
    >>> len(bound), columns[1].indices
    (2, (1, 3))
    """
    n = len(rows)
    bound: list[tuple[Var, Expr]] = []
    vectors = list(rows)
    step = n // 2
    while step:
        named = [Var("transposed", vector.dtype) for vector in vectors]
        bound += zip(named, vectors, strict=True)
        vectors = [_exchange(named, k, step) for k in range(n)]
        step //= 2
    return bound, vectors


def _exchange(rows: Sequence[Var], k: int, step: int) -> Expr:
    """Row k after the off-diagonal blocks of size `step` changed places."""
    n = len(rows)
    if k & step:
        picks = [lane + step if not lane & step else n + lane for lane in range(n)]
        return Shuffle([rows[k - step], rows[k]], picks)
    picks = [lane if not lane & step else n + lane - step for lane in range(n)]
    return Shuffle([rows[k], rows[k + step]], picks)
