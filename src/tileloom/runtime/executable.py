"""Programs of several kernels: native segments and host steps over shared tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.dtype import DType, dtype
from ..base.errors import ArgumentError
from .arrays import as_numpy
from .check import Binder
from .kernel import Kernel
from .params import ParamSpec
from .pool import empty, pool

Array = np.ndarray[Any, Any]
_BYTE = dtype("uint8")
Host = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Value:
    """A tensor that crosses segments: number `slot` of the program.

    In a program for many shapes the extents are formulas (`base.polynomial`).
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
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[ParamSpec],
        outputs: Sequence[Value],
        steps: Sequence[NativeStep | HostStep],
        constants: dict[int, Array],
        replaced: Mapping[int, int] | None = None,
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.steps = tuple(steps)
        self._constants = constants
        self._replaced = dict(replaced or {})
        self._changed = sorted(
            {v.slot for step in self.steps for v in step.writes} & set(range(len(self.inputs)))
        )
        self._binder = Binder(name, self.inputs)
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

    def _any(self, arrays: Sequence[Any]) -> list[Array]:
        """Any program, on any arrays."""
        return self._replace(arrays) if self._replaced else self._run(self._compact(arrays))

    def _compact(self, arrays: Sequence[Any]) -> list[Array]:
        """The inputs as row-major NumPy arrays, copied where they are laid out otherwise."""
        if len(arrays) != len(self.inputs):
            self._binder.bind(tuple(arrays))
        compact = [np.require(as_numpy(a), requirements=("C", "A")) for a in arrays]
        self._binder.bind(tuple(compact))
        return compact

    def _replace(self, arrays: Sequence[Any]) -> list[Array]:
        """Run, and let the inputs that are replaced have their new values."""
        compact = self._compact(arrays)
        given = [as_numpy(array) for array in arrays]
        for k in self._replaced.values():
            if not given[k].flags.writeable:
                raise ArgumentError(
                    f"{self.name}: {self.inputs[k].name!r} is written, and read-only"
                )
        for k in self._changed:
            others = (array for j, array in enumerate(compact) if j != k)
            if any(np.may_share_memory(compact[k], other) for other in others):
                compact[k] = compact[k].copy()
        results = self._run(compact)
        for output, k in self._replaced.items():
            if results[output] is not given[k]:
                given[k][...] = results[output]
                results[output] = given[k]
        return results

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        slots: dict[int, Array] = dict(self._constants)
        slots.update(enumerate(arrays))
        for step, dead in zip(self.steps, self._dead, strict=True):
            given = [slots[value.slot].reshape(value.shape) for value in step.reads]
            if isinstance(step, HostStep):
                made = _made_by_host(step, given)
            else:
                made = [self._place(value, slots) for value in step.writes]
                held = [*given, *made, empty((step.arena_bytes,), "uint8")]
                places = [a.ctypes.data for a in held]
                if step.numbers:
                    numbers = step.numbers_in_memory
                    places += [numbers.ctypes.data + 8 * k for k in range(len(numbers))]
                pointers = (ctypes.c_void_p * len(places))(*places)
                step.kernel.launch(ctypes.addressof(pointers))
            slots.update((v.slot, a) for v, a in zip(step.writes, made, strict=True))
            for slot in dead:
                del slots[slot]
        return self._results(slots, len(arrays))

    def _place(self, value: Value, slots: Mapping[int, Array]) -> Array:
        """Where a step writes a value: new memory, or that of the input that it replaces."""
        if value.slot < len(self.inputs):
            return slots[value.slot].reshape(value.shape)
        return empty(value.shape, value.dtype)

    def _results(self, slots: dict[int, Array], inputs: int) -> list[Array]:
        """Fresh arrays: an output that is an input, a constant or another output is copied."""
        shared = set(range(inputs)) | set(self._constants)
        results = []
        for k, value in enumerate(self.outputs):
            array = slots[value.slot].reshape(value.shape)
            own = self._replaced.get(k) == value.slot
            if own:
                array = slots[value.slot]
            elif value.slot in shared:
                copy = empty(value.shape, value.dtype)
                copy[...] = array
                array = copy
            shared.add(value.slot)
            results.append(array)
        return results


def _scratch(size: int) -> Callable[[], Array]:
    """What gives scratch memory of so many bytes; nothing at all can be shared."""
    if size:
        return pool.allocator((size,), _BYTE)
    nothing = np.empty(0, np.uint8)
    return lambda: nothing


def _made_by_host(step: HostStep, given: Sequence[Array]) -> list[Array]:
    """What a NumPy function returns, laid out as promised and in memory of its own."""
    made: list[Array] = []
    for value, result in zip(step.writes, step.function(given), strict=True):
        array = np.ascontiguousarray(result, dtype=value.dtype.numpy).reshape(value.shape)
        if any(np.may_share_memory(array, other) for other in (*given, *made)):
            array = array.copy()
        made.append(array)
    return made
