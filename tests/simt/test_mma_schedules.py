"""Matrix products that schedules reach by `tensorize`: results, PTX, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import assemble
from simt.matrix_programs import function, numpy_type
from simt.mma_schedules import TOTALS, matmul, mma_schedule
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.driver import assembly, build
from tileloom.lower import lower
from tileloom.schedule import ScheduleError
from tileloom.schedule.library.intrinsics.mma import FACTORS
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.simt import run_kernels
from tileloom.simt.cost import kernel_costs
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
CASES = [
    ("f16", "f32", False, False), ("f16", "f32", True, False), ("f16", "f32", False, True),
    ("f16", "f32", True, True), ("f16", "f16", False, False), ("bf16", "f32", False, False),
    ("bf16", "f32", False, True), ("tf32", "f32", False, False), ("tf32", "f32", False, True),
    ("i8", "i32", False, False), ("i8", "i32", False, True), ("u8", "i32", False, True),
    ("e4m3", "f32", False, True), ("e5m2", "f32", False, False),
    ("f64", "f64", False, False), ("f64", "f64", False, True),
]  # fmt: skip


def shared_16x16_to_warp(row: int, column: int) -> tuple[int, int]:
    """Where a warp holds an element of 16 by 16: the thread, and the number among its eight.

    As TVM's `shared_16x16_to_mma_32x8_layout` has it.
    """
    thread = 4 * (row % 8) + column % 8 // 2
    return thread, 4 * (column // 8) + row // 8 * 2 + column % 2


def factors(name: str, *shapes: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    factor = FACTORS[name]
    kind = numpy_type(factor.ptx)
    if name in ("i8", "u8"):
        info = np.iinfo(kind)
        return [rng.integers(info.min, info.max + 1, s).astype(kind) for s in shapes]
    found = [rng.standard_normal(s).astype(kind) for s in shapes]
    if name == "tf32":  # what the hardware sees
        return [(x.view("uint32") & 0xFFFFE000).view("float32") for x in found]
    return found


@pytest.mark.parametrize(("name", "total", "trans_a", "trans_b"), CASES)
def test_products(name: str, total: str, trans_a: bool, trans_b: bool, tmp_path: Path) -> None:
    m, n, k = 64, 128, 2 * 2 * FACTORS[name].depth
    func = matmul(m, n, k, name, total, trans_a, trans_b)
    sch = mma_schedule(func, name, total, trans_a, trans_b)
    a, b = factors(name, (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n))
    c = np.zeros((m, n), TOTALS[total])
    run_kernels(lower(sch.mod["main"], GPU), a, b, c)
    wide = "int64" if total == "i32" else "float64"
    left, right = ((x.T if t else x).astype(wide) for x, t in ((a, trans_a), (b, trans_b)))
    tolerance = {"f16": 2e-2, "f32": 1e-4, "f64": 1e-12, "i32": 0}[total]
    np.testing.assert_allclose(c.astype(wide), left @ right, tolerance, tolerance)
    arch = "sm_89" if name in ("e4m3", "e5m2") else "sm_80"
    ptx = assembly(sch.mod, f"cuda -arch={arch}")
    # Two tiles by two tiles of two instructions each; depths may be unrolled by LLVM.
    assert ptx.count("mma.sync.aligned") % 8 == 0
    assert ".local" not in ptx, "fragments are in registers"
    said = assemble(ptx, arch, tmp_path)
    assert "0 bytes stack frame, 0 bytes spill stores" in said


def test_older_gpus_are_refused_on_the_emulator_too() -> None:
    sch = mma_schedule(matmul(64, 64, 64, "f16", "f32"), "f16", "f32")
    with pytest.raises(UnsupportedError, match="sm_80 or newer, and the target is sm_75"):
        build(sch.mod, target="cuda -arch=sm_75", device="emulator")
    fp8 = mma_schedule(matmul(64, 64, 128, "e4m3", "f32"), "e4m3", "f32")
    with pytest.raises(UnsupportedError, match="sm_89"):
        build(fp8.mod, target="cuda -arch=sm_80", device="emulator")


def test_dynamic_shared_memory(tmp_path: Path) -> None:
    sch = mma_schedule(matmul(64, 64, 64, "f16", "f32"), "f16", "f32", scope="shared.dyn")
    a, b = factors("f16", (64, 64), (64, 64))
    c = np.zeros((64, 64), "float32")
    run_kernels(lower(sch.mod["main"], GPU), a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), 1e-4, 1e-4)
    for arch in ("sm_80", "sm_90a"):
        ptx = assembly(sch.mod, f"cuda -arch={arch}")
        assert ptx.count(".extern .shared") == 1
        assemble(ptx, arch, tmp_path)


def test_one_warp_and_one_tile() -> None:
    sch = mma_schedule(
        matmul(16, 16, 16, "f16", "f32"), "f16", "f32", warps=(1, 1), tiles=(1, 1), depth=1
    )
    a, b = factors("f16", (16, 16), (16, 16))
    c = np.zeros((16, 16), "float32")
    run_kernels(lower(sch.mod["main"], GPU), a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), 1e-4, 1e-4)


def test_all_names_can_be_had() -> None:
    names = [name for name in TensorIntrin.names() if name.startswith("mma_")]
    assert {
        "mma_ldmatrix_f16_a", "mma_ldmatrix_i8_b_trans_dyn", "mma_f16f16f32_trans_b",
        "mma_i8i8i32", "mma_fill_16x16_f32", "mma_store_16x16_f32_global_",
    } <= set(names)  # fmt: skip
    for name in names:
        found = TensorIntrin.get(name)
        assert found is not None
        assert not found.checked


def test_another_layout_is_refused() -> None:
    """The description says where a warp holds elements."""
    func = matmul(64, 64, 64, "f16", "f32")
    with pytest.raises(ScheduleError):
        mma_schedule(func, "i8", "f32")


def warp_program(text: str) -> Any:
    return function(f"""
