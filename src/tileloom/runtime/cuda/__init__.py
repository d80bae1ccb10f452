"""NVIDIA GPUs through the CUDA driver: devices, memory, streams, kernels.

Nothing here is needed to compile for a GPU, only to run on one: `pip install 'tileloom[cuda]'`.
"""

from __future__ import annotations

from typing import Any

from . import api, array, foreign, maps, memory, modules, packets, streams
from . import device as _device
from .api import driver_version
from .array import DeviceArray, empty, zeros
from .device import GPU, device, device_count, is_available, native_arch
from .errors import (
    ArchitectureError,
    CudaError,
    DeviceMemoryError,
    JitError,
    LaunchError,
    LostContextError,
    NoDriverError,
)
from .foreign import as_device_array
from .kernel import CudaKernel
from .memory import DevicePool, pool
from .streams import Event, Stream


def on_device(value: Any) -> bool:
    """Whether an array of any package lies in a GPU's memory."""
    return foreign.device_of(value) is not None


def asarray(value: Any, device: Any = None, stream: Any = None) -> DeviceArray:
    """An array in a GPU's memory: the same memory if it is there already, else a copy.

    Args:
        value: an array of any package, or what NumPy makes one of.
        device: where a copy goes: a number, "cuda:1" or a `GPU`.
        stream: where it will be used first; the current one if it is not given.
    """
    if on_device(value):
        return as_device_array(value, stream)
    host = array.host_array(value)
    made = empty(host.shape, host.dtype, device, stream)
    made.copy_from(host, stream)
    return made


def reset() -> None:
    """Forget everything that was asked of the driver; for tests with another driver."""
    for part in (foreign, packets, maps, modules, memory, array, streams, _device, api):
        part.forget()


__all__ = [
    "ArchitectureError",
    "CudaError",
    "CudaKernel",
    "GPU",
    "DeviceArray",
    "DeviceMemoryError",
    "Event",
    "JitError",
    "LaunchError",
    "LostContextError",
    "NoDriverError",
    "DevicePool",
    "Stream",
    "as_device_array",
    "asarray",
    "device",
    "device_count",
    "driver_version",
    "empty",
    "is_available",
    "native_arch",
    "on_device",
    "pool",
    "reset",
    "zeros",
]
