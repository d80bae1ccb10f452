"""Reductions and running sums; narrow floats are accumulated in float32."""

from __future__ import annotations

from collections.abc import Callable

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler

_REDUCE: dict[str, Callable[..., Tensor]] = {
    "ReduceAll": ops.all, "ReduceAnd": ops.all, "ReduceAny": ops.any, "ReduceOr": ops.any,
    "ReduceMax": ops.max, "ReduceMean": ops.mean, "ReduceMin": ops.min, "ReduceProd": ops.prod,
    "ReduceSum": ops.sum,
}  # fmt: skip
_OF_BOOLS = {"ReduceAll", "ReduceAnd", "ReduceAny", "ReduceOr"}


@handler(*_REDUCE)
def reduce_(call: Call) -> Tensor:
    x = call.tensor(0)
    if call.op in _OF_BOOLS:
        x = ops.cast(x, "bool")
    elif x.dtype.is_bool and call.op not in ("ReduceMax", "ReduceMin"):
        x = ops.cast(x, "float32")
    return _REDUCE[call.op](x, axes(call), call.flag("keep_dims"))


def axes(call: Call) -> list[int] | None:
    """The axes of an attribute or a literal; none at all means all of them."""
    if call.attr("axis") is None and len(call.inputs) < 2:
        return None
    return call.ints("axis", 1) or None


@handler("ElemAny")
def elem_any(call: Call) -> Tensor:
    """Whether any element is not zero."""
    hit = ops.any(ops.cast(call.tensor(0), "bool"))
    return ops.cast(ops.reshape(hit, call.output.shape), call.output.dtype)


@handler("Argmax", "ArgMax", "Argmin", "ArgMin")
def place_of_extreme(call: Call) -> Tensor:
    operation = ops.argmax if call.op.lower() == "argmax" else ops.argmin
    return operation(call.tensor(0), call.integer("axis", -1))


@handler("CumSum", "CumProd")
def running(call: Call) -> Tensor:
    function: Callable[..., Tensor] = ops.cumsum if call.op == "CumSum" else ops.cumprod
    return function(
        call.tensor(0), call.integer("axis", 0), call.flag("exclusive"), call.flag("reverse")
    )
