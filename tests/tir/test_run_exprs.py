"""Expressions as Python source: of any depth, of any size, with effects as often as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError, UserError, VerifyError
from tileloom.expr import (
    LT,
    NE,
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
    evaluate,
    free_vars,
    intrin,
)
from tileloom.tir import BufferLoad, BufferStore, Evaluate, make_buffer, seq
from tileloom.tir.run import run
from tileloom.tir.run_stmts import StmtCompiler
from tir.programs import func, store

X, F = Var("x"), Var("f", "float32")
BYTES = make_buffer((256,), "uint8", "Bytes")
TABLE = make_buffer((16,), "int32", "Table")
LANES = Ramp(const(0), const(1), 4)
DEEP = 70
NESTED = 60  # of parentheses, of which Python reads about 200: deeper parts get a line of their own


def program(expr: Expr, *buffers: Any) -> Any:
    """A function that stores the expression, of buffers and of its variables."""
    lanes = expr.dtype.lanes
    out = make_buffer((lanes,), expr.dtype.element, "Out")
    index = const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)
    variables = sorted(free_vars(expr), key=lambda v: v.name)
    return func((out, *buffers, *variables), BufferStore(out, expr, (index,)))


def outcome(expr: Expr, value: Any, *arrays: Any, strict: bool = False) -> Any:
    """What the interpreter computes where every variable has the value."""
    made = program(expr, *(b for b, _ in arrays))
    result = np.zeros(expr.dtype.lanes, expr.dtype.element.numpy)
    values = [value] * len(free_vars(expr))
    run(made, result, *(a for _, a in arrays), *values, strict=strict)
    return result.tolist() if len(result) > 1 else result[0].item()


def nesting(made: Any, strict: bool = False) -> int:
    """The most parentheses within one another in a line of the source."""
    compiler = StmtCompiler(made, strict)
    compiler.head()
    compiler.stmt(made.body)
    deepest = 0
    for line in compiler.lines:
        depth = 0
        for sign in line:
            depth += (sign in "([") - (sign in ")]")
            deepest = max(deepest, depth)
    return deepest


def four(value: Any) -> Expr:
    return Broadcast(value if isinstance(value, Expr) else const(value), 4)


def wrap8(value: int) -> int:
    return (value + 128) % 256 - 128


#: A step that is taken again and again, from what, and what Python computes for it.
STEPS: dict[str, tuple[Callable[[Any], Expr], Expr, Callable[[Any], Any]]] = {
    "add": (lambda e: Add(e, const(1)), X, lambda v: v + 1),
    "subtract from": (lambda e: Sub(const(9), e), X, lambda v: 9 - v),
    "wrap": (lambda e: Add(e, const(100, "int8")), Var("b", "int8"), lambda v: wrap8(v + 100)),
    "unsigned": (lambda e: Mul(e, const(3, "uint8")), Var("u", "uint8"), lambda v: v * 3 % 256),
    "least": (lambda e: Min(Max(e, const(3)), const(7)), X, lambda v: min(max(v, 3), 7)),
    "quotient": (lambda e: Sub(Div(e, const(-2)), const(5)), X, lambda v: int(v / -2) - 5),
    "floor": (lambda e: Add(FloorDiv(e, const(3)), const(7)), X, lambda v: v // 3 + 7),
    "remainder": (lambda e: FloorMod(Mul(e, const(5)), const(7)), X, lambda v: v * 5 % 7),
    "signed rest": (lambda e: Mod(Sub(e, const(9)), const(7)), X,
                    lambda v: int(np.fmod(v - 9, 7))),
    "cast": (lambda e: Cast("int32", Cast("int8", Mul(e, const(5)))), X, lambda v: wrap8(v * 5)),
    "truth": (lambda e: Cast("int32", LT(e, const(1))), X, lambda v: int(v < 1)),
    "not": (Not, LT(X, const(5)), lambda v: not v),
    "and": (lambda e: And(NE(X, const(0)), e), LT(X, const(5)), lambda v: v),
    "or": (lambda e: Or(LT(X, const(0)), e), LT(X, const(5)), lambda v: v),
    "condition": (lambda e: Select(LT(e, const(3)), const(5), const(2)), X,
                  lambda v: 5 if v < 3 else 2),
    "yes": (lambda e: Select(LT(X, const(99)), e + 1, const(0)), X, lambda v: v + 1),
    "no": (lambda e: intrin.if_then_else(X < 0, 0, e + 1), X, lambda v: v + 1),
    "let": (lambda e: Let(y := Var("y"), e, y + 1), X, lambda v: v + 1),
    "bits": (lambda e: Call("int32", "tir.bitwise_xor", (e, const(5))), X, lambda v: v ^ 5),
    "shift": (lambda e: Call("int32", "tir.shift_left", (e, const(1))), X,
              lambda v: (v * 2 + 2**31) % 2**32 - 2**31),
    "count": (lambda e: Call("int32", "tir.popcount", (e + 6,)), X, lambda v: (v + 6).bit_count()),
    "likely": (lambda e: Call("bool", "tir.likely", (Not(e),)), LT(X, const(5)), lambda v: not v),
    "float": (lambda e: Add(Mul(e, const(0.5)), const(2.0)), F, lambda v: v * 0.5 + 2),
    "float least": (lambda e: Min(e + 1.0, const(8.5)), F, lambda v: min(v + 1, 8.5)),
    "float rest": (lambda e: FloorMod(e + 3.0, const(7.0)), F, lambda v: (v + 3) % 7),
    "float sign": (lambda e: Mod(Sub(const(2.0), e), const(5.0)), F,
                   lambda v: float(np.fmod(2 - v, 5))),
    "bits again": (lambda e: Call("int32", "tir.reinterpret",
                                  (Call("float32", "tir.reinterpret", (e + 1,)),)), X,
                   lambda v: v + 1),
    "to float": (lambda e: Cast("int32", Cast("float32", e) + 1.5), X, lambda v: int(v + 1.5)),
    "shuffle": (lambda e: Shuffle([e + 1, X], [0]), X, lambda v: v + 1),
    "lanes": (lambda e: Add(e, LANES), four(X), lambda v: [a + k for k, a in enumerate(v)]),
    "least lanes": (lambda e: Min(e + four(1), four(9)), four(X),
                    lambda v: [min(a + 1, 9) for a in v]),
    "lane quotients": (lambda e: Add(FloorDiv(e, four(2)), LANES), four(X),
                       lambda v: [a // 2 + k for k, a in enumerate(v)]),
    "small lanes": (lambda e: Add(e, four(const(3, "int4"))), four(Var("s", "int4")),
                    lambda v: [(a + 3 + 8) % 16 - 8 for a in v]),
    "chosen lanes": (lambda e: Select(LT(e, four(6)), e + four(1), LANES), four(X),
                     lambda v: [a + 1 if a < 6 else k for k, a in enumerate(v)]),
    "cast lanes": (lambda e: Cast("int32x4", Cast("int8x4", e * four(3))), four(X),
                   lambda v: [wrap8(a * 3) for a in v]),
    "ramp": (lambda e: Shuffle([Ramp(e + 1, const(2), 2)], [0]), X, lambda v: v + 1),
    "broadcast": (lambda e: Shuffle([Broadcast(e + 1, 2)], [1]), X, lambda v: v + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_expressions_of_any_depth(name: str) -> None:
    step, expr, meaning = STEPS[name]
    value: Any = 3
    wanted: Any = evaluate(expr, dict.fromkeys(free_vars(expr), 3))
    for _ in range(DEEP):
        expr, wanted = step(expr), meaning(wanted)
    assert outcome(expr, value) == wanted
    assert nesting(program(expr)) < NESTED


@pytest.mark.parametrize("strict", [False, True])
def test_loads_of_any_depth(strict: bool) -> None:
    """An index that is known to be inside, one that is checked, and vectors of them."""
    following = np.arange(1, 257).astype("uint8")
    table = (np.arange(16, dtype="int32") * 5 + 3) % 16
    known, checked = const(3, "uint8"), const(3)
    lanes: Expr = LANES
    masked: Expr = LANES
    places, wanted = np.arange(4), 3
    depth = 6 if strict else DEEP  # each check writes the index out once more
    for _ in range(depth):
        known, checked = BufferLoad(BYTES, [known]), BufferLoad(TABLE, [checked])
        lanes = BufferLoad(TABLE, [lanes])
        masked = BufferLoad(TABLE, [masked], NE(masked, four(-1)))
        places, wanted = table[places], int(table[wanted])
    assert outcome(known, 0, (BYTES, following), strict=strict) == (3 + depth) % 256
    assert outcome(checked, 0, (TABLE, table), strict=strict) == wanted
    assert outcome(lanes, 0, (TABLE, table), strict=strict) == places.tolist()
    assert outcome(masked, 0, (TABLE, table), strict=strict) == places.tolist()
    for expr, buffer in ((known, BYTES), (checked, TABLE), (lanes, TABLE), (masked, TABLE)):
        assert nesting(program(expr, buffer), strict) < NESTED


# ---------------------------------------------------------------------------- shared parts


def counter(cell: Any) -> Expr:
    """An atomic call, which gives what was there before and adds one."""
    address = Call("handle", "tir.address_of", (BufferLoad(cell, [const(0)]),))
    return Call("int32", "tir.atomic_add", (address, const(1)))


@pytest.mark.parametrize("wide", [False, True])
def test_effects_happen_as_often_as_they_are_written(wide: bool) -> None:
    """Also where an expression is so large that its parts are evaluated once."""
    cell = make_buffer((1,), "int32", "cell")
    effect = counter(cell)
    part = (effect + X) * 3 + (X + 1) * (X + 2) if wide else effect
    pure: Expr = X
    for _ in range(9):  # 2^9 nodes as a tree
        pure = Add(pure, pure)
    memory = np.zeros(1, "int32")
    found = outcome(Add(Add(part, part), pure), 2, (cell, memory))
    assert memory.tolist() == [2]
    values = [(k + 2) * 3 + 12 if wide else k for k in range(2)]
    assert found == sum(values) + 2 * 512


def test_what_is_shared_is_not_evaluated_where_it_is_not_needed() -> None:
    part: Any = FloorDiv(const(1000), X)  # fails for 0
    for k in range(8):
        part = part + FloorMod(part, const(k + 2))
    safe = intrin.if_then_else(NE(X, const(0)), part * part, const(-1))
    assert outcome(safe + safe, 0) == -2
    once = outcome(part, 7)
    assert once == evaluate(part, {X: 7}) and outcome(safe + safe, 7) == 2 * once * once


@pytest.mark.parametrize("value", [0, 1, 5, 9])
def test_lets_hide_one_another(value: int) -> None:
    """The same name within itself, and within the value of itself."""
    y = Var("y")
    inner = Let(y, X + 1, y * y)
    for expr, wanted in [
        (Let(y, inner, y + 1), (value + 1) ** 2 + 1),
        (Let(y, X, Let(y, y + 2, y * 10) + y), (value + 2) * 10 + value),
        (Let(y, X, Let(y, y + 2, y) * Let(y, y + 3, y)), (value + 2) * (value + 3)),
    ]:
        assert outcome(expr, value) == wanted


# ---------------------------------------------------------------------------- calls


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("op", ["abs", "pow", "shift_left", "shift_right", "bitwise_not"])
def test_results_of_calls_are_wrapped(op: str, kind: str) -> None:
    info = np.iinfo(kind)
    a, b = Var("a", kind), Var("b", kind)
    unary = op in ("abs", "bitwise_not")
    call = Call(kind, f"tir.{op}", (a,) if unary else (a, b))
    small = (1, 2, 3, info.bits - 1)
    for value in (0, 1, 5, info.max, info.max - 1, info.min, info.min + 1):
        for count in small if not unary else (0,):
            given = {a: value, b: count}
            if op == "pow":
                exact = (value**count - int(info.min)) % (1 << info.bits) + int(info.min)
                wanted = exact
            else:
                wanted = evaluate(call, given)
            out = make_buffer((1,), kind, "Out")
            result = np.zeros(1, kind)
            run(func((out, a, b), store(out, (0,), call)), result, value, count)
            assert int(result[0]) == wanted


CASTS = [(1 << 53) + (1 << 29) + 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 24) + 1]


@pytest.mark.parametrize("value", [*CASTS, *(-v for v in CASTS), (1 << 62) + (1 << 38) + 1])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_large_integers_are_rounded_once(value: int, kind: str) -> None:
    """To float32 by way of float64 some would be rounded to a neighbour."""
    wide = Cast(kind, Var("v", "int64"))
    assert outcome(wide, value) == float(np.int64(value).astype(kind))
    if value > 0:
        top = value + (1 << 63)
        assert outcome(Cast(kind, Var("v", "uint64")), top) == float(np.uint64(top).astype(kind))


def test_numbers_of_wide_types_keep_their_bits() -> None:
    for kind in ("float16", "bfloat16", "float32", "float64"):
        out = make_buffer((2,), kind, "Out")
        result = np.zeros(2, dtype(kind).numpy)
        body = seq(store(out, (0,), const(0.1, kind)), store(out, (1,), const(-1e9, kind)))
        run(func((out,), body), result)
        with np.errstate(over="ignore"):
            assert result[0] == dtype(kind).numpy.type(0.1)
            assert result[1] == dtype(kind).numpy.type(-1e9)


@pytest.mark.parametrize(
    ("expr", "error", "text"),
    [
        (Call("int32", "tir.call_extern", (const(0),)), UnsupportedError, "no meaning for"),
        (Call("int32", "tir.lane_id", ()), UnsupportedError, "cannot run 'tir.lane_id'"),
        (Call("int32", "tir.no_such", (const(0),)), UnsupportedError, "'tir.no_such'"),
        (Var("unknown") + 1, VerifyError, "variable 'unknown' is used where it has no value"),
        (BufferLoad(TABLE, [const(16)]), VerifyError, "index 16 is out of bounds for axis 0"),
        (BufferLoad(TABLE, [const(-1)]), VerifyError, "index -1 is out of bounds for axis 0"),
        (BufferLoad(TABLE, [Ramp(const(13), const(1), 4)]), VerifyError, "index 16 is out of"),
        (BufferLoad(TABLE, [Ramp(const(2), const(-1), 4)]), VerifyError, "index -1 is out of"),
        (FloorDiv(const(1), X - 3), UserError, "integer division by zero in 'main'"),
        (FloorMod(const(1), X - 3), UserError, "integer division by zero in 'main'"),
        (Div(const(1), X - 3), UserError, "integer division by zero in 'main'"),
    ],
    ids=str,
)  # fmt: skip
def test_refusals(expr: Expr, error: type[Exception], text: str) -> None:
    if "unknown" not in str(expr):
        with pytest.raises(error, match=text):
            outcome(expr, 3, (TABLE, np.zeros(16, "int32")))
        return
    with pytest.raises(error, match=text):
        run(func((), Evaluate(expr)))


def test_masked_lanes_reach_no_memory() -> None:
    wild = Ramp(X, const(7), 4)
    mask = LT(wild, four(16))
    table = np.arange(16, dtype="int32") * 10
    assert outcome(BufferLoad(TABLE, [wild], mask), 1, (TABLE, table)) == [10, 80, 150, 0]
