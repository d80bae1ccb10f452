"""Other packages' arrays in a GPU's memory, without copies.

PyTorch and CuPy are read attribute by attribute, which is quick, and work in their own current
stream. Everything else says through DLPack or the CUDA array interface what it is; it is made ready
for our stream then, and is kept alive until the kernel has run, because its owner does not know of
that stream.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...base.dtype import DType, dtype
from ...base.errors import ArgumentError, DTypeError
from .. import dlpack
from ..arrays import ArrayView, byte_strides, compact_strides
from . import api, streams
from .array import DeviceArray, layout_of
from .device import GPU, device
from .errors import CudaError
from .memory import Borrowed

_ON_DEVICE = ("cuda", "cuda-managed")


class Package(NamedTuple):
    """A package whose arrays are read attribute by attribute.

    Attributes:
        layout: what tells an array's kernel-relevant properties apart; raises or is never equal
            to that of an array of strided device memory for what is none.
        pointer: the address of an array's first element.
        stream: the package's current stream on a device, by number.
        view: the array's memory.
    """

    layout: Callable[[Any], Any]
    pointer: Callable[[Any], int]
    stream: Callable[[int], int]
    view: Callable[[Any], ArrayView]


def package_of(kind: type) -> Package | None:
    """The package of a type of arrays, if it is one that is read attribute by attribute."""
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return _torch(torch)
    cupy = sys.modules.get("cupy")
    if cupy is not None and issubclass(kind, cupy.ndarray):
        return _cupy(cupy)
    return None


# ---------------------------------------------------------------------------- PyTorch


@cache
def _torch(torch: Any) -> Package:
    def layout(tensor: Any) -> Any:
        where = tensor.get_device()
        return (tensor.dtype, tensor.shape, tensor.stride(), where, tensor.is_neg())

    def pointer(tensor: Any) -> int:
        found: int = tensor.data_ptr()
        return found

    def stream(index: int) -> int:
        return streams.torch_handle(torch, index)

    def view(tensor: Any) -> ArrayView:
        if tensor.layout is not torch.strided:
            raise ArgumentError(f"a PyTorch tensor of layout {tensor.layout}")
        if tensor.is_neg() or tensor.is_conj():
            raise ArgumentError("a PyTorch tensor with a pending conjugation or negation")
        kind = _named(str(tensor.dtype).removeprefix("torch."), "PyTorch tensor")
        steps = tuple(step * kind.bytes for step in tensor.stride())
        where = str(tensor.device)
        # Tensors on other devices are refused by name: their address is of no use.
        address = tensor.data_ptr() if tensor.device.type == "cuda" else 0
        return ArrayView(address, tuple(tensor.shape), steps, kind, False, tensor, where)

    return Package(layout, pointer, stream, view)


# ---------------------------------------------------------------------------- CuPy


@cache
def _cupy(cupy: Any) -> Package:
    def layout(array: Any) -> Any:
        return (array.dtype, array.shape, array.strides, array.data.device_id)

    def pointer(array: Any) -> int:
        return int(array.data.ptr)

    def stream(index: int) -> int:
        return streams.stream_handle(cupy.cuda.get_current_stream())

    def view(array: Any) -> ArrayView:
        kind = _named(array.dtype.name, "CuPy array")
        where = f"cuda:{array.data.device_id}"
        return ArrayView(pointer(array), array.shape, array.strides, kind, False, array, where)

    return Package(layout, pointer, stream, view)


# ---------------------------------------------------------------------------- everybody else


def device_of(value: Any) -> int | None:
    """The number of the device whose memory an object stands for, or None."""
    if isinstance(value, DeviceArray):
        return value.device.index
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.get_device() if value.is_cuda else None
    if hasattr(value, "__dlpack_device__"):
        name = dlpack.device_name(*value.__dlpack_device__())
        kind, _, number = name.partition(":")
        return int(number) if kind in _ON_DEVICE else None
    interface = _interface(value)
    return None if interface is None else _owner(interface["data"][0])


def view_of(value: Any, stream: int) -> ArrayView:
    """The memory behind an object, ready for use in a stream.

    Raises:
        ArgumentError: it is no array, or one whose memory cannot be used as it is.
    """
    if isinstance(value, DeviceArray):
        where = str(value.device)
        return ArrayView(
            value.pointer, value.shape, value.strides, value.dtype, False, value, where
        )
    package = package_of(type(value))
    if package is not None:
        return package.view(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view(value, stream)
    interface = _interface(value)
    if interface is not None:
        return _interface_view(value, interface, stream)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        raise ArgumentError(f"{_type_name(value)} in the CPU's memory")
    raise ArgumentError(f"not an array but {_type_name(value)}")


def _dlpack_view(value: Any, stream: int) -> ArrayView:
    where = dlpack.device_name(*value.__dlpack_device__())
    if where.partition(":")[0] not in _ON_DEVICE:
        place = "the CPU's memory" if where == "cpu" else where
        raise ArgumentError(f"{_type_name(value)} in {place}")
    found = dlpack.read_on_device(value, stream or 1)
    kind = _named(found.dtype, "array")
    steps = byte_strides(found, kind)
    readonly = found.readonly or type(value).__module__.startswith("jax")  # JAX's never change
    return ArrayView(found.pointer, found.shape, steps, kind, readonly, found.owner, where)


def _interface(value: Any) -> dict[str, Any] | None:
    found = getattr(value, "__cuda_array_interface__", None)
    return found if isinstance(found, dict) else None


def _interface_view(value: Any, interface: dict[str, Any], stream: int) -> ArrayView:
    if interface.get("mask") is not None:
        raise ArgumentError("an array with a mask")
    item = np.dtype(interface["typestr"])
    if not item.isnative:
        raise ArgumentError(f"an array of foreign byte order, {item.str}")
    kind, shape = _named(item.name, "array"), tuple(interface["shape"])
    pointer, readonly = interface["data"]
    strides = interface.get("strides")
    steps = compact_strides(shape, kind.bytes) if strides is None else tuple(strides)
    index = _owner(pointer) if pointer else 0
    theirs = interface.get("stream")
    if theirs is not None:  # what makes the contents may still be on its way
        streams.order(device(index), streams.stream_handle(theirs), stream)
    return ArrayView(pointer, shape, steps, kind, bool(readonly), value, f"cuda:{index}")


def _owner(pointer: int) -> int:
    """The number of the device that an address belongs to."""
    if not pointer:
        return 0
    kinds = api.bindings().CUpointer_attribute
    with device().active():
        try:
            kind = kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
            return int(api.call("cuPointerGetAttribute", kind, pointer))
        except CudaError as error:
            if error.code != "CUDA_ERROR_INVALID_VALUE":
                raise
            raise ArgumentError(f"the address {pointer:#x} belongs to no GPU") from None


def _named(name: str, what: str) -> DType:
    try:
        return dtype(name)
    except DTypeError:
        raise ArgumentError(f"a {what} of unsupported type {name}") from None


def _type_name(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}."
    return f"{module}{kind.__qualname__}"


# ---------------------------------------------------------------------------- keeping alive


_Held = deque[tuple[streams.Event, tuple[object, ...]]]


@cache
def _held(index: int) -> _Held:
    return deque()


def hold(owners: tuple[object, ...], where: GPU, stream: int) -> None:
    """Keep objects alive until what is in a stream now has run."""
    held = _held(where.index)
    event = streams.Event(where, timing=False)
    event.record(stream)
    held.append((event, owners))
    while held and held[0][0].is_done:
        held.popleft()


def as_device_array(value: Any, stream: Any = None) -> DeviceArray:
    """An array of another package as one of ours, over the same memory.

    Raises:
        ArgumentError: its memory is not a GPU's.
    """
    if isinstance(value, DeviceArray):
        return value
    index = device_of(value)
    if index is None:
        raise ArgumentError(f"{_type_name(value)} is no array in a GPU's memory")
    where = device(index)
    package = package_of(type(value))
    handle = streams.resolve(stream, where)
    if stream is None and package is not None and streams.current_handle(index) is None:
        handle = package.stream(index)
    view = view_of(value, handle)
    block = Borrowed(view.owner, view.pointer, handle)
    return DeviceArray(block, view.pointer, layout_of(view.shape, view.dtype, view.strides, where))


def forget() -> None:
    """Hold nothing any more; for tests."""
    _held.cache_clear()
