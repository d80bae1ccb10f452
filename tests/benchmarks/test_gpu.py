"""The GPU benchmark: its programs at small sizes, its arithmetic, and machines without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom
import tileloom.driver
from benchmarks import gpu
from benchmarks.gpu_cases import Case, cases
from gpu_suite import GpuDevice, has_gpu
from runtime.cuda import fake_library
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.runtime import cuda
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
SMALL = cases(64)


def as_numpy(tensor: Any) -> Any:
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.contiguous().numpy()


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.slow if c.name.startswith("conv") else ()) for c in SMALL],
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_programs_do_what_pytorch_does(case: Case, gpu_device: GpuDevice) -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    scale = case.deep**-0.25 if case.flops else 1.0
    given = [
        (torch.randn(shape, generator=generator) * scale).to(getattr(torch, kind))
        for shape, kind in case.inputs
    ]
    expected = case.torch(torch, *[x.double() for x in given])
    shape, kind = case.output
    out = np.full(shape, np.nan, getattr(ml_dtypes, kind, kind))
    gpu_device.build(case.make(GPU), GPU)(*map(as_numpy, given), out)
    np.testing.assert_allclose(out.astype("float64"), as_numpy(expected), case.rtol, case.atol)


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)


def machine() -> gpu.Machine:
    return gpu.Machine("A GPU", 2e12, {"float32": 5e13, "tf32": 4e14, "float16": 8e14})


def test_the_roofline() -> None:
    found = {case.name: machine().best(case) for case in cases()}
    assert found["add 8192x8192"] == pytest.approx(3 * 4 * 8192**2 / 2e12)
    assert found["matmul float32 4096"] == pytest.approx(2 * 4096**3 / 5e13)
    assert found["matmul bfloat16 8192"] == pytest.approx(2 * 8192**3 / 8e14)


def test_the_table() -> None:
    add, matmul = cases()[0], cases()[9]
    rows = [
        gpu.Row(add, {"tileloom": 500.0, "torch": 450.0, "triton": 460.0}),
        gpu.Row(matmul, {"torch": 3000.0}, {"tileloom": "ValueError: wrong by 2"}),
    ]
    text = gpu.report(machine(), rows, "versions", {"tileloom": 3.21, "torch": 4})
    assert "| add 8192x8192 | 500.0 | 1.61 TB/s | 81 % | 450.0 | 460.0 | 0.90x |" in text
    assert "| matmul float32 4096 | - | - | - | 3000.0 | - | - |" in text
    assert "* matmul float32 4096, tileloom: ValueError: wrong by 2" in text
    assert "A copy moves 2.00 TB/s" in text
    assert "one A GPU" in text
    assert "takes Python, in microseconds: tileloom 3.2, torch 4.0." in text


def test_units() -> None:
    assert gpu.units_of(90)["float16"] == 4096
    assert gpu.units_of(75) == gpu.units_of(70)
    assert gpu.units_of(50) == gpu.units_of(70)
    assert gpu.units_of(120) == gpu.units_of(100)


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if has_gpu():
        pytest.skip("there is one")
    cuda.reset()
    assert gpu.main([]) == 0
    assert "there is no GPU to measure: " in capsys.readouterr().out
    assert not gpu.RESULTS.exists()


def test_times_are_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.driver")
    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver, or no C compiler for the fake one")
    monkeypatch.setattr(gpu, "_FLUSH", 1 << 20)
    monkeypatch.setattr(gpu, "_COPY", 1 << 20)
    cuda.reset()
    with fake_library.plugged(FakeDriver(FakeDevice())) as driver:
        bench = gpu.Bench(None, rounds=3)
        a: Any = cuda.zeros(8)
        # The fake driver's clock ticks once for each thing in a stream.
        times = bench.times({"one": a.clear, "two": lambda: (a.clear(), a.clear())})
        assert times == {"one": 2000.0, "two": 3000.0}
        assert bench.machine().bandwidth > 0
        assert not driver.problems
    cuda.reset()


def test_wrong_results_are_not_timed() -> None:
    torch = pytest.importorskip("torch")
    case = SMALL[0]
    bench = object.__new__(gpu.Bench)
    good = torch.ones(4)
    bench.check(case, good, good)
    for bad in (good + 0.1, good * float("nan")):
        with pytest.raises(ValueError, match="wrong by"):
            bench.check(case, bad, good)


class TorchOnTheCpu:
    """PyTorch, with tensors of the CPU where those of a GPU are asked for."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.cuda = SimpleNamespace(is_available=lambda: True)
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def Generator(self, device: str) -> Any:
        assert device == "cuda"
        return self.torch.Generator()

    def randn(self, *given: Any, device: str, **options: Any) -> Any:
        assert device == "cuda"
        return self.torch.randn(*given, **options)

    def full(self, *given: Any, device: str, **options: Any) -> Any:
        assert device == "cuda"
        return self.torch.full(*given, **options)


def test_all_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The whole run, the emulator in the place of the GPU; Triton is not there."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.driver")
    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver, or no C compiler for the fake one")

    def build(func: Any, target: Any) -> Any:
        emulated = tileloom.driver.build(func, target, device="emulator")
        return lambda *tensors: emulated(*map(as_numpy, tensors))

    monkeypatch.setitem(sys.modules, "torch", TorchOnTheCpu(torch))
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(tileloom, "build", build)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "RESULTS-gpu.md")
    for name, value in {"_FLUSH": 1 << 10, "_COPY": 1 << 10, "_LAUNCHES": 2, "_REPEATS": 1}.items():
        monkeypatch.setattr(gpu, name, value)
    cuda.reset()
    with fake_library.plugged(FakeDriver(FakeDevice("Some GPU"))) as driver:
        assert gpu.main(["--scale", "256", "--rounds", "1", "softmax", "add", "sum of"]) == 0
        assert not driver.problems
    cuda.reset()
    text = capsys.readouterr().out
    assert "Measured on one Some GPU" in text
    for name in ("add 32x32", "softmax 32x16", "softmax 64x4", "sum of all 32x32"):
        [row] = [line for line in text.splitlines() if line.startswith(f"| {name} |")][:1]
        assert "%" in row, "ours was right, and timed"
    assert "add 32x32, triton: ModuleNotFoundError" in text
    assert not gpu.RESULTS.exists(), "only whole runs are kept"
