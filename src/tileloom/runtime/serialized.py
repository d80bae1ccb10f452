"""A compiled program as data: what is needed, beside its code, to run it again.

It goes to the disk cache as one line of JSON, the bytes of its constants and the code, which only
its device understands. Constants that the caller has anyway (a model's weights) are named by their
digest instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..base.aligned import aligned_zeros
from ..base.dtype import dtype
from ..base.memory import plan_arena
from ..base.panels import pack_panels
from ..base.polynomial import Number, Polynomial, value_of
from .device import Device
from .executable import Array, Executable, HostStep, LaunchStep, NativeStep, Operand, Value
from .params import ParamSpec

#: Programs with more constants of their own than this are not worth a file.
MOST_CONSTANT_BYTES = 16 << 20


class Code(Protocol):
    """The code of a program in this process."""

    @property
    def device(self) -> Device:
        """Where it runs."""

    @property
    def constants(self) -> dict[int, Any]:
        """The program's constants on the device, by slot."""

    @property
    def each_size(self) -> Mapping[str, str]:
        """The kernels that are compiled when sizes are known, and why."""

    def ready(self, number: int, step: Step, sizes: Mapping[str, int]) -> NativeStep | LaunchStep:
        """What runs a step, the one of this number."""


@dataclass(frozen=True)
class SerializedCall:
    """A launch of a kernel, by name; places in the workspace are the numbers of its parts."""

    kernel: str
    operands: tuple[Operand, ...]
    numbers: tuple[int, ...] = ()

    def at(
        self, sizes: Mapping[str, int], places: Mapping[int, int], kernel: str, numbers: Any
    ) -> SerializedCall:
        """The launch for some sizes, of a kernel that takes these numbers."""
        operands = [
            operand._replace(
                place=places[operand.place] if operand.source == "workspace" else operand.place,
                shape=tuple(value_of(n, sizes) for n in operand.shape),
            )
            for operand in self.operands
        ]
        return SerializedCall(kernel, tuple(operands), tuple(value_of(n, sizes) for n in numbers))


@dataclass(frozen=True)
class Step:
    """One step: a native function by name, launches of kernels, or a NumPy function of the host.

    Attributes:
        arena_bytes: the scratch memory of a native function.
        host: of a host step; a function from sizes to that function.
        sizes: the names of the sizes that a native function of a program for many shapes takes
            after the scratch memory, as 32-bit numbers.
        arena: what is laid out in the scratch memory when the sizes are known: bytes, and first
            and last kernel that need it. A native function takes the places after the sizes, then
            the number of all bytes, in 64 bits.
        numbers: the values of all these; empty before the sizes are known.
        calls: the kernels, on a device where they are launched one by one.
    """

    symbol: str
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    arena_bytes: int = 0
    host: Any = None
    sizes: tuple[str, ...] = ()
    arena: tuple[tuple[Number, int, int], ...] = ()
    numbers: tuple[int, ...] = ()
    calls: tuple[SerializedCall, ...] = ()

    def at(self, program: SerializedExecutable, sizes: Mapping[str, int]) -> Step:
        """The step for some sizes."""
        if self.host is not None:
            step = replace(self, host=self.host(sizes))
        elif self.sizes or self.calls:
            step = self._laid_out(program, sizes)
        else:
            return self
        reads, writes = (tuple(_at(v, sizes) for v in part) for part in (self.reads, self.writes))
        return replace(step, reads=reads, writes=writes)

    def _laid_out(self, program: SerializedExecutable, sizes: Mapping[str, int]) -> Step:
        bytes_ = {k: value_of(size, sizes) for k, (size, _, _) in enumerate(self.arena)}
        lifetimes = {k: (first, last) for k, (_, first, last) in enumerate(self.arena)}
        places, total = plan_arena(bytes_, lifetimes)
        own = [sizes[name] for name in self.sizes]
        numbers = (*own, *(places[k] for k in range(len(places))), total)
        taken = program.dispatch(sizes) if self.calls else {}
        calls = []
        for call in self.calls:
            kernel = taken.get(call.kernel, call.kernel)
            calls.append(call.at(sizes, places, kernel, program.numbers.get(kernel, ())))
        return replace(self, arena_bytes=total, numbers=numbers, calls=tuple(calls))


