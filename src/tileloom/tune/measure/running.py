"""A kernel with its arguments, in the memory where it runs: called, read and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...runtime import cuda
from ...runtime.params import ParamSpec
from .inputs import copy_inputs, is_intact


class Running(Protocol):
    """A kernel and its arguments."""

    def results(self) -> list[Any]:
        """Call it, and read all arguments."""

    def clock(self, count: int) -> float:
        """Seconds that so many calls take."""

    def writes_beside(self) -> Sequence[int]:
        """The arguments next to which something was written."""


class HostRunning:
    """A kernel that takes arrays in the memory of the CPU."""

    def __init__(
        self, kernel: Callable[..., Any], inputs: Sequence[Any], params: Sequence[ParamSpec]
    ) -> None:
        self.kernel = kernel
        self.arguments = copy_inputs(inputs, params)

    def results(self) -> list[Any]:
        """Call it, and read all arguments."""
        self.kernel(*self.arguments)
        return self.arguments

    def clock(self, count: int) -> float:
        """Seconds that so many calls take."""
        kernel, arguments = self.kernel, self.arguments
        start = time.perf_counter()
        for _ in range(count):
            kernel(*arguments)
        return time.perf_counter() - start

    def writes_beside(self) -> Sequence[int]:
        """The arguments next to which something was written."""
        arrays = enumerate(self.arguments)
        return [k for k, a in arrays if isinstance(a, np.ndarray) and not is_intact(a)]


class DeviceRunning:
    """A kernel that takes arrays in the memory of a GPU, and is timed there by events."""

    def __init__(self, kernel: cuda.CudaKernel, inputs: Sequence[Any]) -> None:
        self.kernel = kernel
        self.arguments = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in inputs]

    def results(self) -> list[Any]:
        """Call it, and read all arguments."""
        self.kernel(*self.arguments)
        return [a.numpy() if isinstance(a, cuda.DeviceArray) else a for a in self.arguments]

    def clock(self, count: int) -> float:
        """Seconds that so many calls take, from the first to the last on the device."""
        start, end = cuda.Event(), cuda.Event()
        start.record()
        for _ in range(count):
            self.kernel(*self.arguments)
        end.record()
        end.synchronize()
        return end.milliseconds_since(start) / 1e3

    def writes_beside(self) -> Sequence[int]:
        """Not known of a device's memory."""
        return ()


def running(kernel: Any, inputs: Sequence[Any], params: Sequence[ParamSpec]) -> Running:
    """A kernel with copies of its inputs, where it wants them."""
    if isinstance(kernel, cuda.CudaKernel):
        return DeviceRunning(kernel, inputs)
    return HostRunning(kernel, inputs, params)
