"""Order: what runs after what, on a driver that does everything as late as it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.cuda import programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.runtime import cuda
from tileloom.runtime.cuda import streams


def test_streams_are_used(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    stream = cuda.Stream()
    a, b = cuda.zeros(96, stream=stream), cuda.empty(96, stream=stream)
    for _ in range(2):
        kernel(a, b, stream=stream)
        with stream:
            kernel(a, b)
    kernel(a, b)
    handle = stream.handle
    assert [each.stream for each in gpu.launched] == [handle] * 4 + [0]
    assert np.all(b.numpy() == 1)


def test_innermost_stream_counts(plug: Callable[..., Any]) -> None:
    plug(FakeDevice(), FakeDevice())
    outer, inner, other = cuda.Stream(), cuda.Stream(), cuda.Stream(1)
    with outer:
        with inner, other:
            assert streams.current_handle(0) == inner.handle
            assert streams.current_handle(1) == other.handle
        assert streams.current_handle(0) == outer.handle
    assert streams.current_handle(0) is None


def test_an_array_carries_its_order_from_stream_to_stream(gpu: FakeDriver) -> None:
    """Each kernel needs what the one before it made, in another stream that does not wait."""
    kernel = build(gpu, programs.scaled())
    a, b = cuda.zeros(96), cuda.empty(96)
    several = [cuda.Stream() for _ in range(4)]
    for k, stream in enumerate(several):
        kernel(*((a, b) if k % 2 == 0 else (b, a)), stream=stream)
    assert np.all(a.numpy() == 15)


def test_memory_is_not_taken_while_another_stream_uses_it(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    side = cuda.Stream()
    a, b = cuda.asarray(np.full(96, 5, "float32")), cuda.empty(96)
    kernel(a, b, stream=side)
    pointer = a.pointer
    del a
    again = cuda.asarray(np.full(96, 7, "float32"))  # must not be written before the kernel ran
    assert again.pointer == pointer
    assert np.all(b.numpy() == 11)


def test_events(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    a, b, side = cuda.zeros(96), cuda.empty(96), cuda.Stream()
    with side:
        start = side.record()
        kernel(a, b)
        end = side.record()
    assert not end.is_done
    end.synchronize()
    assert end.is_done
    assert end.milliseconds_since(start) > 0  # type: ignore[unreachable]
    other = cuda.Stream()
    other.wait(end)
    other.wait(side)
    other.wait(0)
    other.synchronize()
    cuda.device().synchronize()


def test_events_are_given_back(gpu: FakeDriver) -> None:
    before = len(gpu._handles)
    cuda.Event().record()
    a = cuda.zeros(8)
    for _ in range(5):
        a.clear(cuda.Stream())
    a.numpy()
    del a
    assert len(gpu._handles) <= before + 5


def test_streams_are_used_again(gpu: FakeDriver) -> None:
    first = cuda.Stream()
    handle = first.handle
    del first
    assert cuda.Stream().handle == handle
    assert gpu.calls.count("cuStreamCreate") == 1


class Protocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 1


class Property:
    __cuda_stream__ = (0, 64)


class Torch:
    cuda_stream = 128


class Cupy:
    ptr = 0


class Value:
    value = 256


class Numba:
    handle = Value()


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (Protocol(), 0),
        (Property(), 64),
        (Torch(), 128),
        (Cupy(), 0),
        (Numba(), 256),
        (1, 0),
        (7, 7),
    ],
)
def test_streams_of_others(stream: object, handle: int) -> None:
    assert streams.stream_handle(stream) == handle


@pytest.mark.parametrize("stream", [None, "s", True, -1, 1.5, object()])
def test_what_is_no_stream(stream: object) -> None:
    with pytest.raises(ArgumentError, match="is no CUDA stream"):
        streams.stream_handle(stream)


def test_a_stream_follows_the_protocol(gpu: FakeDriver) -> None:
    stream = cuda.Stream()
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert str(stream.device) in repr(stream)


def test_streams_that_others_destroy(gpu: FakeDriver) -> None:
    """What such a stream still does is waited for, whatever it is."""
    kernel = build(gpu, programs.scaled())
    theirs = cuda.Stream()
    a, b = cuda.asarray(np.full(96, 5, "float32")), cuda.empty(96)
    kernel(a, b, stream=theirs.handle)
    del gpu._handles[theirs.handle]
    kernel(b, a)
    assert np.all(a.numpy() == 23)
    del a, b
    cuda.empty(96)
    theirs.handle = 0
