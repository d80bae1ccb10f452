"""Giving device memory to others through DLPack: capsules made with ctypes.

A capsule owns a structure that owns a reference to the array. Whoever consumes it calls the
deleter; a capsule that nobody consumed does so itself. Deleters run on any thread, with or without
the GIL.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...base.dtype import DType
from ...base.errors import ArgumentError
from ..dlpack import ManagedTensor, Tensor, VersionedTensor

_CUDA = 2
_VERSION = (1, 0)
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_WHOLE_CODES = {"float8_e4m3fn": 10, "float8_e5m2": 12}

# What capsules refer to, by the structure's address: ctypes itself keeps nothing alive.
_exported: dict[int, Any] = {}


def _delete(address: int) -> None:
    _exported.pop(address, None)


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)


_api = ctypes.pythonapi
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_new = _api.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


# A consumer renames the capsule. The object is dying: it must not be touched as a Python object.
def _destroy(capsule: int) -> None:
    for name in _NAMES:
        if _is_valid(capsule, name):
            _exported.pop(_get_pointer(capsule, name), None)


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)


_NAMES = (b"dltensor", b"dltensor_versioned")  # capsules keep the address of their name


def device_code(index: int) -> tuple[int, int]:
    """A device as DLPack numbers it."""
    return _CUDA, index


def capsule(
    owner: object,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    kind: DType,
    index: int,
    max_version: tuple[int, int] | None,
) -> Any:
    """A DLPack capsule of memory on a device.

    Args:
        owner: lives as long as someone uses the memory.
        strides: in elements.
        max_version: the newest DLPack that the consumer knows; None for one before 1.0.
    """
    rank = len(shape)
    extents, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    code, bits = _type_code(kind)
    versioned = max_version is not None and max_version[0] >= _VERSION[0]
    managed: Any = VersionedTensor() if versioned else ManagedTensor()
    if versioned:
        managed.major, managed.minor = _VERSION
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    managed.tensor = Tensor(
        pointer, _CUDA, index, rank, code, bits, 1,
        ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, steps, owner)
    return _new(address, _NAMES[versioned], ctypes.cast(_destructor, ctypes.c_void_p))


def _type_code(kind: DType) -> tuple[int, int]:
    if kind in _WHOLE_CODES:
        return _WHOLE_CODES[kind], 8
    if kind.code not in _CODES or (kind.bits % 8 and not kind.is_bool):
        raise ArgumentError(f"DLPack has no name for the type {kind}")
    return _CODES[kind.code], 8 if kind.is_bool else kind.bits
