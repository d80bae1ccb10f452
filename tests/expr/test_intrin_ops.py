"""The constructors, the registry of operations, and exact evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileloom.base.errors import DTypeError, UnsupportedError, UserError
from tileloom.expr import (
    Call,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Ramp,
    Shuffle,
    Var,
    cast,
    const,
    evaluate,
    find_op,
    get_op,
    intrin,
    is_pure_op,
    logical_not,
    register_op,
)
from tileloom.expr.ops import Op, op_names

X = Var("x", "float32")
I = Var("i")
NAMES = """exp exp2 exp10 expm1 log log2 log10 log1p sqrt cbrt rsqrt sin cos tan asin acos atan sinh
cosh tanh asinh acosh atanh erf erfc sigmoid silu gelu gelu_tanh fabs floor ceil trunc
round nearbyint rint"""
UNARY = NAMES.split()
OTHERS = """pow atan2 fmod copysign isnan isinf isfinite fma popcount clz shift_left shift_right
bitwise_and bitwise_or bitwise_xor bitwise_not if_then_else likely reinterpret call_extern
call_pure_extern abs"""
REFERENCE = {
    "exp10": lambda v: 10.0**v,
    "rsqrt": lambda v: 1 / math.sqrt(v),
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "gelu": lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v: (
        v * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    ),
    "exp2": lambda v: 2.0**v,
    "round": round,
    "nearbyint": round,
    "rint": round,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name: str) -> None:
    build = getattr(intrin, name)
    reference = REFERENCE.get(name) or getattr(math, name)
    expr = build(X)
    assert expr.dtype == "float32"
    assert expr.op == f"tir.{name}"
    for value in (0.5, 0.3125, 0.75) if name != "acosh" else (1.0, 1.5, 3.25):
        assert evaluate(expr, {X: value}) == pytest.approx(reference(value), rel=1e-6)
    assert math.isnan(evaluate(expr, {X: math.nan}))


def test_every_operation_of_the_brief_is_registered() -> None:
    assert {f"tir.{name}" for name in (*OTHERS.split(), *UNARY)} <= set(op_names())


def test_the_registry() -> None:
    assert find_op("tir.no") is None
    with pytest.raises(UserError, match=r"unknown operation 'tir\.no'"):
        get_op("tir.no")
    with pytest.raises(UserError, match="registered already"):
        register_op(Op("tir.exp"))
    assert is_pure_op("tir.exp")
    assert not is_pure_op("tir.call_extern")
    assert not is_pure_op("tir.no")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (intrin.round(const(2.5)), 2.0),
        (intrin.round(const(-0.5)), -0.0),
        (intrin.floor(const(-1.5)), -2.0),
        (intrin.fabs(const(-0.0)), 0.0),
        (intrin.copysign(const(2.0), const(-0.0)), -2.0),
        (intrin.fmod(const(-7.0), const(3.0)), -1.0),
        (intrin.negative(const(0.0)), -0.0),
        (-const(0.0), -0.0),
        (intrin.infinity("float16"), math.inf),
        (intrin.nan("float32"), math.nan),
    ],
)
def test_exact_folding(expr: Expr, expected: float) -> None:
    assert isinstance(expr, FloatImm)
    assert math.copysign(1, expr.value) == math.copysign(1, expected) or math.isnan(expected)
    assert expr.value == expected or (math.isnan(expected) and math.isnan(expr.value))


def test_folding_of_integers_and_conditions() -> None:
    cases = {
        intrin.popcount(const(-1)): 32,
        intrin.popcount(const(255, "uint8")): 8,
        intrin.clz(const(1, "uint8")): 7,
        intrin.clz(const(-1)): 0,
        intrin.abs(const(-5)): 5,
        intrin.abs(const(-128, "int8")): -128,
        intrin.power(const(3), 4): 81,
        intrin.ceildiv(const(7), 2): 4,
        intrin.truncmod(const(-7), 2): -1,
        intrin.floormod(const(-7), 2): 1,
        intrin.isnan(const(math.nan)): 1,
        intrin.isinf(const(3)): 0,
        intrin.isfinite(I): 1,
        intrin.all(): 1,
        intrin.any(): 0,
        intrin.shift_left(const(1), 4): 16,
        intrin.shift_left(const(1), -1): 0,
        intrin.shift_right(const(-3), -1): -1,
        intrin.shift_right(const(3), -2): 0,
        intrin.likely(const(True)): 1,
    }
    for expr, expected in cases.items():
        assert isinstance(expr, IntImm), expr
        assert expr.value == expected
    assert intrin.floor(I) is I
    assert intrin.abs(Var("u", "uint8")).dtype == "uint8"
    assert intrin.if_then_else(True, I, 0) is I


def test_limits() -> None:
    assert intrin.min_value("int64").value == -(1 << 63)
    assert intrin.max_value("uint64").value == (1 << 64) - 1
    assert intrin.max_value("float32").value == np.finfo(np.float32).max
    assert intrin.max_value("bfloat16").value == pytest.approx(3.39e38, rel=1e-2)
    assert intrin.max_value("float8_e4m3fn").value == 448.0
    assert intrin.max_value("bool").value == 1
    with pytest.raises(DTypeError, match="no infinity"):
        intrin.infinity("int32")


def test_wrong_types_are_refused() -> None:
    for build in (intrin.exp, intrin.sqrt, intrin.fabs, intrin.erf):
        with pytest.raises(DTypeError, match="floating-point"):
            build(I)
    with pytest.raises(DTypeError):
        intrin.popcount(X)
    with pytest.raises(DTypeError, match="condition must be bool"):
        intrin.if_then_else(I, 1, 2)
    with pytest.raises(DTypeError, match="integers"):
        intrin.truncdiv(X, 2.0)
    with pytest.raises(DTypeError, match="one size"):
        intrin.reinterpret("float64", I)
    with pytest.raises(UserError, match="takes 1 arguments, got 2"):
        intrin.call_intrin("float32", "tir.exp", X, X)


def test_evaluation_wraps_rounds_and_skips() -> None:
    s = Var("s", "int8")
    assert evaluate(s + s, {s: 100}) == -56
    assert evaluate(s * s, {s: -128}) == 0
    assert evaluate(cast("uint8", s), {s: -1}) == 255
    assert evaluate(X + 1.0, {X: 1e-8}) == 1.0
    assert evaluate(X * X, {X: 1e30}) == math.inf
    assert evaluate(cast("int32", X), {X: -1.9}) == -1
    assert evaluate(cast("int32", X), {X: 1e20}) == (1 << 31) - 1
    assert evaluate(cast("bool", X), {X: math.nan}) == 1
    assert math.isnan(evaluate(intrin.max(X, 1.0), {X: math.nan}))
    assert evaluate(intrin.if_then_else(I != 0, 7 // I, -1), {I: 0}) == -1
    assert evaluate((I != 0) & (7 // I > 1), {I: 0}) == 0
    with pytest.raises(UserError, match="by zero"):
        evaluate(7 // I, {I: 0})
    with pytest.raises(UserError, match="no value for the variable 'i'"):
        evaluate(I)
    with pytest.raises(UnsupportedError):
        evaluate(intrin.call_extern("int32", "f"))


def test_evaluation_of_vectors_and_bits() -> None:
    vector = Ramp(I, const(2), 4)
    assert evaluate(vector * vector, {I: 1}) == [1, 9, 25, 49]
    assert evaluate(Shuffle([vector, vector], [0, 7, 3]), {I: 0}) == [0, 6, 6]
    assert evaluate(intrin.reinterpret("int32", X), {X: 1.0}) == 0x3F800000
    assert evaluate(intrin.reinterpret("float32", I), {I: 0x40000000}) == 2.0
    a, b = Var("a", "int32"), Var("b", "int32")
    env = {a: 0b1100, b: 0b1010}
    assert evaluate(a & b, env) == 0b1000
    assert evaluate(a ^ b, env) == 0b0110
    assert evaluate(~a, env) == -13
    assert evaluate(Call("int32", "tir.popcount", (a,)), {a: -1}) == 32
    assert evaluate(Call("int32", "tir.clz", (a,)), {a: 1}) == 31


def test_fma_rounds_once() -> None:
    a, b, c = (Var(name, "float64") for name in "abc")
    x = 1 + 2.0**-30
    exact = evaluate(intrin.fma(a, b, c), {a: x, b: x, c: -1 - 2.0**-29})
    assert exact == 2.0**-60
    assert evaluate(a * b + c, {a: x, b: x, c: -1 - 2.0**-29}) == 0.0


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((1.0, -0.0, -0.0), "-0.0"), ((1.0, 0.0, -0.0), "0.0"), ((-1.0, 0.0, -0.0), "-0.0"),
        ((2.0, 3.0, -6.0), "0.0"), ((2.0, 3.0, -5.0), "1.0"), ((1e308, 10.0, 0.0), "inf"),
        ((1e308, -10.0, 0.0), "-inf"), ((1e308, 10.0, -1e308), "inf"), ((np.inf, 1.0, 1.0), "inf"),
        ((np.inf, 0.0, 1.0), "nan"), ((1.0, 1.0, -np.inf), "-inf"), ((np.nan, 1.0, 1.0), "nan"),
    ],
)  # fmt: skip
def test_fma_of_zeros_and_infinities(values: tuple[float, float, float], wanted: str) -> None:
    a, b, c = (Var(name, "float64") for name in "abc")
    found = evaluate(intrin.fma(a, b, c), dict(zip((a, b, c), map(np.float64, values))))
    assert str(float(found)) == wanted


def test_negations_of_constants_fold() -> None:
    assert logical_not(True) is const(False) and logical_not(False) is const(True)
    p = Var("p", "bool")
    assert logical_not(p) is Not(p)
