"""Atomic calls and fences in scripts: `T.atomic_add(T.address_of(A[i]), 1)`."""

from __future__ import annotations

from ..base import dtype
from ..base.late import TYPE_CHECKING
from ..expr import Call, Expr, as_expr
from ..expr.atomic_ops import ATOMIC_VALUES
from ..expr.operators import ExprLike
from ..tir import BufferLoad
from ..tir.atomics import ACCESS_PTR, ADDRESS_OF

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..base import DType


def _pointee(pointer: Expr) -> DType | None:
    """The type of what a pointer points to, where it says so."""
    if isinstance(pointer, Call) and pointer.op in (ADDRESS_OF, ACCESS_PTR) and pointer.args:
        return pointer.args[0].dtype
    return None


def _atomic(name: str) -> Callable[..., Expr]:
    op = f"tir.{name}"
    count = ATOMIC_VALUES[op]

    def build(pointer: ExprLike, *values: ExprLike, dtype: str | None = None) -> Expr:
        place = as_expr(pointer)
        if isinstance(place, BufferLoad):
            place = Call("handle", ADDRESS_OF, (place,))
        kind = _pointee(place)
        operands = [as_expr(v, kind) if not isinstance(v, Expr) else v for v in values[:count]]
        order = [as_expr(v) for v in values[count:]]
        result = dtype or kind or (operands[-1].dtype if operands else "int32")
        return Call("int32" if name == "atomic_store" else result, op, (place, *operands, *order))

    build.__name__ = name
    build.__doc__ = (
        f"`{op}`: a pointer to an element (or the element), {count} values, and perhaps an order."
    )
    return build


def memory_fence(scope: str = "gpu") -> Expr:
    """What this thread does before is seen before what it does after, by a block or the device.

    >>> memory_fence()
    T.memory_fence("gpu")
    """
    return Call(dtype("int32"), "tir.memory_fence", (as_expr(scope),))


ATOMIC_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    **{op.removeprefix("tir."): _atomic(op.removeprefix("tir.")) for op in ATOMIC_VALUES},
    "memory_fence": memory_fence,
}
