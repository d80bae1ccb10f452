"""The loads of an expression and their conditions, held against what evaluating it reads."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.expr import And, Expr, Let, Not, Or, Select, Var, const, evaluate, free_vars
from tileloom.lower.analysis.guarded_accesses import accesses_in, accesses_of
from tileloom.script import tir as T
from tileloom.tir import (
    Block,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    IfThenElse,
    make_buffer,
)

X, Y, Z = (Var(name) for name in "xyz")
A, B, C = (make_buffer((9,), "int32", name) for name in "ABC")


def a(index: Any) -> BufferLoad:
    return BufferLoad(A, [index])


def b(index: Any) -> BufferLoad:
    return BufferLoad(B, [index])


def choose(condition: Expr, yes: Any, no: Any) -> Expr:
    return T.if_then_else(condition, yes, no)


def read(expr: Expr, env: dict[Var, int], found: set[tuple[str, int]]) -> int:
    """The value of an expression where element `i` is `i`; notes what is read on the way."""

    def of(part: Expr) -> int:
        return read(part, env, found)

    match expr:
        case BufferLoad():
            place = of(expr.indices[0])
            found.add((expr.buffer.name, place))
            return place
        case And(left, right):
            return of(left) and of(right)
        case Or(left, right):
            return of(left) or of(right)
        case Select(condition, yes, no):
            return of(yes) if of(condition) else of(no)
        case Let(var, value, body):
            return read(body, {**env, var: of(value)}, found)
    if getattr(expr, "op", "") == "tir.if_then_else":
        condition, yes, no = expr.children
        return of(yes) if of(condition) else of(no)
    values = {child: of(child) for child in expr.children}
    if not values:
        return int(evaluate(expr, {v: env[v] for v in free_vars(expr)}))
    return int(evaluate(expr.with_children([const(values[c], c.dtype) for c in expr.children]), {}))


EXPRS: list[Expr] = [
    a(X), a(X) + b(Y), a(b(X)), a(b(X) + Y) * 2, X + Y,
    choose(X > 0, a(X), b(Y)), Select(X > 0, a(X), b(Y)),
    choose(a(X) > 1, a(Y), const(0)), choose(X > 0, choose(Y > 0, a(X), b(Y)), a(Y)),
    choose(X > 0, a(X), const(0)) + a(X), a(X) + choose(X > 0, a(X), const(0)),
    choose(X > 0, a(X), const(1)) + choose(Y > 0, a(X), b(X)),
    Select(And(X > 0, a(X) > 1), a(Y), const(3)), Select(Or(X > 0, a(X) > 1), b(Y), a(Y)),
    Select(And(And(X > 0, Y > 0), a(X) > 1), const(1), const(0)),
    Select(Or(Not(a(X) > 0), b(X) > a(Y)), const(1), const(0)),
    choose(X > 0, a(choose(Y > 0, b(X), b(Y))), const(0)),
    Let(Z, a(X) + 1, choose(Z > 1, b(Z), a(Y))), Let(Z, X + 1, choose(Y > 0, a(Z), const(2))),
    choose(X > 0, a(X), a(X)),
]  # fmt: skip


@pytest.mark.parametrize("expr", EXPRS, ids=str)
def test_what_is_read_under_its_conditions(expr: Expr) -> None:
    accesses = accesses_in([expr])
    for x, y in itertools.product(range(3), repeat=2):
        env = {X: x, Y: y}
        wanted: set[tuple[str, int]] = set()
        read(expr, env, wanted)
        found = set()
        for access, guards in accesses:
            if all(read(guard, env, set()) for guard in guards):
                found.add((access.buffer.name, read(access.indices[0], env, set())))
        assert found == wanted


@pytest.mark.parametrize(
    ("expr", "texts"),
    [
        (a(b(X)), ["B[x]", "A[B[x]]"]),
        (a(X) + a(X), ["A[x]"]),
        (choose(X > 0, a(X), const(0)) + a(X), ["A[x] if x > 0", "A[x]"]),
        (a(X) + choose(X > 0, a(X), const(0)), ["A[x]"]),
        (choose(X > 0, a(X), b(X)), ["A[x] if x > 0", "B[x] if not (x > 0)"]),
        (Select(And(X > 0, a(X) > 1), a(Y), const(0)),
         ["A[x] if x > 0", "A[y] if x > 0 and A[x] > 1"]),
        (T.address_of(a(b(X))), ["B[x]"]),
        (T.address_of(a(X)), []),
        (T.max(a(X), 1), ["A[x]"]),
    ],
    ids=str,
)  # fmt: skip
def test_each_is_said_once(expr: Expr, texts: list[str]) -> None:
    found = []
    for access, guards in accesses_in([expr]):
        condition = " and ".join(map(str, guards))
        found.append(f"{access} if {condition}" if guards else str(access))
    assert found == texts


def test_accesses_of_statements() -> None:
    store = BufferStore(C, a(X), (b(Y),))
    assert [str(x) for x, _ in accesses_of(store)][:2] == ["A[x]", "B[y]"]
    assert accesses_of(store)[2:] == [(store, ())]
    test = IfThenElse(a(X) > 0, store)
    assert [str(x) for x, _ in accesses_of(test)] == ["A[x]"]
    assert accesses_of(Evaluate(X)) == []
    region = BufferRegion.point(A, (b(X),))
    assert accesses_of(Block((), (region,), (), "block", store)) == []


def test_a_chain_of_choices_ends() -> None:
    """Each part is shared by two ways, so there are 2^40 paths."""
    expr: Expr = a(X)
    for k in range(40):
        part = Var(f"c{k}")
        expr = choose(part > 0, expr + 1, expr + 2)
    found = accesses_in([expr])
    assert 0 < len(found) <= 64 and {access.buffer for access, _ in found} == {A}
