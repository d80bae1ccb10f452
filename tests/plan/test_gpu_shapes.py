"""Groups of every shape on a GPU: planned, lowered, run in the emulator, assembled."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest

from gpu import assemble
from plan.shapes import ODD_SHAPES, OF_ROWS, PROGRAMS, Program
from sampling import sampled
from tileloom.driver import assembly, build
from tileloom.lower import lower
from tileloom.lower.analysis.threads import kernels
from tileloom.lower.gpu.verify_gpu_code import verify_gpu_code
from tileloom.plan import schedule_gpu
from tileloom.simt.cost import kernel_costs
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
#: Elements of the first input from which a run in the emulator is slow.
LARGE = 1 << 17
OF_SIZES = [name for name, program in PROGRAMS.items() if prod(program.shape) > LARGE]
#: NumPy refuses to take the maximum of an empty row.
WITH_MAXIMUM = {
    "last_reduce_max", "elementwise_double_reduce", "elementwise_triple_reduce",
    "broadcast_double_reduce", "broadcast_triple_reduce", "softmax", "log_softmax",
}  # fmt: skip


def check(program: Program, shape: tuple[int, ...]) -> None:
    sch = schedule_gpu(program.function(shape), GPU)
    kernel = build(sch.mod["main"], target="cuda -arch=sm_80", device="emulator")
    given = program.inputs(np.random.default_rng(0), shape)
    wanted = program.results(given)
    results = [np.full(r.shape, np.nan, "float32") for r in wanted]
    kernel(*given, *results)
    for have, want in zip(results, wanted, strict=True):
        scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
        np.testing.assert_allclose(have, want, 1e-4, 1e-5 * scale)


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_shapes(name: str) -> None:
    check(PROGRAMS[name], PROGRAMS[name].small)


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
@pytest.mark.parametrize("name", sampled(OF_ROWS, 4))
def test_odd_shapes(name: str, shape: tuple[int, int]) -> None:
    if shape[1] == 0 and name in WITH_MAXIMUM:
        pytest.skip("NumPy knows no maximum of nothing")
    check(PROGRAMS[name], shape)


@pytest.mark.parametrize("shape", [(2, 264), (3, 1026), (65, 2000)], ids=str)
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "broadcast_double_reduce",
                                  "reduce_broadcast_elementwise", "last_reduce_3"])  # fmt: skip
def test_rows_read_by_vectors(name: str, shape: tuple[int, int]) -> None:
    sch = schedule_gpu(PROGRAMS[name].function(shape), GPU)
    assert "vectorize" in str(sch.trace)
    check(PROGRAMS[name], shape)


@pytest.mark.parametrize("name", sampled(PROGRAMS, 3))
def test_schedules_are_proven(name: str) -> None:
    pytest.importorskip("islpy")
    program = PROGRAMS[name]
    assert schedule_gpu(program.function(program.small), GPU).verify().ok


@pytest.mark.parametrize("name", sampled(PROGRAMS, 2))
def test_full_shapes(name: str) -> None:
    """They lower, and every kernel has enough threads and none that only waits."""
    program = PROGRAMS[name]
    flat = lower(schedule_gpu(program.function(), GPU).mod["main"], GPU)
    assert not verify_gpu_code(flat)
    assert len(list(kernels(flat.body))) <= 3
    if prod(program.shape) <= LARGE:
        check(program, program.shape)
    first = max(kernel_costs(flat, GPU), key=lambda cost: cost.loads["global"].elements)
    assert first.blocks * first.threads >= min(prod(program.shape) // 16, 50_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_SIZES)
def test_full_shapes_run(name: str) -> None:
    check(PROGRAMS[name], PROGRAMS[name].shape)


@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90a", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sampled(PROGRAMS, 3))
def test_full_shapes_assemble(name: str, arch: str, tmp_path: Path) -> None:
    gpu = target(f"cuda -arch={arch}")
    sch = schedule_gpu(PROGRAMS[name].function(), gpu)
    said = assemble(assembly(sch.mod, gpu), arch, tmp_path)
    assert "0 bytes spill stores, 0 bytes spill loads" in said
