"""A CUDA driver for tests, behind the true cuda-bindings.

The bindings load a `libcuda.so.1` of ours, whose functions are Python: so the calls go through the
very conversions that they go through on a machine with a GPU. Behind it stand devices with memory
at addresses of their own, streams whose work is done as late as is allowed, contexts, events, and
kernels that the SIMT emulator runs. Whatever a true driver would refuse is refused, with its code.

Where there is a true driver, or no C compiler, tests with this one are skipped.
"""

from __future__ import annotations

import ctypes
import re
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.cuda.fake_library import address_of
from runtime.cuda.fake_parts import (
    _ALIGNMENT,
    _ENTRY,
    _GUARD,
    _PARAM,
    _SIZES,
    _STATIC,
    BLOCK_X,
    ERROR_BYTES,
    ERROR_LOG,
    F_DYNAMIC,
    F_LOCAL,
    F_REGISTERS,
    F_STATIC,
    F_THREADS,
    GRID_X,
    ILLEGAL_ADDRESS,
    INFO_BYTES,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_PTX,
    INVALID_VALUE,
    MAP_TYPES,
    NAMES,
    NO_BINARY,
    NOT_FOUND,
    NOT_INITIALIZED,
    NOT_READY,
    OUT_OF_MEMORY,
    OUT_OF_RESOURCES,
    SUCCESS,
    UNKNOWN,
    Allocation,
    Event,
    FakeDevice,
    Function,
    Launched,
    Module,
    Refused,
    Stream,
    Work,
)
from tileloom.base.tensor_map import TensorMap
from tileloom.expr.evaluate import evaluate
from tileloom.lower.analysis.pointers import is_map
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import PrimFunc

__all__ = ["FakeDevice", "FakeDriver"]


