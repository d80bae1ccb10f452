"""Random thread programs through the passes after flattening: each alone, and all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileloom.expr import Call, IterVar, Max, Min, Range, Var, as_expr, const, logical_not
from tileloom.lower.blocks.lower_opaque_block import allocate
from tileloom.lower.gpu.eliminate_common_loads import eliminate_common_loads
from tileloom.lower.gpu.unroll_register_loops import unroll_register_loops
from tileloom.lower.loops.eliminate_invariant_loops import eliminate_invariant_loops
from tileloom.lower.loops.fuse_ifs import fuse_ifs
from tileloom.lower.loops.hoist_if import hoist_if
from tileloom.lower.loops.remove_no_op import remove_no_op
from tileloom.lower.loops.simplify import simplify
from tileloom.lower.loops.unroll_loops import unroll_loops
from tileloom.lower.pipeline import Pass, name_of
from tileloom.simt import run_kernels
from tileloom.tir import (
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    make_buffer,
    seq,
    structural_equal,
    verify,
)

THREADS, SIZE = 8, 64
PASSES: tuple[Pass, ...] = (
    eliminate_common_loads, unroll_register_loops, unroll_loops, hoist_if, simplify,
    eliminate_invariant_loops, remove_no_op, fuse_ifs,
)  # fmt: skip


class Programs:
    """Draws programs in which each thread writes only what is its own."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.a = make_buffer((SIZE,), "float32", "A")
        self.b = make_buffer((SIZE,), "float32", "B")
        self.own = make_buffer((4,), "float32", "own", scope="local")
        self.t, self.n = Var("t"), Var("n")

    def pick(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def place(self, loops: list[Var]) -> Any:
        """An element of this thread: one of eight."""
        step = self.pick(const(0), const(1), *loops, *(k + 1 for k in loops))
        return Min(Max(as_expr(step), const(0)), const(7)) * 8 + self.t

    def condition(self, loops: list[Var]) -> Any:
        number = self.pick(self.t, self.n, *loops)
        simple = number < self.pick(1, 2, 5)
        of_memory = self.pick(self.a, self.b)[self.place(loops)] > const(0.0, "float32")
        return self.pick(simple, simple, logical_not(simple), number >= 2, of_memory)

    def value(self, loops: list[Var]) -> Any:
        zero = const(0.5, "float32")
        load = self.pick(self.a, self.a, self.b)[self.place(loops)]
        some = Call("float32", "tir.if_then_else", (self.condition(loops), load, zero))
        kept = self.own[self.pick(const(0), const(1), *(Min(k, const(3)) for k in loops))]
        return self.pick(load, load, load + zero, some, kept * zero, load - kept, zero)

    def leaf(self, loops: list[Var]) -> Stmt:
        if self.pick(True, False):
            at = self.pick(const(0), const(1), *(Min(k, const(3)) for k in loops))
            return BufferStore(self.own, self.value(loops), (at,))
        return BufferStore(self.b, self.value(loops), (self.place(loops),))

    def block(self, depth: int, loops: list[Var]) -> Stmt:
        return seq(*(self.stmt(depth, loops) for _ in range(self.pick(1, 2, 3))))

    def stmt(self, depth: int, loops: list[Var]) -> Stmt:
        kind = self.pick("leaf", "loop", "loop", "if", "else", "same") if depth else "leaf"
        if kind == "leaf":
            return self.leaf(loops)
        if kind == "loop":
            var = Var("k")
            extent = self.pick(const(1), const(2), const(3), const(0), self.n)
            low = self.pick(const(0), const(0), const(1))
            return For(var, low, extent, "serial", self.block(depth - 1, [*loops, var]))
        condition = self.condition(loops)
        yes = self.block(depth - 1, loops)
        if kind == "same":
            return seq(IfThenElse(condition, yes), IfThenElse(condition, self.leaf(loops)))
        return IfThenElse(condition, yes, self.leaf(loops) if kind == "else" else None)

    def function(self) -> PrimFunc:
        start = [BufferStore(self.own, const(k / 4, "float32"), (const(k),)) for k in range(4)]
        body = seq(*start, self.block(3, []))
        axis = IterVar(Range(0, THREADS), self.t, 1, "threadIdx.x")
        body = AttrStmt(axis, "thread_extent", const(THREADS), allocate(self.own, body))
        p, q = Var("p", "handle"), Var("q", "handle")
        attrs = {"tir.noalias": True} if self.pick(True, True, False) else {}
        return PrimFunc((p, q, self.n), body, {p: self.a, q: self.b}, attrs)


def results(func: PrimFunc, n: int) -> np.ndarray:
    a = np.linspace(-1, 1, SIZE, dtype="float32")
    a[3], a[10] = np.nan, np.inf
    b = np.linspace(1, -1, SIZE, dtype="float32")
    run_kernels(func, a, b, n)
    return b


@pytest.mark.parametrize("chosen", [*PASSES, None], ids=lambda p: name_of(p) if p else "all")
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_results(chosen: Pass | None, data: st.DataObject) -> None:
    func = Programs(data).function()
    changed = func
    for step in PASSES if chosen is None else (chosen,):
        changed = step(changed)
        verify(changed, "flat")
    if chosen is not None:
        again = chosen(changed)
        assert again is changed or structural_equal(again, changed)
    for n in (-1, 0, 2):
        np.testing.assert_array_equal(results(changed, n), results(func, n))
