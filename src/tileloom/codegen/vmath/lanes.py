"""Values with operators: the small language in which the functions of this package are written.

A `Lanes` knows the builder, the floating-point type and the number of lanes; a `Val` is one LLVM
value of it, floating point or integer of the same width, with Python's operators. Plain numbers
turn into constants. Nothing here carries fast-math flags.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import llvmlite.ir as ir

_LETTER = {"half": "f16", "float": "f32", "double": "f64"}
_LLVM = {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}


def mangle(typ: ir.Type) -> str:
    """A type's spelling in the name of an intrinsic: `v8f32`."""
    if isinstance(typ, ir.VectorType):
        return f"v{typ.count}{mangle(typ.element)}"
    return f"i{typ.width}" if isinstance(typ, ir.IntType) else _LETTER[str(typ)]


def hexadecimal(value: float, bits: int) -> str:
    """A constant of LLVM's assembly language: a float is written as the double it equals."""
    if bits == 32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class _Literal(ir.Constant):  # type: ignore[misc]
    """A constant whose text we write: llvmlite would list every lane."""

    def __init__(self, typ: ir.Type, text: str) -> None:
        super().__init__(typ, None)
        self._text = text

    def get_reference(self) -> str:
        return self._text


@dataclass(frozen=True)
class Lanes:
    """`count` lanes (None: a scalar) of a float of `bits` bits."""

    builder: ir.IRBuilder
    bits: int
    count: int | None

    def shape(self, element: ir.Type) -> ir.Type:
        """`element` in as many lanes."""
        return element if self.count is None else ir.VectorType(element, self.count)

    @property
    def float_type(self) -> ir.Type:
        """The type of floating-point values."""
        return self.shape(_LLVM[self.bits])

    @property
    def int_type(self) -> ir.Type:
        """The type of integers of the same width."""
        return self.shape(ir.IntType(self.bits))

    @property
    def mantissa(self) -> int:
        """Bits behind the point."""
        return {16: 10, 32: 23, 64: 52}[self.bits]

    @property
    def bias(self) -> int:
        """What the exponent field adds."""
        return {16: 15, 32: 127, 64: 1023}[self.bits]

    def at(self, bits: int) -> Lanes:
        """The same lanes of another width."""
        return Lanes(self.builder, bits, self.count)

    def wrap(self, value: ir.Value) -> Val:
        """An LLVM value with operators."""
        return Val(self, value)

    def _splat(self, element: ir.Type, text: str) -> Val:
        full = text if self.count is None else f"splat ({element} {text})"
        return Val(self, _Literal(self.shape(element), full))

    def const(self, value: float) -> Val:
        """A floating-point constant in each lane."""
        return self._splat(_LLVM[self.bits], hexadecimal(value, self.bits))

    def integer(self, value: int) -> Val:
        """An integer constant in each lane."""
        return self._splat(ir.IntType(self.bits), str(value))

    def value(self, x: Val | float) -> Val:
        """`x`, or the floating-point constant."""
        return x if isinstance(x, Val) else self.const(x)

    def call(self, name: str, *args: Val | float, flags: tuple[str, ...] = ()) -> Val:
        """An intrinsic whose arguments and result have the same type."""
        values = [self.value(x).value for x in args]
        typ = values[0].type
        full = f"llvm.{name}.{mangle(typ)}"
        module = self.builder.module
        function = module.globals.get(full)
        if function is None:
            function = ir.Function(module, ir.FunctionType(typ, [typ] * len(values)), full)
        return Val(self, self.builder.call(function, values, fastmath=flags))

    def fma(self, a: Val | float, b: Val | float, c: Val | float) -> Val:
        """`a b + c`, rounded once."""
        return self.call("fma", a, b, c)

    def abs(self, x: Val) -> Val:
        """|x|."""
        return self.call("fabs", x)

    def copysign(self, size: Val | float, sign: Val) -> Val:
        """|size| with the sign of `sign`."""
        return self.call("copysign", size, sign)

    def sqrt(self, x: Val) -> Val:
        """The square root."""
        return self.call("sqrt", x)

    def select(self, mask: Val, yes: Val | float, no: Val | float) -> Val:
        """Lane by lane one or the other."""
        b = self.builder
        return Val(self, b.select(mask.value, self.value(yes).value, self.value(no).value))

    def at_most(self, x: Val, bound: float) -> Val:
        """The smaller one; a NaN in `x` stays."""
        limit = self.const(bound)
        return self.select(limit < x, limit, x)

    def at_least(self, x: Val, bound: float) -> Val:
        """The larger one; a NaN in `x` stays."""
        limit = self.const(bound)
        return self.select(limit > x, limit, x)

    def is_nan(self, x: Val) -> Val:
        """Which lanes hold a NaN."""
        return Val(self, self.builder.fcmp_unordered("uno", x.value, x.value))

    def bits_of(self, x: Val) -> Val:
        """The encoding."""
        return Val(self, self.builder.bitcast(x.value, self.int_type))

    def from_bits(self, x: Val) -> Val:
        """The number with this encoding."""
        return Val(self, self.builder.bitcast(x.value, self.float_type))

    def to_float(self, x: Val) -> Val:
        """A signed integer as floating point."""
        return Val(self, self.builder.sitofp(x.value, self.float_type))

    def poly(self, x: Val, coefficients: tuple[float, ...]) -> Val:
        """`c[0] + c[1] x + ...` by Horner's rule."""
        total = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, c)
        return total

    def convert(self, x: Val, bits: int) -> Val:
        """To floats of another width, rounded to nearest."""
        to, b = self.at(bits), self.builder
        if bits == self.bits:
            return x
        cast = b.fpext if bits > self.bits else b.fptrunc
        return Val(to, cast(x.value, to.float_type))


