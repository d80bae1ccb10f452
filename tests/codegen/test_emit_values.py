"""Arithmetic, comparisons, conversions and calls, on the values where they are special."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.emitting import FLOATS, INTEGERS, compare, edges, mapped, pairs, results_of, same
from tileloom.base import dtype
from tileloom.driver import assembly, build
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
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Shuffle,
    Sub,
    Var,
    const,
)
from tileloom.expr.nodes import broadcast_to

COMPARISONS = (EQ, NE, LT, LE, GT, GE)
ALL = (*INTEGERS, *FLOATS)


def lanes_for(kind: str) -> int:
    """Some other number of lanes for each type, so that all are met."""
    return (1, 4, 16, 64, 2, 8, 32, 1, 16, 8, 4, 64)[ALL.index(kind)]


@pytest.mark.parametrize("kind", ALL)
def test_exact_operators(kind: str) -> None:
    inputs = pairs(kind, kind)
    operators = [Add, Sub, Mul, Min, Max, *COMPARISONS] + [Div] * (kind in FLOATS)
    compare(mapped([kind, kind], operators, lanes_for(kind), len(inputs[0])), *inputs)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64])
def test_all_widths(lanes: int) -> None:
    inputs = pairs("float32", "float32")
    compare(mapped(["float32"] * 2, [Add, Mul, LT, Min], lanes, len(inputs[0])), *inputs)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", FLOATS)
def test_float_division(kind: str, lanes: int) -> None:
    values = np.array([-7.5, -2, -0.75, 0.5, 3, 8.25], dtype(kind).numpy)
    x, y = (np.resize(a.ravel(), 48) for a in np.meshgrid(values, values, indexing="ij"))
    compare(mapped([kind, kind], [FloorDiv, FloorMod, Mod], lanes, 48), x, y)


def quotients(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Div, Mod, FloorDiv, FloorMod in Python's integers; by zero all give zero."""
    kind = x.dtype
    rows = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if b == 0:
            rows.append([0, 0, 0, 0])
            continue
        toward_zero = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        rows.append([toward_zero, a - b * toward_zero, a // b, a % b])
    mask = (1 << (8 * kind.itemsize)) - 1
    wrapped = np.array([[v & mask for v in row] for row in rows], np.uint64)
    return [column.astype(kind) for column in wrapped.T]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_division_never_traps(kind: str) -> None:
    x, y = pairs(kind, kind)
    program = mapped([kind, kind], [Div, Mod, FloorDiv, FloorMod], lanes_for(kind), len(x))
    for found, wanted in zip(results_of(program, [x, y], build(program)), quotients(x, y)):
        same(found, wanted)


@pytest.mark.parametrize("divisor", [-7, -1, 0, 1, 3, 8])
@pytest.mark.parametrize("lanes", [1, 16])
def test_division_by_constants(divisor: int, lanes: int) -> None:
    # Simplification takes for granted that int32 does not overflow, as -x does at the least x.
    x = np.maximum(pairs("int32")[0], -(2**31) + 1) if divisor < -1 else pairs("int32")[0]
    y = broadcast_to(const(divisor), lanes)
    formulas = [lambda a, op=op: op(a, y) for op in (Div, Mod, FloorDiv, FloorMod)]
    program = mapped(["int32"], formulas, lanes, len(x))
    wanted = quotients(x, np.full_like(x, divisor))
    for found, exact in zip(results_of(program, [x], build(program)), wanted, strict=True):
        same(found, exact)


@pytest.mark.parametrize("source", ["bool", *ALL])
def test_casts(source: str) -> None:
    """Into each type; floats saturate, NaN becomes zero."""
    x = pairs(source)[0]
    lanes = 8 if source in FLOATS else 1
    targets = ["bool", *ALL]
    formulas = [lambda a, t=t: Cast(dtype(t).with_lanes(lanes), a) for t in targets]
    compare(mapped([source], formulas, lanes, len(x)), x)


def test_saturation_is_as_promised() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.0, -300.0, 1.9, -1.9, 127.5], "float32")
    formulas = [lambda a, t=t: Cast(dtype(t).with_lanes(8), a) for t in ("int8", "uint8")]
    signed, unsigned = compare(mapped(["float32"], formulas, 8, 8), x)
    assert signed.tolist() == [0, 127, -128, 127, -128, 1, -1, 127]
    assert unsigned.tolist() == [0, 255, 0, 255, 0, 1, 0, 127]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
