"""Single expressions in the interpreter, against their exact meaning."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.base import dtype
from tileloom.base.errors import ArgumentError, UnsupportedError, UserError
from tileloom.expr import (
    Add,
    And,
    Broadcast,
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
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    const,
    free_vars,
)
from tileloom.expr.evaluate import evaluate
from tileloom.tir import (
    BufferLoad,
    BufferStore,
    Evaluate,
    make_buffer,
    seq,
)
from tileloom.tir.run import run
from tir.programs import call, func, load, store


def value_of(expr: Expr, **variables: Any) -> Any:
    """An expression's value as the interpreter computes it."""
    out = make_buffer((expr.dtype.lanes,), expr.dtype.element, "Out")
    lanes = expr.dtype.lanes
    index = const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)
    names = {var.name: var for var in _vars(expr)}
    f = func((out, *names.values()), BufferStore(out, expr, (index,)))
    result = np.zeros(lanes, out.dtype.numpy)
    run(f, result, *(variables[name] for name in names))
    return result if lanes > 1 else result[0]


def _vars(expr: Expr) -> list[Var]:
    return sorted(free_vars(expr), key=lambda v: v.name)


def test_scalars_wrap_and_round() -> None:
    x, h = Var("x", "int8"), Var("h", "float16")
    assert value_of(x, x=300) == 44
    assert value_of(h, h=0.1) == np.float16(0.1)
    with pytest.raises(ArgumentError, match="parameter 'x' is a int8"):
        value_of(x, x="no")


KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INT_OPS = [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max]


