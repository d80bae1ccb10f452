"""Functions of numbers applied to constants: scalars, and tensors element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .attributes import (
    NUMPY_FLOATS,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    constant_attribute,
)
from .interning import Attribute
from .types import F64, I1, FloatType, IndexType, IntegerType, ShapedType, Type, element_type


def numbers(constant: Attribute | None) -> tuple[Any, ...] | None:
    """The elements of a constant, one of a scalar or a tensor of one value; None of no constant."""
    match constant:
        case IntegerAttr(value=value) | FloatAttr(value=value):
            return (value,)
        case DenseElementsAttr(values=values):
            return values
    return None


def elementwise(
    function: Callable[..., Any], constants: Sequence[Attribute | None], type: Type
) -> Attribute | None:
    """A function of the elements of constants, as a constant of a type; None if one of them is
    no constant, or if the function is None of one element."""
    known = [numbers(constant) for constant in constants]
    count = 1
    for values in known:
        if values is None:
            return None
        count = max(count, len(values))
    made = []
    for index in range(count):
        value = function(*(v[index if len(v) > 1 else 0] for v in known if v is not None))
        if value is None:
            return None
        made.append(value)
    if isinstance(type, ShapedType):
        return DenseElementsAttr(type, made)
    return constant_attribute(made[0], type)


def width(type: Type) -> int:
    """The bits of an integer, or of the integers of a tensor; an index has 64."""
    element = element_type(type)
    return element.bits if isinstance(element, IntegerType | IndexType) else 64


def signed(value: int, bits: int) -> int:
    """The value as a signed number: the truth value 1 is -1.

    >>> signed(1, 1), signed(3, 8)
    (-1, 3)
    """
    return -value if bits == 1 else value


def unsigned(value: int, bits: int) -> int:
    """The value as an unsigned number.

    >>> unsigned(-1, 8)
    255
    """
    return value & ((1 << bits) - 1)


def has_exact_floats(type: Type) -> bool:
    """Whether numbers of the format can be rounded to it here, one rounding for each operation:
    64 bits are enough to compute sums, products, quotients and roots of all but themselves."""
    element = element_type(type)
    return isinstance(element, FloatType) and (element is F64 or element.name in NUMPY_FLOATS)


def is_truth(type: Type) -> bool:
    """Whether the type is that of truth values, or of a tensor of them."""
    return element_type(type) is I1
