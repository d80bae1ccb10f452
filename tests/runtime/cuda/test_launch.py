"""Kernels from tensor IR to results, by the very calls that a true driver gets."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.cuda import programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import ArgumentError, UserError
from tileloom.runtime import cuda


def test_a_kernel_runs(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    a = cuda.asarray(np.arange(96, dtype="float32"))
    b = cuda.empty(96)
    kernel(a, b)
    assert np.array_equal(b.numpy(), np.arange(96) * 2 + 1)
    [launched] = gpu.launched
    assert launched.kernel == "main_kernel"
    assert (launched.grid, launched.block, launched.shared) == ((3, 1, 1), (32, 1, 1), 0)
    assert set(launched.values) == {struct.pack("<Q", x.pointer) for x in (a, b)}
    assert gpu.stack == []  # the thread is left as it was


def test_again_without_a_new_look(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    b = cuda.empty(96)
    for k in range(3):
        kernel(cuda.asarray(np.full(96, k, "float32")), b)
        assert np.all(b.numpy() == 2 * k + 1)
    assert gpu.calls.count("cuModuleLoadDataEx") == 1
    assert len(kernel._prepared) == 1


def test_two_kernels_and_a_temporary(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.total(1 << 15))
    a = np.arange(1 << 15, dtype="float32") % 7
    result, given = cuda.zeros(1), cuda.asarray(a)
    for _ in range(2):
        kernel(given, result)
    assert result.numpy()[0] == a.sum()
    assert [each.kernel for each in gpu.launched] == ["main_kernel", "main_kernel_1"] * 2
    first, second = gpu.launched[:2]
    assert first.values[1] == second.values[0]  # what one leaves, the other takes
    assert first.values[1] not in [struct.pack("<Q", x.pointer) for x in (given, result)]
    assert gpu.launched[2].values == first.values  # the memory came back at once


@pytest.mark.parametrize("lengths", [(1, 31, 32, 33, 1000, 33, 1)])
def test_symbolic_shapes(gpu: FakeDriver, lengths: tuple[int, ...]) -> None:
    kernel = build(gpu, programs.symbolic())
    for n in lengths:
        a, b = cuda.asarray(np.arange(n, dtype="float32")), cuda.empty(n)
        kernel(a, b)
        assert np.array_equal(b.numpy(), np.arange(n) * 2 + 1)
        launched = gpu.launched[-1]
        assert launched.grid == (-(-n // 32), 1, 1)
        assert launched.values[2] == struct.pack("<i", n)
    assert gpu.calls.count("cuModuleLoadDataEx") == 1


def test_nothing_to_do(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.symbolic())
    for _ in range(2):
        kernel(cuda.empty(0), cuda.empty(0))
    assert gpu.launched == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float32", 1.5), ("float64", -0.1), ("float16", 0.5), ("bfloat16", 2.0), ("int8", -3),
        ("uint8", 3), ("int16", 9), ("int32", -7), ("int64", 1 << 40), ("uint32", 5),
    ],
)  # fmt: skip
def test_numbers(gpu: FakeDriver, kind: str, value: float) -> None:
    kernel = build(gpu, programs.numbers(kind))
    item = np.dtype(getattr(ml_dtypes, kind, kind))
    host = np.ones(64, item)
    a, b = cuda.asarray(host), cuda.zeros(64, kind)
    for factor in (value, item.type(value), value):
        kernel(a, factor, b)
        assert np.array_equal(b.numpy(), (host * item.type(value)).astype(item))
        assert item.type(value).tobytes() in gpu.launched[-1].values


def test_other_numbers_need_no_new_look(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.numbers("float32"))
    a, b = cuda.asarray(np.ones(64, "float32")), cuda.zeros(64)
    for factor in range(5):
        kernel(a, float(factor), b)
        assert np.all(b.numpy() == factor)
    assert len(kernel._prepared) == 1


@pytest.mark.parametrize("factor", ["2", None, 1e39, object()])
def test_wrong_numbers(gpu: FakeDriver, factor: object) -> None:
    kernel = build(gpu, programs.numbers("float32"))
    a, b = cuda.asarray(np.ones(64, "float32")), cuda.zeros(64)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"argument 2 \(x\): expected a float32 number"):
            kernel(a, factor, b)
        kernel(a, 1.0, b)


def test_much_shared_memory_is_asked_for(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.shared(1 << 14))  # 64 KiB
    a = np.arange(1 << 14, dtype="float32")
    b = cuda.empty(1 << 14)
    kernel(cuda.asarray(a), b)
    assert np.array_equal(b.numpy(), a[::-1])
    assert gpu.launched[0].shared == 64 << 10
    assert gpu.calls.count("cuFuncSetAttribute") == 1


def test_little_shared_memory_is_not_asked_for(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.shared(1 << 10))
    kernel(cuda.zeros(1 << 10), cuda.empty(1 << 10))
    assert "cuFuncSetAttribute" not in gpu.calls


def test_a_module(gpu: FakeDriver) -> None:
    kernels = build(gpu, programs.module())
    assert list(kernels) == ["one", "two"]
    b, c = cuda.empty(64), cuda.empty(40, "int32")
    kernels["one"](cuda.zeros(64), b)
    kernels["two"](cuda.asarray(np.arange(40, dtype="int32")), c)
    assert np.all(b.numpy() == 1)
    assert np.array_equal(c.numpy(), np.arange(40) * 2 + 1)


def test_target_of_the_device(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(capability=(8, 6), shared=99 << 10))
    kernel = build(driver, programs.scaled())
    assert ".target sm_86" in kernel.ptx
    where = cuda.device()
    assert (where.target.arch, where.target.shared_memory) == ("sm_86", 99 << 10)
    assert repr(where) == "<GPU cuda:0: Fake GPU, sm_86>"


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((7, 0), "sm_70"), ((9, 0), "sm_90a"), ((8, 8), "sm_87"), ((12, 5), "sm_121")],
)
def test_architectures(plug: Callable[..., Any], capability: tuple[int, int], arch: str) -> None:
    plug(FakeDevice(capability=capability))
    assert cuda.device().arch == arch == cuda.native_arch()


def test_several_devices(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(), FakeDevice(capability=(9, 0)))
    kernel = build(driver, programs.scaled(), "cuda -arch=sm_80")
    for where in (1, 0, 1):
        a, b = cuda.asarray(np.ones(96, "float32"), where), cuda.empty(96, device=f"cuda:{where}")
        kernel(a, b)
        assert np.all(b.numpy() == 3)
        assert driver.launched[-1].device == where
    assert driver.calls.count("cuModuleLoadDataEx") == 2
    with pytest.raises(ArgumentError, match=r"argument 2 \(B\): is on cuda:0, but .* on cuda:1"):
        kernel(cuda.zeros(96, device=1), cuda.empty(96, device=0))
    assert not driver.problems


def test_another_context_stays_current(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(), FakeDevice())
    kernel = build(driver, programs.scaled())
    a, b = cuda.zeros(96), cuda.empty(96)
    cuda.device(1).synchronize()
    driver.stack.append(driver.contexts[1])  # as torch.cuda.set_device(1) does
    for _ in range(2):
        kernel(a, b)
    assert driver.stack == [driver.contexts[1]]
    assert np.all(b.numpy() == 1)


def test_threads_share_a_kernel(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    found = {}

    def work(k: int) -> None:
        b = cuda.empty(96)
        for n in range(5):
            kernel(cuda.asarray(np.full(96, 10 * k + n, "float32")), b)
        found[k] = b.numpy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: set(b) for k, b in found.items()} == {k: {2 * (10 * k + 4) + 1} for k in range(4)}


def test_what_a_kernel_says_of_itself(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.symbolic())
    wanted = "<CudaKernel main(A: float32 array of shape (n,), B: float32 array of shape (n,))>"
    assert repr(kernel) == wanted
    assert ".entry main_kernel" in kernel.ptx


def test_programs_without_threads_are_refused(gpu: FakeDriver) -> None:
    from tileloom import te

    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1, name="B")])
    kernel = build(gpu, func)
    with pytest.raises(UserError, match="only launches kernels"):
        kernel(cuda.zeros(8), cuda.zeros(8))
