"""A kernel with its arguments, in the memory where it runs: called, read and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...runtime import cuda
from .inputs import is_intact, refill
from .prepared import PreparedKernel


class Running(Protocol):
    """A kernel and its arguments."""

    def results(self) -> Sequence[Any]:
        """What the arguments are after one call."""

    def clock(self, count: int) -> float:
        """Seconds that so many calls take, of which the first finds the inputs as they were."""

    def written_outside(self) -> Sequence[int]:
        """The arguments next to which something was written."""


class HostRunning:
    """A kernel that takes arrays in the memory of the CPU.

    All kernels of a program are given the same arrays: the same kernel may take more than twice as
    long on others, as where memory lies decides how well it fits into caches.

    Args:
        kernel: what is called.
        inputs: its arguments.
        arguments: arrays like them, to call it with.
        restored: the numbers of those that a call reads and overwrites: each sample begins with
            what they were, as numbers that grow from call to call become infinite, and those that
            shrink become subnormal, with which many machines calculate much slower.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        inputs: Sequence[Any],
        arguments: Sequence[Any],
        restored: Sequence[int] = (),
    ) -> None:
        self.kernel = kernel
        self.inputs = inputs
        self.arguments = arguments
        self.restored = restored

    def results(self) -> Sequence[Any]:
        """What the arguments are after one call."""
        refill(self.arguments, self.inputs)
        self.kernel(*self.arguments)
        return self.arguments

    def clock(self, count: int) -> float:
        """Seconds that so many calls take; without what is done once for all of them."""
        for k in self.restored:
            self.arguments[k][...] = self.inputs[k]
        kernel, arguments = self.kernel, self.arguments
        if isinstance(kernel, PreparedKernel):
            arguments = kernel.prepared(arguments)
            kernel = kernel.main
        start = time.perf_counter()
        for _ in range(count):
            kernel(*arguments)
        return time.perf_counter() - start

    def written_outside(self) -> Sequence[int]:
        """The arguments next to which something was written."""
        arrays = enumerate(self.arguments)
        return [k for k, a in arrays if isinstance(a, np.ndarray) and not is_intact(a)]


class DeviceRunning:
    """A kernel that takes arrays in the memory of a GPU, and is timed there by events."""

    def __init__(
        self, kernel: cuda.CudaKernel, inputs: Sequence[Any], restored: Sequence[int] = ()
    ) -> None:
        self.kernel = kernel
        self.inputs = inputs
        self.restored = restored
        self.arguments = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in inputs]

    def results(self) -> Sequence[Any]:
        """What the arguments are after one call."""
        self.kernel(*self.arguments)
        return [a.numpy() if isinstance(a, cuda.DeviceArray) else a for a in self.arguments]

    def clock(self, count: int) -> float:
        """Seconds that so many calls take, from the first to the last on the device."""
        for k in self.restored:
            self.arguments[k].copy_from(self.inputs[k])
        start, end = cuda.Event(), cuda.Event()
        start.record()
        for _ in range(count):
            self.kernel(*self.arguments)
        end.record()
        end.synchronize()
        return end.milliseconds_since(start) / 1e3

    def written_outside(self) -> Sequence[int]:
        """Not known of a device's memory."""
        return ()


def running(
    kernel: Any, inputs: Sequence[Any], arguments: Sequence[Any], restored: Sequence[int] = ()
) -> Running:
    """A kernel that is given its inputs where it wants them: in `arguments`, if on the CPU."""
    if isinstance(kernel, cuda.CudaKernel):
        return DeviceRunning(kernel, inputs, restored)
    return HostRunning(kernel, inputs, arguments, restored)
