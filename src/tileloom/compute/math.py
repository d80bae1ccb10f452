"""The scalar functions that tensor expressions are written with: choices and intrinsic calls."""

from __future__ import annotations

from ..base import DType, dtype
from ..expr import Call, Expr, ExprLike, as_expr, logical_not
from ..expr.intrin import if_then_else, isnan, select

__all__ = ["accumulator", "call", "if_then_else", "isnan", "logical_not", "select"]


def call(name: str, *args: ExprLike, kind: str | None = None) -> Expr:
    """The intrinsic `tir.<name>`; its type is that of the first argument unless `kind` is given.

    >>> call("exp", 1.0)
    T.exp(T.float32(1.0))
    """
    parts = tuple(as_expr(arg) for arg in args)
    return Call(parts[0].dtype if kind is None else kind, f"tir.{name}", parts)


def accumulator(kind: DType) -> DType:
    """The type in which sums of `kind` are accumulated: float32 for narrower floats."""
    return dtype("float32") if kind.is_float and kind.bits < 32 else kind
