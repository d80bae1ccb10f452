"""`tvm.topi`: the plain operators, as `te.compute`; networks come in by other doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import compute as te
from ....base.errors import UserError
from ....compute import Tensor
from ....expr import Expr, ExprLike, as_expr, const, intrin, is_int, simplify
from ....expr.intrin import max_value, min_value
from .._names import missing
from . import nn
from .make import tensor


def _unary(name: str, function: Callable[[Any], Expr]) -> Callable[..., Tensor]:
    def apply(x: Tensor) -> Tensor:
        return tensor(x.shape, lambda *i: function(x[i]), f"T_{name}")

    apply.__name__, apply.__doc__ = name, f"{name} of every element."
    return apply


exp, log, sqrt, rsqrt = (_unary(n, getattr(intrin, n)) for n in ("exp", "log", "sqrt", "rsqrt"))
tanh, sigmoid, erf = (_unary(n, getattr(intrin, n)) for n in ("tanh", "sigmoid", "erf"))
sin, cos, tan = (_unary(n, getattr(intrin, n)) for n in ("sin", "cos", "tan"))
abs, floor, ceil = (_unary(n, getattr(intrin, n)) for n in ("abs", "floor", "ceil"))
round, trunc = _unary("round", intrin.round), _unary("trunc", intrin.trunc)
negative = _unary("negative", lambda value: -value)
identity = _unary("identity", lambda value: value)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Every element as another type."""
    return tensor(x.shape, lambda *i: x[i].astype(dtype), "T_cast")


