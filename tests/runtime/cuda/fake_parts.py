"""What the CUDA driver for tests is made of: codes, and what it keeps of each object."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileloom.tir import PrimFunc

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
NO_DEVICE, INVALID_DEVICE, INVALID_CONTEXT = 100, 101, 201
NO_BINARY, INVALID_PTX, UNSUPPORTED_PTX = 209, 218, 222
INVALID_HANDLE, NOT_FOUND, NOT_READY = 400, 500, 600
ILLEGAL_ADDRESS, OUT_OF_RESOURCES, LAUNCH_FAILED, UNKNOWN = 700, 701, 719, 999
NAMES = {
    0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY",
    201: "CUDA_ERROR_INVALID_CONTEXT", 218: "CUDA_ERROR_INVALID_PTX",
    400: "CUDA_ERROR_INVALID_HANDLE", 700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 719: "CUDA_ERROR_LAUNCH_FAILED",
}  # fmt: skip
#: Attributes of a device by their numbers in cuda.h.
MAX_THREADS, BLOCK_X, GRID_X, SHARED, WARP, CLOCK, MULTIPROCESSORS = 1, 2, 5, 8, 10, 13, 16
MAJOR, MINOR, SHARED_OPT_IN, POOLS = 75, 76, 97, 115
#: Attributes of a function.
F_THREADS, F_STATIC, F_LOCAL, F_REGISTERS, F_DYNAMIC = 0, 1, 3, 4, 8
#: JIT options.
INFO_LOG, INFO_BYTES, ERROR_LOG, ERROR_BYTES = 3, 4, 5, 6
#: The types of maps of tensors.
MAP_TYPES = [
    np.dtype(code) for code in ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "u2")
]
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(([^)]*)\)", re.DOTALL)
_PARAM = re.compile(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^,[]*(?:\[(\d+)\])?")
_STATIC = re.compile(r"\.shared \.align \d+ \.b8 ([\w$]+)\[(\d+)\]")
_GUARD, _ALIGNMENT = 512, 256


class Refused(Exception):
    """The driver answers with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(NAMES.get(code, code))
        self.code = code


@dataclass
class Work:
    """Something in a stream, done when somebody must know."""

    needs: list[Work]
    do: Callable[[], None] = lambda: None
    is_done: bool = False
    time: int = 0


@dataclass(eq=False)
class Stream:
    device: int
    blocking: bool = True  # towards the legacy default stream
    last: Work | None = None


@dataclass(eq=False)
class Event:
    device: int
    timed: bool
    work: Work | None = None


@dataclass
class Allocation:
    address: int
    bytes: np.ndarray[Any, Any]
    is_there: bool = True


@dataclass
class Module:
    device: int
    ptx: str
    kernels: dict[str, PrimFunc]


@dataclass
class Function:
    module: Module
    name: str
    sizes: list[int]  # bytes of each parameter
    static: int
    dynamic: int


@dataclass
class Launched:
    """A launch as the driver saw it; parameters as their bytes."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    values: list[bytes]
    device: int


@dataclass
class FakeDevice:
    name: str = "Fake GPU"
    capability: tuple[int, int] = (8, 0)
    memory: int = 1 << 28
    shared: int = 163 << 10
    pools: bool = True
    max_function_threads: int = 1024
    registers: int = 32
    allocations: list[Allocation] = field(default_factory=list)

    def attribute(self, kind: int) -> int:
        known = {
            MAX_THREADS: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535,
            SHARED: 48 << 10, WARP: 32, MULTIPROCESSORS: 4, CLOCK: 1_000_000,
            MAJOR: self.capability[0], MINOR: self.capability[1],
            SHARED_OPT_IN: self.shared, POOLS: int(self.pools),
        }  # fmt: skip
        return known[kind]

    @property
    def used(self) -> int:
        return sum(len(a.bytes) for a in self.allocations)
