"""PTX on a device: assembled by the driver, once for each device and text."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from . import api
from .device import GPU
from .errors import ArchitectureError, JitError

_LOG_BYTES = 16 << 10
# The PTX version that each CUDA brought; from 11.0 to 11.8 and 12.0 to 12.5 they go in step.
_PTX_OF_CUDA = {
    **{(11, minor): (7, minor) for minor in range(9)},
    **{(12, minor): (8, minor) for minor in range(6)},
    (12, 6): (8, 5),
    (12, 7): (8, 6),
    (12, 8): (8, 7),
    (12, 9): (8, 8),
    (13, 0): (9, 0),
    (13, 1): (9, 1),
}
# The PTX version that knew each architecture first.
_PTX_OF_ARCH = {
    "50": (4, 0), "52": (4, 1), "53": (4, 2), "60": (5, 0), "61": (5, 0), "62": (5, 0),
    "70": (6, 0), "72": (6, 1), "75": (6, 3), "80": (7, 0), "86": (7, 1), "87": (7, 4),
    "89": (7, 8), "90": (7, 8), "90a": (8, 0), "100": (8, 6), "100a": (8, 6), "103": (8, 8),
    "120": (8, 7), "121": (8, 8),
}  # fmt: skip
_NEEDS_8_4 = re.compile(r"\bmma\.sync[\w.:]*\.e[45]m[23]")
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_lock = threading.Lock()


class Function(NamedTuple):
    """A kernel of a loaded module, and what it needs."""

    name: str
    handle: int
    max_threads: int  # that its registers leave room for in a block
    static_bytes: int  # of shared memory
    dynamic_bytes: int  # of shared memory that a launch may ask for
    local_bytes: int  # for each thread: arrays and spilled registers
    registers: int


class Module:
    """Machine code for one device."""

    def __init__(self, device: GPU, ptx: str) -> None:
        self.device = device
        text = for_driver(device, ptx)
        with device.active():
            self.handle = _load(device, text)
        self._functions: dict[tuple[str, int], Function] = {}

    def function(self, name: str, dynamic_bytes: int = 0) -> Function:
        """A kernel, allowed to use so much dynamic shared memory."""
        found = self._functions.get((name, dynamic_bytes))
        if found is None:
            with _lock:
                found = self._find(name, dynamic_bytes)
            self._functions[name, dynamic_bytes] = found
        return found

    def _find(self, name: str, dynamic_bytes: int) -> Function:
        with self.device.active():
            handle = api.handle(api.call("cuModuleGetFunction", self.handle, name.encode()))
            kinds = api.bindings().CUfunction_attribute

            def ask(attribute: str) -> int:
                kind = getattr(kinds, f"CU_FUNC_ATTRIBUTE_{attribute}")
                return int(api.call("cuFuncGetAttribute", kind, handle))

            static, limit = ask("SHARED_SIZE_BYTES"), ask("MAX_DYNAMIC_SHARED_SIZE_BYTES")
            # Beyond 48 KiB, static and dynamic together, a kernel must ask. Never lower it: another
            # launch of the same kernel may need more.
            room = self.device.shared_memory - static
            if limit < dynamic_bytes <= room:
                kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                api.call("cuFuncSetAttribute", handle, kind, dynamic_bytes)
                limit = dynamic_bytes
            threads = ask("MAX_THREADS_PER_BLOCK")
            return Function(
                name, handle, threads, static, limit, ask("LOCAL_SIZE_BYTES"), ask("NUM_REGS")
            )


def for_driver(device: GPU, ptx: str) -> str:
    """PTX of a version that the driver knows.

    Code for sm_89 and sm_90 says that it is PTX 8.4, for the sake of products of 8-bit floats.
    Most kernels have none: older drivers take them under their own version, from the one that
    brought the architecture on.

    Raises:
        ArchitectureError: the device or the driver cannot know it; says which, and what to do.
    """
    target = _TARGET.search(ptx)
    if target is not None and not _runs(device.capability, int(target[1]), target[2]):
        arch = f"sm_{target[1]}{target[2]}"
        raise ArchitectureError(
            f"the kernels were made for {arch}, and {device} ({device.name}) is sm_"
            f"{device.capability}",
            hint=f'build with target "cuda -arch={device.arch}", or just "cuda"',
        )
    version = _VERSION.search(ptx)
    if version is None:
        return ptx
    wanted, known = (int(version[1]), int(version[2])), ptx_version(api.driver_version())
    if wanted <= known:
        return ptx
    first = _PTX_OF_ARCH.get(f"{target[1]}{target[2]}") if target is not None else None
    if first is None or known < first or _NEEDS_8_4.search(ptx):
        have = ".".join(map(str, api.driver_version()))
        raise ArchitectureError(
            f"the kernels are PTX {version[1]}.{version[2]}; the driver, of CUDA {have}, knows it "
            f"up to {known[0]}.{known[1]}",
            hint="install a newer driver, or build for an older architecture, such as "
            '"cuda -arch=sm_80"',
        )
    return _VERSION.sub(f".version {known[0]}.{known[1]}", ptx, count=1)


def _runs(capability: int, made_for: int, suffix: str) -> bool:
    """Whether a GPU runs PTX: `a` means that one alone, `f` its family from there on."""
    if suffix == "a":
        return capability == made_for
    if suffix == "f":
        return capability // 10 == made_for // 10 and capability >= made_for
    return capability >= made_for


def ptx_version(cuda: tuple[int, int]) -> tuple[int, int]:
    """The newest PTX version that the driver of a CUDA version takes.

    >>> ptx_version((12, 4)), ptx_version((12, 6)), ptx_version((13, 0)), ptx_version((14, 3))
    ((8, 4), (8, 5), (9, 0), (9, 1))
    """
    older = [version for version in _PTX_OF_CUDA if version <= cuda]
    return _PTX_OF_CUDA[max(older)] if older else (6, 0)


def _load(device: GPU, ptx: str) -> int:
    driver = api.initialised()
    options = driver.CUjit_option
    # The binding passes the buffers' own memory on: the driver writes into it.
    info, error = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
    wanted = {
        options.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        options.CU_JIT_INFO_LOG_BUFFER: info,
        options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        options.CU_JIT_ERROR_LOG_BUFFER: error,
    }
    image = ptx.encode() + b"\0"
    code, module = driver.cuModuleLoadDataEx(image, len(wanted), list(wanted), [*wanted.values()])
    if int(code) == 0:
        return api.handle(module)
    name = api.code_name(code)
    if name in api.STICKY or name == "CUDA_ERROR_OUT_OF_MEMORY":
        raise api.error_of(code, "cuModuleLoadDataEx")
    log = "\n".join(filter(None, map(_text, (error, info))))
    numbered = _lines_in(ptx, log)
    raise JitError(
        f"the driver's assembler refuses the kernels for {device} ({device.name}): "
        f"{api.describe(code)}\n{log or 'it left no log'}{numbered}",
        code=name,
    )


def _text(log: bytearray) -> str:
    return bytes(log).split(b"\0")[0].decode(errors="replace").strip()


def _lines_in(ptx: str, log: str) -> str:
    """The lines of PTX that a log speaks of, as `line 12`."""
    lines = ptx.splitlines()
    wanted: Iterable[int] = sorted({int(n) for n in re.findall(r"line (\d+)", log)})[:5]
    shown = [f"{n:5} | {lines[n - 1]}" for n in wanted if 0 < n <= len(lines)]
    return "\n" + "\n".join(shown) if shown else ""


@cache
def _modules(index: int) -> dict[str, Module]:
    return {}


def load(device: GPU, ptx: str) -> Module:
    """The module of a PTX text on a device, loaded when it is new.

    Raises:
        ArchitectureError: it is for another GPU or a newer driver.
        JitError: the driver's assembler refuses it.
    """
    known = _modules(device.index)
    key = hashlib.sha256(ptx.encode()).hexdigest()
    found = known.get(key)
    if found is None:
        found = known.setdefault(key, Module(device, ptx))
    return found


def forget() -> None:
    """Know no modules any more; for tests."""
    _modules.cache_clear()
