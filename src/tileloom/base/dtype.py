"""Data types: scalars and fixed-length vectors, as interned strings.

A `DType` *is* the string users write (`"float32"`, `"int8x4"`), so it compares, hashes and
serialises as one, and it knows its code, width and lanes.
"""

from __future__ import annotations

from .errors import DTypeError
from .late import TYPE_CHECKING, package

if TYPE_CHECKING:
    from typing import Any, Literal

    import ml_dtypes
    import numpy as np

    Code = Literal["int", "uint", "float", "bfloat", "bool", "handle", "void", "float8"]
else:
    ml_dtypes, np = package("ml_dtypes"), package("numpy")

_WIDTHS: dict[Code, tuple[int, ...]] = {
    "int": (1, 4, 8, 16, 32, 64),
    "uint": (1, 4, 8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
}
# The code and the bits of each element type.
_ELEMENTS: dict[str, tuple[Code, int]] = {
    **{f"{code}{bits}": (code, bits) for code, widths in _WIDTHS.items() for bits in widths},
    **{f"float8{form}": ("float8", 8) for form in ("", "_e3m4", "_e4m3", "_e4m3fn", "_e5m2")},
    "bool": ("bool", 1),
    "handle": ("handle", 64),
    "void": ("void", 0),
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

    @property
    def itemsize(self) -> int:
        """The bytes of an element, under NumPy's name."""
        return self.bytes

    def with_lanes(self, lanes: int) -> DType:
        """The same element type with another number of lanes."""
        return dtype(self.element if lanes == 1 else f"{self.element}x{lanes}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one element."""
        element = self.element
        return _NUMPY.get(element) or _NUMPY.setdefault(element, _numpy(element))

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype, (str(self),))


_CACHE: dict[str, DType] = {}
# What NumPy itself has no type for is in ml_dtypes.
_EXTENSIONS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


_NUMPY: dict[DType, np.dtype[Any]] = {}


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
    known = _OTHERS.get(spec)
    if known is None:
        known = _OTHERS[spec] = dtype(_PYTHON_TYPES.get(spec) or np.dtype(spec).name)
    return known


_PYTHON_TYPES: dict[Any, str] = {bool: "bool", int: "int64", float: "float32"}
#: What NumPy's and Python's types are; it takes NumPy long to name a type.
_OTHERS: dict[Any, DType] = {}


def _parse(name: str) -> DType:
    element, is_vector, count = name.partition("x")
    lanes = int(count) if count.isdecimal() else 0 if is_vector else 1
    if name.startswith("complex"):
        raise DTypeError(f"complex numbers are not supported, got {name!r}")
    if element not in _ELEMENTS or lanes < 1:
        raise DTypeError(f"unknown data type {name!r}")
    code, bits = _ELEMENTS[element]
    result = str.__new__(DType, name)
    result.code = code
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
