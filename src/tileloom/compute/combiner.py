"""Reducers: a combiner with its identity, applied to expressions over reduction axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import DType, dtype
from ..base.errors import DTypeError, UserError
from ..expr import CommReducer, ExprLike, IterVar, Reduce, Var, as_expr, cast, const

Axes = IterVar | Sequence[IterVar]


class Reducer:
    """A combiner with its identity; calling it reduces an expression (or a tuple of them).

    Made by `comm_reducer`. There is one `CommReducer` for each tuple of types, so that equal
    reductions are one expression.
    """

    def __init__(
        self, fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str
    ) -> None:
        self.fcombine, self.fidentity, self.name = fcombine, fidentity, name
        self._known: dict[tuple[DType, ...], CommReducer] = {}

    def combiner(self, *kinds: str) -> CommReducer:
        """The combiner for operands of these types."""
        key = tuple(dtype(kind) for kind in kinds)
        return self._known.setdefault(key, self._known.get(key) or self._build(key))

    def _build(self, kinds: tuple[DType, ...]) -> CommReducer:
        lhs = tuple(Var(f"x{k}", kind) for k, kind in enumerate(kinds))
        rhs = tuple(Var(f"y{k}", kind) for k, kind in enumerate(kinds))
        if len(kinds) == 1:
            result = _tuple(self.fcombine(lhs[0], rhs[0]))
        else:
            result = _tuple(self.fcombine(lhs, rhs))
        identity = _tuple(self.fidentity(*kinds))
        if len(result) != len(kinds) or len(identity) != len(kinds):
            raise UserError(
                f"the reducer {self.name!r} of {len(kinds)} values combines them to "
                f"{len(result)} values with {len(identity)} identities"
            )
        pairs = list(zip(kinds, result, strict=True))
        if any(as_expr(part).dtype is not kind for kind, part in pairs):
            got = [str(as_expr(part).dtype) for part in result]
            raise DTypeError(f"the reducer {self.name!r} makes {got} of {list(map(str, kinds))}")
        neutral = [cast(kind, as_expr(v, kind)) for kind, v in zip(kinds, identity, strict=True)]
        return CommReducer(lhs, rhs, [as_expr(part) for part in result], neutral)

    def __call__(self, expr: Any, axis: Axes, where: ExprLike = None, init: Any = None) -> Any:
        """The reduction of `expr` over `axis` where `where` holds, starting from `init`.

        A tuple of expressions gives a tuple of reductions.
        """
        axes = (axis,) if isinstance(axis, IterVar) else tuple(axis)
        source = [as_expr(part) for part in _tuple(expr)]
        combiner = self.combiner(*(part.dtype for part in source))
        condition = const(True) if where is None else as_expr(where)
        start = [] if init is None else [as_expr(part) for part in _tuple(init)]
        if start and len(start) != len(source):
            raise UserError(f"{self.name}: {len(source)} values but {len(start)} initial ones")
        start = [cast(part.dtype, value) for part, value in zip(source, start, strict=False)]
        parts = tuple(
            Reduce(combiner, source, start, axes, condition, k) for k in range(len(source))
        )
        return parts if isinstance(expr, (tuple, list)) else parts[0]

    def __repr__(self) -> str:
        return f"Reducer({self.name})"


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A reducer from a commutative and associative function and its identity.

    Args:
        fcombine: `f(x, y)` of two expressions, or of two tuples when it reduces several values.
        fidentity: the identity (or a tuple) for the operands' types.

    >>> product = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), "product")
    >>> product.combiner("float32").result[0]
    x0 * y0
    """
    return Reducer(fcombine, fidentity, name)


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
