"""Powers that are something simpler, with the values of powers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileloom import assembly, build, te
from tileloom.expr import Call, Var, as_expr, const, post_order
from tileloom.lower import lower
from tileloom.lower.loops.map_calls import POW, POWERS, map_calls
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.tir import (
    BufferStore,
    IRModule,
    PrimFunc,
    collect,
    make_buffer,
    pre_order,
    run,
    stmt_exprs,
)

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0, -2.0, 0.25, 3.0, 1e-3, 1e4,
]  # fmt: skip


def powers(func: PrimFunc) -> int:
    """How many calls of `pow` are left."""
    exprs = [expr for node in pre_order(func.body) for expr in stmt_exprs(node)]
    nodes = [node for expr in exprs for node in post_order(expr)]
    return sum(isinstance(node, Call) and node.op == POW for node in nodes)


def power(exponent: float, kind: str, size: int) -> PrimFunc:
    a = te.placeholder((size,), kind, name="A")
    b = te.compute((size,), lambda i: T.pow(a[i], const(exponent, kind)), name="B")
    return te.create_prim_func([a, b])


def values(kind: str) -> np.ndarray:
    info = np.finfo(kind)
    edge = [info.max, info.tiny, -info.tiny, info.smallest_subnormal, -info.max, info.eps]
    with np.errstate(over="ignore"):
        random = 10 ** np.random.default_rng(0).uniform(-3, 3, 45)
    return np.array([*SPECIAL, *edge, *random], kind)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", sorted(POWERS))
def test_values(exponent: float, kind: str) -> None:
    """Also of vectors: the loop is one."""
    x = values(kind)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("longdouble"), np.longdouble(exponent)).astype(kind)
    for vectors in (False, True):
        sch = Schedule(power(exponent, kind, len(x)))
        if vectors:
            sch.vectorize(sch.get_loops("B")[0])
        func = sch.mod["main"]
        assert powers(map_calls(func)) == int(exponent == -0.5 and kind == "float16")
        for got in (np.empty_like(x), np.empty_like(x)):
            if vectors:
                build(func)(x, got)
            else:
                run(map_calls(func), x, got)
            with np.errstate(all="ignore"):
                unit = np.spacing(np.abs(want)) * (exponent in (-0.5, -1.0, 0.5))
                close = np.abs(got - want) <= unit
            same = (got == want) & (np.signbit(got) == np.signbit(want))
            assert (close | same | (np.isnan(got) & np.isnan(want))).all()


@pytest.mark.parametrize("exponent", [3.0, 0.25, -2.0, math.nan, math.inf, 0.5000001])
def test_other_powers_stay(exponent: float) -> None:
    func = power(exponent, "float32", 8)
    assert map_calls(func) is func


def test_exponents_that_are_not_constant() -> None:
    a, n = make_buffer((4,), "float32", "A"), Var("n", "float32")
    p = Var("p", "handle")
    store = BufferStore(a, Call("float32", POW, (a[0], n)), (const(1),))
    func = PrimFunc((p, n), store, {p: a})
    assert map_calls(func) is func


def test_inside_of_others_and_twice() -> None:
    func = power(0.5, "float32", 8)
    (store,) = collect(func.body, BufferStore)
    nested = Call("float32", POW, (store.value, const(2.0, "float32")))
    twice = func.replace(body=BufferStore(store.buffer, nested, (as_expr(0),)))
    once = map_calls(twice)
    assert powers(once) == 0
    assert map_calls(once) is once


def test_in_both_pipelines() -> None:
    assert powers(lower(power(0.5, "float32", 8))) == 0
    sch = Schedule(power(0.5, "float32", 64))
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    assert powers(lower(sch.mod["main"], "cuda -arch=sm_80")) == 0
    ptx = assembly(IRModule({"main": sch.mod["main"]}), "cuda -arch=sm_80")
    assert "sqrt.rn.f32" in ptx
    assert len(ptx.splitlines()) < 60  # a power takes far more