@T.prim_func
def main(B: T.Buffer((32, 4), "float32")):
    with T.block("root"):
        W = T.alloc_buffer((32, 4), "float32", scope="warp")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(4):
                W[t, k] = T.cast(t * 4 + k, "float32")
            {text}
""")


def test_warp_memory_is_the_threads_own() -> None:
    flat = lower(warp_program("for k in range(4):\n                B[t, k] = W[t, 3 - k]"), GPU)
    b = np.zeros((32, 4), "float32")
    run_kernels(flat, b)
    assert np.array_equal(b, np.arange(128).reshape(32, 4)[:, ::-1])
    assert "T.allocate([4]" in str(flat)


@pytest.mark.parametrize("where", ["31 - t, 0", "t, t", "t // 2 * 2, 0"])
def test_what_another_thread_holds_is_refused(where: str) -> None:
    with pytest.raises(UserError, match="may belong to another thread"):
        lower(warp_program(f"B[t, 0] = W[{where}]"), GPU)


def test_half_a_warp_is_refused() -> None:
    func = function("""
@T.prim_func
def main(B: T.Buffer((16,), "float32")):
    with T.block("root"):
        W = T.alloc_buffer((16, 1), "float32", scope="warp")
        for t in T.thread_binding(16, thread="threadIdx.x"):
            W[t, 0] = T.float32(1)
            B[t] = W[t, 0]
""")
    with pytest.raises(UserError, match=r"needs 32 threads along threadIdx\.x, not 16"):
        lower(func, GPU)


def test_what_a_product_costs() -> None:
    sch = mma_schedule(matmul(128, 128, 64, "f16", "f32"), "f16", "f32", stages=2)
    [cost] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert cost.products == 128 * 128 * 64
    # Each of the four blocks copies 64 rows of A and 64 columns of B.
    wanted = 4 * (64 + 64) * 64
    loads, stores = cost.loads["global"], cost.stores["shared"]
    assert (loads.elements, stores.elements) == (wanted, wanted)
    assert loads.efficiency == 1
    # Padded rows: `ldmatrix` meets no bank twice. Warps of a row, or of a column, read the same.
    assert cost.loads["shared"].elements == 2 * wanted
    assert cost.loads["shared"].efficiency == 1


def test_tiles_may_be_named_by_their_first_element() -> None:
    """As TVM's own intrinsics do: each thread takes its part of the tile."""
    func = function("""
@T.prim_func
def main(C: T.Buffer((16, 32), "float32")):
    with T.block("root"):
        W = T.alloc_buffer((2, 32, 8), "float32", scope="warp")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for tile in T.unroll(2):
                T.evaluate(T.mma_fill("float32", 8, W.data, tile * 256))
                for k in range(8):
                    W[tile, t, k] = W[tile, t, k] + T.cast(t * 8 + k + tile * 256, "float32")
                T.evaluate(T.mma_store(
                    "float32", 16, 16, C.access_ptr("w", offset=tile * 16), W.data, tile * 256, 32
                ))
""")
    c = np.zeros((16, 32), "float32")
    run_kernels(lower(func, GPU), c)
    for row in range(16):
        for column in range(32):
            thread, held = shared_16x16_to_warp(row, column % 16)
            assert c[row, column] == thread * 8 + held + column // 16 * 256


@pytest.mark.parametrize("stride", ["33", "T.int32(33)"])
def test_odd_rows_are_stored_one_by_one(stride: str) -> None:
    func = function(f"""
@T.prim_func
def main(C: T.Buffer((16, 33), "float16")):
    with T.block("root"):
        W = T.alloc_buffer((32, 8), "float32", scope="warp")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(8):
                W[t, k] = T.cast(t, "float32")
            T.evaluate(T.mma_store(
                "float32", 16, 16, C.access_ptr("w", offset=1), W.data, t * 8, {stride}
            ))
""")
    c = np.full((16, 33), -1, "float16")
    run_kernels(lower(func, GPU), c)
    wanted = [[shared_16x16_to_warp(i, j)[0] for j in range(16)] for i in range(16)]
    assert np.array_equal(c[:, 1:17], np.array(wanted, "float16"))
    assert (c[:, 0] == -1).all()
    assert (c[:, 17:] == -1).all()
