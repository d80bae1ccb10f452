"""Arithmetic on elements: integers that wrap around, floats with their rules about NaN.

What LLVM leaves undefined is poison: a shift by the width or more, a division by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...base.errors import UnsupportedError
from ..ir.core import Operation
from .values import (
    ELEMENTWISE,
    Array,
    back_to,
    computed_wide,
    elementwise,
    is_float_dtype,
    on_elements,
    poison,
    signed,
    unsigned,
)

Binary = Callable[[Array, Array], Array]


# Integers.


def _wrapping(function: Binary) -> Binary:
    """Of sums and products, the same bits with or without a sign."""
    return lambda a, b: back_to(function(unsigned(a), unsigned(b)), a.dtype)


def _of_signed(function: Binary) -> Binary:
    return lambda a, b: back_to(function(signed(a), signed(b)), a.dtype)


def _undefined_where(where: Array, values: Array) -> Array:
    if not np.any(where):
        return values
    return np.where(where, poison(values.dtype), values)


def _division(function: Binary, view: Callable[[Array], Array]) -> Binary:
    def divide(a: Array, b: Array) -> Array:
        zero = b == 0
        safe = np.where(zero, np.array(1, b.dtype), b) if b.dtype != bool else b | zero
        quotient = back_to(np.asarray(function(view(a), view(safe))), a.dtype)
        return _undefined_where(zero, quotient)

    return divide


def truncated_quotient(a: Array, b: Array) -> Array:
    """The quotient of signed integers, rounded toward zero."""
    quotient = np.floor_divide(a, b)
    rest = a - quotient * b
    return quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _ceiling_quotient(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    return quotient + (quotient * b != a).astype(a.dtype)


def _shift(function: Binary, view: Callable[[Array], Array]) -> Binary:
    def shift(a: Array, b: Array) -> Array:
        width = 1 if a.dtype == bool else 8 * a.dtype.itemsize
        amount = unsigned(b)
        beyond = amount >= width
        moved = function(view(a), back_to(np.where(beyond, 0, amount), view(a).dtype))
        return _undefined_where(beyond, back_to(moved, a.dtype))

    return shift


def _high_half(a: Array, b: Array, view: Callable[[Array], Array]) -> Array:
    """The upper half of the bits of a product."""
    bits = 8 * a.dtype.itemsize
    wide = np.asarray(view(a)).astype(object) * np.asarray(view(b)).astype(object)
    high = np.asarray((wide >> bits) & ((1 << bits) - 1))
    return high.astype(f"u{a.dtype.itemsize}").view(a.dtype)


def _sum_and_carry(a: Array, b: Array) -> tuple[Array, Array]:
    total = _wrapping(np.add)(a, b)
    return total, unsigned(total) < unsigned(a)


for _name, _function in (
    ("addi", _wrapping(np.add)),
    ("subi", _wrapping(np.subtract)),
    ("muli", _wrapping(np.multiply)),
    ("andi", np.bitwise_and),
    ("ori", np.bitwise_or),
    ("xori", np.bitwise_xor),
    ("divsi", _division(truncated_quotient, signed)),
    ("divui", _division(np.floor_divide, unsigned)),
    ("remsi", _division(np.fmod, signed)),
    ("remui", _division(np.remainder, unsigned)),
    ("floordivsi", _division(np.floor_divide, signed)),
    ("ceildivsi", _division(_ceiling_quotient, signed)),
    ("ceildivui", _division(_ceiling_quotient, unsigned)),
    ("shli", _shift(np.left_shift, unsigned)),
    ("shrui", _shift(np.right_shift, unsigned)),
    ("shrsi", _shift(np.right_shift, signed)),
    ("maxsi", _of_signed(np.maximum)),
    ("minsi", _of_signed(np.minimum)),
    ("maxui", _wrapping(np.maximum)),
    ("minui", _wrapping(np.minimum)),
    ("addui_extended", _sum_and_carry),
    ("mulsi_extended", lambda a, b: (_wrapping(np.multiply)(a, b), _high_half(a, b, signed))),
    ("mului_extended", lambda a, b: (_wrapping(np.multiply)(a, b), _high_half(a, b, unsigned))),
):
    on_elements(f"arith.{_name}", _function)
on_elements("tt.mulhiui", lambda a, b: _high_half(a, b, unsigned))


_ORDER: dict[str, Binary] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@elementwise("arith.cmpi")
def _compare_integers(op: Operation, operands: Sequence[Array]) -> Array:
    predicate = op.enum("predicate") or ""
    if predicate in _ORDER:
        return _ORDER[predicate](*operands)
    view = unsigned if predicate[0] == "u" else signed
    return _ORDER[predicate[1:]](*map(view, operands))


@elementwise("arith.cmpf")
def _compare_floats(op: Operation, operands: Sequence[Array]) -> Array:
    predicate = op.enum("predicate") or ""
    a, b = operands
    neither = (a != a) | (b != b)
    if predicate in ("false", "true"):
        return np.full(np.shape(neither), predicate == "true")
    if predicate in ("ord", "uno"):
        return neither if predicate == "uno" else ~neither
    found = _ORDER[predicate[1:]](a, b)
    return found | neither if predicate[0] == "u" else found & ~neither


@elementwise("arith.select")
def _select(_op: Operation, operands: Sequence[Array]) -> Array:
    condition, first, second = operands
    if np.ndim(condition) == 0:
        return first if condition else second
    return np.where(condition, first, second)


# Floats.


def _round_away(a: Array) -> Array:
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1, a), whole).astype(a.dtype)


def _in_doubles(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: function(*(array.astype(np.float64) for array in arrays))


_ERF = np.frompyfunc(math.erf, 1, 1)

for _name, _function in (
    ("addf", np.add),
    ("subf", np.subtract),
    ("mulf", np.multiply),
    ("divf", np.divide),
    ("remf", np.fmod),
    ("maximumf", np.maximum),
    ("minimumf", np.minimum),
    ("maxnumf", np.fmax),
    ("minnumf", np.fmin),
    ("negf", np.negative),
):
    on_elements(f"arith.{_name}", computed_wide(_function))

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "absf": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": _round_away,
    "roundeven": np.rint,
    "trunc": np.trunc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _in_doubles(lambda a: 1 / np.sqrt(a)),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _in_doubles(lambda a: np.asarray(_ERF(a)).astype(np.float64)),
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "powf": np.power,
    "fma": _in_doubles(lambda a, b, c: a * b + c),
}
for _name, _function in FUNCTIONS.items():
    on_elements(f"math.{_name}", computed_wide(_function))
on_elements("tt.precise_sqrt", computed_wide(np.sqrt))
on_elements("tt.precise_divf", computed_wide(np.divide))


@elementwise("tt.clampf")
def _clamp(op: Operation, operands: Sequence[Array]) -> Array:
    keeps = op.enum("propagateNan") == "all"
    low, high = (np.maximum, np.minimum) if keeps else (np.fmax, np.fmin)
    return computed_wide(lambda x, least, most: high(low(x, least), most))(*operands)


def _count_leading(a: Array) -> Array:
    width = 8 * a.dtype.itemsize
    bits = np.unpackbits(np.asarray(a).astype(a.dtype.newbyteorder(">"))[..., None].view(np.uint8))
    rows = bits.reshape(*np.shape(a), width)
    return np.where(rows.any(-1), rows.argmax(-1), width).astype(a.dtype)


def _count_trailing(a: Array) -> Array:
    lowest = unsigned(a) & unsigned(_wrapping(np.subtract)(np.zeros_like(a), a))
    width = 8 * a.dtype.itemsize
    return np.where(a == 0, width, width - 1 - _count_leading(lowest)).astype(a.dtype)


on_elements("math.absi", lambda a: np.abs(a))
on_elements("math.ctlz", _count_leading)
on_elements("math.cttz", _count_trailing)
on_elements("math.ctpop", lambda a: np.bitwise_count(unsigned(a)).astype(a.dtype))


@elementwise("tt.extern_elementwise")
def _library_function(op: Operation, operands: Sequence[Array]) -> Array:
    """A function of libdevice (`__nv_expf`), by its name in the dialect `math`."""
    symbol = op.attributes["symbol"].value  # type: ignore[attr-defined]
    name = symbol.removeprefix("__nv_")
    others = {"fabs": "absf", "pow": "powf", "rint": "roundeven", "nearbyint": "roundeven"}
    for stem in (name, name.removesuffix("f")):
        found = ELEMENTWISE.get(f"math.{others.get(stem, stem)}")
        if found is not None and is_float_dtype(operands[0].dtype):
            return found(op, operands)
    raise UnsupportedError(f"the library function {symbol!r} cannot be run")
