"""Attributes: compile-time constants of operations, in MLIR's textual syntax."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...base.errors import UserError
from .interning import Attribute
from .types import F32, I1, I32, FloatType, IndexType, IntegerType, ShapedType, Type

if TYPE_CHECKING:
    from .text import TextStyle


class UnitAttr(Attribute):
    """`unit`: an attribute that says something by being there."""

    def text(self, style: TextStyle) -> str:
        return "unit"


class IntegerAttr(Attribute):
    """`16 : i32`; of `i1`, `true` or `false`. The value is kept in the range of signed integers."""

    value: int
    type: Type

    @classmethod
    def normalize(cls, value: int, type: Type = I32) -> tuple[int, Type]:
        return wrap(int(value), type), type

    def text(self, style: TextStyle) -> str:
        if self.type is I1:
            return "true" if self.value else "false"
        return f"{self.value} : {style.type(self.type)}"


class FloatAttr(Attribute):
    """`1.000000e+00 : f32`; the value is rounded to the type."""

    value: float
    type: FloatType

    @classmethod
    def normalize(cls, value: float, type: FloatType = F32) -> tuple[float, FloatType]:
        return round_to(float(value), type), type

    @classmethod
    def key(cls, fields: tuple[Any, ...]) -> Any:
        return struct.pack("d", fields[0]), fields[1]

    def text(self, style: TextStyle) -> str:
        return f"{float_text(self.value, self.type)} : {self.type.name}"


class StringAttr(Attribute):
    """`"text"`."""

    value: str

    def text(self, style: TextStyle) -> str:
        return quoted(self.value)


class EnumAttr(Attribute):
    """One of an operation's keywords, such as `slt` or `tf32`; `kind` names the list."""

    kind: str
    value: str

    def text(self, style: TextStyle) -> str:
        return self.value


class TypeAttr(Attribute):
    """A type as an attribute."""

    type: Type

    def text(self, style: TextStyle) -> str:
        return style.type(self.type)


class SymbolRefAttr(Attribute):
    """`@name`: a reference to a function."""

    name: str

    def text(self, style: TextStyle) -> str:
        plain = re.fullmatch(r"[A-Za-z_][\w$.]*", self.name)
        return f"@{self.name}" if plain else f"@{quoted(self.name)}"


class ArrayAttr(Attribute):
    """`[a, b]`."""

    elements: tuple[Attribute, ...]

    @classmethod
    def normalize(cls, elements: Sequence[Attribute]) -> tuple[Any, ...]:
        return (tuple(elements),)

    def text(self, style: TextStyle) -> str:
        return f"[{', '.join(map(style.attribute, self.elements))}]"


class DictionaryAttr(Attribute):
    """`{name = value}`, sorted by name."""

    items: tuple[tuple[str, Attribute], ...]

    @classmethod
    def normalize(cls, items: Mapping[str, Attribute] | Sequence[tuple[str, Attribute]]) -> Any:
        pairs = items.items() if isinstance(items, Mapping) else items
        return (tuple(sorted(pairs, key=lambda pair: pair[0])),)

    def text(self, style: TextStyle) -> str:
        return attribute_dictionary(dict(self.items), style) or "{}"


class DenseArrayAttr(Attribute):
    """`array<i32: 1, 1, 0>`."""

    type: Type
    values: tuple[int, ...]

    @classmethod
    def normalize(cls, type: Type, values: Sequence[int]) -> tuple[Any, ...]:
        return type, tuple(values)

    def text(self, style: TextStyle) -> str:
        words = [
            ("true" if value else "false") if self.type is I1 else str(value)
            for value in self.values
        ]
        return f"array<{style.type(self.type)}{': ' if words else ''}{', '.join(words)}>"


