"""Reading DLPack capsules through ctypes: shape, strides, type, device, and who owns the memory.

The layout is that of dlpack.h 1.1, both the old `dltensor` and the versioned form. NumPy's reader
does not know bfloat16, so this one does not go through it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ..base.dtype import dtype
from ..base.errors import ArgumentError, DTypeError

_CPU, _CUDA_HOST = 1, 3
_DEVICES = {
    1: "cpu",
    2: "cuda",
    3: "cpu",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    13: "cuda-managed",
    14: "oneapi",
    15: "webgpu",
}
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_WHOLE_CODES = {6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}
_READ_ONLY = 1


class Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class ManagedTensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """What a capsule says; strides are in elements, None for compact."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    readonly: bool
    device: str
    owner: object


_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def device_name(kind: int, number: int) -> str:
    """A device as people write it.

    >>> device_name(1, 0), device_name(2, 1)
    ('cpu', 'cuda:1')
    """
    name = _DEVICES.get(int(kind), f"device type {int(kind)}")
    return name if name == "cpu" else f"{name}:{int(number)}"


def read(value: Any) -> Found:
    """What an object with `__dlpack__` stands for. Memory of other devices is not asked for.

    Raises:
        ArgumentError: when it gives no capsule, or one of a type that we do not know.
    """
    kind, number = value.__dlpack_device__()
    device = device_name(kind, number)
    if device != "cpu":
        shape = tuple(getattr(value, "shape", ()))
        return Found(0, shape, None, _named_dtype(value), False, device, value)
    capsule = _capsule(value)
    # The capsule stays as it is: its own destructor gives the memory back when we drop it.
    return _read_capsule(capsule, device)


def _named_dtype(value: Any) -> str:
    try:
        return dtype(str(getattr(value, "dtype", "void")).rsplit(".", 1)[-1])
    except DTypeError:
        return "void"


def read_on_device(value: Any, stream: int) -> Found:
    """What an object on a GPU stands for, ready for use in a stream (1: the legacy default one).

    Raises:
        ArgumentError: when it gives no capsule, or one of a type that we do not know.
    """
    kind, number = value.__dlpack_device__()
    return _read_capsule(_capsule(value, stream=stream), device_name(kind, number))


def _capsule(value: Any, **keywords: Any) -> Any:
    try:
        try:
            return value.__dlpack__(max_version=(1, 1), **keywords)
        except TypeError:  # older producers do not know the keyword
            return value.__dlpack__(**keywords)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise ArgumentError(
            f"{type(value).__qualname__} gives no memory through DLPack: {error}"
        ) from None


def _read_capsule(capsule: Any, device: str) -> Found:
    if type(capsule).__name__ != "PyCapsule":
        raise ArgumentError(f"__dlpack__ gave no capsule but {type(capsule).__qualname__}")
    name = _get_name(capsule)
    if name == b"dltensor_versioned":
        managed = VersionedTensor.from_address(_get_pointer(capsule, name))
        if managed.major != 1:
            raise ArgumentError(f"DLPack version {managed.major} is not known")
        return _read_tensor(managed.tensor, bool(managed.flags & _READ_ONLY), device, capsule)
    if name == b"dltensor":
        tensor = Tensor.from_address(_get_pointer(capsule, name))
        return _read_tensor(tensor, False, device, capsule)
    raise ArgumentError(f"a DLPack capsule named {name!r}")


def _read_tensor(tensor: Tensor, readonly: bool, device: str, owner: object) -> Found:
    rank = tensor.rank
    shape = tuple(tensor.shape[axis] for axis in range(rank))
    strides = tuple(tensor.strides[axis] for axis in range(rank)) if tensor.strides else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    kind = _type_name(tensor.code, tensor.bits, tensor.lanes)
    return Found(pointer, shape, strides, kind, readonly, device, owner)


def _type_name(code: int, bits: int, lanes: int) -> str:
    name = _WHOLE_CODES.get(code)
    if name is None and code in _CODES:
        name = f"{_CODES[code]}{bits}"
    if name is None or lanes != 1:
        raise ArgumentError(f"a DLPack array of unsupported type (code {code}, {bits} bits)")
    return name
