"""The CUDA driver, through cuda-bindings: loaded when first asked for, every result checked.

Handles are plain integers throughout; cuda-bindings takes them as they are.
"""

from __future__ import annotations

import os
from collections import deque
from functools import cache
from typing import Any

from .errors import CudaError, DeviceMemoryError, LostContextError, NoDriverError

#: After one of these, every call in the process fails: the context is gone.
STICKY = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "read or wrote memory that is not an array's",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "used an address that is not a multiple of the access's size",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "used an address in the wrong kind of memory",
    "CUDA_ERROR_INVALID_PC": "jumped to where no code is",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "ran an instruction that the GPU does not have",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "ran out of its stack",
    "CUDA_ERROR_LAUNCH_FAILED": "stopped, as at a trap: an assertion of the program is one",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "ran longer than the display's watchdog allows",
    "CUDA_ERROR_ASSERT": "failed an assertion",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "met memory that is damaged beyond repair",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": "met an NVLink error beyond repair",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "ran in a context that has been destroyed",
}
_NO_DEVICE = {
    "CUDA_ERROR_NO_DEVICE": "the CUDA driver finds no GPU",
    "CUDA_ERROR_STUB_LIBRARY": "libcuda.so.1 is the stub that programs are linked with, no driver",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the CUDA driver and its kernel module do not match",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the GPU's system services are not running",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "this GPU needs a newer driver",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the GPU is taken by another process",
    "CUDA_ERROR_OPERATING_SYSTEM": "the operating system does not let the driver reach the GPU",
    "CUDA_ERROR_UNKNOWN": "the CUDA driver does not start, and does not say why",
}
_HINTS = {
    "CUDA_ERROR_NOT_INITIALIZED": "a process that was forked from one that uses CUDA cannot use "
    'it; start processes with "spawn"',
    "CUDA_ERROR_DEINITIALIZED": "the process is about to end; use the GPU before that",
}
_EMULATOR = 'build(..., "cuda", device="emulator") runs kernels without a GPU'


#: The functions that were launched last, for errors that come later.
recent: deque[str] = deque(maxlen=8)


@cache
def bindings() -> Any:
    """The module `cuda.bindings.driver`.

    Raises:
        NoDriverError: it is not installed; names the extra.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NoDriverError(
            f"kernels reach a GPU through the package cuda-bindings, which is missing ({error})",
            hint="pip install 'tileloom[cuda]'",
        ) from None
    return driver


@cache
def initialised() -> Any:
    """The bindings, after `cuInit`.

    Raises:
        NoDriverError: no package, no driver or no device.
    """
    driver = bindings()
    try:
        (code,) = driver.cuInit(0)
    except ValueError as error:  # a code that cuda-bindings does not know
        raise NoDriverError(f"the CUDA driver does not start: {_sentence(error)}") from None
    except RuntimeError as error:  # cuda-bindings finds no libcuda
        raise NoDriverError(
            f"there is no CUDA driver: {_sentence(error)}", hint=f"install NVIDIA's; {_EMULATOR}"
        ) from None
    if int(code):
        name = code_name(code)
        reason = _NO_DEVICE.get(name, "the CUDA driver does not start")
        raise NoDriverError(f"{reason} ({name})", code=name, hint=_EMULATOR)
    return driver


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the driver: its result, a tuple of several, or None.

    Raises:
        CudaError: the driver refuses.
    """
    driver = initialised()
    try:
        code, *values = getattr(driver, name)(*arguments)
    except ValueError as error:  # a code that cuda-bindings does not know: it is older
        raise CudaError(f"{name} failed: {_sentence(error)}") from None
    except RuntimeError as error:  # cuda-bindings found no such function in libcuda
        raise CudaError(f"the CUDA driver cannot do {name}: {_sentence(error)}") from None
    if int(code):
        raise error_of(code, name)
    if len(values) > 1:
        return tuple(values)
    return values[0] if values else None


def handle(value: Any) -> int:
    """A handle of the driver as an integer."""
    return int(value)


def error_of(code: Any, what: str) -> CudaError:
    """The error for a code of the driver.

    Args:
        code: a CUresult, or its number.
        what: the function that gave it.
    """
    name = code_name(code)
    if name in STICKY:
        return lost(name, what)
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        return DeviceMemoryError(f"the GPU has no memory left for {what}", code=name)
    return CudaError(f"{what} failed: {describe(code)}", code=name, hint=_HINTS.get(name))


def lost(name: str, what: str) -> LostContextError:
    """The error after a kernel that went wrong while it ran."""
    launched = ", ".join(dict.fromkeys(recent))
    suspects = f" Launched last: {launched}." if launched else ""
    return LostContextError(
        f"a kernel {STICKY[name]} ({name}); {what} only brought it to light. The CUDA context "
        f"is lost: nothing works on this GPU until the process is started anew.{suspects}",
        code=name,
        hint="CUDA_LAUNCH_BLOCKING=1 reports at the launch; the emulator "
        '(build(..., "cuda", device="emulator")) names the statement and the thread',
    )


def code_name(code: Any) -> str:
    """The driver's name for a code.

    A number that cuda-bindings has no name for, because the driver is newer, stays a number.
    """
    try:
        return str(bindings().CUresult(int(code)).name)
    except (ValueError, KeyError):
        return f"CUDA error {int(code)}"


def describe(code: Any) -> str:
    """Name and meaning of a code."""
    name = code_name(code)
    driver = bindings()
    try:
        failed, text = driver.cuGetErrorString(driver.CUresult(int(code)))
    except (ValueError, KeyError, RuntimeError):
        return name
    if int(failed) or not text:
        return name
    return f"{text.decode(errors='replace')} ({name})"


@cache
def driver_version() -> tuple[int, int]:
    """The newest CUDA that the driver knows, as (12, 4)."""
    number = int(call("cuDriverGetVersion"))
    return number // 1000, number % 1000 // 10


def function_address(name: str) -> int:
    """The address of a function of the driver, of the kind that cuda-bindings itself calls."""
    driver = initialised()
    kinds = driver.CUdriverProcAddress_flags
    flags = kinds.CU_GET_PROC_ADDRESS_DEFAULT
    if int(os.environ.get(_PER_THREAD) or 0):
        flags = kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    major, minor = driver_version()
    version = min(_ABI, 1000 * major + 10 * minor)
    found, _ = call("cuGetProcAddress", name.encode(), version, int(flags))
    if not int(found or 0):
        raise CudaError(f"the CUDA driver has no function {name}")
    return int(found)


_ABI = 12000  # functions as CUDA 12.0 defines them
_PER_THREAD = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"  # which cuda-bindings reads as well


def _sentence(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def forget() -> None:
    """Ask everything anew; for tests."""
    for known in (bindings, initialised, driver_version):
        known.cache_clear()
    recent.clear()
