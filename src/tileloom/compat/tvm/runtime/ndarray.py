"""`tvm.nd`: arrays in the memory of a device: the CPU's, or that of a GPU.

Where there is no GPU, what is put on `tvm.cuda()` stays in the CPU's memory, for kernels that are
built with `device="emulator"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import dtype as as_dtype
from ....base.errors import UnsupportedError
from ....runtime import as_numpy
from ....runtime import cuda as gpus
from ....runtime import empty as _empty
from .._names import missing

_DEVICE_TYPES = {
    "cpu": 1, "llvm": 1, "c": 1, "cuda": 2, "nvptx": 2, "cuda_host": 3, "opencl": 4, "vulkan": 7,
    "metal": 8, "rocm": 10, "hexagon": 16, "webgpu": 15,
}  # fmt: skip
_CUDA = 2
_NAMES = {1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}


class Device:
    """A device by kind and number: `tvm.cpu(0)`.

    >>> Device("llvm", 0), Device("cuda", 0).exist
    (cpu(0), False)
    """

    def __init__(self, device_type: str | int, device_id: int = 0) -> None:
        if isinstance(device_type, str):
            kind = device_type.split()[0]
            if kind not in _DEVICE_TYPES:
                raise ValueError(f"unknown device {device_type!r}")
            device_type = _DEVICE_TYPES[kind]
        self.device_type, self.device_id = int(device_type), int(device_id)

    @property
    def exist(self) -> bool:
        """Whether there is such a device."""
        if self.device_type == _CUDA:
            return gpus.is_available() and self.device_id < gpus.device_count()
        return self.device_type == 1

    def sync(self, stream: Any = None) -> None:
        """Wait for what runs: on a CPU nothing does."""
        if self.device_type == _CUDA and self.exist:
            gpus.device(self.device_id).synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._key == other._key

    @property
    def _key(self) -> tuple[int, int]:
        return self.device_type, self.device_id

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{_NAMES.get(self.device_type, self.device_type)}({self.device_id})"

    __str__ = __repr__


def device(dev: Any, dev_id: int = 0) -> Device:
    """A device by name (or by target) and number; "cpu:1" has both in one."""
    name = str(dev)
    if ":" in name and " " not in name:
        name, _, number = name.partition(":")
        dev_id = int(number)
    return Device(name, dev_id)


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device(1, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A GPU of NVIDIA."""
    return Device(2, dev_id)


gpu = cuda


def opencl(dev_id: int = 0) -> Device:
    """A device by name only."""
    return Device("opencl", dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A device by name only."""
    return Device("vulkan", dev_id)


def metal(dev_id: int = 0) -> Device:
    """A device by name only."""
    return Device("metal", dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A device by name only."""
    return Device("rocm", dev_id)


class NDArray:
    """An array that kernels take; NumPy's array stands behind it, or one in a GPU's memory."""

    def __init__(self, data: Any, device: Device) -> None:
        if device.device_type not in (1, _CUDA):
            raise UnsupportedError(
                f"arrays cannot be put on {device}: tileloom.compat.tvm runs on CPUs and on GPUs "
                "of NVIDIA",
                hint="use tvm.cpu(0) or tvm.cuda(0)",
            )
        self._data, self.device = data, device

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self._data.shape)

    @property
    def dtype(self) -> str:
        """The element type."""
        return as_dtype(str(self._data.dtype))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._data.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as NumPy's array."""
        if isinstance(self._data, np.ndarray):
            return self._data.copy()
        return self._data.numpy()  # type: ignore[no-any-return]

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Take over the elements of another array of the shape."""
        values = source.numpy() if isinstance(source, NDArray) else np.asarray(source)
        if values.shape != self.shape:
            raise ValueError(f"array shape {values.shape} does not fit {self.shape}")
        self._write(values)
        return self

    def _write(self, values: Any) -> None:
        if isinstance(self._data, np.ndarray):
            self._data[...] = values
        else:
            kind = as_dtype(self.dtype).numpy
            self._data.copy_from(np.ascontiguousarray(values, kind))

    def copyto(self, target: Any, mem_scope: str | None = None) -> NDArray:
        """Copy into another array, or into a new one on a device."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return array(self, target)

    def same_as(self, other: object) -> bool:
        """Whether both are one array."""
        return self is other

    def _create_view(self, shape: Sequence[int], dtype: str | None = None) -> NDArray:
        kind = self._data.dtype if dtype is None else as_dtype(dtype).numpy
        return NDArray(self._data.view(kind).reshape(tuple(shape)), self.device)

    def __setitem__(self, index: Any, value: Any) -> None:
        given = value.numpy() if isinstance(value, NDArray) else value
        if isinstance(self._data, np.ndarray):
            self._data[index] = given
        else:
            whole = self.numpy()
            whole[index] = given
            self._write(whole)

    def __getitem__(self, index: Any) -> Any:
        return self._data[index] if isinstance(self._data, np.ndarray) else self.numpy()[index]

    def __len__(self) -> int:
        return len(self._data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy() if copy is None else self._data, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self._data!r}"


def array(arr: Any, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """A copy of an array on a device.

    >>> array(np.arange(3, dtype="float32")).numpy()
    array([0., 1., 2.], dtype=float32)
    """
    source = arr.numpy() if isinstance(arr, NDArray) else np.asarray(arr)
    made = empty(source.shape, source.dtype, device)
    made._write(source)
    return made


def empty(
    shape: Sequence[int] | int,
    dtype: Any = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
) -> NDArray:
    """A new array with whatever is in the memory."""
    extents = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    where = cpu(0) if device is None else device
    if where.device_type == _CUDA and where.exist:
        return NDArray(gpus.empty(extents, str(as_dtype(dtype)), where.device_id), where)
    return NDArray(_empty(extents, as_dtype(dtype)), where)


def from_dlpack(value: Any) -> NDArray:
    """The memory of an array of another library."""
    return NDArray(as_numpy(value), cpu(0))


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """An array over NumPy's memory."""
    return NDArray(np_data, cpu(0))


__getattr__ = missing(__name__)
