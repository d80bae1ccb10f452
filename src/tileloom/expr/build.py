"""Building expressions: constants, casts, operators with types matched and constants folded."""

from __future__ import annotations

from ..base import DType, dtype
from ..base.dtype import wrap_int
from ..base.errors import DTypeError, UserError
from ..base.late import TYPE_CHECKING
from .effects import has_effect
from .nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    StringImm,
    Sub,
    match_lanes,
    wrapped,
)
from .operators import BUILD, ExprLike

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BOOL, _INT32, _INT64, _FLOAT32 = map(dtype, ("bool", "int32", "int64", "float32"))


def const(value: Any, dtype_: str | None = None) -> Expr:
    """A constant, of the type named or of the Python value's (`int32`, `float32`, `bool`).

    >>> const(3), const(True).dtype, const(1, "float16").dtype
    (3, 'bool', 'float16')
    """
    if type(value) is int and type(dtype_) is DType and dtype_.is_int and dtype_.lanes == 1:
        return IntImm(dtype_, value)  # as most are
    if hasattr(value, "__tileloom_expr__"):  # what stands for a number that is not known yet
        made: Expr = value.__tileloom_expr__()
        return made if dtype_ is None else cast(dtype_, made)
    kind = _python_type(value) if dtype_ is None else dtype(dtype_)
    element = kind.element
    result: Expr
    if element.is_float:
        result = FloatImm(element, float(value))
    else:
        result = IntImm(element, int(value))
    return result if kind.lanes == 1 else Broadcast(result, kind.lanes)


def _python_type(value: Any) -> DType:
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _INT32 if -(1 << 31) <= value < (1 << 31) else _INT64
    if isinstance(value, float):
        return _FLOAT32
    if hasattr(value, "dtype"):
        return dtype(value.dtype)
    raise UserError(f"cannot make an expression of {value!r} ({type(value).__name__})")


def as_expr(value: ExprLike, dtype_: str | None = None) -> Expr:
    """An expression as it is; a number as a constant; a string as a `StringImm`."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    converted: Any = getattr(value, "__tileloom_expr__", None)
    if converted is not None:
        return converted()  # type: ignore[no-any-return]
    return const(value, dtype_)


def promote(a: DType, b: DType) -> DType:
    """The element type that both convert to: float wins over integer, wide over narrow."""
    a, b = a.element, b.element
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if {a.code, b.code} == {"int", "uint"}:
        return a if a.code == "int" else b
    return dtype("float32")


def match_types(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both as expressions of one type; a Python number takes the other side's type."""
    if not (isinstance(a, Expr) and isinstance(b, Expr)):
        a, b = _unwrap(a), _unwrap(b)
        if not isinstance(a, Expr) and isinstance(b, Expr):
            a = _number_like(a, b.dtype)
        elif not isinstance(b, Expr) and isinstance(a, Expr):
            b = _number_like(b, a.dtype)
        a, b = as_expr(a), as_expr(b)
    if a.dtype is b.dtype:
        return a, b
    a, b = match_lanes(a, b)
    if a.dtype is b.dtype:
        return a, b
    kind = promote(a.dtype, b.dtype)
    return cast(kind, a), cast(kind, b)


def _unwrap(value: ExprLike) -> ExprLike:
    if isinstance(value, (Expr, int)):
        return value
    convert = getattr(value, "__tileloom_expr__", None)
    return value if convert is None else convert()


def _number_like(value: Any, kind: DType) -> Expr:
    if type(value) is int and kind.is_int and kind.lanes == 1:
        return IntImm(kind, value) if wrap_int(value, kind) == value else const(value)
    if isinstance(value, str):
        return as_expr(value)
    fractional = isinstance(value, float) and not kind.is_float
    if fractional or kind.is_bool or kind.is_handle:
        return as_expr(value)
    if kind.is_int and wrap_int(int(value), kind.element) != value:
        return as_expr(value)
    return const(value, kind)


def cast(target: str, value: ExprLike) -> Expr:
    """`value` converted to the element type of `target`, folding constants."""
    expr = as_expr(value)
    kind = dtype(target).element.with_lanes(expr.dtype.lanes)
    if kind is expr.dtype:
        return expr
    if isinstance(expr, IntImm):
        return wrapped(kind, expr.value) if kind.is_int else const(expr.value, kind)
    if isinstance(expr, FloatImm) and kind.is_float:
        return FloatImm(kind, expr.value)
    if isinstance(expr, Broadcast):
        return Broadcast(cast(kind.element, expr.value), expr.lanes)
    return Cast(kind, expr)


def binary(op: type[BinaryOp], a: ExprLike, b: ExprLike) -> Expr:
    """`op` of two operands with types matched and constants folded.

    A constant of int32 operands that does not fit into 32 bits is of int64.

    >>> binary(Mul, const(131072), const(131072))
    T.int64(17179869184)
    """
    a, b = match_types(a, b)
    if a.dtype.is_bool and op in _BOOL_ARITHMETIC:
        a, b = cast("int32", a), cast("int32", b)
    if isinstance(a, _NUMBERS) or isinstance(b, _NUMBERS):
        fold = _FOLD.get(op)
        result = None if fold is None else fold(a, b)
        if result is not None:
            return result
    return op(a, b)


def _true_divide(a: ExprLike, b: ExprLike) -> Expr:
    a, b = match_types(a, b)
    if a.dtype.element.is_float:
        return binary(Div, a, b)
    raise DTypeError(
        f"'/' of integers ({a.dtype}) is ambiguous",
        hint="use `//` (floor), truncdiv (toward zero), or cast to a float type first",
    )


