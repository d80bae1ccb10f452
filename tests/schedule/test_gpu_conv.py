"""Convolutions on GPUs, AKG's among them."""

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
    calls,
    conflict_free,
    convolution,
    matmul,
    registers,
    said_of,
)
from tileloom.base.errors import ArgumentError
from tileloom.lower import lower
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import MmaTile, schedule_gpu_product, tensor_core_conv2d
from tileloom.simt import run_kernels
from tileloom.simt.cost import kernel_costs

HALF = 1e-3  # a rounding to float16, and sums in another order
#: AKG's: 8 warps, 64 places by 128 channels, steps of 64 channels, fetched through registers.
AKG = MmaTile((2, 4), (2, 2), 128, 1)


def on_matrix_units(program: Program, tile: MmaTile | None = None) -> Schedule:
    sch = Schedule(program.func)
    tensor_core_conv2d(sch, "Y", GPU, tile)
    return sch


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 8, 8, 16), (24, 3, 3), {}),
    ((2, 9, 7, 16), (24, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 9, 9, 8), (24, 3, 3), {"dilation": 2, "padding": 2}),
    ((1, 7, 7, 3), (5, 3, 3), {"padding": 1}),
    ((1, 11, 13, 7), (3, 5, 3), {"stride": 3, "padding": 2, "dilation": 2}),
    ((2, 6, 6, 64), (32, 5, 5), {"padding": 2, "order": "chw"}),
    ((2, 6, 6, 64), (32, 1, 1), {}),
    ((1, 6, 5, 64), (17, 1, 3), {"kind": "bfloat16"}),
    ((2, 8, 8, 16), (24, 3, 3), {"channels_first": True, "order": "chw"}),
    ((2, 9, 7, 6), (5, 3, 3), {"channels_first": True, "padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(("shape", "filters", "options"), sampled(CASES, 3, several=True))
def test_convolutions_on_matrix_units(shape: Any, filters: Any, options: dict[str, Any]) -> None:
    program = convolution(shape, filters, **options)
    tolerance = 8e-3 if options.get("kind") == "bfloat16" else HALF
    program.check(on_matrix_units(program), tolerance)


@pytest.mark.parametrize(
    ("shape", "filters", "options"),
    [((2, 8, 2, 1), (8, 3, 1), {"kind": "float32", "order": "chw"}),
     ((1, 3, 2, 2), (8, 3, 2), {"padding": 2, "order": "whc", "channels_first": True})],
)  # fmt: skip
def test_one_step_of_the_depth(shape: Any, filters: Any, options: dict[str, Any]) -> None:
    program = convolution(shape, filters, **options)
    program.check(on_matrix_units(program, MmaTile((1, 2), (2, 1), 32, 2)), 2e-3)


@pytest.mark.parametrize(("shape", "filters", "options"), CASES[::3])
def test_convolutions_in_registers(shape: Any, filters: Any, options: dict[str, Any]) -> None:
    program = convolution(shape, filters, **{**options, "kind": "float32"})
    sch = Schedule(program.func)
    assert schedule_gpu_product(sch, "Y", GPU) == "simt_matmul"
    program.check(sch, 1e-6)


@pytest.mark.parametrize("stages", [1, 4])
def test_akg_reduced(stages: int) -> None:
    """AKG's kernel on 8 images of 9 by 9 with 64 channels."""
    program = convolution((8, 9, 9, 64), (128, 5, 5), order="chw")
    tile = MmaTile(AKG.warps, AKG.squares, AKG.depth, stages)
    flat = program.check(on_matrix_units(program, tile), HALF)
    assert conflict_free(flat)
    assert bool(calls(flat, "tir.ptx_cp_async")) == (stages > 1)


def akg() -> Program:
    """N=32, 32 by 32 with 64 channels, to 28 by 28 with 128, by 5 by 5."""
    return convolution((32, 32, 32, 64), (128, 5, 5), order="chw")


@pytest.mark.slow
@pytest.mark.parametrize("tile", [None, AKG])
def test_akg_kernel(tile: MmaTile | None, tmp_path: Path) -> None:
    """The whole convolution: a barrier a step, no bank twice, every result once, no spills."""
    program = akg()
    sch = on_matrix_units(program, tile)
    flat = lower(sch.mod["main"], GPU)
    assert conflict_free(flat)
    [cost] = kernel_costs(flat, GPU)
    assert cost.stores["global"].elements == 32 * 28 * 28 * 128
    assert cost.unknown == 0
    if tile is AKG:
        assert cost.grid == {"blockIdx.x": 392}
        assert cost.block == {"threadIdx.y": 8, "threadIdx.x": 32}
        assert cost.syncs == 25
    for arch in ARCHS:
        assert registers(said_of(sch, arch, tmp_path)) <= (80 if tile is AKG else 224)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [AKG, None])
def test_akg_whole(tile: MmaTile | None) -> None:
    """Blocks from the beginning, the middle and the end of the whole convolution."""
    program = akg()
    sch = on_matrix_units(program, tile)
    flat = lower(sch.mod["main"], GPU)
    result = np.full(program.wanted.shape, np.nan, "float16")
    [cost] = kernel_costs(flat, GPU)
    run_kernels(flat, *program.inputs, result, blocks=[0, cost.blocks // 2, cost.blocks - 1])
    done = ~np.isnan(result)
    assert done.sum() == 3 * 128 * (25088 // cost.blocks)
    scale = np.abs(program.wanted).max()
    np.testing.assert_allclose(result[done] / scale, program.wanted[done] / scale, 0, HALF)


def test_what_is_no_convolution_is_refused() -> None:
    sch = Schedule(matmul(32, 32, 32, "float16", "float32").func)
    with pytest.raises(ScheduleError, match="'C' is no convolution of images"):
        tensor_core_conv2d(sch, "C", GPU)


def test_chosen_blocks_only() -> None:
    program = matmul(64, 64, 32)
    sch = Schedule(program.func)
    schedule_gpu_product(sch, "C", GPU)
    flat = lower(sch.mod["main"], GPU)
    result = np.full((64, 64), np.nan, "float32")
    run_kernels(flat, *program.inputs, result, blocks=[0])
    done = ~np.isnan(result)
    assert 0 < done.sum() < 64 * 64
    np.testing.assert_allclose(result[done], program.wanted[done], 1e-4, 1e-4)
    with pytest.raises(ArgumentError, match="the grid has blocks 0 to"):
        run_kernels(flat, *program.inputs, result, blocks=[99])