def ints(kind: str) -> Any:
    info = np.iinfo(kind)
    near = st.sampled_from([0, 1, 2, 3, 7, info.max, info.min, info.max - 1, info.min // 2])
    return near | st.integers(int(info.min), int(info.max))


@given(st.data(), st.sampled_from(KINDS), st.sampled_from(INT_OPS), st.booleans())
def test_integer_operators(data: st.DataObject, kind: str, op: Any, vector: bool) -> None:
    x, y = Var("x", kind), Var("y", kind)
    a, b = data.draw(ints(kind)), data.draw(ints(kind))
    expr = op(x, y)
    if vector:
        expr = op(Broadcast(x, 2), Broadcast(y, 2))
    try:
        expected = evaluate(op(x, y), {x: a, y: b})
    except UserError:
        with pytest.raises(UserError, match="by zero"):
            value_of(expr, x=a, y=b)
        return
    assert np.all(value_of(expr, x=a, y=b) == expected)


@given(st.data(), st.sampled_from(["int8", "int32", "uint8", "int64"]))
def test_integer_expressions(data: st.DataObject, kind: str) -> None:
    """Where the interval analysis leaves a wrap out, it must not have been needed."""
    x, y = Var("x", kind), Var("y", kind)
    leaf = st.sampled_from([x, y]) | st.integers(0, 127).map(lambda v: const(v, kind))
    ops = st.sampled_from([Add, Sub, Mul, Min, Max])
    tree = st.recursive(leaf, lambda t: st.builds(lambda o, a, b: o(a, b), ops, t, t), max_leaves=9)
    small = Select(x < const(100, kind), FloorMod(y, const(7, kind)), const(3, kind))
    expr = data.draw(tree) + small
    env = {x: data.draw(ints(kind)), y: data.draw(ints(kind))}
    names = {var.name: value for var, value in env.items()}
    assert value_of(expr, **names) == evaluate(expr, env)


SPECIAL = [0.0, -0.0, 1.0, -1.5, 3e38, 1e-45, 65504.0, float("inf"), float("-inf"), float("nan")]


@given(
    st.sampled_from(FLOATS),
    st.sampled_from([Add, Sub, Mul, Div, Min, Max, FloorDiv, FloorMod, Mod]),
    st.floats() | st.sampled_from(SPECIAL),
    st.floats() | st.sampled_from(SPECIAL),
    st.booleans(),
)
def test_float_operators(kind: str, op: Any, a: float, b: float, vector: bool) -> None:
    x, y = Var("x", kind), Var("y", kind)
    expr = op(Broadcast(x, 2), Broadcast(y, 2)) if vector else op(x, y)
    expected = evaluate(op(x, y), {x: a, y: b})
    result = np.atleast_1d(value_of(expr, x=a, y=b)).astype("float64")
    np.testing.assert_array_equal(result, expected)


@given(
    st.data(),
    st.sampled_from([*KINDS, *FLOATS, "bool"]),
    st.sampled_from([*KINDS, *FLOATS, "bool"]),
)
def test_casts(data: st.DataObject, source: str, target: str) -> None:
    x = Var("x", source)
    if source in FLOATS:
        value = data.draw(st.floats() | st.sampled_from(SPECIAL))
    else:
        value = data.draw(st.booleans() if source == "bool" else ints(source))
    expected = evaluate(Cast(target, x), {x: value})
    for expr in (Cast(target, x), Cast(target + "x2", Broadcast(x, 2))):
        result = np.atleast_1d(value_of(expr, x=value))
        np.testing.assert_array_equal(result.astype(object), expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_min_and_max_propagate_nan(kind: str) -> None:
    x, nan = Var("x", kind), const(float("nan"), kind)
    for op in (Min, Max):
        for expr in (op(x, nan), op(nan, x)):
            assert np.isnan(np.float64(value_of(expr, x=1)))


def test_rounding_after_every_operation() -> None:
    x = Var("x", "bfloat16")
    one = ml_dtypes.bfloat16(1)
    tiny = 3 * 2**-10  # less than half of a unit in the last place of 1, twice that is more
    assert value_of(x + const(tiny, "bfloat16") + const(tiny, "bfloat16"), x=1.0) == one
    assert one + ml_dtypes.bfloat16(tiny + tiny) != one
    y = Var("y", "float32")
    assert value_of((y * y) / y, y=1e30) == np.inf


def test_bools_and_lazy_choices() -> None:
    x = Var("x")
    zero = const(0)
    safe = Call("int32", "tir.if_then_else", [x.__ne__(zero), FloorDiv(const(8), x), zero])
    assert [value_of(safe, x=v) for v in (0, 3)] == [0, 2]
    assert bool(value_of(And(x > 0, FloorDiv(const(8), x) > 2), x=0)) is False
    assert bool(value_of(Or(x < 1, FloorDiv(const(8), x) > 2), x=0)) is True
    assert bool(value_of(Not(x > 0), x=0)) is True


def test_vector_nodes() -> None:
    x = Var("x", "int32")
    ramp = Ramp(x, const(2), 4)
    assert value_of(ramp, x=2**31 - 3).tolist() == [
        2147483645,
        2147483647,
        -2147483647,
        -2147483645,
    ]
    assert value_of(Ramp(ramp, Broadcast(const(10), 4), 2), x=0).tolist() == [
        0,
        2,
        4,
        6,
        10,
        12,
        14,
        16,
    ]
    assert value_of(Broadcast(ramp, 2), x=1).tolist() == [1, 3, 5, 7] * 2
    assert value_of(Shuffle([ramp, x], [4, 0, 3, 3]), x=1).tolist() == [1, 1, 7, 7]
    assert value_of(Shuffle([ramp], [2]), x=1) == 5
    mask = ramp < Broadcast(const(4), 4)
    assert value_of(Select(mask, ramp, Broadcast(const(0), 4)), x=1).tolist() == [1, 3, 0, 0]
    assert value_of(And(mask, Not(mask)), x=1).tolist() == [False] * 4


def test_buffers_of_vectors() -> None:
    a = make_buffer((3,), "float32x4", "A")
    out = np.arange(12, dtype="float32").reshape(3, 4)
    body = store(a, (0,), BufferLoad(a, [const(1)]) * Broadcast(const(2.0), 4))
    run(func((a,), body), out)
    assert out[0].tolist() == [8, 10, 12, 14]


def test_small_integers() -> None:
    for kind, expected in [("int4", -7), ("uint4", 9)]:
        a = make_buffer((2,), kind, "A")
        out = np.zeros(2, dtype(kind).numpy)
        body = seq(store(a, (0,), 7), store(a, (1,), load(a, 0) + const(2, kind)))
        run(func((a,), body), out)
        assert int(out[1]) == expected
        lanes = Ramp(const(0), const(1), 2)
        more = BufferStore(a, BufferLoad(a, [lanes]) + Broadcast(const(7, kind), 2), (lanes,))
        run(func((a,), more), out)
        assert int(out[0]) == (-2 if kind == "int4" else 14)


@pytest.mark.parametrize("name", ["exp", "erf", "sqrt", "floor", "tanh", "rsqrt"])
@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_the_registry(name: str, kind: str) -> None:
    x = Var("x", kind)
    for value in (0.3, 2.0, 50.0, float("nan")):
        expected = evaluate(call(name, x), {x: value})
        np.testing.assert_array_equal(np.float64(value_of(call(name, x), x=value)), expected)
    pair = Broadcast(x, 2)
    expected = evaluate(call(name, x), {x: 0.7})
    np.testing.assert_array_equal(value_of(call(name, pair), x=0.7).astype("f8"), expected)


@given(
    st.data(),
    st.sampled_from(["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]),
    st.sampled_from(["int8", "uint8", "int32", "uint64"]),
)
def test_bit_operations(data: st.DataObject, name: str, kind: str) -> None:
    x, y = Var("x", kind), Var("y", kind)
    a = data.draw(ints(kind))
    b = data.draw(st.integers(0, dtype(kind).bits - 1) if "shift" in name else ints(kind))
    assert value_of(call(name, x, y), x=a, y=b) == evaluate(call(name, x, y), {x: a, y: b})


def test_unary_integer_calls() -> None:
    x = Var("x", "int8")
    for name in ("abs", "bitwise_not", "popcount", "clz"):
        for a in (-128, -1, 0, 5):
            assert value_of(call(name, x), x=a) == evaluate(call(name, x), {x: a})


def test_reinterpret_and_predicates() -> None:
    x = Var("x", "float32")
    assert value_of(Call("int32", "tir.reinterpret", [x]), x=1.0) == 0x3F800000
    assert value_of(Call("bool", "tir.isnan", [x]), x=float("nan"))


def test_unknown_calls_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="call_extern"):
        run(func((), Evaluate(Call("int32", "tir.call_extern", [const(0)]))))


def test_let_expressions_evaluate_once_and_nest() -> None:
    x, y = Var("x"), Var("y")
    inner = Let(y, x * x, y + y)
    assert value_of(Let(y, inner + 1, y * y), x=3) == 361


def test_very_deep_expressions() -> None:
    x = Var("x")
    expr: Any = x
    for _ in range(150):
        expr = Add(const(1), Mul(expr, const(1)))
    assert value_of(expr, x=5) == 155
    y = Var("y")
    assert value_of(Let(y, expr, y + expr), x=5) == 310


def test_shared_parts_are_evaluated_once() -> None:
    x = Var("x", "int64")
    expr = x
    for _ in range(60):  # a tree of 2^60 nodes
        expr = expr + expr
    assert value_of(expr, x=1) == 2**60
    part: Any = x
    for _ in range(12):
        part = FloorDiv(part + part, const(1, "int64"))
    safe = Call("int64", "tir.if_then_else", [x.__ne__(const(0, "int64")), FloorDiv(part, x), part])
    assert [value_of(safe + safe, x=v) for v in (0, 3)] == [0, 8192]
    y = Var("y", "int64")
    assert value_of(Let(y, part, y * part + y), x=1) == 4096 * 4096 + 4096


@pytest.mark.parametrize("op", [Div, Mod, FloorDiv, FloorMod], ids=lambda op: op.__name__)
@pytest.mark.parametrize("divisor", [1, 3, 7, -3])
def test_divisions_by_a_constant(op: Any, divisor: int) -> None:
    x = Var("x", "int32")
    expr = op(x, const(divisor))
    for number in (-(2**31), -7, -6, -1, 0, 1, 6, 2**31 - 1):
        assert value_of(expr, x=number) == evaluate(expr, {x: number})