class DenseElementsAttr(Attribute):
    """`dense<0.0> : tensor<4xf32>`: the elements in row-major order, or one for all of them."""

    type: ShapedType
    values: tuple[Any, ...]

    @classmethod
    def normalize(cls, type: ShapedType, values: Any) -> tuple[Any, ...]:
        element = type.element
        given = tuple(values) if isinstance(values, tuple | list) else (values,)
        if isinstance(element, FloatType):
            rounded: tuple[Any, ...] = tuple(round_to(float(v), element) for v in given)
        else:
            rounded = tuple(wrap(int(value), element) for value in given)
        if len(rounded) > 1 and len(set(map(repr, rounded))) == 1:
            rounded = rounded[:1]
        return type, rounded

    @classmethod
    def key(cls, fields: tuple[Any, ...]) -> Any:
        type, values = fields
        if isinstance(type.element, FloatType):
            return type, struct.pack(f"{len(values)}d", *values)
        return fields

    def check(self) -> None:
        if len(self.values) not in (1, self.type.size):
            raise UserError(f"{len(self.values)} elements do not fill {self.type}")

    @property
    def splat(self) -> Any:
        """The one value of all elements, or None."""
        return self.values[0] if len(self.values) == 1 else None

    def text(self, style: TextStyle) -> str:
        return f"dense<{self.elements_text()}> : {style.type(self.type)}"

    def elements_text(self) -> str:
        """What stands between `dense<` and `>`."""
        words = [scalar_text(value, self.type.element) for value in self.values]
        return words[0] if len(words) == 1 else nested(words, self.type.shape)


class OpaqueAttr(Attribute):
    """An attribute of another dialect, kept as it is written."""

    written: str

    def text(self, style: TextStyle) -> str:
        return self.written


UNIT = UnitAttr()


def integer_value(attribute: Attribute | None) -> int | None:
    """The integer of an attribute: of a scalar, or of a tensor whose elements are all the same.

    >>> integer_value(IntegerAttr(3)), integer_value(None)
    (3, None)
    """
    value = constant_value(attribute)
    return value if isinstance(value, int) else None


def constant_value(attribute: Attribute | None) -> Any:
    """The number of an attribute, of a scalar or of all elements of a tensor; else None."""
    match attribute:
        case IntegerAttr(value=value) | FloatAttr(value=value):
            return value
        case DenseElementsAttr():
            return attribute.splat
    return None


def constant_attribute(value: Any, type: Type) -> Attribute:
    """The attribute of a constant: a scalar, or a tensor of one value.

    >>> str(constant_attribute(1, I32)), str(constant_attribute(0.5, F32))
    ('1 : i32', '5.000000e-01 : f32')
    """
    if isinstance(type, ShapedType):
        return DenseElementsAttr(type, value)
    if isinstance(type, FloatType):
        return FloatAttr(value, type)
    return IntegerAttr(value, type)


def wrap(value: int, type: Type) -> int:
    """The integer in the range of a signed integer of the type; of `i1`, 0 or 1.

    >>> wrap(255, IntegerType(8)), wrap(-1, I1)
    (-1, 1)
    """
    if isinstance(type, IndexType):
        bits = 64
    elif isinstance(type, IntegerType):
        bits = type.bits
    else:
        raise UserError(f"{type} has no integer constants")
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


_ML = {
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}
NUMPY_FLOATS: dict[str, Any] = {
    name: np.dtype(made)
    for name, made in {**_ML, "f16": np.float16, "f32": np.float32, "f64": np.float64}.items()
}


def round_to(value: float, type: FloatType) -> float:
    """The nearest value of a format."""
    if type.name == "f64" or type.name not in NUMPY_FLOATS:
        return value
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(NUMPY_FLOATS[type.name]))


def float_text(value: float, type: FloatType) -> str:
    """A float as MLIR writes it: six digits where they are enough, else as many as tell it from
    others; bits if it is not finite.

    >>> float_text(1.0, F32), float_text(-math.inf, F32), float_text(0.1, FloatType("f64"))
    ('1.000000e+00', '0xFF800000', '1.000000e-01')
    """
    if not math.isfinite(value):
        return f"0x{bits_of(value, type):0{type.bits // 4}X}"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    decimal, last = _decimal(abs(value), 6)
    short = f"{sign}{decimal[0]}.{decimal[1:]:0<6}e{last + len(decimal) - 1:+03d}"
    if round_to(float(short), type) == value:
        return short
    return _exact_decimal(value, sign, type)


