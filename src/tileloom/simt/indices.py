"""The values of indices, as code has them that takes them not to overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..expr import Add, BinaryOp, Cast, Div, Expr, FloorDiv, FloorMod, Mod, Mul, Ramp, Sub, has_load
from ..expr.bounds import is_index, type_range
from .defects import KernelDefect
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine

_EXACT = (Add, Sub, Mul, FloorDiv, FloorMod)
_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


def exact_index(machine: Machine, expr: Expr, lanes: Array) -> Any:
    """The value of an index.

    Code computes indices in registers that are as wide as it likes: it takes them not to overflow.
    What is computed of data (hashes) wraps around in its own type.

    Raises:
        KernelDefect: a sum or a product leaves its type, or a divisor is zero.
    """
    if isinstance(expr, Ramp):
        base = np.reshape(exact_index(machine, expr.base, lanes), (-1, 1))
        step = np.reshape(np.asarray(machine.value(expr.stride, lanes), np.int64), (-1, 1))
        return base + step * np.arange(expr.dtype.lanes)
    if isinstance(expr, Cast) and _keeps_value(expr):
        return exact_index(machine, expr.value, lanes)
    if not isinstance(expr, BinaryOp) or not expr.dtype.is_int or expr.dtype.lanes > 1:
        return machine.value(expr, lanes)
    if isinstance(expr, _DIVISIONS):
        _check_divisor(machine, expr, lanes)
    if not isinstance(expr, _EXACT) or not is_index(expr.dtype) or has_load(expr):
        return machine.value(expr, lanes)
    a = np.asarray(exact_index(machine, expr.a, lanes), np.int64)
    b = np.asarray(exact_index(machine, expr.b, lanes), np.int64)
    result = _RULES[type(expr)](a, b)
    low, high = type_range(expr.dtype)
    if expr.dtype.bits < 64 and ((result < low) | (result > high)).any():
        wrong = np.broadcast_to((result < low) | (result > high), lanes.shape)
        first = np.broadcast_to(result, lanes.shape)[wrong][0]
        what = f"an index has the part {expr} = {first}, which {expr.dtype} does not hold"
        raise _defect(machine, "overflow", what, lanes[wrong], "compute the index in int64")
    return result


def _keeps_value(expr: Cast) -> bool:
    source, target = expr.value.dtype, expr.dtype
    return is_index(source) and is_index(target) and target.bits >= source.bits


def _check_divisor(machine: Machine, expr: BinaryOp, lanes: Array) -> None:
    zero = np.broadcast_to(np.asarray(machine.value(expr.b, lanes)) == 0, lanes.shape)
    if zero.any():
        what = f"an index has the part {expr}, whose divisor is 0"
        raise _defect(machine, "division by zero", what, lanes[zero], None)


def _defect(machine: Machine, kind: str, what: str, lanes: Array, hint: str | None) -> KernelDefect:
    stmt = machine.stmt
    return KernelDefect(
        kind, what, stmt, machine.batch.places(lanes), stmt.span if stmt else None, hint
    )


_RULES = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
}
