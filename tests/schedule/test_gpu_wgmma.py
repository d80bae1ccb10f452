"""Products on Hopper's matrix units: results on the emulator, what the assembler says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sampling import sampled
from schedule.gpu_products import (
    Program,
    barriers,
    calls,
    convolution,
    lanes,
    matmul,
    registers,
    said_of,
)
from tileloom.driver import assembly
from tileloom.expr import Call
from tileloom.lower import lower
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import (
    WgmmaTile,
    schedule_gpu_product,
    tensor_core_conv2d,
    wgmma_matmul,
)
from tileloom.schedule.library.intrinsics import wgmma
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.simt.cost import kernel_costs
from tileloom.target import target
from tileloom.tir import Evaluate, collect

HOPPER = target("cuda -arch=sm_90a")
SMALL = WgmmaTile(1, 32, 3)
SHARED = 227 << 10  # bytes that a block may have
EXACT = 1e-6


def on_hopper(program: Program, tile: WgmmaTile | None = SMALL) -> Schedule:
    sch = Schedule(program.func)
    wgmma_matmul(sch, "C", HOPPER, tile)
    return sch


@pytest.mark.parametrize(
    ("shape", "trans"),
    [((64, 32, 64), "b"), ((60, 40, 200), ""), ((70, 24, 72), "ab"), ((33, 17, 65), "a"),
     ((7, 5, 3), "")],
)  # fmt: skip
def test_products(shape: tuple[int, int, int], trans: str) -> None:
    program = matmul(*shape, "float16", "float32", trans)
    program.check(on_hopper(program), EXACT)


@pytest.mark.parametrize(
    ("kind", "total", "trans", "tolerance"),
    [("bfloat16", "float32", "", EXACT), ("float32", "float32", "b", 2e-3),
     ("float32", "float32", "", 2e-3), ("int8", "int32", "b", 0.0), ("uint8", "int32", "a", 0.0)],
)  # fmt: skip
def test_types(kind: str, total: str, trans: str, tolerance: float) -> None:
    program = matmul(64, 32, 144, kind, total, trans)
    program.check(on_hopper(program), tolerance)


@pytest.mark.parametrize("tile", [WgmmaTile(2, 16, 4), WgmmaTile(1, 64, 1), WgmmaTile(2, 128, 2)])
def test_tiles_and_stages(tile: WgmmaTile) -> None:
    program = matmul(tile.rows, tile.columns, 320, "float16", "float32", "b")
    flat = program.check(on_hopper(program, tile), EXACT)
    assert bool(calls(flat, "tir.ptx_cp_async")) == (tile.stages > 1)


def test_batches() -> None:
    program = matmul(40, 24, 72, "float16", "float32", batch=(2,))
    program.check(on_hopper(program), EXACT)


def test_convolutions() -> None:
    program = convolution((1, 7, 6, 16), (24, 3, 3), padding=1)
    sch = Schedule(program.func)
    tensor_core_conv2d(sch, "Y", HOPPER, SMALL)
    program.check(sch, 1e-3)


@pytest.mark.parametrize("trans", sampled(["b", ""], 2))
def test_large_tiles(trans: str, tmp_path: Path) -> None:
    """One barrier a step; sums and descriptors in registers; products follow each other."""
    program = matmul(256, 512, 2048, "bfloat16", "float32", trans)
    sch = on_hopper(program, WgmmaTile())
    flat = lower(sch.mod["main"], HOPPER)
    assert {int(call.args[4]) for call in calls(flat, "tir.ptx_cp_async")} == {16}
    assert barriers(flat) == 1 + 3
    [cost] = kernel_costs(flat, HOPPER)
    assert cost.grid == {"blockIdx.x": 2 * 2}
    assert cost.threads == 256
    assert cost.syncs == 2048 // 64
    assert cost.shared_bytes <= SHARED
    assert cost.stores["global"].efficiency == 1.0
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in assembly(sch.mod, HOPPER)
    said = said_of(sch, "sm_90a", tmp_path)
    assert "serialized" not in said
    assert registers(said) <= 168


def test_copies_go_to_different_banks() -> None:
    """Eight threads that copy 16 bytes each go to eight groups of banks."""
    for trans in ("", "b", "ab"):
        program = matmul(256, 256, 256, "float16", "float32", trans)
        flat = lower(on_hopper(program, WgmmaTile(2, 128, 2)).mod["main"], HOPPER)
        for call in calls(flat, "tir.ptx_cp_async"):
            groups = lanes(call.args[1], {}) // 16 % 8
            assert all(len(set(eight)) == 8 for eight in groups.reshape(4, 8))


def test_who_gets_which_tactic() -> None:
    found = {}
    for name, func in {
        "large": matmul(256, 256, 256, "bfloat16", "float32").func,
        "few rows": matmul(16, 256, 256, "bfloat16", "float32").func,
        "summed in halves": matmul(256, 256, 256, "float16", "float16").func,
        "floats": matmul(256, 256, 256).func,
    }.items():
        found[name] = schedule_gpu_product(Schedule(func), "C", HOPPER)
    assert found == {
        "large": "wgmma_matmul", "few rows": "mma_matmul", "summed in halves": "mma_matmul",
        "floats": "simt_matmul",
    }  # fmt: skip


def test_other_gpus_are_refused() -> None:
    for arch in ("sm_80", "sm_90"):
        with pytest.raises(ScheduleError, match="no units on which four warps multiply"):
            wgmma_matmul(
                Schedule(matmul(64, 64, 64, "float16", "float32").func), "C",
                target(f"cuda -arch={arch}"),
            )  # fmt: skip


def test_who_holds_what() -> None:
    places = {wgmma.wgmma_64xn_to_128_layout(i, j) for i in range(64) for j in range(32)}
    assert places == {(thread, k) for thread in range(128) for k in range(16)}


@pytest.mark.parametrize("name", ["wgmma_64x256_bf16bf16f32", "wgmma_64x8_f16f16f32_b_transposed"])
def test_intrinsics_can_be_had(name: str) -> None:
    found = TensorIntrin.get(name)
    assert found is not None
    assert not found.checked


def test_tiles_of_another_width_are_refused() -> None:
    func = matmul(64, 64, 64, "float16", "float32").func
    with pytest.raises(ScheduleError, match="columns, not 24"):
        wgmma_matmul(Schedule(func), "C", HOPPER, WgmmaTile(1, 24, 2))


def test_products_run_while_the_next_tiles_are_copied() -> None:
    """In the loop nothing waits between a product and the copies after it."""
    program = matmul(64, 32, 1024, "float16", "float32", "b")
    ops = [
        node.value.op
        for node in collect(lower(on_hopper(program).mod["main"], HOPPER).body, Evaluate)
        if isinstance(node.value, Call)
    ]
    first = ops.index("tir.ptx_wgmma")
    later = ops[first : ops.index("tir.ptx_cp_async", first)]
    assert not [op for op in later if "wait" in op or "sync" in op]
    assert ops.count("tir.ptx_wgmma_wait_group") > 1
