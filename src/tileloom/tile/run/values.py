"""Values of running programs: NumPy arrays, whose data types stand for the types of tile IR.

Integers are signed, whatever their operations make of them; `i1` is a truth value; a pointer is a
64-bit address (`memory.py`). What is undefined has a pattern of its own: NaN in floats, bytes 0xA5
in integers, so that a program whose results depend on it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError, UserError
from ..ir.attributes import NUMPY_FLOATS, DenseElementsAttr
from ..ir.core import Operation
from ..ir.interning import Attribute
from ..ir.types import (
    FloatType,
    IndexType,
    IntegerType,
    PointerType,
    ShapedType,
    Type,
    element_type,
)

Array = Any  # a NumPy array, or a NumPy scalar
SIGNED = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}
BOOL = np.dtype(bool)
POISON_BYTE = 0xA5
NATIVE_FLOATS = (np.dtype("f4"), np.dtype("f8"))


class ExecutionError(UserError):
    """A running program does what it must not; names the operation and its place."""


def dtype_of(type: Type) -> np.dtype[Any]:
    """The data type of a scalar, or of the elements of a tensor.

    >>> from ..ir.types import I1, INDEX
    >>> dtype_of(I1), dtype_of(INDEX)
    (dtype('bool'), dtype('int64'))
    """
    element = element_type(type)
    match element:
        case IndexType() | PointerType():
            return SIGNED[64]
        case IntegerType(bits=1):
            return BOOL
        case IntegerType(bits=bits) if bits in SIGNED:
            return SIGNED[bits]
        case FloatType(name=name) if name in NUMPY_FLOATS:
            return NUMPY_FLOATS[name]  # type: ignore[no-any-return]
    raise UnsupportedError(f"values of type {element} cannot be run")


def shape_of(type: Type) -> tuple[int, ...]:
    """The shape of a tensor; of a scalar, none."""
    return type.shape if isinstance(type, ShapedType) else ()


def constant_array(attribute: Attribute, type: Type) -> Array:
    """The value of a constant."""
    if isinstance(attribute, DenseElementsAttr):
        values = np.array(attribute.values).astype(dtype_of(type))
        if attribute.splat is not None:
            return np.full(shape_of(type), values[0])
        return values.reshape(shape_of(type))
    return np.array(attribute.value).astype(dtype_of(type))  # type: ignore[attr-defined]


def poison(dtype: np.dtype[Any], shape: Sequence[int] = ()) -> Array:
    """What stands for undefined elements."""
    if dtype == BOOL:
        return np.ones(shape, bool)
    if is_float_dtype(dtype):
        return np.full(shape, np.array(np.nan).astype(dtype))
    raw = np.full((*shape, dtype.itemsize), POISON_BYTE, np.uint8)
    return raw.view(dtype).reshape(shape)


def is_float_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether elements are floats, those of `ml_dtypes` too."""
    return dtype.kind == "f" or dtype in NUMPY_FLOATS.values()


def unsigned(array: Array) -> Array:
    """The bits as unsigned integers; a truth value is 0 or 1."""
    if array.dtype == BOOL:
        return array.astype(np.uint8)
    return array.view(f"u{array.dtype.itemsize}")


def signed(array: Array) -> Array:
    """Integers as they are; a truth value, of one bit, is 0 or -1."""
    return -array.astype(np.int8) if array.dtype == BOOL else array


def back_to(array: Array, dtype: np.dtype[Any]) -> Array:
    """Integers in a data type of the same bits; of a truth value, the lowest bit."""
    if dtype == BOOL:
        return (array & 1).astype(bool)
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)


def same_bits(first: Array, second: Array) -> Array:
    """Where elements have the same bits; a NaN is as another."""
    if is_float_dtype(first.dtype):
        return (unsigned(first) == unsigned(second)) | ((first != first) & (second != second))
    return first == second


def computed_wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of floats, computed in float32 where the format is a smaller one; one rounding
    more makes no difference to sums, products, quotients and roots of formats of up to 11 bits."""

    def compute(*arrays: Array) -> Array:
        dtype = arrays[0].dtype
        if dtype in NATIVE_FLOATS:
            return function(*arrays).astype(dtype)
        return function(*(array.astype(np.float32) for array in arrays)).astype(dtype)

    return compute


Rule = Callable[[Operation, Sequence[Array]], Any]
# What operations on elements compute: arrays of any shape, for either interpreter.
ELEMENTWISE: dict[str, Rule] = {}


def on_elements(name: str, function: Callable[..., Any]) -> None:
    """Registers what an operation computes of its operands alone."""
    ELEMENTWISE[name] = lambda _op, arrays: function(*arrays)


def elementwise(*names: str) -> Callable[[Rule], Rule]:
    """Registers what operations compute of their operands and their attributes or types."""

    def register(rule: Rule) -> Rule:
        ELEMENTWISE.update(dict.fromkeys(names, rule))
        return rule

    return register
