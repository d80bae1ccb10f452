"""Where programs run: memory that kernels can reach, and copies to and from the host.

An executable asks its device for all of this, so that one class runs programs of every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any, Protocol

import numpy as np

from ..base.dtype import DType
from .arrays import as_numpy
from .check import Binder
from .params import ParamSpec
from .pool import empty, pool

Array = np.ndarray[Any, Any]


class Device(Protocol):
    """A device. Its arrays have a shape and a dtype, and `reshape(shape)` gives a view."""

    def empty(self, shape: Sequence[int], kind: DType) -> Any:
        """An uninitialised array in row-major order."""

    def take(self, array: Any) -> Any:
        """An array of any package in row-major order: the same memory where that is so already."""

    def borrow(self, array: Any) -> Any:
        """An array over the memory that the caller has, on the device or on the host."""

    def keeps_results(self, arguments: Sequence[Any]) -> bool:
        """Whether results stay on the device for these arguments; else the host gets them."""

    def running(self, arguments: Sequence[Any]) -> AbstractContextManager[object]:
        """The context in which a program runs: kernels go to its arguments' stream."""

    def holds(self, array: Any) -> bool:
        """Whether an array of any package is in memory of the device that the host cannot read."""

    def to_host(self, array: Any) -> Array:
        """A NumPy array with the elements of one of the device."""

    def copy(self, array: Any) -> Any:
        """Another array with the same elements."""

    def assign(self, target: Any, source: Any) -> None:
        """Let what `borrow` gave have the elements of an array of the device."""

    def part(self, block: Any, offset: int, shape: Sequence[int], kind: DType) -> Any:
        """An array in an array of bytes, from an offset on."""

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays may share memory."""

    def is_writable(self, array: Any) -> bool:
        """Whether the memory of an array of any package can be written."""

    def checker(
        self, name: str, params: tuple[ParamSpec, ...]
    ) -> Callable[[tuple[Any, ...]], object]:
        """What checks the arguments of a program, after `take`.

        Raises (when called):
            ArgumentError: naming the argument, what was expected and what was given.
        """


class HostDevice:
    """The CPU, and whatever works in its memory."""

    def empty(self, shape: Sequence[int], kind: DType) -> Array:
        """An array in pooled memory."""
        return empty(shape, kind)

    def take(self, array: Any) -> Array:
        """The array, or a compact copy."""
        if type(array) is np.ndarray:
            flags = array.flags
            if flags.c_contiguous and flags.aligned:
                return array
        return np.require(as_numpy(array), requirements=("C", "A"))

    def borrow(self, array: Any) -> Array:
        """The array."""
        return as_numpy(array)

    def keeps_results(self, arguments: Sequence[Any]) -> bool:
        """The host can read them where they are."""
        return True

    def running(self, arguments: Sequence[Any]) -> AbstractContextManager[object]:
        """Calls return when they are done."""
        return _NOTHING

    def holds(self, array: Any) -> bool:
        """The host can read all of it."""
        return False

    def to_host(self, array: Array) -> Array:
        """The array itself."""
        return array

    def copy(self, array: Array) -> Array:
        """Another array; a large one in pooled memory."""
        return pool.copied(array)

    def assign(self, target: Array, source: Array) -> None:
        """Copy elements."""
        target[...] = source

    def part(self, block: Array, offset: int, shape: Sequence[int], kind: DType) -> Array:
        """A view of bytes."""
        size = prod(shape) * kind.bytes
        return block[offset : offset + size].view(kind.numpy).reshape(shape)

    def overlap(self, a: Array, b: Array) -> bool:
        """By the bounds of their memory."""
        return np.may_share_memory(a, b)

    def is_writable(self, array: Any) -> bool:
        """As NumPy says."""
        return bool(as_numpy(array).flags.writeable)

    def checker(
        self, name: str, params: tuple[ParamSpec, ...]
    ) -> Callable[[tuple[Any, ...]], object]:
        """The exact check of native kernels."""
        return Binder(name, params).bind


_NOTHING = nullcontext()
HOST = HostDevice()
