"""Loading PTX: versions, architectures, logs, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.cuda import fake_parts, programs
from runtime.cuda.conftest import answering, build
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import UserError
from tileloom.runtime import cuda
from tileloom.runtime.cuda.modules import for_driver, ptx_version


def test_loaded_once_for_each_device(gpu: FakeDriver) -> None:
    kernels = [build(gpu, programs.scaled()) for _ in range(2)]
    for kernel in kernels:
        kernel(cuda.zeros(96), cuda.empty(96))
    assert gpu.calls.count("cuModuleLoadDataEx") == 1


def test_a_refusal_shows_the_log(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    gpu.jit_log = "ptxas application ptx input, line 5; fatal: Unexpected 'banana'"
    with pytest.raises(cuda.JitError) as caught:
        kernel(cuda.zeros(96), cuda.empty(96))
    message = str(caught.value)
    assert "refuses the kernels for cuda:0 (Fake GPU)" in message
    assert "CUDA_ERROR_INVALID_PTX" in message
    assert "Unexpected 'banana'" in message
    assert f"    5 | {kernel.ptx.splitlines()[4]}" in message
    gpu.jit_log = ""
    kernel(cuda.zeros(96), cuda.empty(96))  # nothing of it sticks


def test_a_refusal_without_a_log(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    with (
        answering(gpu, "cuModuleLoadDataEx", 218),
        pytest.raises(cuda.JitError, match="it left no log"),
    ):
        kernel(cuda.zeros(96), cuda.empty(96))


def test_code_for_a_newer_gpu(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(capability=(7, 5)))
    kernel = build(driver, programs.scaled(), "cuda -arch=sm_80")
    with pytest.raises(cuda.ArchitectureError) as caught:
        kernel(cuda.zeros(96), cuda.empty(96))
    wanted = "the kernels were made for sm_80, and cuda:0 (Fake GPU) is sm_75"
    assert wanted in str(caught.value)
    assert '"cuda -arch=sm_75", or just "cuda"' in str(caught.value)
    assert "cuModuleLoadDataEx" not in driver.calls


def test_code_for_an_older_gpu(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(capability=(9, 0)))
    kernel = build(driver, programs.scaled(), "cuda -arch=sm_80")
    kernel(cuda.zeros(96), cuda.empty(96))


def test_a_driver_that_is_too_old(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(capability=(9, 0)), version=11080)
    kernel = build(driver, programs.scaled())
    wanted = r"(?s)the kernels are PTX 8\.\d; the driver, of CUDA 11.8, knows it up to 7.8.*newer"
    with pytest.raises(cuda.ArchitectureError, match=wanted):
        kernel(cuda.zeros(96), cuda.empty(96))


def test_a_driver_that_is_old(plug: Callable[..., Any]) -> None:
    """CUDA 12.0 knows sm_90a; only products of 8-bit floats need more."""
    driver = plug(FakeDevice(capability=(9, 0)), version=12000)
    kernel = build(driver, programs.scaled())
    ours = driver.programs.pop(kernel.ptx)
    text = for_driver(cuda.device(), kernel.ptx)
    assert ".version 8.0\n.target sm_90a" in text
    driver.programs[text] = ours
    b = cuda.empty(96)
    kernel(cuda.zeros(96), b)
    assert np.all(b.numpy() == 1)
    small = kernel.ptx + "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
    with pytest.raises(cuda.ArchitectureError, match="newer driver"):
        for_driver(cuda.device(), small)


@pytest.mark.parametrize(
    ("arch", "capability", "runs"),
    [
        ("sm_80", 80, True), ("sm_80", 86, True), ("sm_86", 80, False), ("sm_90a", 90, True),
        ("sm_90a", 100, False), ("sm_100f", 103, True), ("sm_100f", 120, False),
        ("sm_103f", 100, False), ("sm_90", 120, True),
    ],
)  # fmt: skip
def test_which_gpu_runs_what(
    plug: Callable[..., Any], arch: str, capability: int, runs: bool
) -> None:
    plug(FakeDevice(capability=divmod(capability, 10)), version=13000)
    ptx = f"//\n.version 8.0\n.target {arch}\n.address_size 64\n"
    if runs:
        for_driver(cuda.device(), ptx)
    else:
        with pytest.raises(cuda.ArchitectureError):
            for_driver(cuda.device(), ptx)


@pytest.mark.parametrize("capability", [(7, 0), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)])
def test_ptx_is_old_enough_for_the_first_driver_of_each_gpu(
    plug: Callable[..., Any], capability: Any
) -> None:
    """No kernel asks for a newer PTX than the CUDA that brought the GPU, or than 12.4 at least."""
    first = {70: (11, 0), 80: (11, 0), 89: (12, 4), 90: (12, 4), 100: (12, 7), 120: (12, 8)}
    driver = plug(FakeDevice(capability=capability))
    kernel = build(driver, programs.scaled())
    version = kernel.ptx.partition(".version ")[2].split()[0]
    major, minor = capability
    known = ptx_version(first[10 * major + minor])
    assert tuple(map(int, version.split("."))) <= known


def test_too_much_shared_memory(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(shared=50 << 10, capability=(8, 6)))  # less than others of its kind
    with pytest.raises(UserError, match="65536 bytes of shared memory, at most 51200"):
        build(driver, programs.shared(1 << 14))
    assert driver.launched == []


def test_too_many_registers(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(max_function_threads=64, registers=255))
    kernel = build(driver, programs.scaled(256, threads=128))
    with pytest.raises(cuda.LaunchError, match=r"255 registers .* leave room for 64 threads"):
        kernel(cuda.zeros(256), cuda.empty(256))


@pytest.mark.parametrize("warm", [False, True])
def test_a_launch_that_fails(gpu: FakeDriver, warm: bool) -> None:
    kernel = build(gpu, programs.total(1 << 15))
    a, b = cuda.zeros(1 << 15), cuda.empty(1)
    if warm:
        kernel(a, b)
    with (
        answering(gpu, "cuLaunchKernel", 0, fake_parts.OUT_OF_RESOURCES),
        pytest.raises(cuda.LaunchError) as caught,
    ):
        kernel(a, b)
    message = str(caught.value)
    assert "main: main_kernel_1 cannot be launched" in message
    assert "grid (1, 1, 1), block (16, 1, 1)" in message
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in message
    assert "the device allows 1024 threads and 163.00 KiB of shared memory a block" in message
    kernel(a, b)
    assert np.array_equal(b.numpy(), [0])
