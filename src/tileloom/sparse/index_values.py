"""Index maps on arrays of coordinates, computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IndexMap,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)

Array = np.ndarray[Any, Any]


def evaluate_map(
    given: IndexMap, coordinates: Sequence[Array], sizes: Mapping[Var, int] | None = None
) -> list[Array]:
    """The new coordinates of many elements, in 64 bits.

    Args:
        given: the map.
        coordinates: for each of its inputs the coordinates of all elements.
        sizes: values of other variables that it uses.

    >>> tiles = IndexMap.from_func(lambda i, j: (i // 4, i % 4, j))
    >>> evaluate_map(tiles, [np.array([1, 6]), np.array([7, 8])])
    [array([0, 1]), array([1, 2]), array([7, 8])]
    """
    columns = [np.asarray(column, np.int64) for column in coordinates]
    values: dict[Var, Any] = {**(sizes or {})}
    values |= dict(zip(given.initial_indices, columns, strict=True))
    shape = np.broadcast_shapes(*(column.shape for column in columns))
    with np.errstate(divide="ignore"):
        found = [evaluate_index(final, values) for final in given.final_indices]
    return [np.broadcast_to(np.asarray(part, np.int64), shape) for part in found]


def evaluate_index(expr: Expr, values: Mapping[Var, Any]) -> Any:
    """The value of an index expression on arrays.

    Raises:
        UserError: a variable has no value.
        UnsupportedError: the expression is more than arithmetic.
    """
    match expr:
        case IntImm():
            return expr.value
        case Var():
            if expr not in values:
                raise UserError(f"no value for the variable {expr.name!r}")
            return values[expr]
        case Cast(value=value):
            return evaluate_index(value, values)
        case Select(a, b, c) | Call(op="tir.if_then_else", args=(a, b, c)):
            return np.where(*[evaluate_index(part, values) for part in (a, b, c)])
        case Not(a):
            return np.logical_not(evaluate_index(a, values))
        case BinaryOp(a, b) if type(expr) in _OPERATIONS:
            return _OPERATIONS[type(expr)](evaluate_index(a, values), evaluate_index(b, values))
        case _:
            raise UnsupportedError(f"an index map has more than arithmetic: {expr}")


def _truncated(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_OPERATIONS: dict[type[BinaryOp], Callable[[Any, Any], Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Div: _truncated,
    Mod: np.fmod,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}
