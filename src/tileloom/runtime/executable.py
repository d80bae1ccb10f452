"""Programs of several kernels: segments on a device and steps on the host over shared tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.cached import cached_property
from ..base.dtype import DType, dtype
from ..base.errors import ArgumentError
from .arrays import as_numpy
from .device import HOST, Device
from .kernel import Kernel
from .params import ParamSpec
from .pool import pool

Array = np.ndarray[Any, Any]
_BYTE = dtype("uint8")
Host = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Value:
    """A tensor that crosses segments: number `slot` of the program.

    In a program for many shapes the extents are size expressions (`base.polynomial`).
    """

    slot: int
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class NativeStep:
    """A kernel over slots; after them it takes scratch memory of so many bytes, then numbers."""

    kernel: Kernel
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    arena_bytes: int
    numbers: tuple[int, ...] = ()

    @property
    def numbers_passed(self) -> tuple[int, ...]:
        """The numbers that the kernel does not find in shapes."""
        params = self.kernel.params[len(self.kernel.params) - len(self.numbers) :]
        pairs = zip(self.numbers, params, strict=True)
        return tuple(number for number, param in pairs if not param.implicit)

    @cached_property
    def numbers_in_memory(self) -> Array:
        """The numbers where pointers to them can be given."""
        return np.array(self.numbers, np.int64)

    def launch(self, arrays: Sequence[Array]) -> None:
        """Run on what it reads, writes, and its scratch memory, unchecked."""
        places = [a.ctypes.data for a in arrays]
        if self.numbers:
            numbers = self.numbers_in_memory
            places += [numbers.ctypes.data + 8 * k for k in range(len(numbers))]
        pointers = (ctypes.c_void_p * len(places))(*places)
        self.kernel.launch(ctypes.addressof(pointers))


class Operand(NamedTuple):
    """An argument of a kernel that a device launches.

    Attributes:
        source: "value": what a step reads, then what it writes; "workspace": an array in its
            scratch memory; "constant": one of the program's.
        place: its number; in the workspace its offset, once that is known.
    """

    source: str
    place: int
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class BoundLaunch:
    """A kernel with its arguments: arrays, then numbers."""

    kernel: Callable[..., Any]
    operands: tuple[Operand, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class LaunchStep:
    """Kernels that a device launches one after another over slots and its workspace."""

    launches: tuple[BoundLaunch, ...]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    arena_bytes: int
    constants: Sequence[Any]
    device: Device

    def launch(self, arrays: Sequence[Any]) -> None:
        """Run on what it reads, writes, and its scratch memory."""
        *values, workspace = arrays
        for launch in self.launches:
            given = [self._array(operand, values, workspace) for operand in launch.operands]
            launch.kernel(*given, *launch.numbers)

    def _array(self, operand: Operand, values: Sequence[Any], workspace: Any) -> Any:
        place, shape = operand.place, operand.shape
        if operand.source == "workspace":
            return self.device.part(workspace, place, shape, operand.dtype)
        array = (values if operand.source == "value" else self.constants)[place]
        return array if tuple(array.shape) == shape else array.reshape(shape)


@dataclass(frozen=True)
class HostStep:
    """A NumPy function from slots to slots."""

    function: Host
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]


class Executable:
    """A compiled program: called with arrays, it returns new arrays.

    Args:
        name: what errors call it.
        inputs: what it takes, in order; slot k holds input k.
        outputs: which slots it returns, seen with which shapes.
        steps: in the order in which they run.
        constants: arrays by slot.
        replaced: the input whose new value an output is, by their positions. The input's array
            is changed when everything has been read, and returned as the output. Steps may
            write to the slot of such an input.
        device: where the kernels run. Results stay there if an argument lies in its own memory.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[ParamSpec],
        outputs: Sequence[Value],
        steps: Sequence[NativeStep | LaunchStep | HostStep],
        constants: dict[int, Any],
        replaced: Mapping[int, int] | None = None,
        device: Device = HOST,
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.steps = tuple(steps)
        self.device = device
        self._constants = constants
        self._replaced = dict(replaced or {})
        self._changed = sorted(
            {v.slot for step in self.steps for v in step.writes} & set(range(len(self.inputs)))
        )
        self._given = {*range(len(self.inputs)), *constants}
        self._check = device.checker(name, self.inputs)
        self._dead = self._last_uses()
        self._only = self._only_step()
        self._quick = self._only if self._only and self._is_plain(self._only) else None
        makers = self._only.writes if self._only else ()
        count = len(self.inputs)
        fresh = [value for value in makers if value.slot >= count]
        self._allocate = {v.slot: pool.allocator(v.shape, v.dtype) for v in fresh}
        self._arena = _scratch(self._only.arena_bytes if self._only else 0)
        self._numbers = self._only.numbers_passed if self._only else ()
        # The shapes of outputs that their step writes in another shape.
        outputs = self.outputs if self._only else ()
        shapes = [None if value in makers else value.shape for value in outputs]
        self._shapes = shapes if any(shape is not None for shape in shapes) else None

    def _only_step(self) -> NativeStep | None:
        """The one native step, if it checks all inputs and makes all outputs."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], NativeStep):
            return None
        step, count = self.steps[0], len(self.inputs)
        reads, writes = ([value.slot for value in part] for part in (step.reads, step.writes))
        outputs = [value.slot for value in self.outputs]
        changed = [slot for slot in writes if slot < count]
        if sorted([*reads, *changed]) != list(range(count)) or len(set(outputs)) < len(outputs):
            return None
        written = {value.slot: value for value in step.writes}
        for value in self.outputs:
            own = written.get(value.slot)
            if own is None or own.dtype != value.dtype or (value.slot < count and own != value):
                return None
        in_place = {k: slot for k, slot in enumerate(outputs) if slot < count}
        return step if in_place == self._replaced else None

    def _is_plain(self, step: NativeStep) -> bool:
        """Whether a step takes the inputs and makes the outputs as they are."""
        as_given = [value.slot for value in step.reads] == list(range(len(self.inputs)))
        return as_given and [v.slot for v in step.writes] == [v.slot for v in self.outputs]

    @property
    def single(self) -> Callable[..., Array]:
        """The program as a function that returns its first output alone.

        Made for each caller: kept here it would be a cycle, and constants wait for the collector.
        """
        if self._quick is None or len(self._allocate) != 1:
            return lambda *arrays: self(*arrays)[0]
        kernel, arena, numbers = self._quick.kernel.__call__, self._arena, self._numbers
        (allocate,) = self._allocate.values()
        (shape,) = self._shapes or (None,)

        def single(*arrays: Any) -> Array:
            result, scratch = allocate(), arena()
            try:
                kernel(*arrays, result, scratch, *numbers)
            except ArgumentError:
                kernel(*self._compact(arrays), result, scratch, *numbers)
            return result if shape is None else result.reshape(shape)

        return single

    def _last_uses(self) -> list[list[int]]:
        """For each step the slots that nothing needs after it."""
        kept = {value.slot for value in self.outputs} | set(self._constants)
        dead: list[list[int]] = []
        for step in reversed(self.steps):
            last = {value.slot for value in (*step.reads, *step.writes)} - kept
            dead.append(sorted(last))
            kept |= last
        return dead[::-1]

    def __call__(self, *arrays: Any) -> list[Array]:
        """The outputs for these inputs.

        Raises:
            ArgumentError: an argument has the wrong type, shape or device.
        """
        step = self._quick
        if step is None:
            return self._launch(arrays) if self._only else self._any(arrays)
        results = [allocate() for allocate in self._allocate.values()]
        arena = self._arena()
        try:
            step.kernel(*arrays, *results, arena, *self._numbers)
        except ArgumentError:
            step.kernel(*self._compact(arrays), *results, arena, *self._numbers)
        return self._shaped(results)

    def _shaped(self, results: list[Array]) -> list[Array]:
        """The outputs in their own shapes."""
        if self._shapes is None:
            return results
        return [
            array if shape is None else array.reshape(shape)
            for array, shape in zip(results, self._shapes, strict=True)
        ]

    def _launch(self, arrays: Sequence[Any]) -> list[Array]:
        """The one native step, on inputs and outputs in its own order."""
        step, count = self._only, len(self.inputs)
        if step is None or len(arrays) != count:
            return self._any(arrays)
        made = [
            arrays[value.slot] if value.slot < count else self._allocate[value.slot]()
            for value in step.writes
        ]
        try:
            given = (arrays[value.slot] for value in step.reads)
            step.kernel(*given, *made, self._arena(), *self._numbers)
        except ArgumentError:
            return self._any(arrays)
        places = {value.slot: array for value, array in zip(step.writes, made, strict=True)}
        return self._shaped([as_numpy(places[value.slot]) for value in self.outputs])

    def _any(self, arrays: Sequence[Any]) -> list[Any]:
        """Any program, on any arrays."""
        with self.device.running(arrays):
            compact = self._compact(arrays)
            results = self._replace(arrays, compact) if self._replaced else self._run(compact)
            if self.device.keeps_results(arrays):
                return results
            return [self.device.to_host(result) for result in results]

    def _compact(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs as row-major arrays of the device, copied where they are not that."""
        if len(arrays) != len(self.inputs):
            self._check(tuple(arrays))
        if not arrays:
            return []
        compact = [self.device.take(array) for array in arrays]
        self._check(tuple(compact))
        return compact

    def _replace(self, arrays: Sequence[Any], compact: list[Any]) -> list[Any]:
        """Run, and let the inputs that are replaced have their new values."""
        device = self.device
        given = {k: device.borrow(arrays[k]) for k in self._replaced.values()}
        for k in given:
            if not device.is_writable(arrays[k]):
                raise ArgumentError(
                    f"{self.name}: {self.inputs[k].name!r} is written, and read-only"
                )
        for k in self._changed:
            others = (array for j, array in enumerate(compact) if j != k)
            if any(device.overlap(compact[k], other) for other in others):
                compact[k] = device.copy(compact[k])
        results = self._run(compact)
        for output, k in self._replaced.items():
            if results[output] is not given[k]:
                device.assign(given[k], results[output])
                results[output] = given[k]
        return results

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        slots: dict[int, Any] = dict(self._constants)
        slots.update(enumerate(arrays))
        for step, dead in zip(self.steps, self._dead, strict=True):
            given = [slots[value.slot].reshape(value.shape) for value in step.reads]
            if isinstance(step, HostStep):
                made = self._made_by_host(step, given)
            else:
                made = [self._place(value, slots) for value in step.writes]
                step.launch([*given, *made, self.device.empty((step.arena_bytes,), _BYTE)])
            slots.update((v.slot, a) for v, a in zip(step.writes, made, strict=True))
            for slot in dead:
                del slots[slot]
        return self._results(slots)

    def _made_by_host(self, step: HostStep, given: Sequence[Any]) -> list[Any]:
        """What a NumPy function returns, laid out as promised and in memory of its own."""
        read = [self.device.to_host(array) for array in given]
        made: list[Array] = []
        for value, result in zip(step.writes, step.function(read), strict=True):
            array = np.ascontiguousarray(result, dtype=value.dtype.numpy).reshape(value.shape)
            if any(np.may_share_memory(array, other) for other in (*read, *made)):
                array = array.copy()
            made.append(array)
        return [self.device.take(array) for array in made]

    def _place(self, value: Value, slots: Mapping[int, Any]) -> Any:
        """Where a step writes a value: new memory, or that of the input that it replaces."""
        if value.slot < len(self.inputs):
            return slots[value.slot].reshape(value.shape)
        return self.device.empty(value.shape, value.dtype)

    def _results(self, slots: dict[int, Any]) -> list[Any]:
        """Fresh arrays: an output that is an input, a constant or another output is copied."""
        shared = self._given.copy()
        results = []
        for k, value in enumerate(self.outputs):
            array = slots[value.slot].reshape(value.shape)
            own = self._replaced.get(k) == value.slot
            if own:
                array = slots[value.slot]
            elif value.slot in shared:
                array = self.device.copy(array)
            shared.add(value.slot)
            results.append(array)
        return results


def _scratch(size: int) -> Callable[[], Array]:
    """What gives scratch memory of so many bytes; nothing at all can be shared."""
    if size:
        return pool.allocator((size,), _BYTE)
    nothing = np.empty(0, np.uint8)
    return lambda: nothing
