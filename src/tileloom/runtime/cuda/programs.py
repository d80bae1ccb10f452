"""What executables ask of a GPU: `runtime.device.Device` over arrays in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.cached import cached_property
from ...base.dtype import DType
from ...base.errors import ArgumentError
from ..arrays import as_numpy, compact_strides
from ..params import ParamSpec
from . import asarray, foreign, streams
from .array import DeviceArray, empty, layout_of
from .device import GPU, device
from .foreign import as_device_array
from .kernel import DeviceBinder


class CudaDevice:
    """An NVIDIA GPU.

    Args:
        name: as "cuda:1"; the first one if it is not given.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    @cached_property
    def where(self) -> GPU:
        """The GPU, once it is needed."""
        return device(self._name)

    def empty(self, shape: Sequence[int], kind: DType) -> DeviceArray:
        """An array in pooled memory."""
        return empty(shape, kind, self.where)

    def holds(self, array: Any) -> bool:
        """Whether an array lies on a GPU."""
        return foreign.device_of(array) is not None

    def take(self, array: Any) -> DeviceArray:
        """The memory of an array of a GPU, or a copy of one of the host."""
        found = asarray(array, self.where)
        if not found.is_compact:
            raise ArgumentError(
                f"an array of shape {found.shape} with strides {found.strides} has gaps",
                hint="pass a contiguous array",
            )
        return found

    def borrow(self, array: Any) -> Any:
        """The memory of an array of a GPU, or a NumPy array over that of the host."""
        return as_device_array(array) if self.holds(array) else as_numpy(array)

    def keeps_results(self, arguments: Sequence[Any]) -> bool:
        """If an argument lies on a GPU."""
        return any(map(self.holds, arguments))

    @contextmanager
    def running(self, arguments: Sequence[Any]) -> Iterator[None]:
        """Kernels go where an argument's package works, unless a stream of ours is the current one.

        Memory of packages that are not asked for their streams lives until the kernels are done.
        """
        kinds = [type(array) for array in arguments if self.holds(array)]
        packages = [foreign.package_of(kind) for kind in kinds if kind is not DeviceArray]
        package = next(filter(None, packages), None)
        if package is None or streams.current_handle(self.where.index) is not None:
            yield
        else:
            with streams.ForeignStream(self.where, package.stream(self.where.index)):
                yield
        if None in packages:
            foreign.hold(tuple(arguments), self.where, streams.resolve(None, self.where))

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """A copy, if it is not there already."""
        return array.numpy() if isinstance(array, DeviceArray) else as_numpy(array)

    def copy(self, array: DeviceArray) -> DeviceArray:
        """Another array with the same elements."""
        return array.copy()

    def assign(self, target: Any, source: DeviceArray) -> None:
        """Copy elements, to the GPU's memory or to the host's."""
        if isinstance(target, DeviceArray):
            target.copy_from_device(source)
        else:
            target[...] = source.numpy()

    def part(
        self, block: DeviceArray, offset: int, shape: Sequence[int], kind: DType
    ) -> DeviceArray:
        """A view of bytes."""
        extents = tuple(shape)
        layout = layout_of(extents, kind, compact_strides(extents, kind.bytes), block.device)
        return DeviceArray(block.block, block.pointer + offset, layout)

    def overlap(self, a: DeviceArray, b: DeviceArray) -> bool:
        """By the bounds of their memory."""
        ends = a.pointer + a.nbytes, b.pointer + b.nbytes
        return a.pointer < ends[1] and b.pointer < ends[0]

    def is_writable(self, array: Any) -> bool:
        """As its package says."""
        if self.holds(array):
            return not foreign.view_of(array, streams.resolve(None, self.where)).readonly
        return bool(as_numpy(array).flags.writeable)

    def checker(
        self, name: str, params: tuple[ParamSpec, ...]
    ) -> Callable[[tuple[Any, ...]], object]:
        """The exact check of kernels on this GPU, once for arrays of the same layouts."""
        good: set[tuple[Any, ...]] = set()

        def check(arrays: tuple[Any, ...]) -> None:
            layouts = tuple([getattr(array, "layout", None) for array in arrays])
            if layouts not in good:
                stream = streams.resolve(None, self.where)
                DeviceBinder(name, params, self.where, stream).bind(arrays)
                good.add(layouts)

        return check