def broadcast_shape(a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
    """The shape of what two shapes make together."""
    long, short = (list(a), list(b)) if len(a) >= len(b) else (list(b), list(a))
    short = [const(1)] * (len(long) - len(short)) + short
    result = []
    for x, y in zip(long, short, strict=True):
        if not is_int(x, 1) and not is_int(y, 1) and simplify(x - y) is not const(0, x.dtype):
            raise UserError(f"shapes {tuple(a)} and {tuple(b)} do not broadcast")
        result.append(y if is_int(x, 1) else x)
    return result


def element(x: Tensor | ExprLike, indices: Sequence[Expr]) -> Any:
    """The element of a tensor, broadcast, at indices of a larger shape; a number as it is."""
    if not isinstance(x, Tensor):
        return as_expr(x)
    last = indices[len(indices) - len(x.shape) :]
    own = [const(0) if is_int(size, 1) else i for i, size in zip(last, x.shape, strict=True)]
    return x[tuple(own)]


def _binary(name: str, function: Callable[[Any, Any], Expr]) -> Callable[..., Any]:
    def apply(lhs: Any, rhs: Any) -> Any:
        shapes = [x.shape for x in (lhs, rhs) if isinstance(x, Tensor)]
        if not shapes:
            return function(as_expr(lhs), as_expr(rhs))
        shape = shapes[0] if len(shapes) == 1 else broadcast_shape(*shapes)
        kind = next(x.dtype for x in (lhs, rhs) if isinstance(x, Tensor))

        def part(x: Any, i: Sequence[Expr]) -> Any:
            return element(x, i) if isinstance(x, (Tensor, Expr)) else as_expr(x, kind)

        return tensor(shape, lambda *i: function(part(lhs, i), part(rhs, i)), f"T_{name}")

    apply.__name__, apply.__doc__ = name, f"{name} of two tensors, broadcast, or numbers."
    return apply


add = _binary("add", lambda a, b: a + b)
subtract = _binary("subtract", lambda a, b: a - b)
multiply = _binary("multiply", lambda a, b: a * b)
divide = _binary("divide", lambda a, b: a / b)
floor_divide = _binary("floor_divide", lambda a, b: a // b)
mod = _binary("mod", lambda a, b: a % b)
power = _binary("power", intrin.power)
maximum, minimum = _binary("maximum", intrin.max), _binary("minimum", intrin.min)
greater = _binary("greater", lambda a, b: a > b)
less = _binary("less", lambda a, b: a < b)


def full(shape: Sequence[ExprLike], dtype: str, fill_value: ExprLike) -> Tensor:
    """A tensor of one value."""
    return tensor(shape, lambda *_: as_expr(fill_value, dtype).astype(dtype), "T_full")


def full_like(x: Tensor, fill_value: ExprLike) -> Tensor:
    """A tensor of one value, of a shape and type that is given."""
    return full(x.shape, x.dtype, fill_value)


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order, by default from the last to the first."""
    rank = len(a.shape)
    order = [k % rank for k in axes] if axes else list(range(rank))[::-1]

    def value(*i: Expr) -> Any:
        return a[tuple(i[order.index(k)] for k in range(rank))]

    return tensor([a.shape[k] for k in order], value, "T_transpose")


def reshape(a: Tensor, newshape: Sequence[ExprLike]) -> Tensor:
    """The elements in their order in another shape."""
    new = [as_expr(extent) for extent in newshape]

    def value(*i: Expr) -> Any:
        flat: Expr = const(0)
        for index, extent in zip(i, new, strict=True):
            flat = flat * extent + index
        positions: list[Expr] = []
        for extent in reversed(a.shape):
            positions.insert(0, flat % extent)
            flat = flat // extent
        return a[tuple(positions)]

    return tensor(new, value, "T_reshape")


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """New axes of one element before an axis."""
    place = axis % (len(a.shape) + 1)
    shape = [*a.shape[:place], *[const(1)] * num_newaxis, *a.shape[place:]]
    return tensor(shape, lambda *i: a[(*i[:place], *i[place + num_newaxis :])], "T_expand_dims")


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without axes of one element: those given, or all."""
    if axis is None:
        gone = [k for k, n in enumerate(a.shape) if is_int(n, 1)]
    else:
        gone = _axes(a, axis)
    shape = [n for k, n in enumerate(a.shape) if k not in gone]

    def value(*i: Expr) -> Any:
        left = iter(i)
        return a[tuple(const(0) if k in gone else next(left) for k in range(len(a.shape)))]

    return tensor(shape, value, "T_squeeze")


def _axes(a: Tensor, axis: int | Sequence[int] | None) -> list[int]:
    rank = len(a.shape)
    given = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return sorted(k % rank for k in given)


def _reduction(name: str, reduce: Callable[..., Any]) -> Callable[..., Tensor]:
    def apply(
        data: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False
    ) -> Tensor:
        gone = _axes(data, axis)
        over = {k: te.reduce_axis((0, data.shape[k]), f"k{k}") for k in gone}
        shape = [
            const(1) if k in gone else n
            for k, n in enumerate(data.shape)
            if keepdims or k not in gone
        ]

        def value(*i: Expr) -> Any:
            kept = list(i) if keepdims else None
            left = iter(i)
            place = [
                over[k].var if k in over else (kept[k] if kept is not None else next(left))
                for k in range(len(data.shape))
            ]
            return reduce(data[tuple(place)], axis=list(over.values()))

        return tensor(shape, value, f"{data.name}_{name}")

    apply.__name__, apply.__doc__ = name, f"The {name} over axes, by default all."
    return apply


sum = _reduction("red", te.sum)
max = _reduction("red", te.comm_reducer(intrin.max, min_value, "max"))
min = _reduction("red", te.comm_reducer(intrin.min, max_value, "min"))


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """The product of two matrices."""
    return nn.matmul(a, b, transpose_a=transp_a, transpose_b=transp_b)


__all__ = [
    "abs", "add", "broadcast_shape", "cast", "ceil", "cos", "divide", "erf", "exp", "expand_dims",
    "floor", "floor_divide", "full", "full_like", "greater", "identity", "less", "log", "matmul",
    "max", "maximum", "min", "minimum", "mod", "multiply", "negative", "nn", "power", "reshape",
    "round", "rsqrt", "sigmoid", "sin", "sqrt", "squeeze", "subtract", "sum", "tan", "tanh",
    "transpose", "trunc",
]  # fmt: skip
__getattr__ = missing(__name__)
