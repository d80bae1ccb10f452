"""Index arithmetic in another integer type, and the type that is wide enough for it."""

from __future__ import annotations

from operator import is_not

from ..base import DType, dtype
from ..base.late import TYPE_CHECKING
from .build import cast
from .nodes import Cast, Expr, IntImm, Var
from .reach import Interval, Reach, beyond_int32
from .rebuild import rebuild
from .walk import post_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_INT32, _INT64 = dtype("int32"), dtype("int64")


def index_type(parts: Iterable[Expr], ranges: Mapping[Var, Interval] | None = None) -> DType:
    """The type of an index that is made of these: int64 if one of them is, or int32 overflows.

    >>> i = Var("i")
    >>> index_type([i * 70000], {i: (0, 29999)}), index_type([i * 70000], {i: (0, 30999)})
    ('int32', 'int64')
    """
    reach = Reach(ranges)
    for part in parts:
        if part.dtype.bits > 32 or any(beyond_int32(reach.of(e)) for e in post_order(part)):
            return _INT64
    return _INT32


def retyped(expr: Expr, kind: DType, values: Mapping[Var, Expr]) -> Expr:
    """An integer expression computed in another integer type, with variables replaced.

    >>> i, wide = Var("i"), Var("i", "int64")
    >>> retyped(i * 131072 + 1, dtype("int64"), {i: wide})
    i * T.int64(131072) + T.int64(1)
    """
    if isinstance(expr, Var):
        return cast(kind, values.get(expr, expr))
    if isinstance(expr, IntImm) and expr.dtype.is_int:
        return cast(kind, expr)
    if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
        return retyped(expr.value, kind, values)
    children = expr.children
    new = [
        retyped(child, kind, values) if child.dtype.is_int else _inside(child, kind, values)
        for child in children
    ]
    return rebuild(expr, new) if any(map(is_not, new, children)) else expr


def _inside(expr: Expr, kind: DType, values: Mapping[Var, Expr]) -> Expr:
    return retyped(expr, kind, values) if expr.children else expr
