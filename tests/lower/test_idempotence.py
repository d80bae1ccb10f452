"""A pass that has run has nothing left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lower.gpu_programs import row_sum, softmax, tiled_matmul, virtual_program
from tileloom import te
from tileloom.lower.pipeline import GPU_PIPELINE, PIPELINE, Pass, name_of
from tileloom.schedule import Schedule
from tileloom.schedule.library import tensor_core_matmul
from tileloom.tir import PrimFunc, structural_equal

Build = Callable[[], PrimFunc]


def product(rows: int, columns: int, depth: int) -> PrimFunc:
    a = te.placeholder((rows, depth), "float16", name="A")
    b = te.placeholder((depth, columns), "float16", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    return te.create_prim_func([a, b, c])


def on_cpu() -> Any:
    """Uneven tiles, a copy, vectors and threads."""
    a = te.placeholder((37, 29), name="A")
    b = te.placeholder((29, 41), name="B")
    k: Any = te.reduce_axis((0, 29), name="k")
    c = te.compute((37, 41), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch: Any = Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 8]) for loop in (i, j, k))
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.compute_at(sch.cache_read(block, 0, "global"), k0)
    sch.parallel(i0)
    sch.vectorize(j1)
    sch.unroll(i1)
    return sch.mod["main"]


def on_tensor_cores() -> PrimFunc:
    sch = Schedule(product(64, 64, 64))
    tensor_core_matmul(sch, "C")
    return sch.mod["main"]


def in_a_pipeline() -> PrimFunc:
    return tiled_matmul(
        annotations={
            "software_pipeline_stage": [0, 0, 1],
            "software_pipeline_order": [0, 1, 2],
            "software_pipeline_async_stages": [0],
        }
    )


PROGRAMS: dict[str, tuple[Sequence[Pass], Build]] = {
    "cpu": (PIPELINE, on_cpu),
    "softmax": (GPU_PIPELINE, lambda: softmax(3, 40, 32)),
    "row sum": (GPU_PIPELINE, lambda: row_sum(128, columns=300)),
    "tiles": (GPU_PIPELINE, tiled_matmul),
    "software pipeline": (GPU_PIPELINE, in_a_pipeline),
    "virtual threads": (GPU_PIPELINE, lambda: virtual_program("vthread.x")),
    "tensor cores": (GPU_PIPELINE, on_tensor_cores),
}


#: It cuts the tails of loops off, and does not cut these in turn, for code would grow.
ONE_STEP_AT_A_TIME = {"loop_partition"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_twice(name: str) -> None:
    passes, build = PROGRAMS[name]
    func, wrong = build(), []
    for step in passes:
        func = step(func)
        again = step(func)
        same = again is func or structural_equal(again, func)
        if not same and name_of(step) not in ONE_STEP_AT_A_TIME:
            wrong.append(name_of(step))
    assert wrong == []
