"""Data types: scalars and fixed-length vectors, as interned strings.

A `DType` *is* the string users write (`"float32"`, `"int8x4"`), so it compares, hashes and
serialises as one, and it knows its code, width and lanes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from .errors import DTypeError
from .late import package

if TYPE_CHECKING:
    import ml_dtypes
    import numpy as np
else:
    ml_dtypes, np = package("ml_dtypes"), package("numpy")

Code = Literal["int", "uint", "float", "bfloat", "bool", "handle", "void", "float8"]

_PATTERN = re.compile(
    r"^(bool|handle|void|(?:int|uint|float|bfloat)\d+(?:_e\dm\d(?:fn)?)?)(?:x(\d+))?$"
)
_WIDTHS: dict[str, tuple[int, ...]] = {
    "int": (1, 4, 8, 16, 32, 64),
    "uint": (1, 4, 8, 16, 32, 64),
    "float": (8, 16, 32, 64),
    "bfloat": (16,),
}


class DType(str):
    """A data type.

    >>> d = dtype("float32x4")
    >>> d.code, d.bits, d.lanes, d.element, d.bytes
    ('float', 32, 4, 'float32', 16)
    >>> d == "float32x4"
    True
    """

    __slots__ = ("bits", "bytes", "code", "element", "is_bool", "is_float", "is_int", "lanes")

    code: Code
    bits: int
    lanes: int
    bytes: int
    element: DType
    is_float: bool  # any floating-point format
    is_int: bool  # signed or unsigned integer, not bool
    is_bool: bool

    @property
    def is_unsigned(self) -> bool:
        """Whether this is an unsigned integer type."""
        return self.code == "uint"

    @property
    def is_vector(self) -> bool:
        """Whether there is more than one lane."""
        return self.lanes > 1

    @property
    def is_handle(self) -> bool:
        """Whether this is an opaque pointer."""
        return self.code == "handle"

    def with_lanes(self, lanes: int) -> DType:
        """The same element type with another number of lanes."""
        return dtype(self.element if lanes == 1 else f"{self.element}x{lanes}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one element."""
        return _numpy(self.element)

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype, (str(self),))


_CACHE: dict[str, DType] = {}
# What NumPy itself has no type for is in ml_dtypes.
_EXTENSIONS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


@cache
def _numpy(element: DType) -> np.dtype[Any]:
    if element in _EXTENSIONS:
        extension: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element))
        return extension
    return np.dtype(np.uintp if element.is_handle else str(element))


def dtype(spec: Any) -> DType:
    """The `DType` of a name, a NumPy type, a Python scalar type or a `DType`.

    Raises:
        DTypeError: when the name is not a known type.

    >>> dtype("bool").bits, dtype(np.float64), dtype(float)
    (1, 'float64', 'float32')
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        return _CACHE.get(spec) or _parse(spec)
    if spec in _PYTHON_TYPES:
        return dtype(_PYTHON_TYPES[spec])
    return dtype(np.dtype(spec).name)


_PYTHON_TYPES: dict[Any, str] = {bool: "bool", int: "int64", float: "float32"}


def _parse(name: str) -> DType:
    match = _PATTERN.match(name)
    if match is None:
        raise DTypeError(f"unknown data type {name!r}")
    element, lanes = match.group(1), int(match.group(2) or 1)
    code = re.match(r"[a-z]+", element).group(0)  # type: ignore[union-attr]
    digits = re.search(r"\d+", element)
    bits = (
        {"bool": 1, "handle": 64, "void": 0}.get(code) if digits is None else int(digits.group(0))
    )
    if bits is None or lanes < 1 or (code in _WIDTHS and bits not in _WIDTHS[code]):
        raise DTypeError(f"unknown data type {name!r}")
    if code == "float" and bits == 8:
        code = "float8"
    result = str.__new__(DType, name)
    result.code = code  # type: ignore[assignment]
    result.bits = bits
    result.lanes = lanes
    result.bytes = max(1, bits // 8) * lanes
    result.is_float = code in ("float", "bfloat", "float8")
    result.is_int = code in ("int", "uint")
    result.is_bool = code == "bool"
    result.element = result if lanes == 1 else dtype(element)
    return _CACHE.setdefault(name, result)


def wrap_int(value: int, kind: DType) -> int:
    """`value` reduced to the range of an integer type, as two's complement does."""
    if kind.is_bool:
        return int(value != 0)
    if kind.code == "handle":
        return value
    value &= (1 << kind.bits) - 1
    if kind.code == "int" and value >> (kind.bits - 1):
        value -= 1 << kind.bits
    return value