_SIGNIFICANT = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "tf32": 11}


def _exact_decimal(value: float, sign: str, type: FloatType) -> str:
    """The digits that tell a float from others: with an exponent if it is large or small."""
    precision = 2 + _SIGNIFICANT.get(type.name, 4) * 59 // 196
    decimal, last = _decimal(abs(value), precision)
    first = last + len(decimal) - 1  # the exponent of the first digit
    if first < -3 or last > 3 or (last >= 0 and first >= precision):
        return f"{sign}{decimal[0]}.{decimal[1:] or '0'}E{first:+d}"
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{decimal}"
    if last < 0:
        return f"{sign}{decimal[: first + 1]}.{decimal[first + 1 :]}"
    # Without a point it would be read as an integer: then the bits are written.
    return f"0x{bits_of(value, type):0{type.bits // 4}X}"


def _decimal(value: float, precision: int) -> tuple[str, int]:
    """Digits of a float and the exponent of the last one, rounded the way LLVM's APFloat does: the
    digits far behind are cut off first, so that the last may be one too low.

    >>> _decimal(1.5, 6), _decimal(863.7999877929688, 6)
    (('15', -1), ('863799', -3))
    """
    number, denominator = value.as_integer_ratio()
    last = 1 - denominator.bit_length()
    number *= 5**-last
    spare = (number.bit_length() - (precision * 196 + 58) // 59) * 59 // 196
    if spare > 0:
        number //= 10**spare
        last += spare
    text = str(number)
    if len(text) > precision:
        cut = len(text) - precision
        number = int(text[:precision]) + (text[precision] >= "5")
        text, last = str(number), last + cut
    kept = text.rstrip("0") or "0"
    return kept, last + len(text) - len(kept) if number else 0


def bits_of(value: float, type: FloatType) -> int:
    """The bits of a value in its format."""
    array = np.array([value]).astype(NUMPY_FLOATS[type.name])
    return int(array.view(f"u{array.itemsize}")[0])


def float_of_bits(bits: int, type: FloatType) -> float:
    """The value that bits are in a format."""
    size = type.bits // 8
    return float(np.array([bits], f"u{size}").view(NUMPY_FLOATS[type.name])[0])


def scalar_text(value: Any, type: Type) -> str:
    """A number of a dense attribute."""
    if isinstance(type, FloatType):
        return float_text(value, type)
    if type is I1:
        return "true" if value else "false"
    return str(value)


def nested(words: Sequence[str], shape: Sequence[int]) -> str:
    """Words in brackets by shape.

    >>> nested(["1", "2", "3", "4"], (2, 2))
    '[[1, 2], [3, 4]]'
    """
    if not shape:
        return words[0]
    step = len(words) // shape[0] if shape[0] else 0
    parts = (nested(words[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))
    return f"[{', '.join(parts)}]"


def quoted(text: str) -> str:
    """A string in quotes, with what needs it escaped."""
    plain = text.replace("\\", "\\\\").replace('"', "\\22")
    return '"' + "".join(c if c.isprintable() else f"\\{ord(c):02X}" for c in plain) + '"'


def attribute_dictionary(items: Mapping[str, Attribute], style: TextStyle) -> str:
    """`{name = value, unit}`, or nothing of no items."""
    parts = []
    for name, value in sorted(items.items()):
        written = style.symbol(name)
        if not re.fullmatch(r"[A-Za-z_][\w$.]*", written):
            written = quoted(written)
        bare = isinstance(value, UnitAttr)
        parts.append(written if bare else f"{written} = {style.attribute(value)}")
    return f"{{{', '.join(parts)}}}" if parts else ""
