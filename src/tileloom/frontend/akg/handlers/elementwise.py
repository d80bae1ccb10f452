"""One output element from one element of each input, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": ops.abs, "ACos": ops.acos, "Acos": ops.acos, "Acosh": ops.acosh, "Asin": ops.asin,
    "Asinh": ops.asinh, "Atan": ops.atan, "Atanh": ops.atanh, "Ceil": ops.ceil, "Cos": ops.cos,
    "Cosh": ops.cosh, "Erf": ops.erf, "Exp": ops.exp, "Expm1": ops.expm1, "Floor": ops.floor,
    "IsFinite": ops.isfinite, "IsInf": ops.isinf, "IsNan": ops.isnan, "Log": ops.log,
    "Log1p": ops.log1p, "LogicalNot": ops.logical_not, "Neg": ops.neg,
    "Reciprocal": ops.reciprocal, "ReLU": ops.relu, "Relu": ops.relu, "Round": ops.round,
    "Rsqrt": ops.rsqrt, "Sigmoid": ops.sigmoid, "Sign": ops.sign, "Sin": ops.sin,
    "Sinh": ops.sinh, "Sqrt": ops.sqrt, "Square": ops.square, "Tan": ops.tan, "Tanh": ops.tanh,
    "Trunc": ops.trunc,
}  # fmt: skip
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": ops.add, "Atan2": ops.atan2, "BiasAdd": ops.add, "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or, "BitwiseXor": ops.bitwise_xor, "Equal": ops.equal,
    "FloorDiv": ops.floor_divide, "FloorMod": ops.mod, "Greater": ops.greater,
    "GreaterEqual": ops.greater_equal, "Less": ops.less, "LessEqual": ops.less_equal,
    "LogicalAnd": ops.logical_and, "LogicalOr": ops.logical_or, "Maximum": ops.maximum,
    "Minimum": ops.minimum, "Mod": ops.fmod, "Mul": ops.mul, "NotEqual": ops.not_equal,
    "Pow": ops.pow, "Sub": ops.sub, "TensorAdd": ops.add,
}  # fmt: skip


@handler(*_UNARY)
def unary(call: Call) -> Tensor:
    return _UNARY[call.op](call.tensor(0))


@handler(*_BINARY)
def binary(call: Call) -> Tensor:
    return _BINARY[call.op](*call.pair())


@handler("Div", "RealDiv")
def divide(call: Call) -> Tensor:
    a, b = call.pair()
    if a.dtype.is_float:
        return ops.div(a, b)
    return ops.div(ops.cast(a, "float64"), ops.cast(b, "float64"))


@handler("AddN")
def add_n(call: Call) -> Tensor:
    if not call.tensors():
        raise UserError("it has no inputs")
    return reduce(ops.add, call.tensors())


@handler("Cast")
def cast(call: Call) -> Tensor:
    return ops.cast(call.tensor(0), call.output.dtype)


@handler("Select")
def select(call: Call) -> Tensor:
    kind = call.output.dtype
    yes, no = (ops.cast(call.tensor(k), kind) for k in (1, 2))
    return ops.where(ops.cast(call.tensor(0), "bool"), yes, no)


@handler("SelectGT", "SelectLT")
def select_by_order(call: Call) -> Tensor:
    compare = ops.greater if call.op == "SelectGT" else ops.less
    kind = call.output.dtype
    yes, no = (ops.cast(call.tensor(k), kind) for k in (2, 3))
    return ops.where(compare(*call.pair()), yes, no)


@handler("Identity", "EquivFormat")
def identity(call: Call) -> Tensor:
    return call.tensor(0)


@handler("ZerosLike", "OnesLike")
def filled_like(call: Call) -> Tensor:
    return ops.full(call.output.shape, int(call.op == "OnesLike"), call.output.dtype)
