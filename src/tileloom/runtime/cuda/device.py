"""GPUs: which there are, what they have, and their contexts.

Each device's primary context is used, as PyTorch, CuPy and JAX do, so that memory and streams can
be passed to and fro.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from ...base.cached import cached_property
from ...target import Target
from ...target import target as parse_target
from . import api
from .errors import CudaError, NoDriverError

#: The compute capabilities that code can be made for; a newer GPU takes code for an older one.
_KNOWN = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
_WITH_OWN_FEATURES = (90,)  # whose code uses what only this GPU has: sm_90a


class GPU:
    """A GPU. `device(0)` gives the first one.

    Attributes:
        index: its number, as in "cuda:0".
        number: the driver's handle of it.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.number = api.handle(api.call("cuDeviceGet", index))

    def attribute(self, name: str) -> int:
        """An attribute by its name in cuda.h without CU_DEVICE_ATTRIBUTE_."""
        kinds = api.bindings().CUdevice_attribute
        kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(api.call("cuDeviceGetAttribute", kind, self.number))

    @cached_property
    def name(self) -> str:
        """The name that its maker gave it."""
        found: bytes = api.call("cuDeviceGetName", 256, self.number)
        return found.split(b"\0")[0].decode(errors="replace")

    @cached_property
    def capability(self) -> int:
        """The compute capability as a number: 90 for 9.0."""
        major = self.attribute("COMPUTE_CAPABILITY_MAJOR")
        return 10 * major + self.attribute("COMPUTE_CAPABILITY_MINOR")

    @cached_property
    def memory(self) -> int:
        """Bytes of memory."""
        return int(api.call("cuDeviceTotalMem", self.number))

    @cached_property
    def multiprocessors(self) -> int:
        """How many multiprocessors there are."""
        return self.attribute("MULTIPROCESSOR_COUNT")

    @cached_property
    def shared_memory(self) -> int:
        """Bytes of shared memory that a block can have, if the kernel asks for it."""
        opt_in = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        return max(opt_in, self.attribute("MAX_SHARED_MEMORY_PER_BLOCK"))

    @cached_property
    def max_threads(self) -> int:
        """Threads that a block can have."""
        return self.attribute("MAX_THREADS_PER_BLOCK")

    @cached_property
    def max_block(self) -> tuple[int, int, int]:
        """The largest extents of a block: x, y, z."""
        x, y, z = (self.attribute(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ")
        return x, y, z

    @cached_property
    def max_grid(self) -> tuple[int, int, int]:
        """The largest extents of a grid: x, y, z."""
        x, y, z = (self.attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ")
        return x, y, z

    @cached_property
    def has_memory_pools(self) -> bool:
        """Whether memory can be allocated in the order of a stream."""
        return bool(self.attribute("MEMORY_POOLS_SUPPORTED"))

    @cached_property
    def context(self) -> int:
        """The primary context, which then lives as long as the process."""
        return api.handle(api.call("cuDevicePrimaryCtxRetain", self.number))

    @cached_property
    def arch(self) -> str:
        """The newest architecture that code can be made for and that this GPU runs."""
        number = max((n for n in _KNOWN if n <= self.capability), default=_KNOWN[0])
        own = number == self.capability and number in _WITH_OWN_FEATURES
        return f"sm_{number}{'a' if own else ''}"

    @cached_property
    def target(self) -> Target:
        """The target to make code for."""
        described = parse_target(f"cuda -arch={self.arch}")
        return replace(described, max_threads=self.max_threads, shared_memory=self.shared_memory)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Have the context current on this thread; whatever was current is so again after."""
        api.call("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            api.call("cuCtxPopCurrent")

    def synchronize(self) -> None:
        """Wait until everything that was given to the device is done."""
        with self.active():
            api.call("cuCtxSynchronize")

    def free_memory(self) -> int:
        """Bytes that nobody has taken."""
        with self.active():
            free, _ = api.call("cuMemGetInfo")
        return int(free)

    def __str__(self) -> str:
        return f"cuda:{self.index}"

    def __repr__(self) -> str:
        return f"<GPU cuda:{self.index}: {self.name}, sm_{self.capability}>"


def device_count() -> int:
    """How many GPUs there are; 0 where there is no driver."""
    try:
        return int(api.call("cuDeviceGetCount"))
    except NoDriverError:
        return 0


def is_available() -> bool:
    """Whether kernels can run on a GPU here."""
    return device_count() > 0


@cache
def _device(index: int) -> GPU:
    count = int(api.call("cuDeviceGetCount"))
    if count == 0:
        raise NoDriverError("the CUDA driver finds no GPU")
    if not 0 <= index < count:
        there = "the only one is cuda:0" if count == 1 else f"there are cuda:0 to cuda:{count - 1}"
        raise CudaError(f"there is no device cuda:{index}", hint=there)
    return GPU(index)


def device(which: Any = None) -> GPU:
    """A GPU by its number, as "cuda:1", or as another package's device object.

    Raises:
        NoDriverError: there is no driver, or no GPU.
        CudaError: there is no GPU of this number.
    """
    if isinstance(which, GPU):
        return which
    if which is None or which == "cuda":
        return _device(0)
    if isinstance(which, int):
        return _device(which)
    kind, _, number = str(which).partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise CudaError(f"{which!r} is no CUDA device", hint='devices are called "cuda:0", ...')
    return _device(int(number or 0))


@cache
def native_arch() -> str | None:
    """The architecture of the first GPU, or None where there is none."""
    try:
        ctypes.CDLL("libcuda.so.1")  # quick to fail, unlike loading the bindings
        return device().arch
    except (OSError, CudaError):
        return None


def forget() -> None:
    """Ask everything anew; for tests."""
    _device.cache_clear()
    native_arch.cache_clear()
