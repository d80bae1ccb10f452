"""Matrix products on fragments: results, and what the emulator refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import te
from tileloom.base.target import target
from tileloom.lower import lower
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import tensor_core_matmul
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import PrimFunc

GPU = target("cuda -arch=sm_80")


def matmul(rows: int, columns: int, depth: int) -> PrimFunc:
    a = te.placeholder((rows, depth), "float16", name="A")
    b = te.placeholder((depth, columns), "float16", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((64, 64, 32), {}),
        ((128, 64, 96), {}),
        ((64, 128, 64), {"warps": (1, 2), "tiles": (4, 1), "depth": 1}),
        ((16, 16, 16), {"warps": (1, 1), "tiles": (1, 1), "depth": 1}),
    ],
)
def test_tensor_core_products(shape, options) -> None:
    rows, columns, depth = shape
    sch = Schedule(matmul(rows, columns, depth))
    tensor_core_matmul(sch, "C", **options)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float16") for s in ((rows, depth), (depth, columns)))
    c = np.full((rows, columns), np.nan, "float32")
    run_kernels(lower(sch.mod["main"], GPU), a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), 1e-4, 1e-4)


def test_ragged_products_are_refused() -> None:
    sch = Schedule(matmul(64, 72, 32))
    with pytest.raises(ScheduleError, match="72 iterations, no multiple of 64"):
        tensor_core_matmul(sch, "C")
    with pytest.raises(ScheduleError, match="three loops"):
        a = te.placeholder((8,), name="A")
        other = Schedule(te.create_prim_func([a, te.compute((8,), lambda i: a[i], name="B")]))
        tensor_core_matmul(other, "B")


def test_fragments_need_a_whole_warp() -> None:
    @T.prim_func
    def func(C: T.Buffer((16, 16), "float32")):
        with T.block("root"):
            F = T.alloc_buffer((256,), "float32", scope="wmma.accumulator")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                if t < 20:
                    T.evaluate(
                        T.tvm_fill_fragment(F.data, 16, 16, 16, 0, T.float32(0), dtype="handle")
                    )
                C[t // 16, t % 16] = T.float32(0)

    with pytest.raises(KernelDefect, match="all 32 threads"):
        run_kernels(lower(func, GPU), np.zeros((16, 16), "float32"))
