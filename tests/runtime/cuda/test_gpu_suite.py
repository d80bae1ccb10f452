"""The GPU suite itself: what the emulator runs is launched as well, and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpu_suite
import tileloom
from runtime.cuda import programs
from runtime.cuda.fake_driver import FakeDriver
from tileloom.runtime import cuda
from tileloom.simt import run_kernels


@pytest.fixture
def mirrored(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The suite as on a machine with a GPU."""
    kernel = cuda.CudaKernel

    def known(name: str, specs: Any, ptx: str, plan: Any) -> Any:
        gpu.programs[ptx] = dict(plan.kernels)
        return kernel(name, specs, ptx, plan)

    monkeypatch.setattr(cuda, "CudaKernel", known)
    gpu_suite.mirror(monkeypatch)
    return gpu


def test_what_is_emulated_is_launched(mirrored: FakeDriver) -> None:
    kernel = tileloom.build(programs.scaled(), "cuda -arch=sm_80", device="emulator")
    a, b = np.arange(96, dtype="float32"), np.zeros(96, "float32")
    kernel(a, b)
    assert np.array_equal(b, a * 2 + 1)
    assert len(mirrored.launched) == 1


def test_scalars_and_temporaries(mirrored: FakeDriver) -> None:
    total = tileloom.build(programs.total(), "cuda -arch=sm_80", device="emulator")
    total(np.ones(1 << 15, "float32"), np.zeros(1, "float32"))
    number = tileloom.build(programs.numbers("float16"), "cuda -arch=sm_80", device="emulator")
    number(np.ones(64, "float16"), 2.0, np.zeros(64, "float16"))
    assert len(mirrored.launched) == 3


def test_a_difference_is_found(mirrored: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeDriver._run

    def wrongly(self: Any, function: Any, grid: Any, block: Any, values: Any) -> None:
        run(self, function, grid, block, values)
        self.memory(int.from_bytes(values[0], "little"), 4)[:] = 1

    monkeypatch.setattr(FakeDriver, "_run", wrongly)
    kernel = tileloom.build(programs.scaled(), "cuda -arch=sm_80", device="emulator")
    with pytest.raises(AssertionError, match="main: "):
        kernel(np.arange(96, dtype="float32"), np.zeros(96, "float32"))


def test_defects_are_not_launched(mirrored: FakeDriver) -> None:
    from tileloom.lower import lower
    from tileloom.simt import KernelDefect

    flat = lower(programs.scaled(), programs.GPU)
    with pytest.raises(KernelDefect):
        run_kernels(flat, np.zeros(80, "float32"), np.zeros(96, "float32"))
    assert mirrored.launched == []


def test_devices(gpu_device: gpu_suite.GpuDevice) -> None:
    kernel = gpu_device.build(programs.scaled())
    a, b = np.arange(96, dtype="float32"), np.zeros(96, "float32")
    kernel(a, b)
    assert np.array_equal(b, a * 2 + 1)


def test_devices_with_a_driver(mirrored: FakeDriver) -> None:
    kernel = gpu_suite.GpuDevice("cuda").build(programs.scaled())
    a, b = np.arange(96, dtype="float32"), np.zeros(96, "float32")
    kernel(a, b)
    assert np.array_equal(b, a * 2 + 1)