def bitwise(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """A bitwise or shift call on integers; `&`, `|`, `^` of bools are logical."""
    a, b = match_types(a, b)
    if a.dtype.is_float:
        raise DTypeError(f"{op.removeprefix('tir.')} needs integers, got {a.dtype}")
    if a.dtype.element.is_bool and op in _LOGICAL:
        return binary(_LOGICAL[op], a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return wrapped(a.dtype, _BIT_FOLD[op](a.value, b.value))
    return Call(a.dtype, op, (a, b))


def logical_not(a: ExprLike) -> Expr:
    """The negation, folded for constants."""
    a = as_expr(a)
    return const(not a.value, "bool") if isinstance(a, IntImm) else Not(a)


def trunc_div(a: int, b: int) -> int:
    """Integer division rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def shifted_left(a: int, b: int) -> int:
    """a * 2**b; a count below 0, like one beyond the width, shifts everything out.

    >>> shifted_left(3, 2), shifted_left(3, -1)
    (12, 0)
    """
    return a << b if 0 <= b < 64 else 0


def shifted_right(a: int, b: int) -> int:
    """floor(a / 2**b); a count below 0 shifts everything but the sign out.

    >>> shifted_right(12, 2), shifted_right(-3, -1)
    (3, -1)
    """
    return a >> b if b >= 0 else -1 if a < 0 else 0


_BOOL_ARITHMETIC: set[type[BinaryOp]] = set()
_LOGICAL: dict[str, type[BinaryOp]] = {
    "tir.bitwise_and": And,
    "tir.bitwise_or": Or,
    "tir.bitwise_xor": NE,
}
_BIT_FOLD: dict[str, Callable[[int, int], int]] = {
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.shift_left": shifted_left,
    "tir.shift_right": shifted_right,
}
_BOOL_ARITHMETIC |= {Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod}


def _fold(
    op: type[BinaryOp], evaluate: Callable[[Any, Any], Any]
) -> Callable[[Expr, Expr], Expr | None]:
    """Constant folding plus the unit and zero laws of integer operators."""

    def fold(a: Expr, b: Expr) -> Expr | None:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            if b.value == 0 and op in _DIVISIONS:
                raise UserError(f"division by zero in {a.value} {op.symbol} 0")
            return _number(evaluate(a.value, b.value), op.result_type(a.dtype))
        if isinstance(a, FloatImm) and isinstance(b, FloatImm) and op in _FLOAT_EXACT:
            return const(evaluate(a.value, b.value), op.result_type(a.dtype))
        if a.dtype.is_float:
            return None
        result = _unit_laws(op, a, b)
        if isinstance(result, IntImm) and has_effect(b if isinstance(a, IntImm) else a):
            # Of a constant that decides a conjunction, the other part is not evaluated anyway.
            return result if op in (And, Or) and isinstance(a, IntImm) else None
        return result

    return fold


def _number(value: int, kind: DType) -> Expr | None:
    """The value of an operation; in 64 bits where an index does not fit into 32.

    None: it does not fit into 64 bits either, and so is left to whoever computes it.
    """
    if kind.code != "int" or kind.bits < 32 or wrap_int(value, kind) == value:
        return const(value, kind)
    return const(value, _INT64) if wrap_int(value, _INT64) == value else None


def _unit_laws(op: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
    x = a.value if isinstance(a, IntImm) else None
    y = b.value if isinstance(b, IntImm) else None
    if x is None and y is None:
        return None
    if op is Add:
        return b if x == 0 else a if y == 0 else None
    if op is Sub:
        return a if y == 0 else None
    if op is Mul:
        return b if x == 1 or y == 0 else a if y == 1 or x == 0 else None
    if op in (FloorDiv, Div):
        return a if y == 1 else None
    if op in (FloorMod, Mod):
        return const(0, a.dtype) if y == 1 else None
    if op is And:
        return b if x == 1 else a if y == 1 else a if x == 0 else b if y == 0 else None
    if op is Or:
        return b if x == 0 else a if y == 0 else a if x == 1 else b if y == 1 else None
    return None


_NUMBERS = (IntImm, FloatImm)
_DIVISIONS = {Div, Mod, FloorDiv, FloorMod}
_FLOAT_EXACT = {Min, Max, EQ, NE, LT, LE, GT, GE}
_EVALUATE: dict[type[BinaryOp], Callable[[Any, Any], Any]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: lambda a, b: trunc_div(a, b),
    Mod: lambda a, b: a - b * trunc_div(a, b),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: lambda a, b: a if a != a or a < b else b,
    Max: lambda a, b: a if a != a or a > b else b,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: bool(a) and bool(b),
    Or: lambda a, b: bool(a) or bool(b),
}
_FOLD = {op: _fold(op, evaluate) for op, evaluate in _EVALUATE.items()}


def _invert(a: Expr) -> Expr:
    return logical_not(a) if a.dtype.element.is_bool else Call(a.dtype, "tir.bitwise_not", (a,))


def _negate(a: Expr) -> Expr:
    if isinstance(a, FloatImm):
        return FloatImm(a.dtype, -a.value)
    # -0.0 - x is -x for zeros as well.
    return binary(Sub, const(-0.0 if a.dtype.is_float else 0, a.dtype), a)


def _operator(op: type[BinaryOp]) -> Callable[[ExprLike, ExprLike], Expr]:
    return lambda a, b: binary(op, a, b)


BUILD.update({op.__name__: _operator(op) for op in _FOLD})
BUILD.update(
    {
        "cast": cast,
        "Div": _true_divide,
        "invert": _invert,
        "Neg": _negate,
    }
)
BUILD.update(
    {name.removeprefix("tir."): lambda a, b, op=name: bitwise(op, a, b) for name in _BIT_FOLD}
)
