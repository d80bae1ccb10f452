"""Reductions: `sum`, `max`, `argmin`, ... and reducers of one's own.

A reducer combines the values of an expression over reduction axes. The result is a `Reduce`, which
must stand at the top of a `compute` body:

>>> from .tensor import compute, placeholder, reduce_axis
>>> A = placeholder((4, 8), name="A")
>>> k = reduce_axis((0, 8), "k")
>>> B = compute((4,), lambda i: sum(A[i, k], axis=k), name="B")
>>> B.op.reduce_axis[0] is k
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base import DType, dtype
from ..base.errors import DTypeError
from ..expr import And, Expr, Max, Min, Or, binary, const
from ..expr.intrin import max_value, min_value
from .combiner import Reducer, comm_reducer
from .math import isnan, select


def lowest(kind: str) -> Expr:
    """The least value of a type: -inf for floats, so it is the identity of `max`.

    >>> lowest("int8"), lowest("uint8"), lowest("float16")
    (T.int8(-128), T.uint8(0), T.float16("-inf"))
    """
    element = dtype(kind)
    return const(-math.inf, element) if _has_infinity(element) else min_value(element)


def highest(kind: str) -> Expr:
    """The greatest value of a type: inf for floats, so it is the identity of `min`."""
    element = dtype(kind)
    return const(math.inf, element) if _has_infinity(element) else max_value(element)


def _has_infinity(kind: DType) -> bool:
    return kind.is_float and kind.code != "float8"


def _number(what: str, fcombine: Callable[[Any, Any], Any], identity: int) -> Reducer:
    def neutral(kind: DType) -> Expr:
        if kind.is_bool:
            raise DTypeError(f"{what} of bool values", hint="cast them to an integer type")
        return const(identity, kind)

    return comm_reducer(fcombine, neutral, what)


def _truth(what: str, op: type[And] | type[Or], identity: bool) -> Reducer:
    def neutral(kind: DType) -> Expr:
        if not kind.is_bool:
            raise DTypeError(f"{what} needs bool values, got {kind}", hint="compare with 0 first")
        return const(identity)

    return comm_reducer(lambda x, y: binary(op, x, y), neutral, what)


def _pick(better: Callable[[Any, Any], Expr]) -> Callable[[Any, Any], tuple[Expr, Expr]]:
    """The combiner of (index, value): the better value, of equal ones the smaller index.

    A NaN is better than any number, as in NumPy.
    """

    def combine(x: Sequence[Expr], y: Sequence[Expr]) -> tuple[Expr, Expr]:
        keep = (better(x[1], y[1])) | ((x[1] == y[1]) & (x[0] < y[0]))
        if x[1].dtype.is_float:
            keep = keep | (isnan(x[1]) & (~isnan(y[1]) | (x[0] < y[0])))
        return select(keep, x[0], y[0]), select(keep, x[1], y[1])

    return combine


sum = _number("sum", lambda x, y: x + y, 0)
prod = _number("prod", lambda x, y: x * y, 1)
max = comm_reducer(lambda x, y: binary(Max, x, y), lowest, "max")
min = comm_reducer(lambda x, y: binary(Min, x, y), highest, "min")
any = _truth("any", Or, False)
all = _truth("all", And, True)
# The identity's index is the largest: a real element of the worst value wins the tie.
argmax = comm_reducer(_pick(lambda x, y: x > y), lambda i, v: (highest(i), lowest(v)), "argmax")
argmin = comm_reducer(_pick(lambda x, y: x < y), lambda i, v: (highest(i), highest(v)), "argmin")
