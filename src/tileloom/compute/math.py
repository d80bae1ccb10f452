"""The scalar functions that formulas are written with: choices and intrinsic calls."""

from __future__ import annotations

from ..base import DType, dtype
from ..base.errors import DTypeError
from ..expr import Call, Expr, ExprLike, IntImm, Not, Select, as_expr, match_types


def call(name: str, *args: ExprLike, kind: str | None = None) -> Expr:
    """The intrinsic `tir.<name>`; its type is that of the first argument unless `kind` is given.

    >>> call("exp", 1.0)
    T.exp(T.float32(1.0))
    """
    parts = tuple(as_expr(arg) for arg in args)
    return Call(parts[0].dtype if kind is None else kind, f"tir.{name}", parts)


def if_then_else(condition: ExprLike, yes: ExprLike, no: ExprLike) -> Expr:
    """A choice that evaluates only the side it takes: it may guard a load from being made."""
    test, a, b = _choice(condition, yes, no)
    if isinstance(test, IntImm):
        return a if test.value else b
    return Call(a.dtype, "tir.if_then_else", (test, a, b))


def select(condition: ExprLike, yes: ExprLike, no: ExprLike) -> Expr:
    """A choice of two values that both may be evaluated."""
    test, a, b = _choice(condition, yes, no)
    if isinstance(test, IntImm):
        return a if test.value else b
    return Select(test, a, b)


def _choice(condition: ExprLike, yes: ExprLike, no: ExprLike) -> tuple[Expr, Expr, Expr]:
    test = as_expr(condition)
    if not test.dtype.element.is_bool:
        raise DTypeError(f"the condition of a choice must be bool, got {test.dtype}")
    return test, *match_types(yes, no)


def isnan(value: ExprLike) -> Expr:
    """Whether a float is NaN; never true of an integer."""
    expr = as_expr(value)
    if not expr.dtype.is_float:
        return IntImm("bool", 0)
    return Call("bool", "tir.isnan", (expr,))


def logical_not(value: Expr) -> Expr:
    """The negation of a bool; True and False are folded."""
    return IntImm("bool", not value.value) if isinstance(value, IntImm) else Not(value)


def accumulator(kind: DType) -> DType:
    """The type in which sums of `kind` are accumulated: float32 for narrower floats."""
    return dtype("float32") if kind.is_float and kind.bits < 32 else kind
