"""What passes share: constant conditions, expressions over other children, copies of statements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tileloom.expr import (
    Add,
    And,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Not,
    Or,
    Select,
    Var,
    cast,
    conjunction,
    const,
    evaluate,
    has_load,
    intrin,
)
from tileloom.lower.common import (
    Replacer,
    branch,
    conjuncts,
    fresh_copy,
    likely,
    loaded_buffers,
    on_body,
    rebuild,
    replace_vars,
    true_value,
    unlikely_free,
)
from tileloom.script import from_source, show
from tileloom.script import tir as T
from tileloom.tir import (
    Allocate,
    AllocateConst,
    Block,
    BufferLoad,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    make_buffer,
    pre_order,
    structural_equal,
    undefined_vars,
)

X, Y = Var("x"), Var("y")
P, Q, R = X > 0, Y > 1, X < Y
TRUE, FALSE = const(True), const(False)
M, K = make_buffer((9,), "int32", "M"), make_buffer((9,), "int32", "K")


@pytest.mark.parametrize(
    ("condition", "value"),
    [(TRUE, True), (FALSE, False), (P, None), (Call("bool", "tir.likely", (TRUE,)), True),
     (Call("bool", "tir.likely", (FALSE,)), False), (likely(P), None),
     (Call("bool", "tir.likely", (Call("bool", "tir.likely", (FALSE,)),)), False)],
    ids=str,
)  # fmt: skip
def test_values_of_conditions(condition: Expr, value: bool | None) -> None:
    assert true_value(condition) is value
    then, other = Evaluate(const(1)), Evaluate(const(2))
    found = branch(condition, then, other)
    if value is None:
        assert isinstance(found, IfThenElse)
        assert (found.condition, found.then_case, found.else_case) == (condition, then, other)
    else:
        assert found is (then if value else other)
        assert branch(condition, then) is (then if value else None)


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        (TRUE, []), (FALSE, [FALSE]), (P, [P]), (And(P, Q), [P, Q]), (And(And(P, Q), R), [P, Q, R]),
        (And(P, And(Q, R)), [P, Q, R]), (And(P, TRUE), [P]), (And(P, FALSE), [P, FALSE]),
        (Or(P, Q), [Or(P, Q)]), (And(Or(P, Q), R), [Or(P, Q), R]), (Not(P), [Not(P)]),
        (likely(P), [likely(P)]), (likely(And(P, Q)), [likely(P), likely(Q)]),
        (And(likely(P), Q), [likely(P), Q]),
        (likely(And(P, likely(Q))), [likely(P), likely(Q)]),
    ],
    ids=str,
)  # fmt: skip
def test_parts_of_conjunctions(condition: Expr, parts: list[Expr]) -> None:
    for _ in range(2):  # what is kept is the same
        assert list(map(str, conjuncts(condition))) == list(map(str, parts))
    whole = conjunction(conjuncts(condition))
    for x, y in itertools.product(range(-1, 3), repeat=2):
        env = {X: x, Y: y}
        assert bool(evaluate(whole, env)) == bool(evaluate(condition, env))


def test_conjunctions() -> None:
    none = conjunction([])
    assert isinstance(none, IntImm) and none.value == 1 and none.dtype == "bool"
    assert conjunction([P]) is P
    assert str(conjunction([P, Q, R])) == str(And(And(P, Q), R))


def test_promises_are_made_once() -> None:
    promised = likely(P)
    assert isinstance(promised, Call) and promised.dtype == "bool"
    assert promised.op == "tir.likely" and promised.args == (P,)
    assert likely(promised) is promised and likely(TRUE) is TRUE and likely(FALSE) is FALSE
    assert isinstance(likely(intrin.isnan(Var("f", "float32"))), Call)
    assert likely(intrin.isnan(Var("f", "float32"))).op == "tir.likely"  # type: ignore[attr-defined]
    assert unlikely_free(promised) is P and unlikely_free(P) is P
    assert unlikely_free(Call("bool", "tir.likely", (promised,))) is P
    call = intrin.isnan(Var("f", "float32"))
    assert unlikely_free(call) is call


def number(value: int, kind: str = "int32") -> Expr:
    return IntImm(kind, value)


U = Var("u", "uint8")
REBUILT = [
    (Add(X, Y), (number(3), number(4)), "7"),
    (Add(X, Y), (X, number(0)), "x"),
    (Add(U, U), (number(200, "uint8"), number(100, "uint8")), "T.uint8(44)"),
    (FloorDiv(X, Y), (number(7), number(2)), "3"),
    (FloorMod(X, Y), (number(7), number(0)), "7 % 0"),
    (FloorDiv(X, Y), (number(7), number(0)), "7 // 0"),
    (Div(X, Y), (number(7), number(0)), "T.truncdiv(7, 0)"),
    (Mod(X, Y), (number(7), number(0)), "T.truncmod(7, 0)"),
    (Mod(X, Y), (number(-7), number(2)), "-1"),
    (Add(X, Y), (number(7), number(0)), "7"),
    (Select(P, X, Y), (TRUE, X, Y), "x"),
    (Select(P, X, Y), (FALSE, X, Y), "y"),
    (Select(P, X, Y), (Q, X, Y), "T.Select(y > 1, x, y)"),
    (Not(P), (TRUE,), "T.bool(False)"),
    (Not(P), (Q,), "not (y > 1)"),
    (cast("int64", X), (number(5),), "T.int64(5)"),
    (likely(P), (TRUE,), "T.bool(True)"),
    (likely(P), (Q,), "T.likely(y > 1)"),
    (T.if_then_else(P, X, Y), (TRUE, X, Y), "x"),
    (T.if_then_else(P, X, Y), (FALSE, X, Y), "y"),
    (T.if_then_else(P, X, Y), (Call("bool", "tir.likely", (FALSE,)), X, Y), "y"),
    (T.if_then_else(P, X, Y), (Q, Y, X), "T.if_then_else(y > 1, y, x)"),
    (intrin.abs(X), (number(-5),), "T.abs(-5)"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "children", "text"), REBUILT)
def test_expressions_over_other_children(expr: Expr, children: tuple[Expr, ...], text: str) -> None:
    """Constants are folded, but for divisions by zero, which may never be reached."""
    found = rebuild(expr, children)
    assert str(found) == text
    assert found.dtype is expr.dtype


def test_loads_inside_of_expressions() -> None:
    one, other = BufferLoad(M, [X]), BufferLoad(K, [BufferLoad(M, [Y])])
    cases: list[tuple[Any, set[Any]]] = [
        (X, set()), (const(3), set()), (X + Y, set()), (one, {M}), (one + X, {M}), (other, {M, K}),
        (T.if_then_else(P, X, other * 2), {M, K}), (BufferLoad(K, [X]) + 1, {K}),
    ]  # fmt: skip
    for expr, buffers in cases * 2:  # the second time what is kept is asked
        assert has_load(expr) is bool(buffers)
        assert loaded_buffers(expr) == buffers


# ---------------------------------------------------------------------------- statements

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int32, m: T.int32):
"""


