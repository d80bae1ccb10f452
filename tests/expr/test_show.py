"""Expressions as text: what Python makes of the text is the expression again."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest

from tileloom.expr import (
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
    StringImm,
    Sub,
    Var,
    const,
    evaluate,
    free_vars,
    intrin,
)
from tileloom.expr.show import show_expr

I, J, K = Var("i"), Var("j"), Var("k")
F, G = Var("f", "float32"), Var("g", "float32")
P, Q, R = Var("p", "bool"), Var("q", "bool"), Var("r", "bool")


class Tree:
    """What Python's operators build of names: the operators as they nest, nothing else."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __bool__(self) -> bool:
        raise AssertionError(f"a chain of comparisons, or a bare `and`: {self.text}")


def _node(symbol: str) -> Any:
    return lambda a, b: Tree(f"<{a.text} {symbol} {b.text}>")


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}.items():  # fmt: skip
    setattr(Tree, f"__{_name}__", _node(_symbol))

FUNCTIONS = {Min: "min", Max: "max", Mod: "truncmod"}
T = SimpleNamespace(
    **{name: _node(name) for name in ("min", "max", "truncmod", "truncdiv")},
)
INTEGERS: tuple[Any, ...] = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Div, Mod)
COMPARISONS: tuple[Any, ...] = (EQ, NE, LT, LE, GT, GE)


def nested(expr: Expr) -> str:
    """The tree of an expression, without a thought of precedence."""
    if not isinstance(expr, BinaryOp):
        return str(expr)
    kind = type(expr)
    symbol = FUNCTIONS.get(kind, kind.symbol)
    if kind is Div and not expr.dtype.is_float:
        symbol = "truncdiv"
    return f"<{nested(expr.a)} {symbol} {nested(expr.b)}>"


def read(text: str) -> str:
    """The tree that Python reads from a text."""
    names = {str(v): Tree(str(v)) for v in (I, J, K, F, G, P, Q, R)}
    found: Tree = eval(text, {"T": T}, names)  # the text was printed here
    return found.text


@pytest.mark.parametrize("outer", INTEGERS, ids=lambda op: op.__name__)
def test_integer_operators_nest(outer: Any) -> None:
    for inner in INTEGERS:
        for expr in (outer(inner(I, J), K), outer(I, inner(J, K)), outer(inner(I, J), inner(J, K))):
            assert read(str(expr)) == nested(expr)


@pytest.mark.parametrize("outer", [Add, Sub, Mul, Div, Min, Max], ids=lambda op: op.__name__)
def test_float_operators_nest(outer: Any) -> None:
    for inner in (Add, Sub, Mul, Div, Min, Max):
        for expr in (outer(inner(F, G), F), outer(F, inner(G, F))):
            assert read(str(expr)) == nested(expr)


