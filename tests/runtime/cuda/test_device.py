"""What holds on a true GPU, and on the fake driver where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom
from gpu_suite import has_gpu
from runtime.cuda import programs
from runtime.cuda.conftest import build
from tileloom.base.errors import ArgumentError, UserError
from tileloom.runtime import cuda

Build = Callable[[Any], Any]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Iterator[Build]:
    """Builds functions for the device at hand."""
    if has_gpu():
        yield lambda program: tileloom.build(program, "cuda")
    else:
        driver = request.getfixturevalue("gpu")
        yield lambda program: build(driver, program)


def torch_on_gpu() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or not has_gpu():
        pytest.skip("PyTorch reaches no GPU")
    return torch


def test_launches(make: Build) -> None:
    kernel = make(programs.scaled())
    b = cuda.empty(96)
    for k in range(3):
        kernel(cuda.asarray(np.arange(96, dtype="float32") + k), b)
        assert np.array_equal(b.numpy(), (np.arange(96) + k) * 2 + 1)


@pytest.mark.parametrize("length", [1, 33, 4097])
def test_symbols(make: Build, length: int) -> None:
    kernel = make(programs.symbolic())
    a, b = cuda.asarray(np.arange(length, dtype="float32")), cuda.empty(length)
    kernel(a, b)
    assert np.array_equal(b.numpy(), np.arange(length) * 2 + 1)


def test_several_kernels(make: Build) -> None:
    kernel, b = make(programs.total()), cuda.zeros(1)
    for k in range(3):
        kernel(cuda.asarray(np.full(1 << 15, k, "float32")), b)
        assert b.numpy()[0] == k << 15


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "int8", "int64"])
def test_numbers(make: Build, kind: str) -> None:
    kernel, item = make(programs.numbers(kind)), np.dtype(getattr(ml_dtypes, kind, kind))
    host = np.arange(64).astype(item)
    b = cuda.zeros(64, kind)
    for factor in (1, 2):
        kernel(cuda.asarray(host), factor, b)
        assert np.array_equal(b.numpy(), (host * item.type(factor)).astype(item))


def test_much_shared_memory(make: Build) -> None:
    if cuda.device().shared_memory < 64 << 10:
        pytest.skip("the GPU has less")
    kernel, b = make(programs.shared(1 << 14)), cuda.empty(1 << 14)
    a = np.arange(1 << 14, dtype="float32")
    kernel(cuda.asarray(a), b)
    assert np.array_equal(b.numpy(), a[::-1])


def test_more_shared_memory_than_there_is(make: Build) -> None:
    with pytest.raises(UserError, match="524288 bytes of shared memory"):
        make(programs.shared(1 << 17))


def test_streams(make: Build) -> None:
    kernel = make(programs.symbolic())
    several = [cuda.Stream() for _ in range(6)]
    a, b = cuda.zeros(1 << 12), cuda.empty(1 << 12)
    for k, stream in enumerate(several):
        kernel(*((a, b) if k % 2 == 0 else (b, a)), stream=stream)
    assert np.all(a.numpy() == 63)


def test_memory_goes_round(make: Build) -> None:
    kernel, side = make(programs.symbolic()), cuda.Stream()
    results = []
    for k in range(20):
        a = cuda.asarray(np.full(1000, k, "float32"), stream=side if k % 2 else None)
        b = cuda.empty(1000)
        kernel(a, b, stream=side if k % 3 else None)
        results.append(b)
    assert [set(b.numpy()) for b in results] == [{2.0 * k + 1} for k in range(20)]
    cuda.pool(cuda.device()).trim()


def test_time(make: Build) -> None:
    kernel, stream = make(programs.symbolic()), cuda.Stream()
    a, b = cuda.zeros(1 << 12), cuda.empty(1 << 12)
    with stream:
        start = stream.record()
        kernel(a, b)
        end = stream.record()
    end.synchronize()
    assert end.is_done
    assert 0 < end.milliseconds_since(start) < 1e4


def test_out_of_memory(make: Build) -> None:
    with pytest.raises(cuda.DeviceMemoryError, match="of memory left"):
        cuda.empty(2 * cuda.device().memory, "int8")
    assert np.all(cuda.zeros(1000).numpy() == 0)


def test_ptx_that_is_no_ptx(make: Build) -> None:
    if not has_gpu():
        pytest.skip("the fake driver has no assembler")
    good = make(programs.scaled())
    bad = good.ptx.replace("ret;", "banana;")
    kernel = cuda.CudaKernel("main", good.params, bad, good._plan)
    with pytest.raises(cuda.JitError, match="refuses the kernels"):
        kernel(cuda.zeros(96), cuda.empty(96))
    good(cuda.zeros(96), cuda.empty(96))


def test_attributes(make: Build) -> None:
    where = cuda.device()
    assert where.name and where.memory > 1 << 20 and where.multiprocessors > 0
    assert 0 < where.free_memory() <= where.memory
    assert where.max_threads == 1024 and where.max_grid[1] == 65535
    assert where.target.arch == where.arch == cuda.native_arch() or not has_gpu()
    assert cuda.driver_version() >= (11, 0)


# ---------------------------------------------------------------------------- PyTorch


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int64"])
def test_tensors(make: Build, kind: str) -> None:
    torch = torch_on_gpu()
    kernel = make(programs.numbers(kind))
    x = torch.arange(64, device="cuda").to(getattr(torch, kind))
    y = torch.empty_like(x)
    for factor in (2, 3):
        kernel(x, factor, y)
        assert torch.equal(y, x * factor)


def test_the_current_stream_of_pytorch(make: Build) -> None:
    torch = torch_on_gpu()
    kernel = make(programs.symbolic())
    x = torch.zeros(1 << 20, device="cuda")
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(10):
            x.add_(1)
            kernel(x, y)
            x.copy_(y)
        total = x.sum().item()
    assert total == (1 << 20) * 3.0 * (2**10 - 1)


def test_memory_of_both(make: Build) -> None:
    torch = torch_on_gpu()
    a = cuda.asarray(np.arange(6, dtype="float32").reshape(2, 3))
    for t in (torch.from_dlpack(a), torch.as_tensor(a, device="cuda")):
        assert t.data_ptr() == a.pointer
        t.mul_(2)
    torch.cuda.synchronize()
    assert np.array_equal(a.numpy(), np.arange(6).reshape(2, 3) * 4)
    t = torch.ones(5, device="cuda", dtype=torch.bfloat16)
    assert cuda.asarray(t).pointer == t.data_ptr()
    del a
    torch.cuda.synchronize()


def test_tensors_that_do_not_fit(make: Build) -> None:
    torch = torch_on_gpu()
    kernel = make(programs.scaled())
    x = torch.zeros(97, device="cuda")
    with pytest.raises(ArgumentError, match=r"got shape \(97,\)"):
        kernel(x, x)
    with pytest.raises(ArgumentError, match="not a multiple of 16"):
        kernel(x[1:], torch.zeros(96, device="cuda"))
    with pytest.raises(ArgumentError, match="contiguous"):
        kernel(torch.zeros(96, 2, device="cuda")[:, 0], torch.zeros(96, device="cuda"))
    with pytest.raises(ArgumentError, match="shares memory"):
        kernel(x[:96], x[:96])
    with pytest.raises(ArgumentError, match="on cpu"):
        kernel(x[:96], torch.zeros(96))
