"""Functions of one tensor, element by element, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, as_tensor
from ..registry import aten, direct

Rule = Callable[[Tensor], Tensor]

#: Of floats; integers are converted first.
_OF_FLOATS: dict[str, Rule] = {
    "acos": ops.acos, "acosh": ops.acosh, "asin": ops.asin, "asinh": ops.asinh, "atan": ops.atan,
    "atanh": ops.atanh, "cos": ops.cos, "cosh": ops.cosh, "erf": ops.erf, "exp": ops.exp,
    "exp2": ops.exp2, "expm1": ops.expm1, "hardswish": ops.hard_swish, "log": ops.log,
    "log10": ops.log10, "log1p": ops.log1p, "log2": ops.log2, "mish": ops.mish,
    "reciprocal": ops.reciprocal, "rsqrt": ops.rsqrt, "sigmoid": ops.sigmoid, "silu": ops.silu,
    "sin": ops.sin, "sinh": ops.sinh, "sqrt": ops.sqrt, "tan": ops.tan, "tanh": ops.tanh,
}  # fmt: skip

#: Of any numbers, which keep their type.
_OF_NUMBERS: dict[str, Rule] = {
    "abs": ops.abs, "ceil": ops.ceil, "floor": ops.floor, "neg": ops.neg, "relu": ops.relu,
    "round": ops.round, "square": ops.square, "trunc": ops.trunc,
}  # fmt: skip


def _simple(rule: Rule) -> Callable[[Call, Tensor], Tensor]:
    return lambda call, x: rule(call.cast(x))


for _name, _rule in {**_OF_FLOATS, **_OF_NUMBERS}.items():
    aten(f"{_name}.default")(_simple(_rule))


@aten("sign.default")
def sign(call: Call, x: Tensor) -> Tensor:
    """-1, 0 or 1; 0 of NaN."""
    result = ops.sign(x)
    return ops.where(ops.isnan(x), 0, result) if x.dtype.is_float else result


def _classification(rule: Rule, of_integers: bool) -> Callable[[Call, Tensor], Tensor]:
    return lambda call, x: rule(x) if x.dtype.is_float else ops.full(x.shape, of_integers, "bool")


aten("isnan.default")(_classification(ops.isnan, False))
aten("isinf.default")(_classification(ops.isinf, False))
aten("isfinite.default")(_classification(ops.isfinite, True))


@aten("logical_not.default")
def logical_not(call: Call, x: Tensor) -> Tensor:
    """Whether x is 0."""
    return ops.logical_not(as_tensor(x, "bool"))


@aten("bitwise_not.default")
def bitwise_not(call: Call, x: Tensor) -> Tensor:
    """All bits flipped."""
    return ops.logical_not(x) if x.dtype.is_bool else ops.bitwise_invert(x)


@aten("convert_element_type.default", namespace="prims")
@aten("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default",
      "_to_copy.default", "lift_fresh.default")  # fmt: skip
def copied(call: Call, x: Tensor, *about: Any, **options: Any) -> Tensor:
    """The same elements, in another type where one is asked for."""
    if x.dtype.is_float and call.dtype.is_unsigned:
        # Negative floats have no defined conversion to unsigned integers; PyTorch goes by int64.
        return ops.cast(ops.cast(x, "int64"), call.dtype)
    return call.cast(x)


@aten("copy.default")
def copy(call: Call, x: Tensor, source: Tensor, *rest: Any) -> Tensor:
    """The second tensor in the shape and type of the first."""
    return call.to_result(source)


# ---------------------------------------------------------------------------- activations


aten("gelu.default")(direct(ops.gelu))
aten("leaky_relu.default")(direct(ops.leaky_relu))
aten("elu.default")(direct(ops.elu))


@aten("hardsigmoid.default")
def hardsigmoid(call: Call, x: Tensor) -> Tensor:
    """A line between 0 and 1."""
    return ops.hard_sigmoid(x, 1 / 6, 0.5)


@aten("hardtanh.default")
def hardtanh(call: Call, x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """x between two bounds."""
    return ops.clip(x, low, high)


@aten("softplus.default")
def softplus(call: Call, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, or x where beta x is beyond the threshold."""
    return ops.softplus(x, beta, threshold)


@aten("round.decimals")
def round_decimals(call: Call, x: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to this many digits after the point."""
    if decimals == 0 or not x.dtype.is_float:
        return ops.round(x)
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        return ops.div(ops.round(ops.mul(x, factor)), factor)
    return ops.mul(ops.round(ops.div(x, factor)), factor)


@aten("angle.default")
def angle(call: Call, x: Tensor) -> Tensor:
    """0, pi of negative numbers; NaN of NaN."""
    v = call.cast(x)
    half_turn = ops.where(ops.less(v, 0.0), math.pi, ops.zeros((), v.dtype))
    return ops.where(ops.isnan(v), v, half_turn)


# ---------------------------------------------------------------------------- bounds


@aten("clamp.default", "clamp.Tensor")
def clamp(call: Call, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """min(max(x, low), high); NaN if one of them is."""
    result = call.cast(x)
    if low is not None:
        result = ops.maximum(result, call.cast(low))
    return result if high is None else ops.minimum(result, call.cast(high))
