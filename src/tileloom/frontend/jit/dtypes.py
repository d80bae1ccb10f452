"""What the array API says about data types: their kinds, limits and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import DType
from ...base.errors import ArgumentError, DTypeError
from ...base.late import package
from ...graph import ops
from ...graph.symbols import is_symbolic
from .array import Array, ArrayLike, element_type, lift, promote
from .public import plain

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = package("ml_dtypes")

_KINDS: dict[str, Callable[[DType], bool]] = {
    "bool": lambda kind: kind.is_bool,
    "signed integer": lambda kind: kind.is_int and not kind.is_unsigned,
    "unsigned integer": lambda kind: kind.is_int and kind.is_unsigned,
    "integral": lambda kind: kind.is_int,
    "real floating": lambda kind: kind.is_float,
    "complex floating": lambda kind: False,
    "numeric": lambda kind: kind.is_int or kind.is_float,
}


@plain
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a data type is of a kind ("integral", "real floating", ...), or one of several.

    >>> isdtype("float32", "real floating"), isdtype("int8", ("bool", "unsigned integer"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    given = element_type(dtype)
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind](given)
    try:
        return given is element_type(kind)
    except DTypeError:
        raise ArgumentError(
            f"{kind!r} is neither a kind of data types nor one of them",
            hint=f"the kinds are {', '.join(map(repr, _KINDS))}",
        ) from None


def _of(value: Any) -> DType:
    """The data type of an array, or the one that a value stands for."""
    is_array = hasattr(value, "dtype") and not isinstance(value, type)
    return element_type(value.dtype if is_array else value)


@plain
def finfo(type: Any, /) -> Any:
    """The limits of a data type of floats: `bits`, `eps`, `max`, `min`, `smallest_normal`, ...

    >>> float(finfo("bfloat16").eps), finfo(np.float32).bits
    (0.0078125, 32)
    """
    kind = _of(type)
    if not kind.is_float:
        raise DTypeError(f"{kind} is no type of floats", hint="iinfo has the limits of integers")
    return ml_dtypes.finfo(kind.numpy)


@plain
def iinfo(type: Any, /) -> Any:
    """The limits of a data type of integers: `bits`, `max`, `min`.

    >>> iinfo("int8").max
    127
    """
    kind = _of(type)
    if not kind.is_int:
        raise DTypeError(f"{kind} is no type of integers", hint="finfo has the limits of floats")
    return ml_dtypes.iinfo(kind.numpy)


@plain
def result_type(*arrays_and_dtypes: ArrayLike) -> np.dtype[Any]:
    """The data type in which operands meet; Python numbers have no width of their own.

    >>> result_type(np.ones(2, "float32"), 2.5), result_type("int8", "uint8")
    (dtype('float32'), dtype('int16'))
    """
    if not arrays_and_dtypes:
        raise ArgumentError("at least one array or data type is needed")
    return promote(*map(_operand, arrays_and_dtypes)).numpy


def _operand(value: Any) -> Array:
    if isinstance(value, Array) or type(value) in (bool, int, float) or is_symbolic(value):
        return lift(value)
    return Array(ops.constant(np.zeros((), _of(value).numpy)))


@plain
def can_cast(from_: ArrayLike, to: Any, /) -> bool:
    """Whether an array or data type becomes another one without losing range or precision.

    >>> can_cast("int32", "float64"), can_cast("int32", "float32")
    (True, False)
    """
    there = element_type(to)
    return promote(_operand(from_), _operand(there)) is there
