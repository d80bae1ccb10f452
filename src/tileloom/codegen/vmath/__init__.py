"""Elementary functions, written inline into LLVM IR for any number of lanes.

`emit` is the one way in. What accuracy is promised is shown in `docs/math.md`.

>>> import llvmlite.ir as ir
>>> vector = ir.VectorType(ir.FloatType(), 16)
>>> function = ir.Function(ir.Module(), ir.FunctionType(vector, [vector]), "f")
>>> builder = ir.IRBuilder(function.append_basic_block())
>>> result = emit(builder, "exp", [function.args[0]])
>>> str(result.type), supported("bessel")
('<16 x float>', False)
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from ...base.errors import InternalError
from . import (
    activation,
    exact,
    exponential,
    inverse,
    logarithm,
    power,
    remainder,
    scaling,
    special,
    trigonometry,
)
from .lanes import Lanes, Val

_Unary = Callable[[Lanes, Val], Val]

_BITS = {"half": 16, "float": 32, "double": 64}


def _exponential(name: str) -> _Unary:
    return lambda k, x: exponential.exponential(k, name, x)


def _logarithm(name: str) -> _Unary:
    return lambda k, x: logarithm.logarithm(k, name, x)


def _rsqrt(k: Lanes, x: Val) -> Val:
    return 1.0 / k.sqrt(x)


#: One argument; written for single and double precision.
_UNARY: dict[str, _Unary] = {
    **{name: _exponential(name) for name in ("exp", "exp2", "exp10")},
    **{name: _logarithm(name) for name in ("log", "log2", "log10")},
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "silu": activation.silu,
    "gelu": activation.gelu,
    "gelu_tanh": activation.gelu_tanh,
    "tanh": exponential.tanh,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "log1p": logarithm.log1p,
    "erf": special.erf,
    "erfc": special.erfc,
    "rsqrt": _rsqrt,
    "cbrt": power.cbrt,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
}

#: One argument; written for double precision.
_WIDE: dict[str, _Unary] = {
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "tan": trigonometry.tan,
}

#: Two arguments.
_BINARY: dict[str, Callable[[Lanes, Val, Val], Val]] = {
    "pow": power.power,
    "atan2": inverse.atan2,
    "fmod": remainder.fmod,
    "ldexp": scaling.ldexp,
    "hypot": scaling.hypot,
}

#: What single precision leaves to double.
_THROUGH_DOUBLE = {*_WIDE, "hypot"}

_ARITY = {
    **dict.fromkeys([*_UNARY, *_WIDE], 1),
    **dict.fromkeys(_BINARY, 2),
    **{name: arity for name, (arity, _) in {**exact.NATIVE, **exact.ROUNDED}.items()},
}
#: All functions that `emit` knows.
NAMES = tuple(_ARITY)


def supported(name: str) -> bool:
    """Whether `emit` knows the function."""
    return name in _ARITY


def emit(builder: ir.IRBuilder, name: str, args: list[ir.Value]) -> ir.Value:
    """The function `name` of `args`, all half, float or double, or vectors of one of them.

    Only the second argument of `ldexp` may be integer, of any width.
    `isnan`, `isinf` and `isfinite` give `i1`, all others the type of their arguments. The code may
    leave the builder in another block, and may add internal functions to the module.
    """
    if _ARITY.get(name) != len(args):
        raise InternalError(f"no vector function {name!r} of {len(args)} arguments")
    typ = args[0].type
    count = typ.count if isinstance(typ, ir.VectorType) else None
    element = typ.element if isinstance(typ, ir.VectorType) else typ
    if str(element) not in _BITS:
        raise InternalError(f"{name} of {typ}, which is not floating point")
    k = Lanes(builder, _BITS[str(element)], count)
    return _emit(k, name, [k.wrap(arg) for arg in args]).value


def _emit(k: Lanes, name: str, args: list[Val]) -> Val:
    if name in exact.NATIVE:
        return exact.NATIVE[name][1](k, *args)
    if k.bits == 16 or (k.bits == 32 and name in _THROUGH_DOUBLE):
        wide = k.at(2 * k.bits)
        result = _emit(wide, name, [x if x.is_int else k.convert(x, wide.bits) for x in args])
        return wide.convert(result, k.bits)
    if name in exact.ROUNDED:
        return exact.ROUNDED[name][1](k, *args)
    if name in _BINARY:
        return _BINARY[name](k, args[0], args[1])
    return (_UNARY.get(name) or _WIDE[name])(k, args[0])
