"""Functions for a GPU that Python calls with arrays in the GPU's memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from ...base.errors import ArgumentError, InternalError
from ...base.launches import Launch, LaunchPlan
from ...base.tensor_map import TensorMap
from ..arrays import ArrayView
from ..check import Binder, Bound
from ..params import ParamSpec, number_symbols
from . import api, foreign, maps, modules, streams
from .array import DeviceArray
from .device import GPU, device
from .errors import LaunchError
from .memory import DevicePool, MemoryBlock, pool, show_size
from .modules import Function
from .packets import MISALIGNED, OVERLAP, Checks, Packer

#: What generated code takes the addresses of arrays to be multiples of, in bytes.
ALIGNMENT = 16
_MOST_PREPARED = 1024  # combinations of shapes that are remembered


class Prepared(NamedTuple):
    """A call that was checked once, for arguments of the same layout."""

    packer: Packer
    device: GPU
    pool: DevicePool
    launches: tuple[Launch, ...]
    functions: tuple[Function, ...]


class CudaKernel:
    """A compiled function of arrays in a GPU's memory, which writes its results into arguments.

    Calling it checks data types, shapes, strides, alignment and devices, that outputs are
    writable and share no memory with other arguments; then it puts the kernels into a stream and
    returns. It takes `DeviceArray`s, PyTorch and CuPy arrays and whatever speaks DLPack or the
    CUDA array interface, without copies. What was found good once is not looked at again.

    Args:
        name: what errors call it.
        params: what it takes.
        ptx: its kernels.
        plan: what its host does.

    Raises (when called):
        ArgumentError: naming the argument, what was expected and what was given.
        CudaError: the kernels cannot be loaded or launched.
    """

    def __init__(self, name: str, params: Sequence[ParamSpec], ptx: str, plan: LaunchPlan) -> None:
        self.name = name
        self.ptx = ptx
        self.params = tuple(
            replace(param, alignment=ALIGNMENT) if param.is_buffer else param for param in params
        )
        self._plan = plan
        self._prepared: dict[tuple[Any, ...], Prepared] = {}  # by types and layouts
        self._known: dict[tuple[Any, ...], Prepared] = {}  # by numbers and sizes
        self._packages: dict[type, foreign.Package | None] = {}
        #: For each argument: whether it is an array (None) or a number that decides about sizes.
        symbols = number_symbols(self.params)
        self._steering: list[bool | None] = [
            None if param.kind != "scalar" else k in plan.steering or param.name in symbols
            for k, param in enumerate(self.params)
            if not param.implicit
        ]

    def __call__(self, *arguments: Any, stream: Any = None) -> None:
        """Launch the kernels.

        Args:
            arguments: arrays and numbers, in the order of the parameters.
            stream: where to: a stream of anybody's. Otherwise the innermost `with Stream():` of
                ours, or the current stream of the package that an argument is from.
        """
        key: list[Any] = []
        values: list[Any] = []
        arrays: list[DeviceArray] = []
        package = None
        try:
            for argument, steers in zip(arguments, self._steering, strict=True):
                kind = type(argument)
                if kind is TensorMap:
                    arrays.append(argument.array)
                    values.append(maps.encoded(argument))
                elif steers is not None:
                    values.append(argument)
                    if steers:
                        key += (kind, argument)
                elif kind is DeviceArray:
                    arrays.append(argument)
                    key.append(argument.layout)
                    values.append(argument.pointer)
                else:
                    package = self._packages[kind]
                    key.append(package.layout(argument))  # type: ignore[union-attr]
                    values.append(package.pointer(argument))  # type: ignore[union-attr]
            prepared = self._prepared[tuple(key)]
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArgumentError):
            return self._call_exactly(arguments, stream)  # which finds out what is new or wrong
        where = prepared.device
        if stream is not None:
            handle = streams.stream_handle(stream)
        else:
            current = streams.current_handle(where.index)
            if current is not None:
                handle = current
            else:
                handle = 0 if package is None else package.stream(where.index)
        for array in arrays:
            if array.block.last != handle:
                array.block.use(where, handle)
        try:
            code, failed = self._launch(prepared, values, handle)
        except (struct.error, TypeError, OverflowError):
            return self._call_exactly(arguments, stream)  # a number of another type
        if code < 0:
            return self._call_exactly(arguments, stream)  # which says which addresses are wrong
        if code:
            self._fail(prepared, code, failed)
        return None

    def _launch(self, prepared: Prepared, values: Sequence[Any], handle: int) -> tuple[int, int]:
        packer = prepared.packer
        api.recent.append(self.name)
        if not packer.temporary_bytes:
            return packer.launch(values, handle)
        # The block goes back at once: whoever takes it next comes later in the same stream.
        block: MemoryBlock = prepared.pool.take(packer.temporary_bytes, handle)
        return packer.launch(values, handle, block.pointer)

    # ------------------------------------------------------------------ with all checks

    def _call_exactly(self, arguments: tuple[Any, ...], stream: Any) -> None:
        where = self._device(arguments)
        handle = streams.resolve(stream, where)
        if stream is None and streams.current_handle(where.index) is None:
            handle = self._stream_of(arguments, where, handle)
        binder = DeviceBinder(self.name, self.params, where, handle)
        bound = binder.bind(arguments)
        values = {k: self._value(bound, param) for k, param in enumerate(self.params)}
        prepared = self._find(where, bound, values)
        passed = [values[k] for k, param in enumerate(self.params) if not param.implicit]
        for value in arguments:
            array = value.array if isinstance(value, TensorMap) else value
            if isinstance(array, DeviceArray):
                array.block.use(where, handle)
        code, failed = self._launch(prepared, passed, handle)
        if code in (MISALIGNED, OVERLAP):
            raise InternalError(f"{self.name}: the quick check refuses what the exact one accepts")
        if code:
            self._fail(prepared, code, failed)
        if binder.owners:
            foreign.hold(tuple(binder.owners), where, handle)
        elif prepared.packer.is_strict:
            self._remember(arguments, prepared)

    def _device(self, arguments: tuple[Any, ...]) -> GPU:
        """The device of the first array that is on one; the first device if none is."""
        if len(arguments) == len(self._steering):
            for value, steers in zip(arguments, self._steering, strict=True):
                value = value.array if isinstance(value, TensorMap) else value
                found = None if steers is not None else foreign.device_of(value)
                if found is not None:
                    return device(found)
        return device()

    @staticmethod
    def _stream_of(arguments: tuple[Any, ...], where: GPU, otherwise: int) -> int:
        """The current stream of the package that an array on the device is from."""
        for value in arguments:
            package = foreign.package_of(type(value))
            if package is not None and foreign.device_of(value) == where.index:
                return package.stream(where.index)
        return otherwise

    @staticmethod
    def _value(bound: Bound, param: ParamSpec) -> Any:
        return bound.symbols[param.name][0] if param.implicit else bound.values[param.name]

    def _find(self, where: GPU, bound: Bound, values: dict[int, Any]) -> Prepared:
        """A call that differs from this one in addresses alone, made if there was none."""
        deciding = [
            values[k]
            for k, param in enumerate(self.params)
            if param.implicit or k in self._plan.steering
        ]
        sizes = [high - low for _, _, (low, high) in bound.buffers]
        key = (where.index, *deciding, *sizes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_PREPARED:
                self._known.clear()
            found = self._known[key] = self._prepare(where, bound, values)
        return found

    def _prepare(self, where: GPU, bound: Bound, values: dict[int, Any]) -> Prepared:
        steering = {k: values[k] for k in self._plan.steering}
        launches = self._plan.launches(steering)
        module = modules.load(where, self.ptx)
        functions = tuple(
            module.function(launch.kernel, launch.dynamic_bytes) for launch in launches.launches
        )
        for launch, function in zip(launches.launches, functions, strict=True):
            self._check_limits(where, launch, function)
        given = {k: values[k] for k, param in enumerate(self.params) if param.implicit}
        packer = Packer(
            where.context, self.params, given, launches, functions, _checks(self.params, bound)
        )
        run = [
            pair for pair in zip(launches.launches, functions, strict=True) if not pair[0].is_empty
        ]
        return Prepared(
            packer, where, pool(where), tuple(p[0] for p in run), tuple(p[1] for p in run)
        )

    def _remember(self, arguments: tuple[Any, ...], prepared: Prepared) -> None:
        key: list[Any] = []
        for value, steers in zip(arguments, self._steering, strict=True):
            kind = type(value)
            if kind is TensorMap:
                continue
            if steers is not None:
                key += (kind, value) if steers else ()
            elif kind is DeviceArray:
                key.append(value.layout)
            else:
                package = self._packages.setdefault(kind, foreign.package_of(kind))
                if package is None:
                    return
                key.append(package.layout(value))
        try:
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            self._prepared[tuple(key)] = prepared
        except TypeError:  # a number that cannot be a key
            return

    # ------------------------------------------------------------------ what goes wrong

    def _check_limits(self, where: GPU, launch: Launch, function: Function) -> None:
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        shared = function.static_bytes + launch.dynamic_bytes
        too_much = [
            (threads > function.max_threads, f"its registers leave room for {function.max_threads}"
             " threads in a block"),
            (any(n > m for n, m in zip(launch.block, where.max_block, strict=True)),
             f"a block has at most {where.max_block} threads"),
            (any(n > m for n, m in zip(launch.grid, where.max_grid, strict=True)),
             f"a grid has at most {where.max_grid} blocks"),
            (shared > where.shared_memory,
             f"a block has at most {show_size(where.shared_memory)} of shared memory"),
        ]  # fmt: skip
        reasons = [text for wrong, text in too_much if wrong]
        if reasons:
            raise LaunchError(f"{self._about(where, launch, function)}: {'; '.join(reasons)}")

    def _about(self, where: GPU, launch: Launch, function: Function) -> str:
        return (
            f"{self.name}: {launch.kernel} cannot be launched on {where} ({where.name}) with grid "
            f"{launch.grid}, block {launch.block} and "
            f"{show_size(function.static_bytes + launch.dynamic_bytes)} of shared memory "
            f"({show_size(launch.dynamic_bytes)} of it dynamic), {function.registers} registers "
            f"and {show_size(function.local_bytes)} of local memory a thread"
        )

    def _fail(self, prepared: Prepared, code: int, failed: int) -> None:
        """Raise for a code of the driver; `failed` is the launch, if it came so far."""
        name = api.code_name(code)
        if name in api.STICKY:
            raise api.lost(name, f"the launch of {self.name}")
        if failed >= len(prepared.launches):
            raise api.error_of(code, f"entering the context of {prepared.device}")
        launch, function = prepared.launches[failed], prepared.functions[failed]
        where = prepared.device
        raise LaunchError(
            f"{self._about(where, launch, function)}: {api.describe(code)}; the device allows "
            f"{where.max_threads} threads and {show_size(where.shared_memory)} of shared memory a "
            f"block, grids up to {where.max_grid}",
            code=name,
        )

    def __repr__(self) -> str:
        inner = ", ".join(f"{p.name}: {p}" for p in self.params if not p.implicit)
        return f"<CudaKernel {self.name}({inner})>"


class DeviceBinder(Binder):
    """Binds the arguments of a call on one device."""

    def __init__(
        self, function: str, params: tuple[ParamSpec, ...], where: GPU, stream: int
    ) -> None:
        super().__init__(function, params)
        self.device, self.stream = where, stream
        self.owners: list[object] = []  # of memory whose package does not know of our stream

    def start(self) -> Bound:
        return _Bound(self)


class _Bound(Bound):
    copy_hint = "a contiguous copy will do: .contiguous() in PyTorch, ascontiguousarray elsewhere"

    def __init__(self, binder: DeviceBinder) -> None:
        super().__init__(binder, {})
        self.binder = binder

    def add_scalar(self, param: ParamSpec, index: int, value: Any) -> None:
        if param.kind != "map":
            super().add_scalar(param, index, value)
            return
        if not isinstance(value, TensorMap):
            self.expected(param, index, f"{type(value).__qualname__}")
        try:
            self.values[param.name] = maps.encoded(value)
        except ArgumentError as error:
            self.expected(param, index, error.message, error.hint)
        if value.array.device is not self.binder.device:
            self.refuse(param, index, f"is on {value.array.device}, not {self.binder.device}")

    def finish(self) -> None:
        """Nothing is laid out here, but extents must fit."""
        for param in self.params:
            if param.implicit:
                self.check_implicit(param)

    def view(self, param: ParamSpec, index: int, value: Any) -> ArrayView:
        where = self.binder.device
        try:
            view = foreign.view_of(value, self.binder.stream)
        except ArgumentError as error:
            hint = "tileloom.runtime.cuda.asarray copies to the GPU"
            in_memory = "CPU" in error.message
            self.expected(param, index, error.message, hint if in_memory else None)
        place, _, number = view.device.partition(":")
        if place not in ("cuda", "cuda-managed"):
            hint = "tileloom.runtime.cuda.asarray copies to the GPU"
            self.expected(param, index, f"one on {view.device}", hint)
        if int(number or 0) != where.index:
            self.refuse(
                param, index, f"is on cuda:{number}, but an argument before it is on {where}"
            )
        if not isinstance(value, DeviceArray) and foreign.package_of(type(value)) is None:
            self.binder.owners.append(view.owner)
        return view


def _checks(params: tuple[ParamSpec, ...], bound: Bound) -> Checks:
    """What must be looked at for every call, though the layouts are known to be good."""
    places = {param.name: k for k, param in enumerate(params)}
    sizes = {param.name: high - low for param, _, (low, high) in bound.buffers}
    for param, _, (low, high) in bound.buffers:
        if low != high and low != bound.values[param.name]:
            raise InternalError(f"{param.name} begins before its address")
    full = [param for param, _, _ in bound.buffers if sizes[param.name]]
    pairs = [(a, b) for a, b in combinations(full, 2) if a.is_written or b.is_written]
    return Checks(
        tuple(places[param.name] for param in full),
        tuple((places[a.name], sizes[a.name], places[b.name], sizes[b.name]) for a, b in pairs),
    )
