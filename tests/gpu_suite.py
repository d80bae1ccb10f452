"""The GPU suite: what tests marked `gpu` run on besides the emulator.

`python -m pytest -m gpu` runs them all. Where the CUDA driver finds a GPU, whatever a test runs on
the emulator is launched on the GPU as well, on copies of the same arrays, and must leave there what
the emulator leaves. Tests that take the fixture `gpu_device` run once for each device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.dtype import dtype
from tileloom.base.errors import UnsupportedError
from tileloom.base.tensor_map import TensorMap
from tileloom.codegen import jit
from tileloom.codegen.nvptx import emit_kernels
from tileloom.expr import Var
from tileloom.lower.analysis.pointers import is_map
from tileloom.lower.gpu.launch_plan import HostPlan
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.runtime import cuda
from tileloom.runtime.params import ParamSpec
from tileloom.simt.launch import _Host
from tileloom.tir import IRModule

#: Folders and beginnings of file names whose tests run kernels, or assemble them.
MARKED = (
    "simt/test_", "plan/test_gpu", "plan/test_tactics", "lower/gpu/test_barriers",
    "lower/gpu/test_memory", "lower/gpu/test_pipelines", "lower/gpu/test_reductions",
    "lower/gpu/test_thread_storage_sync", "codegen/nvptx/test_", "test_gpu",
    "runtime/cuda/test_", "graph/test_gpu", "driver/test_devices", "frontend/test_devices",
    "sparse/test_hyb_cuda",
)  # fmt: skip
#: How far a GPU may be off the emulator, relative and absolute.
TOLERANCE = {2: (2e-2, 2e-2), 4: (1e-4, 1e-4), 8: (1e-9, 1e-9)}


@cache
def has_gpu() -> bool:
    """Whether the CUDA driver is there and finds a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        ready = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    except (OSError, AttributeError):  # none, or the fake one of the runtime's tests
        return False
    return ready and count.value > 0


def _is_listed(path: Path) -> bool:
    """Whether the tests of a file belong to the suite."""
    try:
        inside = path.relative_to(Path(__file__).parent).as_posix()
    except ValueError:
        return False
    return inside.startswith(MARKED)


# ---------------------------------------------------------------------------- flat functions


def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the GPU do beside the emulator what that does, and compare."""
    emulate = _Host.run
    inside: list[Any] = []  # the fake driver emulates as well

    def both(self: Any) -> int:
        if inside:
            return emulate(self)
        before = {var: raw.copy() for var, raw in self.bytes.items()}
        maps = {var: m for var, m in self.env.items() if isinstance(m, TensorMap)}
        before.update({var: np.ascontiguousarray(m.array).copy() for var, m in maps.items()})
        steps = emulate(self)
        # Not compared: what nobody has written, parts of grids, results that are off on purpose.
        if self.starts_empty and self.blocks is None and self.random is None:
            inside.append(self)
            try:
                compare(self.func, before, self.bytes, self.env)
            finally:
                inside.clear()
        return steps

    monkeypatch.setattr(_Host, "run", both)


def compare(
    flat: Any, before: Mapping[Var, Any], after: Mapping[Var, Any], env: Mapping[Var, Any]
) -> None:
    """Run on the GPU what the emulator has run; fail if it leaves something else.

    Args:
        flat: a function that was lowered already.
        before: the bytes of its arrays, by their data.
        after: those that the emulator has left.
        env: the values of its scalars.
    """
    target = cuda.device().target
    kernels = dict(split_host_device(flat).functions)
    host = kernels.pop(flat.name)
    try:
        ptx = jit.assembly(emit_kernels(IRModule(kernels), target), target)
    except UnsupportedError:  # the emulator knows more than this GPU
        return
    given: Any
    specs, given = [], []
    for param in flat.params:
        buffer = flat.buffer_map.get(param)
        if is_map(param):
            specs.append(ParamSpec(param.name, "map", param.dtype))
            mapped = env[param]
            given.append(TensorMap(cuda.asarray(before[param]), mapped.box, mapped.swizzle))
            continue
        if buffer is None:
            specs.append(ParamSpec(param.name, "scalar", param.dtype))
            given.append(env[param])
            continue
        kind, raw = buffer.dtype.element, before[buffer.data]
        # Types of less than a byte go as bytes.
        array: Any = cuda.asarray(raw.view(kind.numpy) if kind.bits >= 8 or kind.is_bool else raw)
        specs.append(ParamSpec(buffer.name, "buffer", array.dtype, array.shape, access="rw"))
        given.append(array)
    cuda.CudaKernel(flat.name, specs, ptx, HostPlan(host, kernels))(*given)
    for param, array in zip(flat.params, given, strict=True):
        if isinstance(array, TensorMap):
            _same(array.array.numpy(), env[param].array, f"{flat.name}: {param.name}")
        elif isinstance(array, cuda.DeviceArray):
            buffer = flat.buffer_map[param]
            wanted = after[buffer.data].view(array.dtype.numpy)
            _same(array.numpy(), wanted, f"{flat.name}: {buffer.name}")


def _same(have: Any, want: Any, what: str) -> None:
    if dtype(have.dtype).is_float:
        relative, absolute = TOLERANCE.get(have.dtype.itemsize, (0.3, 0.3))
        have, want = have.astype("float64"), want.astype("float64")
        np.testing.assert_allclose(have, want, relative, absolute, err_msg=what)
    else:
        np.testing.assert_array_equal(have, want, err_msg=what)


# ---------------------------------------------------------------------------- whole functions


class GpuDevice:
    """Where a test of the suite runs: "emulator" or "cuda"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, program: Any, target: Any = "cuda") -> Callable[..., None]:
        """A function's kernels, to be called with NumPy arrays, which it changes."""
        if self.name == "emulator":
            kernel: Callable[..., None] = tileloom.build(program, target, device="emulator")
            return kernel
        launch = tileloom.build(program, target)

        def call(*arguments: Any) -> None:
            given = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
            launch(*given)
            for host, array in zip(arguments, given, strict=True):
                if isinstance(array, cuda.DeviceArray):
                    host[...] = array.numpy()

        return call

    def __repr__(self) -> str:
        return f"GpuDevice({self.name!r})"


# ---------------------------------------------------------------------------- for pytest


@pytest.hookimpl(tryfirst=True)  # before `-m gpu` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run kernels for GPUs."""
    for item in items:
        if _is_listed(item.path) or "gpu_device" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=has_gpu())
def on_the_gpu_too(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a GPU, tests of the GPU suite run on it beside the emulator."""
    if has_gpu() and request.node.get_closest_marker("gpu"):
        mirror(monkeypatch)


@pytest.fixture(params=["emulator", "cuda"] if has_gpu() else ["emulator"])
def gpu_device(request: pytest.FixtureRequest) -> GpuDevice:
    """Each device that kernels can run on: `gpu_device.build(func)` takes NumPy arrays."""
    return GpuDevice(request.param)
