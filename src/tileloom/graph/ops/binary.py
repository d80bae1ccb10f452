"""Functions of two numbers, with broadcasting: arithmetic, comparison, logic, bits.

Operands have one type; promotion is the frontend's business. Integers wrap around; division by an
integer zero gives 0, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import dtype
from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
    Var,
    binary,
    cast,
    const,
)
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .common import (
    ComputeBody,
    DTypeClass,
    Operand,
    Types,
    broadcast_shapes,
    check_dtype,
    define,
    elementwise,
    operands,
    same_dtype,
    widen,
    wrapping,
)
from .unary import in_float32

_BOOL = dtype("bool")


def _binary(
    name: str,
    accepted: DTypeClass,
    reference: Callable[[Array, Array], Any],
    body: ComputeBody | type[BinaryOp],
    commutative: bool = False,
    makes_bool: bool = False,
) -> None:
    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        kind = same_dtype(types)
        check_dtype(types[0], accepted, "the operands")
        shape = broadcast_shapes(*(type_.shape for type_ in types))
        return [TensorType(shape, _BOOL if makes_bool else kind)]

    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        return [reference(widen(arrays[0]), widen(arrays[1]))]

    rule = elementwise(_operator(body) if isinstance(body, type) else body, name)
    define(name, "elementwise", infer, evaluate, rule, commutative=commutative)


def _operator(op: type[BinaryOp]) -> ComputeBody:
    if op in (Add, Sub, Mul):
        return lambda a, b: wrapping(op, a, b)
    return lambda a, b: binary(op, a, b)


# ---------------------------------------------------------------------------- compute rules


def _integer_division(op: type[BinaryOp]) -> ComputeBody:
    """Quotient or remainder that never divides by 0 or overflows: the hardware would trap."""
    quotient = op in (Div, FloorDiv)

    def body(a: Expr, b: Expr) -> Expr:
        zero, one = const(0, a.dtype), const(1, a.dtype)
        trap = binary(EQ, b, zero)
        if not a.dtype.is_unsigned:
            minus = binary(EQ, b, const(-1, a.dtype))
            result = binary(op, a, te.select(trap | minus, one, b))
            result = te.select(minus, zero - a if quotient else zero, result)
        else:
            result = binary(op, a, te.select(trap, one, b))
        return te.select(trap, zero, result)

    return body


def _float_mod(a: Expr, b: Expr) -> Expr:
    """The remainder with the sign of `b`."""
    rest = te.call("fmod", a, b)
    exact = te.call("copysign", const(0.0, a.dtype), b)
    shifted = te.select(_other_sign(rest, b), rest + b, rest)
    return te.select(binary(EQ, rest, const(0.0, a.dtype)), exact, shifted)


def _other_sign(a: Expr, b: Expr) -> Expr:
    """Whether one is negative and the other not; `a` is not 0 where the answer matters."""
    zero = const(0.0, a.dtype)
    return binary(NE, binary(LT, a, zero), binary(LT, b, zero))


def _float_floor_divide(a: Expr, b: Expr) -> Expr:
    """floor(a / b) through the remainder: the quotient itself may round up to an integer.

    A zero has the sign of a / b, as in NumPy.
    """
    zero, rest = const(0.0, a.dtype), te.call("fmod", a, b)
    down = _other_sign(rest, b) & binary(NE, rest, zero)
    quotient = te.call("nearbyint", (a - rest) / b)
    result = te.select(down, quotient - const(1.0, a.dtype), quotient)
    result = te.select(binary(EQ, result, zero), te.call("copysign", zero, a / b), result)
    return te.select(binary(EQ, b, zero), a / b, result)


def _by_class(of_floats: ComputeBody, of_integers: ComputeBody) -> ComputeBody:
    wide = in_float32(of_floats)
    return lambda a, b: wide(a, b) if a.dtype.is_float else of_integers(a, b)


def _integer_power(a: Expr, b: Expr) -> Expr:
    """Repeated squaring, wrapping around; a negative exponent truncates 1 / x to an integer."""
    kind = a.dtype
    zero, one = const(0, kind), const(1, kind)
    bits = kind.bits - (0 if kind.is_unsigned else 1)
    powers = [Var(f"p{k}", kind) for k in range(bits)]
    result: Expr = one
    for k, power in enumerate(powers):
        bit = (b >> const(k, kind)) & one
        result = result * te.select(binary(NE, bit, zero), power, one)
    for k in reversed(range(bits)):
        result = Let(powers[k], a if k == 0 else powers[k - 1] * powers[k - 1], result)
    if kind.is_unsigned:
        return result
    odd = binary(NE, b & one, zero)
    of_minus_one = te.select(odd, const(-1, kind), one)
    inverse = te.select(binary(EQ, a, const(-1, kind)), of_minus_one, zero)
    inverse = te.select(binary(EQ, a, one), one, inverse)
    return te.select(binary(LT, b, zero), inverse, result)


def _shift(name: str) -> ComputeBody:
    """Shifts by the width or more, or by less than 0, shift everything out, as in NumPy."""

    def body(a: Expr, b: Expr) -> Expr:
        kind = a.dtype
        inside = binary(LT, b, const(kind.bits, kind))
        if not kind.is_unsigned:
            inside = inside & binary(GE, b, const(0, kind))
        amount = te.select(inside, b, const(0, kind))
        gone = const(0, kind)
        if name == "shift_right" and not kind.is_unsigned:
            gone = te.select(binary(LT, a, gone), const(-1, kind), gone)
        shifted = a << amount if name == "shift_left" else a >> amount
        return te.select(inside, shifted, gone)

    return body


def _of_bools(logical: type[BinaryOp], op: type[BinaryOp]) -> ComputeBody:
    return lambda a, b: binary(logical if a.dtype.is_bool else op, a, b)


def _order(op: type[BinaryOp]) -> ComputeBody:
    """A comparison in which False comes before True."""

    def body(a: Expr, b: Expr) -> Expr:
        if a.dtype.is_bool:
            a, b = cast("uint8", a), cast("uint8", b)
        return binary(op, a, b)

    return body


# ---------------------------------------------------------------------------- references


def _reference_power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.power(a, b)
    positive: Array = np.power(a, np.maximum(b, b.dtype.type(0)))
    if a.dtype.kind == "u":
        return positive
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(b < 0, inverse, positive)


def _reference_trunc_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient, rest = np.floor_divide(a, b), np.remainder(a, b)
    result: Array = quotient + ((rest != 0) & ((a < 0) != (b < 0)))
    return result


_binary("add", "number", np.add, Add, commutative=True)
_binary("sub", "number", np.subtract, Sub)
_binary("mul", "number", np.multiply, Mul, commutative=True)
_binary("div", "float", np.divide, Div)
_binary("trunc_div", "number", _reference_trunc_divide,
        _by_class(lambda a, b: te.call("trunc", a / b), _integer_division(Div)))  # fmt: skip
_binary("floor_divide", "number", np.floor_divide,
        _by_class(_float_floor_divide, _integer_division(FloorDiv)))  # fmt: skip
_binary("mod", "number", np.remainder, _by_class(_float_mod, _integer_division(FloorMod)))
_binary("fmod", "number", np.fmod,
        _by_class(lambda a, b: te.call("fmod", a, b), _integer_division(Mod)))  # fmt: skip
_binary("pow", "number", _reference_power,
        _by_class(lambda a, b: te.call("pow", a, b), _integer_power))  # fmt: skip
_binary("atan2", "float", np.arctan2, in_float32(lambda a, b: te.call("atan2", a, b)))
_binary("copysign", "float", np.copysign, in_float32(lambda a, b: te.call("copysign", a, b)))
_binary("minimum", "any", np.minimum, _of_bools(And, Min), commutative=True)
_binary("maximum", "any", np.maximum, _of_bools(Or, Max), commutative=True)
_binary("equal", "any", np.equal, EQ, commutative=True, makes_bool=True)
_binary("not_equal", "any", np.not_equal, NE, commutative=True, makes_bool=True)
_binary("less", "any", np.less, _order(LT), makes_bool=True)
_binary("less_equal", "any", np.less_equal, _order(LE), makes_bool=True)
_binary("greater", "any", np.greater, _order(GT), makes_bool=True)
_binary("greater_equal", "any", np.greater_equal, _order(GE), makes_bool=True)
_binary("logical_and", "bool", np.logical_and, And, commutative=True)
_binary("logical_or", "bool", np.logical_or, Or, commutative=True)
_binary("logical_xor", "bool", np.logical_xor, NE, commutative=True)
_binary("bitwise_and", "bits", np.bitwise_and, lambda a, b: a & b, commutative=True)
_binary("bitwise_or", "bits", np.bitwise_or, lambda a, b: a | b, commutative=True)
_binary("bitwise_xor", "bits", np.bitwise_xor, lambda a, b: a ^ b, commutative=True)
_binary("shift_left", "integer", np.left_shift, _shift("shift_left"))
_binary("shift_right", "integer", np.right_shift, _shift("shift_right"))


def _builder(name: str, doc: str) -> Callable[[Operand, Operand], Tensor]:
    def build(a: Operand, b: Operand) -> Tensor:
        return apply1(name, operands(a, b))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


add = _builder("add", "a + b.")
sub = _builder("sub", "a - b.")
mul = _builder("mul", "a * b.")
div = _builder("div", "a / b of floats.")
trunc_div = _builder("trunc_div", "a / b rounded toward zero.")
floor_divide = _builder("floor_divide", "a / b rounded down.")
mod = _builder("mod", "The remainder of `floor_divide`: it has the sign of b.")
fmod = _builder("fmod", "The remainder of `trunc_div`: it has the sign of a.")
pow = _builder("pow", "a to the power b.")
atan2 = _builder("atan2", "The angle of the point (b, a).")
copysign = _builder("copysign", "|a| with the sign of b, which may be that of -0.0 or of a NaN.")
minimum = _builder("minimum", "The smaller; NaN if either is NaN.")
maximum = _builder("maximum", "The larger; NaN if either is NaN.")
equal = _builder("equal", "a == b.")
not_equal = _builder("not_equal", "a != b.")
less = _builder("less", "a < b.")
less_equal = _builder("less_equal", "a <= b.")
greater = _builder("greater", "a > b.")
greater_equal = _builder("greater_equal", "a >= b.")
logical_and = _builder("logical_and", "Both hold.")
logical_or = _builder("logical_or", "One holds, or both.")
logical_xor = _builder("logical_xor", "Exactly one holds.")
bitwise_and = _builder("bitwise_and", "The bits set in both.")
bitwise_or = _builder("bitwise_or", "The bits set in one or both.")
bitwise_xor = _builder("bitwise_xor", "The bits set in exactly one.")
shift_left = _builder("shift_left", "a * 2**b, bits shifted out are lost.")
shift_right = _builder("shift_right", "floor(a / 2**b).")
