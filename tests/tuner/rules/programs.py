"""Small programs for rules, and whether schedules compute what they did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.target import target
from tileloom.tir import PrimFunc, run
from tileloom.tuner.context import ScheduleRule, TuneContext

CPU, CUDA = "cpu -mcpu=x86-64-v3 -num-cores=4", "cuda -arch=sm_70"


def script(text: str) -> PrimFunc:
    """A function from its body."""
    func: Any = from_source("from tileloom.script import tir as T\n" + text)
    return func  # type: ignore[no-any-return]


def chain(*steps: Any, shape: tuple[int, ...] = (8, 8)) -> PrimFunc:
    """Blocks "B0", "B1", ..., each of which computes its elements from one of the block before."""
    made = start = te.placeholder(shape, name="A")
    for k, step in enumerate(steps):
        made = te.compute(shape, lambda *at, f=step, x=made: f(x(*at)), name=f"B{k}")
    return te.create_prim_func([start, made])


def row_sums(rows: int = 4, columns: int = 512) -> PrimFunc:
    """Block "B" adds up rows."""
    a, k = te.placeholder((rows, columns), name="A"), te.reduce_axis((0, columns), "k")
    return te.create_prim_func([a, te.compute((rows,), lambda i: te.sum(a[i, k], k), name="B")])


def row_means(rows: int = 4, columns: int = 512) -> PrimFunc:
    """Block "B" adds up rows, "C" divides the sums."""
    a, k = te.placeholder((rows, columns), name="A"), te.reduce_axis((0, columns), "k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k], k), name="B")
    return te.create_prim_func([a, te.compute((rows,), lambda i: b[i] / columns, name="C")])


def product(m: int, n: int, k: int) -> PrimFunc:
    """Block "C" is a matrix product."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    t = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, t] * b[t, j], t), name="C")
    return te.create_prim_func([a, b, c])


def apply(
    rule: ScheduleRule, func: PrimFunc, block: str, machine: str = CPU, seed: int = 7
) -> list[Schedule]:
    """What a rule makes of a block."""
    sch = Schedule(func, seed=seed, debug_mask="all")
    return rule.apply(sch, sch.get_block(block), TuneContext(sch.mod, target(machine)))


def methods(sch: Schedule) -> list[str]:
    """The steps but for look-ups that nobody uses."""
    trace: Any = sch.trace
    return [step.kind.method for step in trace.simplified(True).insts]


def extents(sch: Schedule, block: str) -> list[int | None]:
    """Of the loops around a block."""
    return [sch.get(loop).static_extent for loop in sch.get_loops(sch.get_block(block))]


def blocks(sch: Schedule) -> list[str]:
    """The blocks in the root block."""
    return [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]


def assert_same(func: PrimFunc, schedules: Iterable[Schedule]) -> None:
    """Check that schedules compute what the function does, on random numbers."""
    rng = np.random.default_rng(0)
    arrays = []
    for buffer in func.buffers:
        shape: Any = buffer.shape
        arrays.append(rng.standard_normal([int(n) for n in shape]).astype(str(buffer.dtype)))
    expected = _result(func, arrays)
    for sch in schedules:
        actual = _result(sch.mod["main"], arrays)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def _result(func: PrimFunc, arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    given = [array.copy() for array in arrays]
    run(func, *given)
    return given[-1]
