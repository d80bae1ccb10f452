"""Reductions over dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import normalize_axes, product
from ....graph.symbols import is_symbolic
from ..call import Call, as_tensor, wide
from ..registry import aten
from ..sizes import need_numbers

Dims = int | Sequence[int] | None


def dims_of(x: Tensor, dims: Dims, empty_is_all: bool = True) -> tuple[int, ...]:
    """The axes that PyTorch means: an empty list is all of them; a scalar has one, 0."""
    if dims is None or (empty_is_all and not isinstance(dims, int) and len(dims) == 0):
        return tuple(range(x.ndim))
    if x.ndim == 0:
        return ()
    return normalize_axes(dims, x.ndim)


def _in_result_type(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(
        call: Call, x: Tensor, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Tensor:
        return rule(call.cast(x), dims_of(x, dims), keepdim)

    return reduce


aten("sum.dim_IntList", "sum.default")(_in_result_type(ops.sum))
aten("mean.dim", "mean.default")(_in_result_type(ops.mean))
aten("prod.dim_int", "prod.default")(_in_result_type(ops.prod))
aten("amax.default", "max.default")(_in_result_type(ops.max))
aten("amin.default", "min.default")(_in_result_type(ops.min))


def _of_truth(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of what is not 0; an empty list of dimensions is none of them where there may be several."""

    def reduce(call: Call, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
        axes = dims_of(x, dims, empty_is_all=not call.name.endswith(".dims"))
        return call.cast(rule(as_tensor(x, "bool"), axes, keepdim))

    return reduce


aten("any.default", "any.dim", "any.dims")(_of_truth(ops.any))
aten("all.default", "all.dim", "all.dims")(_of_truth(ops.all))


# ---------------------------------------------------------------------------- moments


def _moments(
    call: Call, x: Tensor, dims: Dims, correction: Any, keepdim: bool
) -> tuple[Tensor, Tensor]:
    axes = dims_of(x, dims)
    exact = as_tensor(x, wide(x.dtype))
    count = product([x.shape[k] for k in axes])
    lost = float(1 if correction is None else correction)
    number: Any
    freedom: Any
    if is_symbolic(count):
        number = as_tensor(count, exact.dtype)
        freedom = ops.maximum(ops.sub(number, lost), 0.0)
    else:
        number = float(count)
        freedom = max(0.0, number - lost)
    middle = ops.div(ops.sum(exact, axes, True), number)
    squares = ops.sum(ops.square(ops.sub(exact, middle)), axes, keepdim)
    shape = call.types[-1].shape
    return ops.div(squares, freedom), ops.reshape(middle, shape)


@aten("var.correction")
def var(
    call: Call, x: Tensor, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> Tensor:
    """The mean squared distance from the mean."""
    return call.cast(_moments(call, x, dims, correction, keepdim)[0])


@aten("var_mean.correction")
def var_mean(
    call: Call, x: Tensor, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance and the mean."""
    spread, middle = _moments(call, x, dims, correction, keepdim)
    return call.cast(spread), call.cast(middle)


# ---------------------------------------------------------------------------- places


def _check_columns(x: Tensor, dim: int | None) -> None:
    """Code for any number of columns takes too long to compile."""
    if dim is not None:
        need_numbers(x.shape[dim % x.ndim + 1 :], "places are for columns of one number")


def _place(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def find(call: Call, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if x.ndim == 0:
            return ops.zeros((), "int64")
        _check_columns(x, dim)
        return rule(as_tensor(x, "uint8") if x.dtype.is_bool else x, dim, keepdim)

    return find


aten("argmax.default")(_place(ops.argmax))
aten("argmin.default")(_place(ops.argmin))


def _extreme(
    rule: Callable[..., Tensor], find: Callable[..., Tensor]
) -> Callable[..., tuple[Tensor, Tensor]]:
    def both(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        if x.dtype.is_bool:
            raise UnsupportedError("places of bools")
        if x.ndim == 0:
            return x, ops.zeros((), "int64")
        _check_columns(x, dim)
        return rule(x, dim, keepdim), find(x, dim, keepdim)

    return both


aten("max.dim")(_extreme(ops.max, ops.argmax))
aten("min.dim")(_extreme(ops.min, ops.argmin))