@pytest.mark.parametrize("outer", COMPARISONS, ids=lambda op: op.__name__)
def test_comparisons_nest(outer: Any) -> None:
    """A comparison of comparisons has parentheses on both sides: Python would chain them."""
    for inner in INTEGERS:
        for expr in (outer(inner(I, J), K), outer(I, inner(J, K))):
            assert read(str(expr)) == nested(expr)
    for inner in COMPARISONS:
        for expr in (outer(inner(I, J), P), outer(P, inner(J, K)), outer(inner(I, J), inner(J, K))):
            assert read(str(expr)) == nested(expr)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (And(And(P, Q), R), "p and q and r"),
        (And(P, And(Q, R)), "p and (q and r)"),
        (Or(And(P, Q), R), "p and q or r"),
        (Or(P, And(Q, R)), "p or q and r"),
        (And(Or(P, Q), R), "(p or q) and r"),
        (And(P, Or(Q, R)), "p and (q or r)"),
        (Or(Or(P, Q), R), "p or q or r"),
        (Or(P, Or(Q, R)), "p or (q or r)"),
        (And(LT(I, J), NE(J, K)), "i < j and j != k"),
        (EQ(And(P, Q), R), "(p and q) == r"),
        (EQ(R, Or(P, Q)), "r == (p or q)"),
        (Not(P), "not p"),
        (Not(And(P, Q)), "not (p and q)"),
        (Not(LT(I, J)), "not (i < j)"),
        (Not(Not(P)), "not (not p)"),
        (Not(Call("bool", "tir.isnan", (F,))), "not T.isnan(f)"),
        (Not(Cast("bool", I)), 'not (T.Cast("bool", i))'),
    ],
    ids=str,
)
def test_conditions(expr: Expr, text: str) -> None:
    assert str(expr) == text
    if {I, J, K, F}.isdisjoint(free_vars(expr)):
        for values in itertools.product((False, True), repeat=3):
            found = bool(evaluate(expr, dict(zip((P, Q, R), values, strict=True))))
            assert found is eval(text, {}, dict(zip("pqr", values, strict=True)))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (const(7), "7"),
        (const(-7), "-7"),
        (const(True), "T.bool(True)"),
        (const(False), "T.bool(False)"),
        (const(7, "int64"), "T.int64(7)"),
        (const(-7, "int8"), "T.int8(-7)"),
        (IntImm("uint8", 255), "T.uint8(255)"),
        (const(0.1), "T.float32(0.1)"),
        (const(1e300, "float64"), "T.float64(1e+300)"),
        (const(-0.0, "float16"), "T.float16(-0.0)"),
        (FloatImm("float32", math.inf), 'T.float32("inf")'),
        (FloatImm("float32", -math.inf), 'T.float32("-inf")'),
        (FloatImm("bfloat16", math.nan), 'T.bfloat16("nan")'),
        (StringImm("a b"), '"a b"'),
        (Div(F, G), "f / g"),
        (Div(I, J), "T.truncdiv(i, j)"),
        (Mod(F, G), "T.truncmod(f, g)"),
        (Mul(Min(I, J), const(-1)), "T.min(i, j) * -1"),
        (Sub(I, const(-1)), "i - -1"),
        (Cast("int8", Add(I, J)), 'T.Cast("int8", i + j)'),
        (Select(P, Add(I, J), K), "T.Select(p, i + j, k)"),
        (Ramp(Add(I, J), const(2), 4), "T.Ramp(i + j, 2, 4)"),
        (Broadcast(Add(I, J), 4), "T.Broadcast(i + j, 4)"),
        (Shuffle([Ramp(I, const(1), 2), J], [2, 0]), "T.Shuffle([T.Ramp(i, 1, 2), j], [2, 0])"),
        (Call("int32", "tir.call_extern", (StringImm("f"), I, Add(I, J))),
         'T.call_extern("f", i, i + j)'),
        (Call("int32", "tir.lane_id", ()), "T.lane_id()"),
        (intrin.if_then_else(LT(I, J), I, Or(P, Q).astype("int32")),
         'T.if_then_else(i < j, i, T.Cast("int32", p or q))'),
    ],
    ids=str,
)  # fmt: skip
def test_leaves_and_calls(expr: Expr, text: str) -> None:
    assert str(expr) == text == repr(expr)


def test_variables_may_be_called_otherwise() -> None:
    names = {I: "x0", J: "x1", K: "x2"}.__getitem__
    expr = Let(K, Add(I, J), Mul(K, Min(I, K)))
    assert show_expr(expr, names) == "T.Let(x2 * T.min(x0, x2), where={x2: x0 + x1})"
    assert show_expr(Shuffle([I, J], [1]), names) == "T.Shuffle([x0, x1], [1])"
    assert show_expr(Not(LT(I, J)), names) == "not (x0 < x1)"
    assert show_expr(Add(Mul(I, J), FloorDiv(K, FloorMod(I, J))), names) == (
        "x0 * x1 + x2 // (x0 % x1)"
    )
