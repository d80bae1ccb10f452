"""Sums with products: `n * m - 2 * n - 2 * m + 4` is at least zero where `n` and `m` are two.

Intervals of the terms do not tell, as the same variables are added and subtracted. Counted from
their least values, `x = least + y`, variables cannot be negative, and where they are only added
the constant is the least value of the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from .nodes import Add, Expr, IntImm, Mul, Sub
from .order import order_key

#: A sum as the factors of each product, and how often that is added.
Products = Mapping[tuple[Expr, ...], int]
_MOST = 24  # products in a sum: more are left to intervals


def has_product(expr: Expr) -> bool:
    """Whether a sum adds up a product of what is not constant (memoised)."""
    known = expr.memo.get("has_product")
    if known is None:
        match expr:
            case Add(a, b) | Sub(a, b):
                known = has_product(a) or has_product(b)
            case Mul(a, b):
                known = not isinstance(a, IntImm) and not isinstance(b, IntImm)
                known = known or has_product(a) or has_product(b)
            case _:
                known = False
        expr.memo["has_product"] = known
    return bool(known)


def products_of(expr: Expr) -> Products | None:
    """A sum multiplied out; None if that gives too many products."""
    match expr:
        case IntImm(value=value):
            return {(): value}
        case Add(a, b) | Sub(a, b):
            first, second = products_of(a), products_of(b)
            if first is None or second is None:
                return None
            return _some(_sum(first, second, 1 if isinstance(expr, Add) else -1))
        case Mul(a, b):
            first, second = products_of(a), products_of(b)
            return None if first is None or second is None else _some(_product(first, second))
        case _:
            return {(expr,): 1}


def bounds_of_products(
    total: Products, bound: Callable[[Expr], tuple[int, int]]
) -> tuple[int, int] | None:
    """The bounds of a sum, from those of its factors; None if that takes too many products.

    >>> from .nodes import Var
    >>> n, m = Var("n"), Var("m")
    >>> total = products_of(n * m - n * 2 - m * 2 + 3)
    >>> bounds_of_products(total, lambda x: (3, 10))
    (0, 63)
    """
    room: dict[Expr, int] = {}
    counted: Products | None = {}
    for factors, k in total.items():
        term: Products | None = {(): k}
        for factor in factors:
            least, most = bound(factor)
            room[factor] = most - least
            term = None if term is None else _some(_product(term, {(factor,): 1, (): least}))
        if counted is None or term is None:
            return None
        counted = _some(_sum(counted, term, 1))
    if counted is None:
        return None
    start = counted.get((), 0)
    reach = [k * prod(room[x] for x in factors) for factors, k in counted.items() if factors]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0)


def _some(total: Products) -> Products | None:
    return total if len(total) <= _MOST else None


def _sum(a: Products, b: Products, times: int) -> Products:
    result: Counter[Any] = Counter(a)
    for factors, k in b.items():
        result[factors] += times * k
    return {factors: k for factors, k in result.items() if k}


def _product(a: Products, b: Products) -> Products:
    result: Counter[Any] = Counter()
    for x, k in a.items():
        for y, m in b.items():
            result[tuple(sorted((*x, *y), key=order_key))] += k * m
    return {factors: k for factors, k in result.items() if k}