def test_floats_become_narrow_integers_as_vectors(kind: str) -> None:
    program = mapped(["float32"], [lambda a: Cast(dtype(kind).with_lanes(16), a)], 16, 64)
    text = assembly(program, "cpu -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    assert "vcvttps2dq" in text and "vcvttss2si" not in text


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("kind", INTEGERS)
def test_shifts_by_any_amount(kind: str, lanes: int) -> None:
    bits = dtype(kind).bits
    x = np.repeat(edges(kind), 8)
    y = np.tile(np.array([0, 1, 2, 5, bits - 1, bits, bits + 1, 100], kind), len(edges(kind)))
    formulas = [
        lambda a, b, n=n: Call(a.dtype, f"tir.shift_{n}", [a, b]) for n in ("left", "right")
    ]
    found = results_of(
        program := mapped([kind] * 2, formulas, lanes, len(x)), [x, y], build(program)
    )
    mask = (1 << bits) - 1
    left = [(a << b) & mask for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    right = [(a >> b) & mask for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for array, wanted in zip(found, (left, right), strict=True):
        same(array, np.array(wanted, np.uint64).astype(kind))


def call(name: str, *args: Expr, kind: str | None = None) -> Expr:
    return Call(kind or args[0].dtype, f"tir.{name}", list(args))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", INTEGERS)
def test_bit_operations(kind: str, lanes: int) -> None:
    x, y = pairs(kind, kind)
    formulas = [
        *(lambda a, b, n=n: call(f"bitwise_{n}", a, b) for n in ("and", "or", "xor")),
        *(lambda a, b, n=n: call(n, a) for n in ("bitwise_not", "abs", "popcount", "clz")),
    ]
    compare(mapped([kind, kind], formulas, lanes, len(x)), x, y)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_calls(kind: str) -> None:
    x = pairs(kind)[0]
    lanes = {"float16": 4, "bfloat16": 16, "float32": 1, "float64": 8}[kind]
    flag = dtype("bool").with_lanes(lanes)
    formulas = [
        *(lambda a, n=n: call(n, a) for n in ("fabs", "floor", "ceil", "trunc", "round", "sqrt")),
        *(lambda a, n=n: call(n, a, kind=flag) for n in ("isnan", "isinf", "isfinite")),
    ]
    compare(mapped([kind], formulas, lanes, len(x)), x, tolerance=1e-15)


@pytest.mark.parametrize("lanes", [1, 8])
def test_integers_are_finite(lanes: int) -> None:
    flag = dtype("bool").with_lanes(lanes)
    names = ("isnan", "isinf", "isfinite")
    formulas = [lambda a, n=n: call(n, a, kind=flag) for n in names]
    found = results_of(
        program := mapped(["int32"], formulas, lanes, 8), [np.arange(8, dtype="i4")], build(program)
    )
    assert [a.tolist() for a in found] == [[False] * 8, [False] * 8, [True] * 8]


@pytest.mark.parametrize("kind", FLOATS)
def test_transcendental_calls(kind: str, rng: np.random.Generator) -> None:
    x = rng.uniform(0.1, 3, 64).astype(dtype(kind).numpy)
    y = rng.uniform(0.1, 3, 64).astype(dtype(kind).numpy)
    unary = ("exp", "log", "tanh", "erf", "sin", "sigmoid")
    formulas = [
        *(lambda a, b, n=n: call(n, a) for n in unary),
        *(lambda a, b, n=n: call(n, a, b) for n in ("pow", "fmod", "atan2", "copysign")),
        lambda a, b: call("fma", a, b, a),
    ]
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14}[kind]
    compare(mapped([kind, kind], formulas, 16, 64), x, y, tolerance=tolerance)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int64", "float64"), ("float16", "uint16"), ("bfloat16", "int16")],
)
def test_reinterpret(source: str, target: str, lanes: int) -> None:
    x = pairs(source)[0]
    to, back = (dtype(t).with_lanes(lanes) for t in (target, source))
    formulas = [
        lambda a: call("reinterpret", a, kind=to),
        lambda a: call("reinterpret", call("reinterpret", a, kind=to) + const(1, to), kind=back),
    ]
    compare(mapped([source], formulas[:1], lanes, len(x)), x)
    compare(mapped([source], formulas[1:], lanes, 8), edges(source)[:8])


@pytest.mark.parametrize("lanes", [1, 2, 16, 64])
def test_bools(lanes: int) -> None:
    x, y = pairs("bool", "bool")
    formulas = [
        And,
        Or,
        lambda a, b: Not(a),
        EQ,
        NE,
        lambda a, b: Select(a, b, Not(b)),
        lambda a, b: Cast(dtype("float32").with_lanes(lanes), Or(a, b)),
        lambda a, b: call("bitwise_xor", a, b),
    ]
    compare(mapped(["bool", "bool"], formulas, lanes, len(x)), x, y)


@pytest.mark.parametrize("kind", ["bool", *ALL])
def test_select_and_let(kind: str) -> None:
    x, y = pairs(kind, kind)
    lanes = 16
    t, u = Var("t", dtype(kind).with_lanes(lanes)), Var("u", dtype(kind).with_lanes(lanes))
    less = And if kind == "bool" else LT
    formulas = [
        lambda a, b: Select(less(a, b), a, b),
        lambda a, b: Let(t, Select(less(b, a), a, b), Select(EQ(t, a), b, t)),
        # The same name for two values, one inside the other's scope.
        lambda a, b: Select(EQ(Let(t, a, EQ(t, b)), Let(t, b, EQ(t, b))), a, b),
        lambda a, b: Let(t, a, Let(u, Let(t, b, t), Select(EQ(u, t), b, t))),
    ]
    compare(mapped([kind, kind], formulas, lanes, len(x)), x, y)


def test_shuffles() -> None:
    x, y = np.arange(16, dtype="i4"), np.arange(100, 116, dtype="i4")
    formulas = [
        lambda a, b: Shuffle([a, b], [7, 0, 3, 1, 6, 5, 4, 2]),
        lambda a, b: Shuffle([a, b], [0, 8, 1, 9, 2, 10, 3, 11]),
        lambda a, b: broadcast_to(Shuffle([a, b], [9]), 8),
        lambda a, b: broadcast_to(Shuffle([a, b], [7]), 8),
        lambda a, b: Shuffle([Shuffle([a], [k]) for k in (3, 1)], [0, 1, 1, 0, 0, 0, 1, 1]),
    ]
    compare(mapped(["int32", "int32"], formulas, 8, 16), x, y)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_special_constants(kind: str, lanes: int) -> None:
    """Numbers, infinities and NaN, plain and in vectors, reach the code as they are."""
    values = [0.1, 1.0, -0.0, 65504.0, 1e-7, 1e-40, float("inf"), -float("inf"), float("nan")]
    formulas = [lambda a, v=v: broadcast_to(const(v, kind), lanes) for v in values]
    found = compare(mapped([kind], formulas, lanes, 8), np.zeros(8, dtype(kind).numpy))
    assert np.signbit(found[2].astype("f8")).all() and np.isnan(found[-1].astype("f8")).all()


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_constants(kind: str) -> None:
    formulas = [lambda a, v=v: broadcast_to(const(v, kind), 4) for v in edges(kind).tolist()]
    found = results_of(
        program := mapped([kind], formulas, 4, 4), [np.zeros(4, kind)], build(program)
    )
    assert [int(a[0]) for a in found] == edges(kind).tolist()


@pytest.mark.parametrize("lanes", [1, 16])
def test_a_product_may_fuse_into_a_sum(lanes: int, rng: np.random.Generator) -> None:
    x, y, z = (rng.standard_normal(64).astype("f4") for _ in range(3))
    program = mapped(["float32"] * 3, [lambda a, b, c: a * b + c], lanes, 64)
    (found,) = results_of(program, [x, y, z], build(program))
    exact = x.astype("f8") * y.astype("f8") + z
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=3e-7)


def test_narrow_data_wraps_and_indices_do_not() -> None:
    """i * 100 as int8 data wraps; the subscript that it equals elsewhere is not changed by it."""
    x = np.arange(16, dtype="i1")
    formulas = [lambda a: a * const(100, "int8"), lambda a: Cast("int32", a * const(100, "int8"))]
    found = compare(mapped(["int8"], formulas, 1, 16), x)
    assert found[0][3] == 44 and found[1][3] == 44


def test_deep_expressions() -> None:
    """As deep as the interpreter follows; compiled, they may be several times as deep."""

    def formula(a: Expr) -> Expr:
        result = a
        for k in range(120):
            result = Select(LT(result, const(float(k))), result * 0.5 + a, a - result)
        return result

    compare(
        mapped(["float32"], [formula], 1, 8), np.linspace(-2, 2, 8).astype("f4"), tolerance=1e-5
    )