def parsed(text: str) -> PrimFunc:
    func = from_source(HEAD + "\n".join("    " + line for line in text.strip().split("\n")) + "\n")
    assert isinstance(func, PrimFunc)
    return func


PROGRAM = """
with T.block("root"):
    S = T.alloc_buffer((8,), "float32")
    for i in range(n, n + 8):
        with T.block("w"):
            v = T.axis.spatial(64, i + n)
            T.where(n < 3)
            T.reads(A[v])
            T.writes(S[v % 8])
            V = T.match_buffer(S[n:n + 4], (4,))
            S[v % 8] = A[v] + T.Cast("float32", n)
    x = T.int32()
    with T.LetStmt(n + m, var=x):
        A[x] = T.if_then_else(n > 3, S[x], T.float32(0))
"""
FLAT = """
D = T.allocate([n], "float32", "global", n > 2)
C = T.allocate_const([1.0, 2.0], "float32", [2])
E = T.decl_buffer((n,), data=D, elem_offset=n + 1, strides=(m,))
while E[n] > A[n]:
    E[n + m] = A[m] * 2.0
    T.evaluate(C)
"""


REPLACED = """
# with T.block("root"):
S = T.alloc_buffer((8,))
for i in range(2, 10):
    with T.block("w"):
        v = T.axis.spatial(64, i + 2)
        T.reads(A[v])
        T.writes(S[v % 8])
        V = T.match_buffer(S[2:6], (4,))
        S[v % 8] = A[v] + T.float32(2.0)
x: T.int32 = 2 + (m + 1)
A[x] = T.float32(0.0)
"""
FLAT_REPLACED = """
D = T.allocate([2], "float32", "global", condition=T.bool(False))
C = T.allocate_const([1.0, 2.0], "float32", [2])
E = T.decl_buffer((2,), data=D, strides=(m + 1,), elem_offset=3)
while E[2] > A[2]:
    E[2 + (m + 1)] = A[m + 1] * T.float32(2.0)
    T.evaluate(C)
"""