@dataclass(frozen=True, eq=False)
class Panels:
    """A constant that is another one, `matrix`, laid out as panels; see `base.panels`."""

    array: Array
    matrix: Array
    how: Sequence[Any]  # the other arguments of `pack_panels`


@dataclass(frozen=True)
class SerializedExecutable:
    """A program without its code.

    Attributes:
        inputs: name and value of each; input k is in slot k.
        constants: arrays by slot.
        symbols: arrays by the symbol under which the code finds them.
        panels: what is known about constants that were made from others.
        replaced: the input whose new value an output is, by their positions.
        guards: of a program for many shapes: what must not be negative.
        buckets: of such a program: for each kernel those that it chooses from, with what must not
            be negative for each; the first for which that holds is called.
        numbers: what kernels that a device launches take after arrays, by their names.
    """

    name: str
    inputs: tuple[tuple[str, Value], ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    constants: Mapping[int, Array] = field(default_factory=dict)
    symbols: Mapping[str, Array] = field(default_factory=dict)
    panels: Sequence[Panels] = ()
    replaced: Mapping[int, int] = field(default_factory=dict)
    guards: tuple[Polynomial, ...] = ()
    buckets: Mapping[str, Sequence[tuple[str, Sequence[Polynomial]]]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)

    def at(self, sizes: Mapping[str, int]) -> SerializedExecutable:
        """The program for some sizes, none where it has known shapes."""
        return replace(
            self,
            inputs=tuple((name, _at(value, sizes)) for name, value in self.inputs),
            outputs=tuple(_at(value, sizes) for value in self.outputs),
            steps=tuple(step.at(self, sizes) for step in self.steps),
        )

    def dispatch(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """For each kernel the one of its buckets that is called for these sizes."""
        return {
            name: next(
                kernel
                for kernel, predicates in buckets
                if all(predicate.value(sizes) >= 0 for predicate in predicates)
            )
            for name, buckets in self.buckets.items()
        }

    def executable(self, code: Code, sizes: Mapping[str, int]) -> Executable:
        """The program, ready to be called.

        Needs: `at` for these sizes.
        """
        return Executable(
            self.name,
            [parameter(name, value) for name, (_, value) in zip(self.names, self.inputs)],
            self.outputs,
            [
                code.ready(k, step, sizes)
                if step.host is None
                else HostStep(step.host, step.reads, step.writes)
                for k, step in enumerate(self.steps)
            ],
            dict(code.constants),
            self.replaced,
            code.device,
        )

    @property
    def names(self) -> list[str]:
        """What errors call the inputs."""
        return [name or f"argument{k}" for k, (name, _) in enumerate(self.inputs)]

    # ------------------------------------------------------------------ as bytes

    def to_bytes(self, digests: Mapping[int, str], code: bytes) -> bytes | None:
        """The program and its code, or None if it cannot be kept.

        Args:
            digests: of constants that the reader will have, by the array's identity.
            code: as its device writes it; empty if there is none.
        """
        own: list[Array] = []
        panels = {id(each.array): each for each in self.panels if id(each.matrix) in digests}

        def constant(array: Array) -> Any:
            if id(array) in digests:
                return digests[id(array)]
            if (made := panels.get(id(array))) is not None:
                return ["panels", digests[id(made.matrix)], *made.how]
            own.append(array)
            return [str(dtype(array.dtype)), array.shape]

        header = {
            "name": self.name,
            "inputs": [[name, _plain(value)] for name, value in self.inputs],
            "outputs": [_plain(value) for value in self.outputs],
            "steps": [_plain_step(step) for step in self.steps],
            "constants": [[slot, constant(array)] for slot, array in self.constants.items()],
            "symbols": [[name, constant(array)] for name, array in self.symbols.items()],
            "replaced": list(self.replaced.items()),
            "guards": [guard.plain() for guard in self.guards],
            "buckets": [
                [name, [[kernel, [p.plain() for p in predicates]] for kernel, predicates in choice]]
                for name, choice in self.buckets.items()
            ],
            "numbers": [
                [name, list(map(plain_number, numbers))] for name, numbers in self.numbers.items()
            ],
        }
        too_large = sum(array.nbytes for array in own) > MOST_CONSTANT_BYTES
        if too_large or any(step.host is not None for step in self.steps):
            return None
        blobs = b"".join(np.ascontiguousarray(array).tobytes() for array in own)
        return json.dumps(header).encode() + b"\n" + blobs + code

    @staticmethod
    def from_bytes(data: bytes, given: Mapping[str, Array]) -> tuple[SerializedExecutable, bytes]:
        """The program and the code in what `to_bytes` made; `given` is by digest."""
        end = data.index(b"\n")
        header = json.loads(data[:end])
        offset = end + 1

        def constant(about: Any) -> Array:
            nonlocal offset
            if isinstance(about, str):
                return given[about]
            if about[0] == "panels":
                matrix = given[about[1]]
                return pack_panels(matrix.reshape(matrix.shape[-2:]), *about[2:])
            kind, shape = dtype(about[0]), tuple(about[1])
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(data, kind.numpy, count, offset).reshape(shape)
            offset += array.nbytes
            own = aligned_zeros(shape, kind.numpy)
            own[...] = array
            return own

        constants = {slot: constant(about) for slot, about in header["constants"]}
        symbols = {name: constant(about) for name, about in header["symbols"]}
        program = SerializedExecutable(
            header["name"],
            tuple((name, _value(value)) for name, value in header["inputs"]),
            tuple(map(_value, header["outputs"])),
            tuple(map(_step, header["steps"])),
            constants,
            symbols,
            replaced=dict(header["replaced"]),
            guards=tuple(map(_polynomial, header["guards"])),
            buckets={
                name: [(kernel, list(map(_polynomial, plain))) for kernel, plain in choice]
                for name, choice in header["buckets"]
            },
            numbers={name: tuple(map(_polynomial, plain)) for name, plain in header["numbers"]},
        )
        return program, data[offset:]


def digest(array: Array) -> str:
    """A string that differs whenever the type, the shape or an element does."""
    compact = np.ascontiguousarray(array)
    made = hashlib.sha256(f"{dtype(array.dtype)}{array.shape}".encode())
    made.update(compact.reshape(-1).view(np.uint8).data)
    return made.hexdigest()


def _plain(value: Value | Operand) -> list[Any]:
    number = value.slot if isinstance(value, Value) else value.place
    return [number, [plain_number(n) for n in value.shape], str(value.dtype)]


def _polynomial(plain: Any) -> Any:
    return Polynomial.of(plain)


def plain_number(number: Number) -> Any:
    """A number as JSON has it; `Polynomial.of` reads it."""
    return number.plain() if isinstance(number, Polynomial) else number


def _value(plain: Sequence[Any]) -> Value:
    return Value(plain[0], tuple(map(Polynomial.of, plain[1])), dtype(plain[2]))  # type: ignore[arg-type]


def _operand(plain: Sequence[Any]) -> Operand:
    source, *value = plain
    found = _value(value)
    return Operand(source, found.slot, found.shape, found.dtype)


def _at(value: Value, sizes: Mapping[str, int]) -> Value:
    return Value(value.slot, tuple(value_of(n, sizes) for n in value.shape), value.dtype)


def _plain_step(step: Step) -> list[Any]:
    reads, writes = (list(map(_plain, part)) for part in (step.reads, step.writes))
    arena = [[plain_number(size), *life] for size, *life in step.arena]
    calls = [[call.kernel, [[o.source, *_plain(o)] for o in call.operands]] for call in step.calls]
    return [step.symbol, reads, writes, step.arena_bytes, step.sizes, arena, calls]


def _step(plain: Sequence[Any]) -> Step:
    symbol, reads, writes, arena_bytes, sizes, arena, calls = plain
    return Step(
        symbol,
        tuple(map(_value, reads)),
        tuple(map(_value, writes)),
        arena_bytes,
        sizes=tuple(sizes),
        arena=tuple((Polynomial.of(size), *life) for size, *life in arena),
        calls=tuple(
            SerializedCall(kernel, tuple(map(_operand, operands))) for kernel, operands in calls
        ),
    )


def parameter(name: str, value: Value, access: Any = "r") -> ParamSpec:
    """A value as what checks arguments takes it; open extents by their expressions."""
    extents: Sequence[Any] = value.shape
    shape = tuple(str(n) if isinstance(n, Polynomial) else n for n in extents)
    return ParamSpec(name, "buffer", value.dtype, shape, access=access)
