"""How far apart two expressions are: the extent that `low:high` or `range(low, high)` means."""

from __future__ import annotations

from .. import expr, tir
from ..expr import Add, Expr, ExprLike, IntImm, Sub, as_expr, binary, match_types


def length(low: ExprLike, high: ExprLike) -> Expr:
    """`high - low`; exactly `n` where `high` is `low + n`, so that what is printed reads back.

    >>> from tileloom.expr import Var
    >>> i, n = Var("i"), Var("n")
    >>> length(i, i + (n + n)), length(i, (n + n) + i), length(4 * i, 4 * (i + 2))
    (n + n, n + n, 8)
    """
    a, b = match_types(low, high)
    if isinstance(b, Add):
        if b.a is a:
            return b.b
        if b.b is a:
            return b.a
    if a is b:
        return as_expr(0, a.dtype)
    if isinstance(b, Add) and tir.structural_equal(a, b.a):
        return b.b  # they differ in the names of what a `let` binds
    result = binary(Sub, b, a)
    return result if isinstance(a, IntImm) else expr.simplify(result)
