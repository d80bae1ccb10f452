"""Maps of tensors as the hardware reads them: 128 bytes, which kernels are passed by value."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from ...base.errors import ArgumentError
from ...base.tensor_map import TensorMap
from . import api
from .array import DeviceArray

BYTES, ALIGNMENT = 128, 64
#: What the driver calls types; others of as many bits go as unsigned integers.
_TYPES = {
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "int32": "INT32",
    "int64": "INT64",
}
_Encode = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64,
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
)  # fmt: skip


@cache
def _encode() -> Any:
    # Not through cuda-bindings: the driver wants the result at a multiple of 64.
    return _Encode(api.function_address("cuTensorMapEncodeTiled"))


@cache
def _known() -> WeakKeyDictionary[TensorMap, bytes]:
    return WeakKeyDictionary()


def encoded(value: TensorMap) -> bytes:
    """The map as the driver writes it; maps do not change, so each is written once.

    Raises:
        ArgumentError: its array is not one of a GPU, or begins where no map can.
    """
    found = _known().get(value)
    if found is None:
        found = _known()[value] = _written(value)
    return found


def _written(value: TensorMap) -> bytes:
    array = value.array
    if not isinstance(array, DeviceArray):
        raise ArgumentError(
            f"a map of {type(array).__module__.split('.')[0]}.{type(array).__qualname__}",
            hint="a map for a GPU is one of a tileloom.runtime.cuda.DeviceArray; asarray gives one",
        )
    if array.pointer % 16:
        raise ArgumentError(f"a map of an array at {array.pointer:#x}, no multiple of 16")
    driver, rank = api.bindings(), len(value.sizes)
    memory = (ctypes.c_uint8 * (BYTES + ALIGNMENT))()
    start = -ctypes.addressof(memory) % ALIGNMENT
    kind = _TYPES.get(array.dtype, f"UINT{8 * array.dtype.bytes}")
    swizzle = f"{value.swizzle}B" if value.swizzle else "NONE"
    with array.device.active():
        code = _encode()(
            ctypes.addressof(memory) + start,
            int(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}")),
            rank,
            array.pointer,
            (ctypes.c_uint64 * rank)(*value.sizes),
            (ctypes.c_uint64 * rank)(*value.steps),  # one less is read
            (ctypes.c_uint32 * rank)(*value.extents),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
            int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}")),
            int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
            int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        )
    if code:
        about = f"a map of {array!r} with boxes of {value.box}, swizzled by {value.swizzle} bytes"
        raise api.error_of(code, f"encoding {about}")
    return bytes(memory[start : start + BYTES])


def forget() -> None:
    """Encode anew; for tests."""
    _encode.cache_clear()
    _known.cache_clear()