def lines(func: PrimFunc) -> str:
    body = show(func).split("):\n", 1)[1]
    return "".join(line.removeprefix("    ") + "\n" for line in body.splitlines())


@pytest.mark.parametrize(("program", "wanted"), [(PROGRAM, REPLACED), (FLAT, FLAT_REPLACED)])
def test_variables_are_replaced_everywhere(program: str, wanted: str) -> None:
    func = parsed(program)
    _, n, m = func.params
    values = {n: const(2), m: m + 1}
    got = replace_vars(func.body, values)
    assert lines(func.replace(body=got)).strip() == wanted.strip()
    copied = fresh_copy(func.body, values)
    assert lines(func.replace(body=copied)).strip() == wanted.strip()
    assert replace_vars(func.body, {}) is func.body and on_body(func, lambda stmt: stmt) is func
    assert replace_vars(func.body, {Var("other"): const(1)}) is func.body
    assert on_body(func, lambda stmt: got).body is got


def definitions(body: Stmt) -> Iterator[Var]:
    for stmt in pre_order(body):
        match stmt:
            case For():
                yield stmt.loop_var
            case LetStmt():
                yield stmt.var
            case Allocate() | AllocateConst():
                yield stmt.buffer_var
            case Block():
                yield from (axis.var for axis in stmt.iter_vars)
                yield from (buffer.data for buffer in stmt.alloc_buffers)
                yield from (match.buffer.data for match in stmt.match_buffers)


@pytest.mark.parametrize("program", [PROGRAM, FLAT])
def test_a_fresh_copy_shares_no_definition(program: str) -> None:
    func = parsed(program)
    copied = fresh_copy(func.body, {})
    assert structural_equal(func, func.replace(body=copied))
    both = [set(definitions(body)) for body in (func.body, copied)]
    assert both[0] and len(both[0]) == len(both[1]) and both[0].isdisjoint(both[1])
    assert set(undefined_vars(copied)) == set(undefined_vars(func.body))


def test_a_buffer_in_the_table_is_put_everywhere() -> None:
    func = parsed(PROGRAM)
    a = func.buffer_map[func.params[0]]
    new = make_buffer((64,), "float32", "N")
    text = lines(func.replace(body=Replacer({}, {a: new}).visit(func.body)))
    wanted = "N = T.Buffer((64,))\n" + lines(func).replace("A[", "N[")
    assert text.strip() == wanted.strip()


def test_a_let_that_binds_a_replaced_variable() -> None:
    z = Var("z")
    expr = Let(X, Y + 1, X * 2 + Y)
    assert str(Replacer({X: z}, {}).visit_expr(expr)) == str(Let(z, Y + 1, z * 2 + Y))
    assert Replacer({z: X}, {}).visit_expr(expr) is expr
