"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ..call import Call
from ..registry import handler

_Reduce = Callable[[Tensor, Sequence[int], bool], Tensor]


def _mean(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if x.dtype.is_float:
        return ops.mean(x, axes, keep)
    total = ops.sum(x, axes, keep)
    return ops.trunc_div(total, product([x.shape[axis] for axis in axes]))


def _log_sum(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return ops.log(ops.sum(x, axes, keep))


def _in_floats(function: _Reduce) -> _Reduce:
    """Integers are reduced as float64."""

    def wide(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        if x.dtype.is_float:
            return function(x, axes, keep)
        return ops.cast(function(ops.cast(x, "float64"), axes, keep), x.dtype)

    return wide


_REDUCTIONS: dict[str, _Reduce] = {
    "ReduceL1": ops.l1_norm,
    "ReduceL2": _in_floats(ops.l2_norm),
    "ReduceLogSum": _in_floats(_log_sum),
    "ReduceLogSumExp": _in_floats(ops.logsumexp),
    "ReduceMax": lambda x, axes, keep: ops.max(x, axes, keep, empty_ok=True),
    "ReduceMean": _mean,
    "ReduceMin": lambda x, axes, keep: ops.min(x, axes, keep, empty_ok=True),
    "ReduceProd": ops.prod,
    "ReduceSum": ops.sum,
    "ReduceSumSquare": ops.sum_square,
}


@handler(*_REDUCTIONS)
def reduce(call: Call) -> Tensor:
    x, by_input = call.tensor(0), call.version >= (13 if call.op == "ReduceSum" else 18)
    axes = call.optional_integers(1) if by_input else call.optional_ints("axes")
    if not axes:
        axes = [] if call.flag("noop_with_empty_axes") else list(range(x.ndim))
    return _REDUCTIONS[call.op](x, axes, call.flag("keepdims", True))


@handler("ArgMax", "ArgMin")
def arg_extreme(call: Call) -> Tensor:
    operation = ops.argmax if call.op == "ArgMax" else ops.argmin
    keep, last = call.flag("keepdims", True), call.flag("select_last_index")
    return operation(call.tensor(0), call.integer("axis", 0), keep, last)


@handler("GlobalAveragePool", "GlobalMaxPool")
@handler("GlobalLpPool", since=2)
def global_pool(call: Call) -> Tensor:
    x = call.tensor(0)
    if x.ndim < 3:
        raise UserError(f"the input must have at least 3 dimensions, not {x.ndim}")
    axes = list(range(2, x.ndim))
    if call.op == "GlobalAveragePool":
        return ops.mean(x, axes, True)
    if call.op == "GlobalMaxPool":
        return ops.max(x, axes, True)
    return lp_norm(x, call.integer("p", 2), axes)


def lp_norm(x: Tensor, p: int, axes: Sequence[int]) -> Tensor:
    """The p-norm over axes, which stay."""
    return ops.p_norm(x, p, axes, True)
