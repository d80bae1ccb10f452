"""Python's operators on expressions.

The functions that build the results need the nodes, and the nodes need these methods: `build` fills
`BUILD` when it is loaded, right after the nodes.
"""

from __future__ import annotations

from ..base.late import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    ExprLike = Any  # an Expr or a Python or NumPy number, where a number is accepted
else:
    ExprLike = object


BUILD: dict[str, Callable[..., Any]] = {}


class Operators:
    """`a + b`, `a // 2`, `a < b` ... with types matched and constants folded.

    `==` and `!=` build comparisons; only `EQ` and `NE` have a truth value (structural identity), so
    that expressions can be looked for in lists and dictionaries.
    """

    __slots__ = ()

    def __add__(self, other: ExprLike) -> Any:
        return BUILD["Add"](self, other)

    def __radd__(self, other: ExprLike) -> Any:
        return BUILD["Add"](other, self)

    def __sub__(self, other: ExprLike) -> Any:
        return BUILD["Sub"](self, other)

    def __rsub__(self, other: ExprLike) -> Any:
        return BUILD["Sub"](other, self)

    def __mul__(self, other: ExprLike) -> Any:
        return BUILD["Mul"](self, other)

    def __rmul__(self, other: ExprLike) -> Any:
        return BUILD["Mul"](other, self)

    def __floordiv__(self, other: ExprLike) -> Any:
        return BUILD["FloorDiv"](self, other)

    def __rfloordiv__(self, other: ExprLike) -> Any:
        return BUILD["FloorDiv"](other, self)

    def __mod__(self, other: ExprLike) -> Any:
        return BUILD["FloorMod"](self, other)

    def __rmod__(self, other: ExprLike) -> Any:
        return BUILD["FloorMod"](other, self)

    def __truediv__(self, other: ExprLike) -> Any:
        return BUILD["Div"](self, other)

    def __rtruediv__(self, other: ExprLike) -> Any:
        return BUILD["Div"](other, self)

    def __neg__(self) -> Any:
        return BUILD["Neg"](self)

    def __lt__(self, other: ExprLike) -> Any:
        return BUILD["LT"](self, other)

    def __le__(self, other: ExprLike) -> Any:
        return BUILD["LE"](self, other)

    def __gt__(self, other: ExprLike) -> Any:
        return BUILD["GT"](self, other)

    def __ge__(self, other: ExprLike) -> Any:
        return BUILD["GE"](self, other)

    def __eq__(self, other: ExprLike) -> Any:
        if other is None or isinstance(other, str):
            return False
        return BUILD["EQ"](self, other)

    def __ne__(self, other: ExprLike) -> Any:
        if other is None or isinstance(other, str):
            return True
        return BUILD["NE"](self, other)

    def __and__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_and"](self, other)

    def __rand__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_and"](other, self)

    def __or__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_or"](self, other)

    def __ror__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_or"](other, self)

    def __xor__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_xor"](self, other)

    def __rxor__(self, other: ExprLike) -> Any:
        return BUILD["bitwise_xor"](other, self)

    def __lshift__(self, other: ExprLike) -> Any:
        return BUILD["shift_left"](self, other)

    def __rshift__(self, other: ExprLike) -> Any:
        return BUILD["shift_right"](self, other)

    def __invert__(self) -> Any:
        return BUILD["invert"](self)

    __hash__ = object.__hash__
