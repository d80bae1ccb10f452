"""Streams and events: what runs after what.

A stream is a plain integer wherever speed matters: 0 is the legacy default stream, on which
PyTorch and CuPy work unless told otherwise.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any

from ...base.errors import ArgumentError
from . import api
from .device import GPU, device
from .errors import CudaError

DEFAULT = 0
_LEGACY = 1  # another name of the default stream
_current = threading.local()


@cache
def _idle(index: int) -> list[int]:
    """Streams of a device that nobody holds; they are used again rather than destroyed."""
    return []


class Stream:
    """A queue of the device: what is put into it runs in order, beside other streams.

    `with stream:` makes it the one that kernels of this thread go to.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = _find(device)
        # Never destroyed: memory and events may still speak of it.
        self._idle = _idle(self.device.index)
        try:
            self.handle = self._idle.pop()
        except IndexError:
            flag = api.bindings().CUstream_flags.CU_STREAM_NON_BLOCKING
            with self.device.active():
                self.handle = api.handle(api.call("cuStreamCreate", int(flag)))

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            self._idle.append(handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream in the protocol of cuda.core: version and handle."""
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait until everything in the stream is done."""
        synchronize(self.device, self.handle)

    def wait(self, other: Any) -> None:
        """Have what comes later wait for an event, or for what is in another stream now."""
        if isinstance(other, Event):
            with self.device.active():
                api.call("cuStreamWaitEvent", self.handle, other.handle, 0)
        else:
            order(self.device, stream_handle(other), self.handle)

    def record(self) -> Event:
        """An event at this place of the stream."""
        event = Event(self.device)
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def __repr__(self) -> str:
        return f"<Stream {self.handle:#x} of {self.device}>"


class ForeignStream(Stream):
    """A stream that belongs to another package."""

    def __init__(self, device: GPU, handle: int) -> None:
        self.device, self.handle = device, handle

    def __del__(self) -> None:
        """It goes on without us."""


class Event:
    """A place in a stream, to wait for or to measure time from."""

    def __init__(self, device: Any = None, timing: bool = True) -> None:
        self.device = _find(device)
        kinds = api.bindings().CUevent_flags
        flag = kinds.CU_EVENT_DEFAULT if timing else kinds.CU_EVENT_DISABLE_TIMING
        with self.device.active():
            self.handle = api.handle(api.call("cuEventCreate", int(flag)))

    def __del__(self) -> None:
        if getattr(self, "handle", None) is None or sys.is_finalizing():
            return
        with suppress(CudaError), self.device.active():  # a lost context has taken it along
            api.call("cuEventDestroy", self.handle)

    def record(self, stream: Any = None) -> None:
        """Put the event at the end of a stream."""
        with self.device.active():
            api.call("cuEventRecord", self.handle, resolve(stream, self.device))

    def synchronize(self) -> None:
        """Wait until the stream has come to the event."""
        with self.device.active():
            api.call("cuEventSynchronize", self.handle)

    @property
    def is_done(self) -> bool:
        """Whether the stream has come to the event."""
        driver = api.bindings()
        with self.device.active():
            (code,) = driver.cuEventQuery(self.handle)
        if int(code) == int(driver.CUresult.CUDA_ERROR_NOT_READY):
            return False
        if int(code):
            raise api.error_of(code, "cuEventQuery")
        return True

    def milliseconds_since(self, earlier: Event) -> float:
        """The time between two events, both of which have been reached."""
        with self.device.active():
            return float(api.call("cuEventElapsedTime", earlier.handle, self.handle))


def _find(which: Any) -> GPU:
    return device(which)


def _stack() -> list[Stream]:
    found: list[Stream] | None = getattr(_current, "stack", None)
    if found is None:
        found = _current.stack = []
    return found


def current_handle(index: int) -> int | None:
    """The stream of the innermost `with stream:` of this thread on a device, if there is one."""
    stack: list[Stream] | None = getattr(_current, "stack", None)
    if stack:
        for stream in reversed(stack):
            if stream.device.index == index:
                return stream.handle
    return None


def resolve(stream: Any, device: GPU) -> int:
    """The handle of a stream; None is the current one."""
    if stream is None:
        found = current_handle(device.index)
        return DEFAULT if found is None else found
    return stream_handle(stream)


def stream_handle(stream: Any) -> int:
    """The handle of anybody's stream.

    Takes ours, integers, whatever has `__cuda_stream__`, and the streams of PyTorch, CuPy and
    Numba.

    Raises:
        ArgumentError: it is no stream.
    """
    if isinstance(stream, Stream):
        return stream.handle
    if isinstance(stream, int) and not isinstance(stream, bool):
        found: Any = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        found = (protocol() if callable(protocol) else protocol)[1]
    else:
        for name in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, Numba
            found = getattr(stream, name, None)
            if found is not None:
                break
        found = getattr(found, "value", found)
    if not isinstance(found, int) or found < 0:
        raise ArgumentError(f"{stream!r} is no CUDA stream")
    return DEFAULT if found == _LEGACY else found


def torch_handle(torch: Any, index: int) -> int:
    """PyTorch's current stream on a device."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:  # as PyTorch's own compiled code asks; five times as fast
        return int(raw(index))
    return int(torch.cuda.current_stream(index).cuda_stream)


def order(device: GPU, first: int, then: int) -> None:
    """Have what comes later in the stream `then` wait for what is in `first` now."""
    if first == then:
        return
    flag = api.bindings().CUevent_flags.CU_EVENT_DISABLE_TIMING
    with device.active():
        event = api.handle(api.call("cuEventCreate", int(flag)))
        try:
            try:
                api.call("cuEventRecord", event, first)
            except CudaError as error:
                if error.code != "CUDA_ERROR_INVALID_HANDLE":
                    raise
                api.call("cuCtxSynchronize")  # its owner has destroyed the stream: wait for all
                return
            api.call("cuStreamWaitEvent", then, event, 0)
        finally:
            api.call("cuEventDestroy", event)  # takes effect when nobody waits for it


def synchronize(device: GPU, handle: int) -> None:
    """Wait until everything in a stream is done."""
    with device.active():
        api.call("cuStreamSynchronize", handle)


def forget() -> None:
    """Know no streams any more; for tests."""
    _idle.cache_clear()