class FakeDriver:
    """The driver's state. `call` is what the native functions end in."""

    def __init__(self, *devices: FakeDevice, version: int = 12040, no_device: int = 0) -> None:
        self.devices = devices or (FakeDevice(),)
        self.version, self.no_device = version, no_device
        self.programs: dict[str, dict[str, PrimFunc]] = {}  # the kernels of a PTX text
        self.inject: dict[str, list[int]] = {}  # codes that functions answer with next
        self.launched: list[Launched] = []
        self.calls: list[str] = []
        self.problems: list[str] = []
        self.jit_log = ""
        self.sticky = 0
        self.clock = 0
        self._is_ready = False
        self._lock = threading.RLock()
        self._local = threading.local()
        self._handles: dict[int, Any] = {}
        self._next_handle = 0x5000_0000_0000
        self._bump = {k: (k + 1) << 44 for k in range(len(self.devices))}
        self._legacy = [Stream(k) for k in range(len(self.devices))]
        self._streams: list[Stream] = []
        self.contexts = [self._handle(("context", k)) for k in range(len(self.devices))]
        self.retained: set[int] = set()

    # ------------------------------------------------------------------ the entrance

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        """What a function of the driver returns."""
        with self._lock:  # threads may call, and nobody may see work half put into a stream
            return self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.calls.append(name)
        codes = self.inject.get(name)
        if codes:
            code = codes.pop(0)
            if code:
                return code
        try:
            if name not in ("cuInit", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress"):
                if not self._is_ready and name != "cuDriverGetVersion":
                    raise Refused(NOT_INITIALIZED)
                if self.sticky and name not in ("cuDriverGetVersion", "cuDeviceGetAttribute"):
                    raise Refused(self.sticky)
            getattr(self, name)(*arguments)
        except Refused as refused:
            return refused.code
        except Exception:
            self.problems.append(traceback.format_exc())
            return UNKNOWN
        return SUCCESS

    def _handle(self, thing: Any) -> int:
        self._next_handle += 64
        self._handles[self._next_handle] = thing
        return self._next_handle

    def _get(self, handle: int | None, kind: type) -> Any:
        found = self._handles.get(handle or 0)
        if not isinstance(found, kind):
            raise Refused(INVALID_HANDLE)
        return found

    # ------------------------------------------------------------------ devices and contexts

    def cuInit(self, flags: int) -> None:
        if self.no_device:
            raise Refused(self.no_device)
        self._is_ready = flags == 0

    def cuDriverGetVersion(self, out: int) -> None:
        _int(out, self.version)

    def cuGetErrorName(self, code: int, out: int) -> None:
        _text(out, NAMES.get(code, f"CUDA_ERROR_{code}"))

    def cuGetErrorString(self, code: int, out: int) -> None:
        _text(out, f"meaning of {code}")

    def cuGetProcAddress(
        self, name: bytes, out: int, version: int, flags: int, status: int | None
    ) -> None:
        found = address_of(name.decode())
        _word(out, found)
        if status:
            _int(status, int(found == 0))

    def cuDeviceGetCount(self, out: int) -> None:
        _int(out, len(self.devices))

    def cuDeviceGet(self, out: int, index: int) -> None:
        self._device(index)
        _int(out, index)

    def _device(self, index: int) -> FakeDevice:
        if not 0 <= index < len(self.devices):
            raise Refused(INVALID_DEVICE)
        return self.devices[index]

    def cuDeviceGetName(self, out: int, size: int, index: int) -> None:
        name = self._device(index).name.encode()[: size - 1] + b"\0"
        ctypes.memmove(out, name, len(name))

    def cuDeviceTotalMem(self, out: int, index: int) -> None:
        _word(out, self._device(index).memory)

    def cuDeviceGetAttribute(self, out: int, kind: int, index: int) -> None:
        _int(out, self._device(index).attribute(kind))

    def cuDevicePrimaryCtxRetain(self, out: int, index: int) -> None:
        self._device(index)
        self.retained.add(index)
        _word(out, self.contexts[index])

    @property
    def stack(self) -> Any:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack

    def _here(self) -> int:
        """The device of the current context."""
        if not self.stack or self.stack[-1] == 0:
            raise Refused(INVALID_CONTEXT)
        return self.contexts.index(self.stack[-1])

    def cuCtxPushCurrent(self, context: int) -> None:
        if context not in self.contexts or self.contexts.index(context) not in self.retained:
            raise Refused(INVALID_CONTEXT)
        self.stack.append(context)

    def cuCtxPopCurrent(self, out: int) -> None:
        if not self.stack:
            raise Refused(INVALID_CONTEXT)
        popped = self.stack.pop()
        if out:
            _word(out, popped)

    def cuCtxGetCurrent(self, out: int) -> None:
        _word(out, self.stack[-1] if self.stack else 0)

    def cuCtxSynchronize(self) -> None:
        here = self._here()
        for stream in [*self._streams, *self._legacy]:
            if stream.device == here:
                self._finish(stream.last)

    # ------------------------------------------------------------------ streams and events

    def _stream(self, handle: int | None) -> Stream:
        here = self._here()
        if handle in (None, 0, 1):
            return self._legacy[here]
        stream: Stream = self._get(handle, Stream)
        if stream.device != here:
            raise Refused(INVALID_CONTEXT)
        return stream

    def _put(self, stream: Stream, do: Callable[[], None], *needs: Work | None) -> Work:
        """Work at the end of a stream; the legacy stream and blocking ones wait for each other."""
        others: list[Work | None] = [stream.last, *needs]
        if stream is self._legacy[stream.device]:
            others += [s.last for s in self._streams if s.blocking and s.device == stream.device]
        elif stream.blocking:
            others.append(self._legacy[stream.device].last)
        stream.last = Work([work for work in others if work is not None], do)
        return stream.last

    def _finish(self, work: Work | None) -> None:
        stack = [] if work is None else [work]
        while stack:
            waiting = [need for need in stack[-1].needs if not need.is_done]
            if waiting:
                stack += waiting
                continue
            ready = stack.pop()
            if ready.is_done:
                continue
            ready.is_done, ready.needs = True, []
            self.clock += 1
            ready.time = self.clock
            ready.do()

    def cuStreamCreate(self, out: int, flags: int) -> None:
        stream = Stream(self._here(), blocking=flags == 0)
        self._streams.append(stream)
        _word(out, self._handle(stream))

    def cuStreamSynchronize(self, handle: int) -> None:
        self._finish(self._stream(handle).last)

    def cuStreamWaitEvent(self, handle: int, event: int, flags: int) -> None:
        if flags:
            raise Refused(INVALID_VALUE)
        self._put(self._stream(handle), lambda: None, self._get(event, Event).work)

    def cuEventCreate(self, out: int, flags: int) -> None:
        _word(out, self._handle(Event(self._here(), timed=not flags & 2)))

    def cuEventDestroy(self, event: int) -> None:
        self._get(event, Event)
        del self._handles[event]

    def cuEventRecord(self, event: int, handle: int) -> None:
        found = self._get(event, Event)
        if found.device != self._here():
            raise Refused(INVALID_HANDLE)
        found.work = self._put(self._stream(handle), lambda: None)

    def cuEventSynchronize(self, event: int) -> None:
        self._finish(self._get(event, Event).work)

    def cuEventQuery(self, event: int) -> None:
        work = self._get(event, Event).work
        if work is not None and not work.is_done:
            raise Refused(NOT_READY)

    def cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        events = [self._get(event, Event) for event in (start, end)]
        if not all(event.timed and event.work for event in events):
            raise Refused(INVALID_HANDLE)
        if not all(event.work.is_done for event in events):
            raise Refused(NOT_READY)
        ctypes.c_float.from_address(out).value = events[1].work.time - events[0].work.time

    # ------------------------------------------------------------------ memory

    def _allocate(self, size: int, here: int, is_there: bool) -> Allocation:
        device = self.devices[here]
        if size == 0:
            raise Refused(INVALID_VALUE)
        if device.used + size > device.memory:
            raise Refused(OUT_OF_MEMORY)
        address = self._bump[here]
        self._bump[here] += -(-size // _ALIGNMENT) * _ALIGNMENT + _GUARD
        made = Allocation(address, np.full(size, 0xA5, np.uint8), is_there)
        device.allocations.append(made)
        return made

    def cuMemAlloc(self, out: int, size: int) -> None:
        _word(out, self._allocate(size, self._here(), True).address)

    def cuMemAllocAsync(self, out: int, size: int, handle: int) -> None:
        stream = self._stream(handle)
        if not self.devices[stream.device].pools:
            raise Refused(801)
        made = self._allocate(size, stream.device, False)

        def appear() -> None:
            made.is_there = True

        self._put(stream, appear)
        _word(out, made.address)

    def _find(self, address: int, size: int = 1) -> tuple[Allocation, int]:
        for device in self.devices:
            for one in device.allocations:
                offset = address - one.address
                if offset >= 0 and offset + size <= len(one.bytes):
                    return one, offset
        raise Refused(INVALID_VALUE)

    def _remove(self, one: Allocation) -> None:
        one.is_there = False
        for device in self.devices:
            device.allocations[:] = [each for each in device.allocations if each is not one]

    def cuMemFree(self, address: int) -> None:
        one, offset = self._find(address)
        if offset:
            raise Refused(INVALID_VALUE)
        self.cuCtxSynchronize()
        self._remove(one)

    def cuMemFreeAsync(self, address: int, handle: int) -> None:
        one, offset = self._find(address)
        if offset:
            raise Refused(INVALID_VALUE)
        self._put(self._stream(handle), lambda: self._remove(one))

    def cuMemGetInfo(self, free: int, total: int) -> None:
        device = self.devices[self._here()]
        _word(free, device.memory - device.used)
        _word(total, device.memory)

    def memory(self, address: int, size: int) -> np.ndarray[Any, Any]:
        """The bytes at an address of a device, which must be there now."""
        try:
            one, offset = self._find(address, size)
        except Refused:
            self._break(ILLEGAL_ADDRESS)
        if not one.is_there:
            self._break(ILLEGAL_ADDRESS)
        return one.bytes[offset : offset + size]

    def _break(self, code: int) -> None:
        self.sticky = code
        raise Refused(code)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, handle: int) -> None:
        self._find(to, size)

        def copy() -> None:
            self.memory(to, size)[:] = np.ctypeslib.as_array(
                (ctypes.c_uint8 * size).from_address(source)
            )

        self._put(self._stream(handle), copy)

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, handle: int) -> None:
        self._find(source, size)

        def copy() -> None:
            ctypes.memmove(to, self.memory(source, size).tobytes(), size)

        self._put(self._stream(handle), copy)

    def cuMemcpyDtoDAsync(self, to: int, source: int, size: int, handle: int) -> None:
        self._find(source, size), self._find(to, size)

        def copy() -> None:
            self.memory(to, size)[:] = self.memory(source, size)

        self._put(self._stream(handle), copy)

    def cuMemsetD8Async(self, to: int, value: int, size: int, handle: int) -> None:
        self._find(to, size)

        def fill() -> None:
            self.memory(to, size)[:] = value

        self._put(self._stream(handle), fill)

    def cuPointerGetAttribute(self, out: int, kind: int, address: int) -> None:
        one, _ = self._find(address)
        if kind != 9:
            raise Refused(INVALID_VALUE)
        where = [k for k, d in enumerate(self.devices) if any(a is one for a in d.allocations)]
        _int(out, where[0])

    # ------------------------------------------------------------------ maps of tensors

    def cuTensorMapEncodeTiled(self, out: int, *given: int) -> None:
        kind, rank, address, sizes, steps, box, unit, interleave, swizzle, _, fill = given
        extents, boxes = (list((ctypes.c_uint64 * rank).from_address(sizes)),
                          list((ctypes.c_uint32 * rank).from_address(box)))  # fmt: skip
        rows = list((ctypes.c_uint64 * max(1, rank - 1)).from_address(steps))[: rank - 1]
        units = list((ctypes.c_uint32 * rank).from_address(unit))
        item = MAP_TYPES[kind]
        self._find(address)
        if out % 64 or address % 16 or any(step % 16 for step in rows) or units != [1] * rank:
            raise Refused(INVALID_VALUE)
        if interleave or fill or not all(1 <= n <= 256 for n in boxes):
            raise Refused(INVALID_VALUE)
        if boxes[0] * item.itemsize % 16 or (swizzle and boxes[0] * item.itemsize > 16 << swizzle):
            raise Refused(INVALID_VALUE)
        found = (address, item, extents, rows, boxes, 16 << swizzle if swizzle else 0)
        word = self._handle(found).to_bytes(8, "little")
        ctypes.memmove(out, word.ljust(128, b"M"), 128)

    def _map(self, value: bytes) -> TensorMap:
        """What 128 bytes stand for, over the memory of the device."""
        assert value[8:] == b"M" * 120, "a map was not passed whole"
        address, item, extents, rows, box, swizzle = self._handles[
            int.from_bytes(value[:8], "little")
        ]
        steps = (item.itemsize, *rows)
        reach = sum((n - 1) * step for n, step in zip(extents, steps)) + item.itemsize
        raw = self.memory(address, reach)
        array = np.ndarray(extents[::-1], item, raw, 0, steps[::-1])
        return TensorMap(array, tuple(box[::-1]), swizzle)

    # ------------------------------------------------------------------ kernels

    def cuModuleLoadDataEx(
        self, out: int, image: int, count: int, options: int, values: int
    ) -> None:
        here = self._here()
        kinds = list((ctypes.c_int * count).from_address(options)) if count else []
        words = list((ctypes.c_uint64 * count).from_address(values)) if count else []
        given = dict(zip(kinds, words, strict=True))
        if kinds.index(INFO_BYTES) < 0 or not given[ERROR_BYTES]:
            raise Refused(INVALID_VALUE)
        text = ctypes.string_at(image).decode()
        if self.jit_log:
            log = self.jit_log.encode()[: given[ERROR_BYTES] - 1] + b"\0"
            ctypes.memmove(given[ERROR_LOG], log, len(log))
            raise Refused(INVALID_PTX)
        version = re.search(r"\.version (\d+)\.(\d+)", text)
        target = re.search(r"\.target sm_(\d+)", text)
        if version is None or target is None:
            raise Refused(INVALID_PTX)
        major, minor = self.devices[here].capability
        if int(target[1]) > 10 * major + minor:
            raise Refused(NO_BINARY)
        _word(out, self._handle(Module(here, text, self.programs.get(text, {}))))

    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        found: Module = self._get(module, Module)
        for entry in _ENTRY.finditer(found.ptx):
            if entry[1] == name.decode():
                sizes = [_SIZES[bits] * int(count or 1) for bits, count in _PARAM.findall(entry[2])]
                body = found.ptx[entry.end() : found.ptx.find("\n}", entry.end())]
                uses = [int(n) for name, n in _STATIC.findall(found.ptx) if name in body]
                static = sum(uses)
                function = Function(found, entry[1], sizes, static, (48 << 10) - static)
                _word(out, self._handle(function))
                return
        raise Refused(NOT_FOUND)

    def cuFuncGetAttribute(self, out: int, kind: int, function: int) -> None:
        found: Function = self._get(function, Function)
        device = self.devices[found.module.device]
        known = {
            F_THREADS: device.max_function_threads, F_STATIC: found.static, F_LOCAL: 0,
            F_REGISTERS: device.registers, F_DYNAMIC: found.dynamic,
        }  # fmt: skip
        _int(out, known[kind])

    def cuFuncSetAttribute(self, function: int, kind: int, value: int) -> None:
        found: Function = self._get(function, Function)
        room = self.devices[found.module.device].shared - found.static
        if kind != F_DYNAMIC or not 0 <= value <= room:
            raise Refused(INVALID_VALUE)
        found.dynamic = value

    def cuLaunchKernel(self, function: int, *rest: Any) -> None:
        *sizes, shared, handle, params, extra = rest
        found: Function = self._get(function, Function)
        here = self._here()
        if found.module.device != here or extra:
            raise Refused(INVALID_HANDLE if not extra else INVALID_VALUE)
        grid, block = tuple(sizes[:3]), tuple(sizes[3:])
        device = self.devices[here]
        limits = [device.attribute(BLOCK_X + k) for k in range(3)]
        widths = [device.attribute(GRID_X + k) for k in range(3)]
        if 0 in sizes or any(n > m for n, m in zip((*block, *grid), (*limits, *widths))):
            raise Refused(INVALID_VALUE)
        if shared > found.dynamic:
            raise Refused(INVALID_VALUE)
        if block[0] * block[1] * block[2] > device.max_function_threads:
            raise Refused(OUT_OF_RESOURCES)
        pointers = (ctypes.c_uint64 * len(found.sizes)).from_address(params)
        values = [ctypes.string_at(p, n) for p, n in zip(pointers, found.sizes)]
        stream = self._stream(handle)
        self.launched.append(Launched(found.name, grid, block, shared, handle or 0, values, here))
        self._put(stream, lambda: self._run(found, grid, block, values))

    def _run(
        self, function: Function, grid: tuple[int, ...], block: tuple[int, ...], values: list[bytes]
    ) -> None:
        kernel = function.module.kernels.get(function.name)
        if kernel is None:
            raise AssertionError(f"the test gave no program for {function.name}")
        arrays = self._arguments(kernel, values)
        self._compare_extents(kernel, values, grid, block)
        try:
            run_kernels(kernel, *arrays)
        except KernelDefect as defect:
            self.problems.append(str(defect))
            self._break(ILLEGAL_ADDRESS)

    def _scalars(self, kernel: PrimFunc, values: list[bytes]) -> dict[Any, Any]:
        assert len(values) == len(kernel.params), (kernel.params, values)
        scalars = {}
        for param, value in zip(kernel.params, values, strict=True):
            if is_map(param):
                scalars[param] = self._map(value)
            elif param not in kernel.buffer_map:
                item = param.dtype.numpy
                assert len(value) == item.itemsize, f"{param.name} has {len(value)} bytes"
                scalars[param] = np.frombuffer(value, item)[0]
        return scalars

    def _arguments(self, kernel: PrimFunc, values: list[bytes]) -> list[Any]:
        scalars = self._scalars(kernel, values)
        arguments: list[Any] = []
        for param, value in zip(kernel.params, values, strict=True):
            buffer = kernel.buffer_map.get(param)
            if buffer is None:
                arguments.append(scalars[param])
                continue
            address = int.from_bytes(value, "little")
            count = int(np.prod([int(evaluate(n, scalars)) for n in buffer.shape], dtype=int))
            item = buffer.dtype.element.numpy
            size = count * buffer.dtype.lanes * item.itemsize
            assert address % 16 == 0 or size == 0
            raw = self.memory(address, size) if size else np.zeros(0, np.uint8)
            arguments.append(raw.view(item))
        return arguments

    def _compare_extents(
        self, kernel: PrimFunc, values: list[bytes], grid: Any, block: Any
    ) -> None:
        scalars = self._scalars(kernel, values)
        for prefix, sizes in (("blockIdx", grid), ("threadIdx", block)):
            for axis, size in zip("xyz", sizes, strict=True):
                wanted = kernel.attrs["thread_extent"].get(f"{prefix}.{axis}", 1)
                wanted = wanted if isinstance(wanted, int) else int(evaluate(wanted, scalars))
                assert wanted == size, f"{prefix}.{axis} is {size}, not {wanted}"


def _int(out: int, value: int) -> None:
    ctypes.c_int32.from_address(out).value = value


def _word(out: int, value: int) -> None:
    ctypes.c_uint64.from_address(out).value = value


_texts: dict[str, Any] = {}


def _text(out: int, text: str) -> None:
    kept = _texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
    _word(out, ctypes.addressof(kept))
