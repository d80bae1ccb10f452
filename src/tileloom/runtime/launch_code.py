"""The code of a program on a device that launches its kernels one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .device import Device
from .executable import BoundLaunch, LaunchStep
from .serialized import SerializedExecutable, Step

#: From the name of a kernel and sizes to what launches it on arrays and numbers.
FindKernel = Callable[[str, Mapping[str, int]], Callable[..., Any]]


class LaunchCode:
    """Kernels by name, and the constants of a program, which stay on the device.

    Args:
        find: gives the kernels.
        each_size: those that are compiled when sizes are known, and why.
    """

    def __init__(
        self,
        program: SerializedExecutable,
        device: Device,
        find: FindKernel,
        each_size: Mapping[str, str],
    ) -> None:
        self.device, self.find, self.each_size = device, find, each_size
        self.constants = {slot: device.take(a) for slot, a in program.constants.items()}
        self._operands = [device.take(array) for array in program.symbols.values()]

    def ready(self, number: int, step: Step, sizes: Mapping[str, int]) -> LaunchStep:
        """The launches of a step."""
        launches = tuple(
            BoundLaunch(self.find(call.kernel, sizes), call.operands, call.numbers)
            for call in step.calls
        )
        memory = step.reads, step.writes, step.arena_bytes
        return LaunchStep(launches, *memory, self._operands, self.device)
