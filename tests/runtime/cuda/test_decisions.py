"""Small decisions of the CUDA runtime: versions, architectures, streams, overlaps, arrays."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from runtime.cuda import programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.runtime import cuda
from tileloom.runtime.cuda import api, foreign, streams
from tileloom.runtime.cuda.device import GPU
from tileloom.runtime.cuda.programs import CudaDevice


@pytest.mark.parametrize(
    ("driver", "version"), [(12040, 12000), (11080, 11080), (13000, 12000), (11010, 11010)]
)
def test_functions_are_asked_for_as_the_driver_knows_them(
    driver: int, version: int, gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        type(gpu), "cuDriverGetVersion", lambda _self, out: _store(out, driver), raising=False
    )
    api.driver_version.cache_clear()
    true = api.call

    def call(name: str, *arguments: object) -> object:
        if name == "cuDriverGetVersion":
            return driver
        if name == "cuGetProcAddress":
            asked.append(arguments[1:])
        return true(name, *arguments)

    monkeypatch.setattr(api, "call", call)
    assert api.driver_version() == (driver // 1000, driver % 1000 // 10)
    assert api.function_address("cuLaunchKernel")
    monkeypatch.setenv(api._PER_THREAD, "1")
    assert api.function_address("cuLaunchKernel")
    (first, plain), (second, per_thread) = asked
    assert first == second == version and plain != per_thread
    with pytest.raises(cuda.CudaError, match="has no function"):
        api.function_address("cuNothing")
    api.driver_version.cache_clear()


def _store(out: int, value: int) -> None:
    import ctypes

    ctypes.c_int32.from_address(out).value = value


@pytest.mark.parametrize(
    ("capability", "arch"),
    [(30, "sm_50"), (50, "sm_50"), (70, "sm_70"), (75, "sm_75"), (80, "sm_80"), (86, "sm_86"),
     (88, "sm_87"), (89, "sm_89"), (90, "sm_90a"), (91, "sm_90"), (100, "sm_100"), (999, "sm_121")],
)  # fmt: skip
def test_architectures(capability: int, arch: str) -> None:
    gpu = object.__new__(GPU)
    gpu.__dict__["capability"] = capability
    assert gpu.arch == arch


@pytest.mark.parametrize(
    ("stream", "handle"),
    [(5, 5), (SimpleNamespace(cuda_stream=7), 7), (SimpleNamespace(ptr=8), 8),
     (SimpleNamespace(handle=SimpleNamespace(value=9)), 9),
     (SimpleNamespace(__cuda_stream__=(0, 3)), 3),
     (SimpleNamespace(__cuda_stream__=lambda: (0, 4)), 4),
     (SimpleNamespace(cuda_stream=0, ptr=8), 0)],
)  # fmt: skip
def test_handles_of_streams(stream: object, handle: int) -> None:
    assert streams.stream_handle(stream) == handle


@pytest.mark.parametrize("stream", ["x", True, object(), 1.5])
def test_what_is_no_stream(stream: object) -> None:
    with pytest.raises(ArgumentError):
        streams.stream_handle(stream)


def test_our_streams(gpu: FakeDriver) -> None:
    stream = cuda.Stream()
    assert streams.stream_handle(stream) == stream.handle != 0
    kernel = build(gpu, programs.scaled())
    a, b = cuda.zeros(96), cuda.empty(96)
    with stream:
        kernel(a, b)
        kernel(a, b)
    assert [each.stream for each in gpu.launched] == [stream.handle] * 2


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [((0, 4), (4, 4), False), ((4, 4), (0, 4), False), ((0, 5), (4, 4), True),
     ((4, 4), (0, 5), True),
     ((0, 8), (2, 3), True), ((2, 3), (0, 8), True), ((3, 4), (3, 4), True),
     ((0, 1), (7, 1), False)],
)  # fmt: skip
def test_overlaps(first: tuple[int, int], second: tuple[int, int], shared: bool) -> None:
    a, b = (SimpleNamespace(pointer=1000 + at, nbytes=size) for at, size in (first, second))
    assert CudaDevice.overlap(SimpleNamespace(), a, b) is shared  # type: ignore[arg-type]


class Listed:
    def __array__(self) -> np.ndarray:
        return np.zeros(3)


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.zeros(3), "in the CPU's memory"), (Listed(), "Listed in the CPU's memory"),
     (np.float32(3), "in the CPU's memory"), (3, "not an array but"), ("abc", "not an array but")],
)  # fmt: skip
def test_what_is_no_array_of_a_gpu(value: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        foreign.view_of(value, 0)
