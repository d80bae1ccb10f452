"""Which expressions are legal, wherever they stand: types and lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..expr import (
    And,
    Call,
    Cast,
    Expr,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
)
from ..expr.ops import find_op
from .atomics import atomic_complaints, is_atomic
from .nodes import Buffer, BufferLoad
from .warps import FENCE, is_warp_call, warp_complaints

Complaints = Iterator[str]


def expr_complaints(expr: Expr) -> Complaints:
    """What is wrong with this node itself, its operands taken for granted.

    >>> list(expr_complaints(Not(Call("int32", "tir.clz", ()))))
    ["'not' needs a bool, got int32"]
    """
    rule = _RULES.get(type(expr))
    if rule is not None:
        yield from rule(expr)


def index_complaints(
    buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None
) -> Complaints:
    """What is wrong with an access."""
    if len(indices) != buffer.ndim:
        yield (
            f"buffer {buffer.name!r} has {buffer.ndim} dimensions, but is accessed by"
            f" {len(indices)} indices"
        )
    for axis, index in enumerate(indices):
        if not index.dtype.is_int:
            yield f"index {axis} of buffer {buffer.name!r} is a {index.dtype}, not an integer"
        elif index.dtype.lanes > 1 and axis + 1 < len(indices):
            yield f"index {axis} of buffer {buffer.name!r} is a vector; only the last may be one"
    if predicate is not None:
        lanes = indices[-1].dtype.lanes if indices else 1
        if not predicate.dtype.element.is_bool or predicate.dtype.lanes != lanes:
            yield (
                f"the access to buffer {buffer.name!r} has {lanes} lanes, but its predicate is a"
                f" {predicate.dtype}"
            )


def _load(expr: BufferLoad) -> Complaints:
    return index_complaints(expr.buffer, expr.indices, expr.predicate)


def _logical(expr: And | Or) -> Complaints:
    if not expr.a.dtype.element.is_bool:
        yield f"{expr.symbol!r} needs bools, got {expr.a.dtype}"


def _not(expr: Not) -> Complaints:
    if not expr.a.dtype.element.is_bool:
        yield f"'not' needs a bool, got {expr.a.dtype}"


def _select(expr: Select) -> Complaints:
    kind = expr.condition.dtype
    if not kind.element.is_bool or kind.lanes not in (1, expr.dtype.lanes):
        yield f"the condition of a Select of {expr.dtype} is a {kind}"


def _cast(expr: Cast) -> Complaints:
    if expr.dtype.lanes != expr.value.dtype.lanes:
        yield f"a cast from {expr.value.dtype} to {expr.dtype} changes the number of lanes"


def _ramp(expr: Ramp) -> Complaints:
    if expr.stride.dtype is not expr.base.dtype:
        yield f"a Ramp from a {expr.base.dtype} has a stride of {expr.stride.dtype}"


def _shuffle(expr: Shuffle) -> Complaints:
    if len({vector.dtype.element for vector in expr.vectors}) > 1:
        yield "a Shuffle joins vectors of several types"


def _call(expr: Call) -> Complaints:
    op = find_op(expr.op)
    if op is not None and op.arity is not None and len(expr.args) != op.arity:
        yield f"{expr.op} takes {op.arity} arguments, got {len(expr.args)}"
    if is_atomic(expr):
        yield from atomic_complaints(expr)
    if is_warp_call(expr) or expr.op == FENCE:
        yield from warp_complaints(expr)
    if expr.op == "tir.if_then_else" and len(expr.args) == 3:
        condition, yes, no = expr.args
        if condition.dtype != "bool":
            yield f"the condition of {expr.op} is a {condition.dtype}, not a bool"
        if not (yes.dtype is no.dtype is expr.dtype):
            yield f"{expr.op} of {expr.dtype} chooses between {yes.dtype} and {no.dtype}"


def _foreign(expr: Expr) -> Complaints:
    yield f"{type(expr).__name__} belongs to tensor expressions and must be gone by now"


_RULES: dict[type[Expr], Callable[[Any], Complaints]] = {
    BufferLoad: _load,
    And: _logical,
    Or: _logical,
    Not: _not,
    Select: _select,
    Cast: _cast,
    Ramp: _ramp,
    Shuffle: _shuffle,
    Call: _call,
    Reduce: _foreign,
    ProducerLoad: _foreign,
}
