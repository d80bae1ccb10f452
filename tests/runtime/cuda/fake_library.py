"""The library `libcuda.so.1` through which bindings reach the CUDA driver for tests."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.cuda.fake_parts import NO_DEVICE

if TYPE_CHECKING:
    from runtime.cuda.fake_driver import FakeDriver

_P, _I, _U, _S, _N = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p
)  # fmt: skip
#: The parameters of each function in cuda.h; addresses of devices are 64-bit integers.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,), "cuDriverGetVersion": (_P,), "cuGetErrorName": (_I, _P),
    "cuGetErrorString": (_I, _P), "cuGetProcAddress": (_N, _P, _I, ctypes.c_uint64, _P),
    "cuDeviceGetCount": (_P,), "cuDeviceGet": (_P, _I), "cuDeviceGetName": (_P, _I, _I),
    "cuDeviceTotalMem": (_P, _I), "cuDeviceGetAttribute": (_P, _I, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I), "cuCtxPushCurrent": (_P,), "cuCtxPopCurrent": (_P,),
    "cuCtxGetCurrent": (_P,), "cuCtxSynchronize": (), "cuStreamCreate": (_P, _U),
    "cuStreamSynchronize": (_P,), "cuStreamWaitEvent": (_P, _P, _U), "cuEventCreate": (_P, _U),
    "cuEventDestroy": (_P,), "cuEventRecord": (_P, _P), "cuEventSynchronize": (_P,),
    "cuEventQuery": (_P,), "cuEventElapsedTime": (_P, _P, _P), "cuMemAlloc": (_P, _S),
    "cuMemAllocAsync": (_P, _S, _P), "cuMemFree": (ctypes.c_uint64,),
    "cuMemFreeAsync": (ctypes.c_uint64, _P), "cuMemGetInfo": (_P, _P),
    "cuMemcpyHtoDAsync": (ctypes.c_uint64, _P, _S, _P),
    "cuMemcpyDtoHAsync": (_P, ctypes.c_uint64, _S, _P),
    "cuMemcpyDtoDAsync": (ctypes.c_uint64, ctypes.c_uint64, _S, _P),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, _S, _P),
    "cuPointerGetAttribute": (_P, _I, ctypes.c_uint64),
    "cuTensorMapEncodeTiled": (_P, _I, _U, ctypes.c_uint64, _P, _P, _P, _P, _I, _I, _I, _I),
    "cuModuleLoadDataEx": (_P, _P, _U, _P, _P), "cuModuleGetFunction": (_P, _P, _N),
    "cuFuncGetAttribute": (_P, _I, _P), "cuFuncSetAttribute": (_P, _I, _I),
    "cuLaunchKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P),
}  # fmt: skip

_plugged: list[FakeDriver] = []


@cache
def _function(name: str) -> Any:
    """A C function that ends in the driver that is plugged in; it lives for ever."""

    def enter(*arguments: Any) -> int:
        return _plugged[-1].call(name, arguments) if _plugged else NO_DEVICE

    return ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES[name])(enter)


def address_of(name: str) -> int:
    """The address of a function of the driver; 0 if the fake has none."""
    if name not in SIGNATURES:
        return 0
    return ctypes.cast(_function(name), ctypes.c_void_p).value or 0


_Resolver = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_resolver = _Resolver(lambda name: address_of(name.decode()) or None)


@cache
def library() -> ctypes.CDLL | None:
    """The fake libcuda.so.1, loaded into this process; None where it cannot or must not be."""
    compiler = shutil.which("cc")
    try:
        ctypes.CDLL("libcuda.so.1")
        return None  # a true one
    except OSError:
        pass
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "libcuda.so.1"
        source = Path(__file__).with_name("fake_libcuda.c")
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1"]
        subprocess.run([*command, "-o", str(made), str(source)], check=True)
        found = ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)
    found.fake_connect(_resolver)
    return found


@contextmanager
def plugged(driver: FakeDriver) -> Iterator[FakeDriver]:
    """Have a fake driver be the one of this process."""
    _plugged.append(driver)
    try:
        yield driver
    finally:
        _plugged.pop()
