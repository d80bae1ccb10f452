"""Products on GPUs: results on the emulator, what kernels cost, what the assembler says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import ARCHS
from sampling import sampled
from schedule.gpu_products import (
    GPU,
    Program,
    barriers,
    calls,
    conflict_free,
    matmul,
    numbers,
    registers,
    said_of,
)
from tileloom import te
from tileloom.driver import assembly
from tileloom.expr import Call, const
from tileloom.lower import lower
from tileloom.lower.gpu.verify_gpu_code import verify_gpu_code
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import (
    MmaTile,
    SimtTile,
    WgmmaTile,
    as_matrices,
    find_factors,
    find_products,
    mma_matmul,
    schedule_gpu_product,
    simt_matmul,
    wgmma_matmul,
)
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.simt.cost import kernel_costs
from tileloom.target import target
from tileloom.tir import Evaluate, Stmt, StmtRewriter

SHAPES = [(64, 64, 32), (130, 67, 33), (7, 5, 3), (2, 2, 2), (1021, 3, 2), (3, 257, 8)]
EXACT = 1e-6


def simt(program: Program, tile: SimtTile | None = None) -> Schedule:
    sch = Schedule(program.func)
    simt_matmul(sch, "C", tile)
    return sch


def mma(program: Program, tile: MmaTile | None = None) -> Schedule:
    sch = Schedule(program.func)
    mma_matmul(sch, "C", GPU, tile)
    return sch


def mma_through_registers(program: Program) -> Schedule:
    return mma(program, MmaTile((2, 2), (1, 1), 64, 1))


def on_hopper(program: Program) -> Schedule:
    sch = Schedule(program.func)
    wgmma_matmul(sch, "C", target("cuda -arch=sm_90a"), WgmmaTile(1, 32, 3))
    return sch


# ---------------------------------------------------------------------------- in registers


@pytest.mark.parametrize("shape", SHAPES)
def test_products_in_registers(shape: tuple[int, int, int]) -> None:
    program = matmul(*shape)
    flat = program.check(simt(program), EXACT)
    assert not verify_gpu_code(flat)


@pytest.mark.parametrize(
    ("shape", "trans"), [((64, 96, 32), "a"), ((64, 96, 32), "b"), ((61, 33, 19), "ab")]
)
def test_transposed_operands(shape: tuple[int, int, int], trans: str) -> None:
    program = matmul(*shape, trans=trans)
    program.check(simt(program), EXACT)


@pytest.mark.parametrize(
    ("kind", "total"),
    [("float64", "float64"), ("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"),
     ("int32", "int32"), ("float16", "float16")],
)  # fmt: skip
def test_types_in_registers(kind: str, total: str) -> None:
    program = matmul(66, 40, 24, kind, total)
    if kind == "int32":
        program.inputs = [numbers(x.shape, "int8").astype("int32") for x in program.inputs]
        x, y = (v.astype("int64") for v in program.inputs)
        program.expected = lambda: x @ y
    program.check(simt(program), {"float16": 5e-3}.get(total, EXACT))


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_batches(batch: tuple[int, ...]) -> None:
    program = matmul(34, 50, 20, batch=batch)
    program.check(simt(program), EXACT)
    program = matmul(34, 50, 20, "float16", "float32", batch=batch)
    program.check(mma(program), EXACT)


@pytest.mark.parametrize(
    "tile", [SimtTile((4, 2), (2, 2)), SimtTile((1, 1), (1, 1)), SimtTile((1, 2), (4, 1), 2, 16)]
)
def test_tiles_in_registers(tile: SimtTile) -> None:
    program = matmul(2 * tile.rows.tile, tile.columns.tile, 3 * tile.depth)
    program.check(simt(program, tile), EXACT)


def test_large_tiles_use_memory_well(tmp_path: Path) -> None:
    """Whole sectors, no bank twice, a barrier a step, two blocks to a multiprocessor."""
    program = matmul(256, 256, 64)
    sch = simt(program, SimtTile((4, 2), (2, 2)))
    [cost] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert cost.loads["global"].efficiency == 1.0
    assert cost.stores["global"].efficiency == 1.0
    assert cost.loads["shared"].efficiency == 1.0
    assert cost.stores["shared"].efficiency == 1.0
    assert cost.stores["global"].elements == 256 * 256
    assert cost.loads["global"].elements == 2 * (256 // 128) * 256 * 64
    assert cost.syncs == 64 // 8
    assert cost.shared_bytes <= 24 << 10
    for arch in ARCHS:
        assert registers(said_of(sch, arch, tmp_path)) <= 128


@pytest.mark.parametrize(
    ("shape", "arch"), [((1020, 2044, 508), "sm_80"), ((1021, 1021, 509), "sm_90a")]
)
def test_ragged_tiles_do_not_cost_registers(shape: Any, arch: str, tmp_path: Path) -> None:
    sch = simt(matmul(*shape, trans="b"), SimtTile((4, 2), (2, 2)))  # type: ignore[misc]
    assert "@%p" in assembly(sch.mod, f"cuda -arch={arch}"), "stores carry their conditions"
    assert registers(said_of(sch, arch, tmp_path)) <= 144


def test_vectors_in_ptx() -> None:
    ptx = assembly(simt(matmul(1024, 1024, 1024), SimtTile((4, 2), (2, 2))).mod, GPU)
    assert "ld.global.nc.v4" in ptx
    assert "ld.shared.v4" in ptx
    assert "st.global.v4" in ptx
    assert "ld.shared.b32" not in ptx


# ---------------------------------------------------------------------------- on matrix units


@pytest.mark.parametrize("shape", SHAPES)
def test_products_on_matrix_units(shape: tuple[int, int, int]) -> None:
    program = matmul(*shape, "float16", "float32")
    flat = program.check(mma(program), EXACT)
    assert not verify_gpu_code(flat)


@pytest.mark.parametrize(
    ("kind", "total", "trans", "tolerance"),
    [("float16", "float32", "", EXACT), ("float16", "float32", "a", EXACT),
     ("float16", "float32", "b", EXACT), ("float16", "float32", "ab", EXACT),
     ("bfloat16", "float32", "", EXACT), ("float16", "float16", "b", 5e-3),
     ("float32", "float32", "", 2e-3), ("float32", "float32", "ab", 2e-3),
     ("int8", "int32", "", 0.0), ("int8", "int32", "ab", 0.0), ("uint8", "int32", "b", 0.0)],
)  # fmt: skip
def test_types_on_matrix_units(kind: str, total: str, trans: str, tolerance: float) -> None:
    program = matmul(50, 72, 80, kind, total, trans)
    program.check(mma(program), tolerance)


@pytest.mark.parametrize(
    "tile",
    [MmaTile((1, 2), (2, 1), 32, 2), MmaTile((2, 1), (1, 2), 128, 3),
     MmaTile((2, 2), (2, 2), 64, 1), MmaTile((2, 4), (2, 2), 64, 5)],
)  # fmt: skip
def test_tiles_and_stages(tile: MmaTile) -> None:
    program = matmul(tile.rows + 5, 2 * tile.columns, 200, "float16", "float32", "b")
    flat = program.check(mma(program, tile), EXACT)
    assert bool(calls(flat, "tir.ptx_cp_async")) == (tile.stages > 1)


def test_a_depth_of_fewer_steps_than_stages() -> None:
    program = matmul(64, 64, 16, "float16", "float32")
    program.check(mma(program, MmaTile((2, 2), (2, 2), 64, 4)), EXACT)


def test_factors_in_the_other_order() -> None:
    program = matmul(48, 40, 32, "float16", "float32", "b", swapped=True)
    program.check(mma(program), EXACT)


@pytest.mark.parametrize(
    ("kind", "trans", "arch"),
    sampled(
        [("float16", "ab", "sm_80"), ("bfloat16", "", "sm_90a"), ("bfloat16", "b", "sm_80")],
        3, several=True,
    ),
)  # fmt: skip
def test_large_tiles_on_matrix_units(kind: str, trans: str, arch: str, tmp_path: Path) -> None:
    """Copies of 16 bytes, no bank twice, a barrier a step, two blocks to a multiprocessor."""
    program = matmul(256, 256, 1024, kind, "float32", trans)
    sch = mma(program, MmaTile())
    flat = lower(sch.mod["main"], GPU)
    assert conflict_free(flat)
    copies: Any = calls(flat, "tir.ptx_cp_async")
    assert {int(call.args[4]) for call in copies} == {16}
    # In the loop a barrier; one for each of three steps after it.
    assert barriers(flat) == 1 + 3
    [cost] = kernel_costs(flat, GPU)
    assert cost.syncs == 1024 // 32
    assert 2 * (cost.shared_bytes + 1024) <= 164 << 10
    assert cost.stores["global"].efficiency == 1.0
    assert registers(said_of(sch, arch, tmp_path)) <= 224


@pytest.mark.parametrize(
    ("kind", "total", "arch"),
    [("float32", "float32", "sm_80"), ("int8", "int32", "sm_80"),
     ("float8_e4m3fn", "float32", "sm_90a")],
)  # fmt: skip
def test_other_types_do_not_spill(kind: str, total: str, arch: str, tmp_path: Path) -> None:
    a, b = (te.placeholder((1024, 1024), kind, name=name) for name in "AB")
    k = te.reduce_axis((0, 1024), name="k")
    c = te.compute(
        (1024, 1024),
        lambda i, j: te.sum(a[i, k].astype(total) * b[j, k].astype(total), axis=k),
        name="C",
    )
    sch = Schedule(te.create_prim_func([a, b, c]))
    mma_matmul(sch, "C", target(f"cuda -arch={arch}"))
    assert conflict_free(lower(sch.mod["main"], GPU))
    said_of(sch, arch, tmp_path)


@pytest.mark.parametrize("arch", sampled(["sm_80", "sm_90a", "sm_89", "sm_120"], 4))
def test_tiles_fit_into_shared_memory(arch: str) -> None:
    gpu = target(f"cuda -arch={arch}")
    for kind, total, trans in (("bfloat16", "float32", "a"), ("int8", "int32", "b")):
        sch = Schedule(matmul(4096, 8192, 128, kind, total, trans).func)
        mma_matmul(sch, "C", gpu)
        [cost] = kernel_costs(lower(sch.mod["main"], gpu), gpu)
        assert cost.shared_bytes <= gpu.shared_memory


# ---------------------------------------------------------------------------- around a product


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("float32", (61, 33, 47)), ("float16", (64, 32, 48)), ("float16", (61, 33, 47))],
)
def test_formulas_of_the_result_are_part_of_the_kernel(kind: str, shape: tuple[int, ...]) -> None:
    m, k, n = shape
    a, b, bias, rest = (
        te.placeholder(s, kind, name=name)
        for s, name in (((m, k), "A"), ((k, n), "B"), ((n,), "bias"), ((m, n), "rest"))
    )
    r = te.reduce_axis((0, k), name="k")
    wide = "float32"
    c = te.compute(
        (m, n), lambda i, j: te.sum(a[i, r].astype(wide) * b[r, j].astype(wide), axis=r), name="C"
    )
    low = te.compute((m, n), lambda i, j: c[i, j].astype(kind), name="low")
    d = te.compute((m, n), lambda i, j: low[i, j] + bias[j] + rest[i, j], name="D")
    e = te.compute((m, n), lambda i, j: T.max(d[i, j], T.cast(0, kind)), name="E")
    inputs = [numbers(tuple(map(int, t.shape)), kind, s) for s, t in enumerate((a, b, bias, rest))]
    x, y, z, w = (v.astype("float64") for v in inputs)
    program = Program(
        te.create_prim_func([a, b, bias, rest, e]), inputs, lambda: np.maximum(x @ y + z + w, 0)
    )
    sch = Schedule(program.func)
    how = schedule_gpu_product(sch, "C", GPU)
    assert how == {"float32": "simt_matmul", "float16": "mma_matmul"}[kind]
    flat = program.check(sch, {"float32": EXACT, "float16": 4e-3}[kind])
    [cost] = kernel_costs(flat, GPU)
    assert cost.stores["global"].elements == m * n


def test_what_prepares_an_operand_is_part_of_the_kernel() -> None:
    a, b = te.placeholder((40, 24), name="A"), te.placeholder((24, 36), name="B")
    power = te.compute((40, 24), lambda i, j: T.exp(a[i, j]), name="power")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((40, 36), lambda i, j: te.sum(power[i, k] * b[k, j], axis=k), name="C")
    x, y = numbers((40, 24), "float32", 1), numbers((24, 36), "float32", 2)
    program = Program(te.create_prim_func([a, b, c]), [x, y], lambda: np.exp(x.astype("f8")) @ y)
    sch = Schedule(program.func)
    schedule_gpu_product(sch, "C", GPU)
    flat = program.check(sch, EXACT)
    assert len(kernel_costs(flat, GPU)) == 1


def test_several_results_have_kernels_of_their_own() -> None:
    a, b = te.placeholder((40, 24), name="A"), te.placeholder((24, 36), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((40, 36), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((40, 36), lambda i, j: c[i, j] * 2.0, name="D")
    x, y = numbers((40, 24), "float32", 1), numbers((24, 36), "float32", 2)
    sch = Schedule(te.create_prim_func([a, b, c, d]))
    schedule_gpu_product(sch, "C", GPU)
    flat = lower(sch.mod["main"], GPU)
    assert len(kernel_costs(flat, GPU)) == 2
    one, two = np.zeros((40, 36), "float32"), np.zeros((40, 36), "float32")
    run_kernels(flat, x, y, one, two)
    np.testing.assert_allclose(one, x @ y, 1e-4, 1e-4)
    np.testing.assert_allclose(two, 2 * (x @ y), 1e-4, 1e-4)


def test_rounding_to_tf32_is_asked_for() -> None:
    for tf32, how in ((False, "simt_matmul"), (True, "mma_matmul")):
        assert schedule_gpu_product(Schedule(matmul(64, 64, 64).func), "C", GPU, tf32) == how


def test_old_gpus_have_no_such_units() -> None:
    old = target("cuda -arch=sm_75")
    sch = Schedule(matmul(64, 64, 64, "float16", "float32").func)
    assert schedule_gpu_product(sch, "C", old) == "simt_matmul"
    with pytest.raises(ScheduleError, match="no units that multiply float16 into float32"):
        mma_matmul(Schedule(matmul(64, 64, 64, "float16", "float32").func), "C", old)


# ---------------------------------------------------------------------------- what is a product


def test_what_is_no_product_is_refused() -> None:
    a = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    square = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="C")
    most = te.compute((8, 8), lambda i, j: te.max(a[i, k] * a[k, j], axis=k), name="C")
    vector = matmul(8, 1, 8).func
    for func in (*(te.create_prim_func([a, c]) for c in (total, square, most)), vector):
        sch = Schedule(func)
        assert find_factors(sch, "C") is None
        assert find_products(sch) == []
        with pytest.raises(ScheduleError, match="no product of matrices"):
            schedule_gpu_product(sch, "C", GPU)


def test_a_result_that_is_reduced_is_refused() -> None:
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k, j = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="j")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((8,), lambda i: te.sum(c[i, j], axis=j), name="D")
    with pytest.raises(ScheduleError, match="'D' reduces what the product has made"):
        schedule_gpu_product(Schedule(te.create_prim_func([a, b, d])), "C", GPU)


def test_neighbours_in_memory_are_found() -> None:
    for trans, deep in (("", (True, False)), ("a", (False, False)), ("b", (True, True))):
        product = as_matrices(Schedule(matmul(64, 128, 32, trans=trans).func), "C")
        assert tuple(side.deep for side in product.operands) == deep
        assert {side.lanes for side in product.operands} == {4}
        assert product.lanes == 4
    product = as_matrices(Schedule(matmul(64, 126, 31).func), "C")
    assert [side.lanes for side in product.operands] == [1, 2]
    assert product.lanes == 2


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_schedules_are_proven(kind: str) -> None:
    """Both programs as sets of integer points, compared by isl."""
    pytest.importorskip("islpy")
    program = matmul(20, 12, 10, kind, "float32")
    verdict = simt(program, SimtTile((1, 1), (1, 1), 2, 4)).verify()
    assert str(verdict).startswith("ok"), verdict


@pytest.mark.slow
def test_schedules_on_matrix_units_are_proven() -> None:
    """As far as intrinsics compute what their descriptions say."""
    pytest.importorskip("islpy")
    program = matmul(32, 32, 32, "float16", "float32")
    verdict = mma(program, MmaTile((1, 2), (1, 1), 32, 2)).verify()
    assert str(verdict).startswith("ok"), verdict
    program = matmul(64, 16, 64, "float16", "float32", "b")
    sch = Schedule(program.func)
    wgmma_matmul(sch, "C", target("cuda -arch=sm_90a"), WgmmaTile(1, 16, 2))
    assert str(sch.verify()).startswith("ok")


class WithoutBarriers(StmtRewriter):
    """A kernel whose threads do not wait for each other."""

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        call = stmt.value
        if isinstance(call, Call) and call.op == "tir.tvm_storage_sync":
            return Evaluate(const(0))
        return stmt


@pytest.mark.parametrize(
    ("how", "arch"), [(simt, "sm_80"), (mma, "sm_80"), (mma_through_registers, "sm_80"),
                      (on_hopper, "sm_90a")],
)  # fmt: skip
def test_the_barriers_are_needed(how: Any, arch: str) -> None:
    kind = "float32" if how is simt else "float16"
    program = matmul(64, 64, 192, kind, "float32", "b")
    flat = lower(how(program).mod["main"], target(f"cuda -arch={arch}"))
    broken = flat.replace(body=WithoutBarriers().visit(flat.body))
    with pytest.raises(KernelDefect, match=r"race|uninitialised|missing wait|not waited"):
        run_kernels(broken, *program.inputs, np.zeros((64, 64), "float32"))