@dataclass(frozen=True, eq=False)
class Val:
    """A value with Python's operators; integers are signed, and comparisons ordered."""

    lanes: Lanes
    value: ir.Value

    @property
    def is_int(self) -> bool:
        """Whether the lanes hold integers."""
        typ = self.value.type
        return isinstance(typ.element if isinstance(typ, ir.VectorType) else typ, ir.IntType)

    def _other(self, other: Val | float) -> ir.Value:
        if isinstance(other, Val):
            return other.value
        return (self.lanes.integer(int(other)) if self.is_int else self.lanes.const(other)).value

    def _op(self, name: str, other: Val | float, swap: bool = False) -> Val:
        pair = (self.value, self._other(other))
        left, right = reversed(pair) if swap else pair
        return Val(self.lanes, getattr(self.lanes.builder, name)(left, right))

    def __add__(self, other: Val | float) -> Val:
        return self._op("add" if self.is_int else "fadd", other)

    __radd__ = __add__

    def __sub__(self, other: Val | float) -> Val:
        return self._op("sub" if self.is_int else "fsub", other)

    def __rsub__(self, other: Val | float) -> Val:
        return self._op("sub" if self.is_int else "fsub", other, swap=True)

    def __mul__(self, other: Val | float) -> Val:
        return self._op("mul" if self.is_int else "fmul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Val | float) -> Val:
        return self._op("fdiv", other)

    def __rtruediv__(self, other: Val | float) -> Val:
        return self._op("fdiv", other, swap=True)

    def __neg__(self) -> Val:
        b = self.lanes.builder
        return Val(self.lanes, b.neg(self.value) if self.is_int else b.fneg(self.value))

    def __and__(self, other: Val | int) -> Val:
        return self._op("and_", other)

    def __or__(self, other: Val | int) -> Val:
        return self._op("or_", other)

    def __xor__(self, other: Val | int) -> Val:
        return self._op("xor", other)

    def __lshift__(self, other: int) -> Val:
        return self._op("shl", other)

    def __rshift__(self, other: int) -> Val:
        return self._op("ashr", other)

    def shift_right(self, count: int) -> Val:
        """Shifts in zeros."""
        return self._op("lshr", count)

    def _compare(self, sign: str, other: Val | float) -> Val:
        b = self.lanes.builder
        compare = b.icmp_signed if self.is_int else b.fcmp_ordered
        return Val(self.lanes, compare(sign, self.value, self._other(other)))

    def __lt__(self, other: Val | float) -> Val:
        return self._compare("<", other)

    def __le__(self, other: Val | float) -> Val:
        return self._compare("<=", other)

    def __gt__(self, other: Val | float) -> Val:
        return self._compare(">", other)

    def __ge__(self, other: Val | float) -> Val:
        return self._compare(">=", other)

    def equals(self, other: Val | float) -> Val:
        """Which lanes are equal; a NaN equals nothing."""
        return self._compare("==", other)
