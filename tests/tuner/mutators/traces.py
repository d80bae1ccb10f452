"""Programs with the steps that rules take on them, for tests of mutators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedule.common import MATMUL, parse
from tileloom import Schedule
from tileloom.schedule.random import Random
from tileloom.schedule.trace import Trace
from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.context import Mutator, TuneContext

TWO_STEPS = """
@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), C: T.Buffer((64, 32), "float32")):
    B = T.alloc_buffer((64, 32))
    for i, j in T.grid(64, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj])
    for i, j in T.grid(64, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""


def context(text: str = MATMUL, cores: int = 4) -> TuneContext:
    """A program to tune on a CPU."""
    machine = target("cpu -mcpu=x86-64-v3").with_cores(cores)
    return TuneContext(IRModule({"main": parse(text)}), machine)


def traced(about: TuneContext, take: Callable[[Any], None], seed: int = 7) -> Trace:
    """The trace of steps on the program."""
    sch = Schedule(about.mod, seed=seed)
    take(sch)
    if sch.trace is None:
        raise ValueError("the schedule has no trace")
    return sch.trace


def cpu_steps(sch: Any) -> None:
    """What rules for CPUs do with a product, and a postprocessor."""
    block = sch.get_block("C")
    factors = []
    for loop, n in zip(sch.get_loops(block), (4, 4, 2), strict=True):
        tile = sch.sample_perfect_tile(loop, n, max_innermost_factor=16)
        factors.append(sch.split(loop, tile))
    (i0, i1, i2, i3), (j0, j1, j2, j3), (k0, k1) = factors
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    root = sch.get_block("root")
    sch.annotate(root, "meta_schedule.parallel", 64)
    depth = sch.sample_categorical([0, 16, 64, 512], [0.25, 0.25, 0.25, 0.25])
    sch.annotate(root, "meta_schedule.unroll_explicit", depth)
    sch.enter_postproc()
    sch.unannotate(root, "meta_schedule.parallel")


def gpu_steps(sch: Any) -> None:
    """What rules for GPUs do: threads bound, a copy with vectors."""
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    fused = sch.fuse(i, j)
    threads = sch.sample_categorical([32, 64, 128, 256], [0.25, 0.25, 0.25, 0.25])
    blocks, inner = sch.split(fused, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    width = sch.sample_categorical([1, 2, 4], [0.5, 0.25, 0.25])
    sch.annotate(block, "meta_schedule.cooperative_fetch", width)


def mutants(mutator: Mutator, trace: Trace, about: TuneContext, count: int = 60) -> list[Trace]:
    """What a mutator makes of a trace, each from the one stream of chance."""
    random = Random(11)
    found = [mutator.apply(trace, about, random) for _ in range(count)]
    return [mutant for mutant in found if mutant is not None]


def changed(before: Trace, after: Trace) -> list[int]:
    """The numbers of the steps that have decided otherwise."""
    old, new = dict(before.as_json()[1]), dict(after.as_json(True)[1])
    return [k for k in new if new[k] != old[k]]


def replayed(trace: Trace, about: TuneContext) -> Schedule:
    """The program after the steps of a trace, written as JSON and read again."""
    sch = Schedule(about.mod, seed=1)
    Trace.apply_json_to_schedule(trace.as_json(), sch)
    return sch
