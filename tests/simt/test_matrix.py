"""Matrix products on fragments: results, and what the emulator refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.base.errors import UnsupportedError
from tileloom.lower import lower
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import tensor_core_matmul
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target
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
def test_tensor_core_products(shape: tuple[int, ...], options: dict[str, Any]) -> None:
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
    def func(C: T.Buffer((16, 16), "float32")) -> None:
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


# ---------------------------------------------------------------------------- line by line

FRAGMENTS = """
@T.prim_func
def kernel(A: T.Buffer((1024,), "float16"), B: T.Buffer((1024,), "float16"),
           C: T.Buffer((2048,), "float32"), n: T.int32):
    t = T.launch_thread("threadIdx.x", THREADS)
    X = T.allocate([512], "float16", "wmma.matrix_a")
    Y = T.allocate([512], "float16", "wmma.matrix_b")
    Z = T.allocate([512], "float32", "wmma.accumulator")
    LINES
"""
LOAD = "T.tvm_load_matrix_sync({}, 16, 16, 16, {}, T.tvm_access_ptr({}, {}, {}, 1024, 1), {}, {})"
FILL = "T.tvm_fill_fragment(Z, 16, 16, 16, {}, {})"
STORE = ('T.tvm_store_matrix_sync(Z, 16, 16, 16, {}, T.tvm_access_ptr('
         'T.type_annotation("float32"), C.data, {}, 2048, 2), {}, "{}")')  # fmt: skip
HALF = 'T.type_annotation("float16")'


def load(name: str, at: object, offset: object = 0, stride: int = 16, order: str = "row") -> str:
    data = {"X": "A.data", "Y": "B.data"}[name]
    return LOAD.format(name, at, HALF, data, offset, stride, f'"{order}_major"')


def fragments(*lines: str, threads: int = 32) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, 1024).astype("float16") for _ in range(2))
    c = np.zeros(2048, "float32")
    text = FRAGMENTS.replace("LINES", "\n    ".join(lines)).replace("THREADS", str(threads))
    run_kernels(parse(text), a, b, c, 3)
    return a.astype("float32"), b.astype("float32"), c


def test_filled_fragments() -> None:
    """Of two, each goes to its place, by rows or by columns, with steps between."""
    *_, c = fragments(FILL.format(0, "T.float32(3)"), FILL.format(1, "T.float32(5)"),
                      STORE.format(1, 0, 16, "row_major"), STORE.format(0, 512, 24, "row_major"),
                      STORE.format(1, 1024, 24, "col_major"))  # fmt: skip
    wanted = np.zeros(2048)
    wanted[:256] = 5
    for row in range(16):
        wanted[512 + row * 24 :][:16] = 3
        wanted[1024 + row * 24 :][:16] = 5
    assert c.tolist() == wanted.tolist()


@pytest.mark.parametrize(("offset", "stride"), [(0, 16), (8, 24), (96, 40)])
@pytest.mark.parametrize("left", ["row", "col"])
@pytest.mark.parametrize("right", ["row", "col"])
def test_products_of_fragments(offset: int, stride: int, left: str, right: str) -> None:
    """Of the second fragments; the sum goes into the second as well."""
    a, b, c = fragments(
        FILL.format(1, "T.float32(2)"), load("X", 1, offset, stride, left),
        load("Y", 1, offset, stride, right), "T.tvm_mma_sync(Z, 0, X, 1, Y, 1, Z, 1)",
        STORE.format(0, 0, 16, "row_major"), STORE.format(1, 256, 16, "row_major"),
    )  # fmt: skip
    rows = np.arange(16)[:, None] * stride + np.arange(16) + offset
    x, y = a[rows], b[rows]
    x, y = x.T if left == "col" else x, y.T if right == "col" else y
    assert c[:256].tolist() == (x @ y + 2).reshape(-1).tolist()
    assert (c[256:512] == 2).all() and not c[512:].any()


def test_warps_have_fragments_of_their_own() -> None:
    warp = "t // 32"
    a, b, c = fragments(
        FILL.format(warp, f"T.Cast('float32', {warp})"), load("X", 0, f"{warp} * 256"),
        load("Y", 1, f"{warp} * 16", 32), f"T.tvm_mma_sync(Z, {warp}, X, 0, Y, 1, Z, {warp})",
        STORE.format(warp, f"{warp} * 256", 16, "row_major"), threads=64,
    )  # fmt: skip
    for w in range(2):
        x = a[w * 256 :][:256].reshape(16, 16)
        y = np.stack([b[w * 16 + row * 32 :][:16] for row in range(16)])
        assert c[w * 256 :][:256].tolist() == (x @ y + w).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        (FILL.format(2, "T.float32(1)"), "out of bounds", "fragment 2 of Z, which has 2"),
        (FILL.format(-1, "T.float32(1)"), "out of bounds", "fragment -1 of Z, which has 2"),
        ("T.tvm_mma_sync(Z, 0, X, 2, Y, 0, Z, 0)", "out of bounds", "fragment 2 of X"),
        (load("X", 0, 1024 - 255), "out of bounds", "A[1024]"),
        ("if t < 20:\n        " + FILL.format(0, "T.float32(1)"), "divergent warp",
         "tvm_fill_fragment needs all 32 threads of a warp"),
        (STORE.format(0, 0, 8, "row_major"), "race", "writes C["),
    ],
)  # fmt: skip
def test_defects_of_fragments(line: str, kind: str, said: str) -> None:
    with pytest.raises(KernelDefect) as caught:
        fragments(line)
    assert caught.value.kind == kind and said in str(caught.value), str(caught.value)
    if kind == "out of bounds":
        assert ("fragment " in said) == (caught.value.threads == [(0, 0)])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (FILL.format(0, "T.float32(1)").replace("16, 16, 16", "16, 16, 8"), "16 by 16 by 16 only"),
        (FILL.format(0, "T.float32(1)").replace("16, 16, 16", "8, 16, 16"), "16 by 16 by 16 only"),
        (load("X", 0).replace("16, 16, 16", "16, 8, 16"), "16 by 16 by 16 only"),
        (STORE.format(0, 0, 16, "row_major").replace("16, 16, 16", "32, 8, 16"), "by 16 only"),
        ("T.tvm_mma_sync(T.address_of(C[0]), 0, X, 0, Y, 0, Z, 0)", "is named by its pointer"),
        ('T.tvm_load_matrix_sync(X, 16, 16, 16, 0, A.data, 16, "row_major")',
         "moved through an access pointer, not"),
        (load("X", 0).replace('"row_major"', "n"),
         "no memory is known for"),
    ],
)  # fmt: skip
def test_fragments_that_there_are_not(line: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        fragments(line)
