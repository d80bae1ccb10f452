"""Programs to schedule, and what every test of a primitive asks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tileloom import Schedule, ScheduleError, build
from tileloom.expr import Analyzer, Expr, Range, Var
from tileloom.schedule import Trace
from tileloom.script import from_source
from tileloom.tir import (
    Block,
    For,
    IRModule,
    PrimFunc,
    Stmt,
    StmtRewriter,
    assert_structural_equal,
    renewed,
    run,
)

HEAD = "from tileloom.script import ir as I, tir as T\n\n"


def parse(text: str) -> Any:
    """A function from the text of its definition (without the imports)."""
    return from_source(HEAD + text)


MATMUL = """
@T.prim_func
def main(
    A: T.Buffer((128, 96), "float32"),
    B: T.Buffer((96, 64), "float32"),
    C: T.Buffer((128, 64), "float32"),
):
    for i, j, k in T.grid(128, 64, 96):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

#: Two element-wise steps with a buffer between.
ELEMENTWISE = """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""

#: Row sums, and every element divided by the one of its row.
NORMALISE = """
@T.prim_func
def main(A: T.Buffer((12, 10), "float32"), C: T.Buffer((12, 10), "float32")):
    S = T.alloc_buffer((12,))
    for i, k in T.grid(12, 10):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
    for i, j in T.grid(12, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] / S[vi]
"""


def schedule(text: str | PrimFunc, **options: Any) -> Schedule:
    """A schedule that checks itself after every step."""
    func = parse(text) if isinstance(text, str) else text
    return Schedule(func, **{"debug_mask": "all", "seed": 42, **options})


class _Normal(StmtRewriter):
    """Index expressions in normal form, under the ranges of loops and iteration variables."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.domains: dict[Var, Range] = {}

    def visit_expr(self, expr: Expr) -> Expr:
        return self.analyzer.simplify(expr)

    def visit_For(self, stmt: For) -> Stmt:
        self._bind(stmt.loop_var, Range(stmt.min, stmt.extent))
        return super().visit_For(stmt)

    def visit_Block(self, stmt: Block) -> Block:
        for axis in stmt.iter_vars:
            self._bind(axis.var, axis.domain)
        return super().visit_Block(stmt)

    def _bind(self, var: Var, domain: Range) -> None:
        self.analyzer.bind(var, domain)


def normal(program: IRModule | PrimFunc) -> PrimFunc:
    """The function "main" with index expressions in normal form, without its name."""
    func = program["main"] if isinstance(program, IRModule) else program
    attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
    root = Schedule(func).mod["main"].body  # with a root block
    return func.replace(body=_Normal().visit(renewed(root)), attrs=attrs)


def same_text(sch: Schedule, expected: str | PrimFunc) -> None:
    """The schedule's function is the expected one, modulo index simplification."""
    wanted = parse(expected) if isinstance(expected, str) else expected
    assert_structural_equal(normal(sch.mod), normal(wanted))


def check_trace(sch: Schedule, before: str | PrimFunc) -> None:
    """JSON and Python text take the same steps, and record the same trace.

    The steps were checked as they were taken; these are the same ones.
    """
    trace = sch.trace
    assert trace is not None
    data = json.loads(json.dumps(trace.as_json()))
    again = schedule(before, debug_mask=0)
    Trace.apply_json_to_schedule(data, again)
    _check_replay(again, sch)
    again = schedule(before, debug_mask=0)
    trace.apply_to_schedule(again, remove_postproc=False)
    _check_replay(again, sch)
    again = schedule(before, debug_mask=0)
    exec("\n".join(trace.as_python()), {"sch": again})
    _check_replay(again, sch)


def _check_replay(again: Schedule, sch: Schedule) -> None:
    assert_structural_equal(again.mod, sch.mod)
    assert str(again.trace) == str(sch.trace)
    assert again.trace is not None and sch.trace is not None
    assert again.trace.as_json() == sch.trace.as_json()


def check_same(sch: Schedule, before: str | PrimFunc, seed: int = 0) -> None:
    """The interpreter gives the same results as for the program before."""
    func = parse(before) if isinstance(before, str) else before
    inputs = random_inputs(func, seed)
    wanted, got = [a.copy() for a in inputs], [a.copy() for a in inputs]
    run(func, *wanted)
    run(sch.mod["main"], *got)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def check_compiled(sch: Schedule, before: str | PrimFunc, seed: int = 0) -> None:
    """Machine code gives what the interpreter gives for the program before."""
    func = parse(before) if isinstance(before, str) else before
    inputs = random_inputs(func, seed)
    wanted, got = [a.copy() for a in inputs], [a.copy() for a in inputs]
    run(func, *wanted)
    build(sch.mod["main"])(*got)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


def random_inputs(func: PrimFunc, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Arrays for the buffers of a function."""
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(1, 2, buffer.static_shape).astype(str(buffer.dtype)) for buffer in func.buffers
    ]


def refused(sch: Schedule, match: str, method: str, *args: Any, **kwargs: Any) -> ScheduleError:
    """The step is refused with a text that matches, and the program stays as it was."""
    before, steps = sch.mod, len(sch.trace.insts) if sch.trace else 0
    with pytest.raises(ScheduleError, match=match) as found:
        getattr(sch, method)(*args, **kwargs)
    assert sch.mod is before
    assert sch.trace is None or len(sch.trace.insts) == steps
    assert sch.trace is None or "step" in str(found.value)
    return found.value
