"""Functions of two or three tensors, element by element: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.symbols import bounds_of
from ..call import Call, as_tensor
from ..registry import aten

Rule = Callable[[Tensor, Tensor], Tensor]

# ---------------------------------------------------------------------------- arithmetic


def scaled(x: Tensor, alpha: Any) -> Tensor:
    """alpha * x."""
    return x if alpha == 1 else ops.mul(x, as_tensor(alpha, x.dtype))


@aten("add.Tensor", "add.Scalar")
def plus(call: Call, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    """a + alpha * b; of bools, or."""
    x, y = call.cast(a), call.cast(b)
    if call.dtype.is_bool:
        return ops.logical_or(x, y if alpha else ops.constant(False))
    return ops.add(x, scaled(y, alpha))


@aten("sub.Tensor", "sub.Scalar")
def minus(call: Call, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    """a - alpha * b."""
    return ops.sub(call.cast(a), scaled(call.cast(b), alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def minus_reversed(call: Call, a: Any, b: Any, alpha: Any = 1) -> Tensor:
    """b - alpha * a."""
    return ops.sub(call.cast(b), scaled(call.cast(a), alpha))


@aten("mul.Tensor", "mul.Scalar")
def times(call: Call, a: Any, b: Any) -> Tensor:
    """a * b; of bools, and."""
    rule = ops.logical_and if call.dtype.is_bool else ops.mul
    return rule(call.cast(a), call.cast(b))


@aten("div.Tensor_mode", "div.Scalar_mode")
def divide_rounded(call: Call, a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    """a / b, rounded down or toward zero."""
    if rounding_mode is None:
        return ops.div(call.cast(a), call.cast(b))
    _check_divisor(call, b)
    rule = ops.floor_divide if rounding_mode == "floor" else ops.trunc_div
    return rule(call.cast(a), call.cast(b))


def _check_divisor(call: Call, b: Any) -> None:
    """PyTorch stops at an integer 0 among divisors, compiled code would not."""
    if call.dtype.is_float:
        return
    low, high = (0, 0) if isinstance(b, Tensor) else bounds_of(b)
    if low <= 0 <= high:
        raise UnsupportedError("division of integers by a tensor may find zeros")


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(call: Call, a: Any, b: Any) -> Tensor:
    """a - b * floor(a / b)."""
    _check_divisor(call, b)
    x, y = call.cast(a), call.cast(b)
    if not call.dtype.is_float:
        return ops.mod(x, y)
    # A remainder of 0 keeps the sign of a here, which `mod` gives the sign of b.
    rest = ops.fmod(x, y)
    other_sign = ops.not_equal(ops.less(rest, 0.0), ops.less(y, 0.0))
    return ops.where(ops.logical_and(ops.not_equal(rest, 0.0), other_sign), ops.add(rest, y), rest)


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(call: Call, a: Any, b: Any) -> Tensor:
    """a - b * trunc(a / b)."""
    _check_divisor(call, b)
    return ops.fmod(call.cast(a), call.cast(b))


_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    1: lambda x: x, 2: ops.square, 3: lambda x: ops.mul(ops.square(x), x),
}  # fmt: skip
_FLOAT_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal,
}  # fmt: skip


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(call: Call, a: Any, b: Any) -> Tensor:
    """a to the power b."""
    x = call.cast(a)
    if isinstance(b, (int, float)) and not call.dtype.is_bool:
        rule = _POWERS.get(b) or (_FLOAT_POWERS.get(b) if call.dtype.is_float else None)
        if rule is not None:
            return rule(x)
    return ops.pow(x, call.cast(b))


@aten("addcmul.default")
def addcmul(call: Call, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """x + value * a * b."""
    product = ops.mul(scaled(call.cast(a), value), call.cast(b))
    return ops.add(call.cast(x), product)


@aten("fma.default", namespace="prims")
def fma(call: Call, a: Any, b: Any, c: Any) -> Tensor:
    """a * b + c."""
    return ops.add(ops.mul(call.cast(a), call.cast(b)), call.cast(c))


def _of_numbers(rule: Rule) -> Rule:
    """Of two the one that is a number."""

    def choose(x: Tensor, y: Tensor) -> Tensor:
        if not x.dtype.is_float:
            return rule(x, y)
        return ops.where(ops.isnan(x), y, ops.where(ops.isnan(y), x, rule(x, y)))

    return choose


def _in_result_type(rule: Rule) -> Callable[[Call, Any, Any], Tensor]:
    return lambda call, a, b: rule(call.cast(a), call.cast(b))


for _names, _rule in {
    ("div.Tensor", "div.Scalar"): ops.div,
    ("maximum.default",): ops.maximum,
    ("minimum.default",): ops.minimum,
    ("fmax.default",): _of_numbers(ops.maximum),
    ("fmin.default",): _of_numbers(ops.minimum),
    ("atan2.default",): ops.atan2,
    ("hypot.default",): ops.hypot,
    ("copysign.Tensor", "copysign.Scalar"): ops.copysign,
}.items():
    aten(*_names)(_in_result_type(_rule))
for _name, _rule in {"left": ops.shift_left, "right": ops.shift_right}.items():
    for _overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor"):
        aten(f"bitwise_{_name}_shift.{_overload}")(_in_result_type(_rule))
    for _overload in ("Tensor", "Scalar"):
        aten(f"__{_name[0]}shift__.{_overload}")(_in_result_type(_rule))


@aten("signbit.default")
def signbit(call: Call, x: Tensor) -> Tensor:
    """Whether the sign is that of negative numbers."""
    return ops.signbit(as_tensor(x, "uint8") if x.dtype.is_bool else x)


@aten("where.self")
def where(call: Call, condition: Tensor, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b."""
    return ops.where(as_tensor(condition, "bool"), call.cast(a), call.cast(b))


# ---------------------------------------------------------------------------- comparison, logic


def _comparison(rule: Rule) -> Callable[[Call, Any, Any], Tensor]:
    def compare(call: Call, a: Any, b: Any) -> Tensor:
        kind = call.promoted()
        return rule(as_tensor(a, kind), as_tensor(b, kind))

    return compare


for _name, _rule in {
    "eq": ops.equal, "ne": ops.not_equal, "lt": ops.less, "le": ops.less_equal,
    "gt": ops.greater, "ge": ops.greater_equal,
}.items():  # fmt: skip
    for _overload in ("Tensor", "Scalar"):
        aten(f"{_name}.{_overload}")(_comparison(_rule))


def _logical(rule: Rule) -> Callable[[Call, Any, Any], Tensor]:
    return lambda call, a, b: rule(as_tensor(a, "bool"), as_tensor(b, "bool"))


for _name, _rule in {
    "and": ops.logical_and, "or": ops.logical_or, "xor": ops.logical_xor,
}.items():  # fmt: skip
    aten(f"logical_{_name}.default")(_logical(_rule))


def _bitwise(of_bools: Rule, of_integers: Rule) -> Callable[[Call, Any, Any], Tensor]:
    def combine(call: Call, a: Any, b: Any) -> Tensor:
        rule = of_bools if call.dtype.is_bool else of_integers
        return rule(call.cast(a), call.cast(b))

    return combine


for _name, _pair in {
    "and": (ops.logical_and, ops.bitwise_and), "or": (ops.logical_or, ops.bitwise_or),
    "xor": (ops.logical_xor, ops.bitwise_xor),
}.items():  # fmt: skip
    for _overload in ("Tensor", "Scalar", "Scalar_Tensor"):
        aten(f"bitwise_{_name}.{_overload}")(_bitwise(*_pair))
