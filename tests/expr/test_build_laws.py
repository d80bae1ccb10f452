"""What is folded when an expression is built: types that meet, units and zeros, constants."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import DTypeError, UserError
from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
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
    Or,
    Sub,
    Var,
    binary,
    cast,
    const,
    evaluate,
    intrin,
)
from tileloom.expr.build import bitwise, match_types, promote, trunc_div

X, Y, P, F = Var("x"), Var("y"), Var("p", "bool"), Var("f", "float32")
CALL = intrin.call_extern("int32", "rand")
FLAG = intrin.call_extern("bool", "flag")

PROMOTED = [
    ("int32", "int32", "int32"), ("int8", "int32", "int32"), ("int64", "int32", "int64"),
    ("uint8", "int8", "int8"), ("uint32", "int32", "int32"), ("uint64", "int32", "uint64"),
    ("uint8", "int32", "int32"), ("bool", "int8", "int8"), ("bool", "uint8", "uint8"),
    ("bool", "float16", "float16"), ("int64", "float16", "float16"), ("float64", "int8", "float64"),
    ("float16", "float32", "float32"), ("float64", "float32", "float64"),
    ("bfloat16", "float16", "float32"), ("bfloat16", "float32", "float32"),
    ("bool", "bool", "bool"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "both"), PROMOTED)
def test_types_that_meet(a: str, b: str, both: str) -> None:
    assert promote(dtype(a), dtype(b)) == both == promote(dtype(b), dtype(a))
    one, other = match_types(Var("u", a), Var("v", b))
    assert one.dtype == other.dtype == both


@pytest.mark.parametrize(
    ("expr", "kind", "value"),
    [
        (lambda: match_types(Var("u", "uint8"), 255)[1], "uint8", 255),
        (lambda: match_types(Var("u", "uint8"), 256)[1], "int32", 256),
        (lambda: match_types(Var("u", "uint8"), -1)[1], "int32", -1),
        (lambda: match_types(-128, Var("u", "int8"))[0], "int8", -128),
        (lambda: match_types(F, 3)[1], "float32", 3.0),
        (lambda: match_types(X, 1.5)[1], "float32", 1.5),
        (lambda: match_types(P, 2)[1], "int32", 2),
        (lambda: match_types(X, 1 << 31)[1], "int64", 1 << 31),
        (lambda: cast("int8", const(200)), "int8", -56),
        (lambda: cast("uint8", const(-1)), "uint8", 255),
        (lambda: cast("float32", const(3)), "float32", 3.0),
        (lambda: cast("bool", const(7)), "bool", 1),
        (lambda: cast("float16", const(1.5)), "float16", 1.5),
        (lambda: binary(Mul, const(1 << 20), const(1 << 20)), "int64", 1 << 40),
        (lambda: binary(Add, const((1 << 31) - 1), const(1)), "int64", 1 << 31),
        (lambda: binary(Add, const(127, "int8"), const(1, "int8")), "int8", -128),
        (lambda: binary(Sub, const(0, "uint8"), const(1, "uint8")), "uint8", 255),
    ],
)
def test_constants(expr: Any, kind: str, value: Any) -> None:
    found = expr()
    if not isinstance(found, (IntImm, FloatImm)):  # a number beside a variable that was widened
        found = next(e for e in (found, *found.children) if isinstance(e, (IntImm, FloatImm)))
    assert found.dtype == kind and found.value == value


def test_a_constant_that_fits_nowhere_is_not_folded() -> None:
    most = const((1 << 63) - 1, "int64")
    for made in (binary(Add, most, const(1, "int64")), binary(Mul, most, most)):
        assert not isinstance(made, IntImm)
    assert isinstance(binary(Sub, most, const(1, "int64")), IntImm)


INTEGERS: dict[Any, Any] = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b, FloorMod: lambda a, b: a % b, Min: min, Max: max,
    Div: lambda a, b: math.trunc(a / b), Mod: lambda a, b: int(math.fmod(a, b)),
    EQ: lambda a, b: a == b, NE: lambda a, b: a != b, LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b, GT: lambda a, b: a > b, GE: lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("op", INTEGERS, ids=lambda op: op.__name__)
def test_folding_is_evaluation(op: Any) -> None:
    for a, b in itertools.product((-7, -6, -1, 0, 1, 2, 5, 6), repeat=2):
        if b == 0 and op in (FloorDiv, FloorMod, Div, Mod):
            with pytest.raises(UserError, match="division by zero"):
                binary(op, const(a), const(b))
            continue
        made = binary(op, const(a), const(b))
        assert isinstance(made, IntImm) and made.value == INTEGERS[op](a, b)
        assert made.dtype == ("bool" if op in (EQ, NE, LT, LE, GT, GE) else "int32")
        half = binary(op, X, const(b)), binary(op, const(a), Y)
        for one in half:
            assert evaluate(one, {X: a, Y: b}) == INTEGERS[op](a, b)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (binary(Add, X, 0), X), (binary(Add, 0, X), X), (binary(Sub, X, 0), X),
        (binary(Mul, X, 1), X), (binary(Mul, 1, X), X), (binary(Mul, X, 0), const(0)),
        (binary(Mul, 0, X), const(0)), (binary(FloorDiv, X, 1), X), (binary(Div, X, 1), X),
        (binary(FloorMod, X, 1), const(0)), (binary(Mod, X, 1), const(0)),
        (binary(And, P, True), P), (binary(And, True, P), P), (binary(And, P, False), const(False)),
        (binary(And, False, P), const(False)), (binary(Or, P, False), P), (binary(Or, False, P), P),
        (binary(Or, P, True), const(True)), (binary(Or, True, P), const(True)),
        (binary(And, False, FLAG), const(False)), (binary(Or, True, FLAG), const(True)),
        (binary(Min, const(1.0), const(math.nan)), None), (binary(Max, const(2.0), const(3.0)),
                                                          const(3.0)),
        (binary(LT, const(1.0), const(2.0)), const(True)),
        (bitwise("tir.bitwise_and", const(6), const(3)), const(2)),
        (bitwise("tir.bitwise_or", const(6), const(3)), const(7)),
        (bitwise("tir.bitwise_xor", const(6), const(3)), const(5)),
        (bitwise("tir.shift_left", const(6), const(3)), const(48)),
        (bitwise("tir.shift_left", const(6), const(64)), const(0)),
        (bitwise("tir.shift_left", const(6), const(-1)), const(0)),
        (bitwise("tir.shift_right", const(-6), const(1)), const(-3)),
        (bitwise("tir.shift_right", const(-6), const(-1)), const(-1)),
        (bitwise("tir.shift_right", const(6), const(-1)), const(0)),
        (bitwise("tir.shift_right", const(6), const(0)), const(6)),
    ],
)  # fmt: skip
def test_units_and_zeros(made: Expr, wanted: Expr | None) -> None:
    if wanted is None:
        assert isinstance(made, FloatImm) and math.isnan(made.value)
    else:
        assert made is wanted


@pytest.mark.parametrize(
    "made",
    [
        binary(Sub, 0, X), binary(Sub, 1, X), binary(FloorDiv, 0, X), binary(FloorDiv, 1, X),
        binary(FloorMod, 0, X), binary(Mul, CALL, 0), binary(Mul, 0, CALL),
        binary(FloorMod, CALL, 1), binary(And, FLAG, False), binary(Or, FLAG, True),
        binary(Add, F, 0.0), binary(Mul, F, 0.0), binary(Mul, F, 1.0), binary(Add, X, 1),
        binary(Mul, X, -1), binary(Add, const(1.5), const(2.5)), binary(Min, X, 0),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_folded(made: Expr) -> None:
    """An effect is kept, a float may be NaN or a negative zero, and zero may divide."""
    assert made.children and not isinstance(made, (IntImm, FloatImm))
    assert made is not X and made is not F


def test_truth_values() -> None:
    assert binary(Add, P, P).dtype == "int32" and binary(EQ, P, P).dtype == "bool"
    both = bitwise("tir.bitwise_and", P, Var("q", "bool"))
    assert isinstance(both, And) and isinstance(bitwise("tir.bitwise_or", P, P), Or)
    assert isinstance(bitwise("tir.bitwise_xor", P, P), NE)
    with pytest.raises(DTypeError, match="shift_left needs integers"):
        bitwise("tir.shift_left", F, F)
    with pytest.raises(DTypeError, match="ambiguous"):
        X / Y
    assert [trunc_div(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]


# ---------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: intrin.exp(X), DTypeError, "exp needs a floating-point value, got int32"),
        (lambda: intrin.infinity("int32"), DTypeError, "has no infinity"),
        (lambda: intrin.nan("int32"), DTypeError, "has no NaN"),
        (lambda: intrin.reinterpret("int64", X), DTypeError, "types of one size"),
        (
            lambda: intrin.call_intrin("float32", "tir.pow", F),
            UserError,
            "takes 2 arguments, got 1",
        ),
        (lambda: intrin.call_intrin("float32", "tir.no", F), UserError, "unknown operation"),
    ],
)
def test_refusals(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_calls_as_they_are() -> None:
    power = intrin.call_intrin("float32", "tir.pow", F, 2.0)
    assert isinstance(power, Call) and len(power.args) == 2
    some = intrin.call_intrin("int32", "tir.call_extern", "f", 1, 2)
    assert isinstance(some, Call) and len(some.args) == 3
    assert intrin.reinterpret("int32", X) is X
    assert intrin.reinterpret("float32", X).dtype == "float32"
    assert intrin.reinterpret("int8x4", X).dtype == "int8x4"


@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
)
def test_ends_of_types(kind: str) -> None:
    low, high = intrin.min_value(kind), intrin.max_value(kind)
    info: Any = np.finfo(kind) if kind.startswith("f") else np.iinfo(kind)
    assert isinstance(low, (IntImm, FloatImm)) and isinstance(high, (IntImm, FloatImm))
    assert (low.value, high.value) == (info.min, info.max) and low.dtype == high.dtype == kind


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (intrin.floor(const(-1.5)), const(-2.0)), (intrin.ceil(const(-1.5)), const(-1.0)),
        (intrin.trunc(const(-1.5)), const(-1.0)), (intrin.round(const(2.5)), const(2.0)),
        (intrin.nearbyint(const(3.5)), const(4.0)), (intrin.rint(const(-2.5)), const(-2.0)),
        (intrin.fabs(const(-1.5)), const(1.5)), (intrin.floor(X), X), (intrin.rint(X), X),
        (intrin.isnan(const(math.nan)), const(True)), (intrin.isnan(const(1.0)), const(False)),
        (intrin.isinf(const(-math.inf)), const(True)), (intrin.isinf(X), const(False)),
        (intrin.isfinite(const(math.inf)), const(False)), (intrin.isfinite(X), const(True)),
        (intrin.abs(const(-3)), const(3)), (intrin.abs(const(-1.5)), const(1.5)),
        (intrin.power(const(3), const(4)), const(81)), (intrin.popcount(const(-1)), const(32)),
        (intrin.popcount(const(-1, "int8")), const(8, "int8")), (intrin.clz(const(1)), const(31)),
        (intrin.clz(const(0)), const(32)), (intrin.clz(const(-1)), const(0)),
        (intrin.truncdiv(const(-7), 2), const(-3)), (intrin.truncmod(const(-7), 2), const(-1)),
        (intrin.floordiv(const(-7), 2), const(-4)), (intrin.floormod(const(-7), 2), const(1)),
        (intrin.ceildiv(const(7), 2), const(4)), (intrin.ceildiv(const(8), 2), const(4)),
        (intrin.if_then_else(const(True), X, Y), X), (intrin.if_then_else(const(False), X, Y), Y),
        (intrin.select(const(True), X, Y), X), (intrin.select(const(False), X, Y), Y),
        (intrin.likely(const(True)), const(True)), (intrin.all(), const(True)),
        (intrin.any(), const(False)), (intrin.all(P), P), (intrin.any(P), P),
        (intrin.all(P, False), const(False)), (intrin.any(P, True), const(True)),
        (intrin.negative(const(0)), const(0)), (intrin.bitwise_not(const(True)), const(False)),
    ],
)  # fmt: skip
def test_functions_of_constants(made: Expr, wanted: Expr) -> None:
    assert made is wanted
    assert isinstance(made, (IntImm, FloatImm)) or made in (X, Y, P)


def test_functions_that_round_are_not_folded() -> None:
    for name in ("exp", "log", "sqrt", "sin", "tanh", "erf"):
        assert isinstance(getattr(intrin, name)(const(0.5)), Call)
    assert isinstance(intrin.abs(X), Call) and intrin.abs(Var("u", "uint8")).dtype == "uint8"
    assert not isinstance(intrin.abs(Var("u", "uint8")), Call)
