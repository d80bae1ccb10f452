"""Kernels as built-in functions: the descriptors that the native entry reads, and its making.

The layout is described at the head of `codegen.pyentry`, which makes the native code.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..base.dtype import DType
from . import native
from .check import integer_range
from .params import ParamSpec, number_symbols

COMPACT, STRIDED, INTEGER, FLOAT32, FLOAT64, IMPLICIT, SLOW = range(7)
_C_CONTIGUOUS, _WRITEABLE, _NATIVE_ORDER_ALIGNED = 0x1, 0x400, 0x100
_METH_FASTCALL = 0x80
_METHOD = struct.Struct("<QQi4xQ")
# Calls that touch less memory than this keep the GIL: letting it go and coming back costs 0.1 us,
# and more when other threads want it.
_LONG_CALL_BYTES = 32 << 10
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

_PYTHON_SYMBOLS = (
    "PyTuple_GetItem",
    "PyBytes_AsString",
    "PyObject_Vectorcall",
    "PyObject_CallOneArg",
    "PyLong_FromLong",
    "PyLong_AsLongLong",
    "PyLong_AsVoidPtr",
    "PyFloat_AsDouble",
    "PyErr_Occurred",
    "PyErr_Clear",
    "Py_IncRef",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)


def _method(name: str, function: int) -> np.ndarray[Any, Any]:
    """A `PyMethodDef` (name, function, flags, no documentation) with its name behind it.

    In an array, which the garbage collector does not look into. A ctypes structure that it finds
    in a cycle is emptied, while the built-in function in that cycle still reads its flags.
    """
    text = name.encode() + b"\0"
    method = np.zeros(_METHOD.size + len(text), np.uint8)
    place: int = method.ctypes.data
    _METHOD.pack_into(method.data, 0, place + _METHOD.size, function, _METH_FASTCALL, 0)
    method[_METHOD.size :] = np.frombuffer(text, np.uint8)
    return method


def _layout_is_known() -> bool:
    """Whether arrays and objects have the layout that the native entry reads."""
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if object.__basicsize__ != 16:  # free-threaded and debugging builds have larger heads
        return False
    array = np.arange(15, dtype=np.int16).reshape(5, 3)[1:, ::2]
    address = id(array)

    def word(offset: int) -> int:
        return ctypes.c_uint64.from_address(address + offset).value

    def words(offset: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * 2).from_address(word(offset)))

    flags = ctypes.c_int32.from_address(address + 64).value
    return (
        word(8) == id(np.ndarray)
        and word(16) == array.ctypes.data
        and ctypes.c_int32.from_address(address + 24).value == 2
        and words(32) == array.shape
        and words(40) == array.strides
        and word(56) == id(array.dtype)
        and flags & 0xFFF == array.flags.num & 0xFFF
    )


@cache
def _code() -> native.Loaded | None:
    """The native entry, or None where only the slow way works."""
    if not native.is_connected() or not _layout_is_known():
        return None
    symbols = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in _PYTHON_SYMBOLS
    }
    symbols["_Py_NoneStruct"] = id(None)
    symbols["tileloom_ndarray"] = id(np.ndarray)
    return native.load("entry", symbols)


def describe(kernel: int, params: tuple[ParamSpec, ...]) -> bytes:
    """The descriptor of a kernel whose packed form is at address `kernel`."""
    symbols = number_symbols(params)
    passed = sum(not param.implicit for param in params)
    words = [kernel, len(params), passed, len(symbols), _LONG_CALL_BYTES]
    for param in params:
        record = _buffer(param, symbols) if param.is_buffer else _scalar(param, symbols)
        record[1] = len(record)
        words += record
    return b"".join(struct.pack("<q" if word < 0 else "<Q", word) for word in words)


def _buffer(param: ParamSpec, symbols: dict[str, int]) -> list[int]:
    item = param.dtype.numpy
    flags = _NATIVE_ORDER_ALIGNED | (_WRITEABLE if param.is_written else 0)
    kind, strides = COMPACT, []
    if param.strides is None:
        flags |= _C_CONTIGUOUS
    elif all(isinstance(step, int) and step >= 0 for step in param.strides):
        kind, strides = STRIDED, [int(step) * item.itemsize for step in param.strides]
    else:
        kind = SLOW
    extents = [-1 - symbols[e] if isinstance(e, str) else e for e in param.shape]
    # NumPy has one object for each of its own types, so that comparing addresses is enough.
    head = [kind, 0, 0, param.needed_alignment - 1, len(param.shape)]
    return [*head, id(item), flags, item.itemsize, int(param.is_written), *extents, *strides]


def _scalar(param: ParamSpec, symbols: dict[str, int]) -> list[int]:
    symbol = symbols.get(param.name, -1) + 1
    if param.implicit:
        # A symbol's value is below 2**31 here; narrower types are for the slow way to check.
        kind = IMPLICIT if integer_range(param.dtype)[1] >= (1 << 31) - 1 else SLOW
        return [kind, 0, symbol, 0, 0, 0, 0, 0, 0]
    kind, low, high = _scalar_kind(param.dtype)
    return [kind, 0, symbol, 0, 0, low, high, 0, 0]


def _scalar_kind(dtype: DType) -> tuple[int, int, int]:
    if dtype == "float32":
        return FLOAT32, 0, 0
    if dtype == "float64":
        return FLOAT64, 0, 0
    if dtype.is_int and dtype.bits >= 8:
        low, high = integer_range(dtype)
        return INTEGER, low, min(high, _MOST)
    return SLOW, 0, 0


def make_builtin(
    name: str,
    function: str,
    descriptor: bytes,
    slow: Callable[..., Any],
    fail: Callable[[int], Any],
    keep: object,
) -> Callable[..., Any] | None:
    """A built-in function over the native entry; None where there is none.

    Args:
        name: what it is called in tracebacks.
        function: which native function: "tileloom_entry" or "tileloom_launch".
        descriptor: what `describe` gave.
        slow: takes over when the native function does not know what to do with an argument.
        fail: raises for an assertion's number.
        keep: lives as long as the built-in does.
    """
    code = _code()
    if code is None:
        return None
    method = _method(name, code.address(function))
    state = (descriptor, slow, fail, keep, method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    built: Callable[..., Any] = make(method.ctypes.data, state, None)
    return built
