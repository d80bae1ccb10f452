"""A compiled program as data: what is needed, beside machine code, to run it again.

A recipe goes to the disk cache as one line of JSON, the bytes of its constants and the object
file. Constants that the caller has anyway (a model's weights) are named by their digest instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.aligned import aligned_zeros
from ..base.dtype import dtype
from ..base.errors import InternalError
from ..base.faults import FAULTS
from ..base.memory import plan_arena
from ..base.panels import pack_panels
from ..base.polynomial import Number, Polynomial, value_of
from .elf import LoadedObject
from .executable import Array, Executable, HostStep, NativeStep, Value
from .kernel import Kernel
from .params import ParamSpec

#: Programs with more constants of their own than this are not worth a file.
MOST_CONSTANT_BYTES = 16 << 20


@dataclass(frozen=True)
class Step:
    """One step: a native function by name, or a NumPy function of the host.

    Attributes:
        arena_bytes: the scratch memory of a native function.
        sizes: the names of the sizes that a native function of a program for many shapes takes
            after the scratch memory, as 32-bit numbers.
        arena: what is laid out in that function's scratch memory when the sizes are known: bytes,
            and first and last kernel that need it. The places follow the sizes, then the number
            of all bytes, in 64 bits.
        numbers: the values of all these; None before the sizes are known.
        host: of a host step; for many shapes a function from sizes to that function.
    """

    symbol: str
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    arena_bytes: int = 0
    host: Any = None
    sizes: tuple[str, ...] = ()
    arena: tuple[tuple[Number, int, int], ...] = ()
    numbers: tuple[int, ...] = ()

    def at(self, sizes: Mapping[str, int]) -> Step:
        """The step for some sizes."""
        reads, writes = (tuple(_at(v, sizes) for v in part) for part in (self.reads, self.writes))
        if self.host is not None:
            return replace(self, reads=reads, writes=writes, host=self.host(sizes))
        bytes_ = {k: value_of(size, sizes) for k, (size, _, _) in enumerate(self.arena)}
        lifetimes = {k: (first, last) for k, (_, first, last) in enumerate(self.arena)}
        places, total = plan_arena(bytes_, lifetimes)
        own = [sizes[name] for name in self.sizes]
        numbers = (*own, *(places[k] for k in range(len(places))), total)
        return replace(self, reads=reads, writes=writes, arena_bytes=total, numbers=numbers)


@dataclass(frozen=True, eq=False)
class Panels:
    """A constant that is another one, `matrix`, laid out as panels; see `base.panels`."""

    array: Array
    matrix: Array
    how: Sequence[Any]  # the other arguments of `pack_panels`


@dataclass(frozen=True)
class Recipe:
    """A program without its code.

    Attributes:
        inputs: name and value of each; input k is in slot k.
        constants: arrays by slot.
        symbols: arrays by the symbol under which the code finds them.
        needs_threads: whether the code calls the runtime of parallel loops.
        panels: what is known about constants that were made from others.
        replaced: the input whose new value an output is, by their positions.
        guards: of a program for many shapes: what must not be negative.
        assertions: what the code says when it ends early, by number.
        buckets: of such a program: for each kernel those that it chooses from, with what must not
            be negative for each; the first for which that holds is called.
    """

    name: str
    inputs: tuple[tuple[str, Value], ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    constants: Mapping[int, Array] = field(default_factory=dict)
    symbols: Mapping[str, Array] = field(default_factory=dict)
    needs_threads: bool = False
    panels: Sequence[Panels] = ()
    replaced: Mapping[int, int] = field(default_factory=dict)
    guards: tuple[Polynomial, ...] = ()
    buckets: Mapping[str, Sequence[tuple[str, Sequence[Polynomial]]]] = field(default_factory=dict)
    assertions: tuple[str, ...] = ()

    def at(self, sizes: Mapping[str, int]) -> Recipe:
        """The program for some sizes, where it is one for many shapes."""
        return replace(
            self,
            inputs=tuple((name, _at(value, sizes)) for name, value in self.inputs),
            outputs=tuple(_at(value, sizes) for value in self.outputs),
            steps=tuple(step.at(sizes) for step in self.steps),
        )

    def kernels(self, code: LoadedObject | None) -> list[Kernel | None]:
        """The native function of each step; those for many shapes check what formulas say."""
        keep = (code, self.symbols)
        return [_kernel(step, code, keep, self._names, self.assertions) for step in self.steps]

    def executable(
        self, code: LoadedObject | None, kernels: Sequence[Kernel | None] | None = None
    ) -> Executable:
        """The program, ready to be called.

        Args:
            kernels: made before for these steps, perhaps before the sizes were known.
        """
        found = self.kernels(code) if kernels is None else kernels
        pairs = zip(self._names, self.inputs, strict=True)
        return Executable(
            self.name,
            [_param(name, value) for name, (_, value) in pairs],
            self.outputs,
            [_ready(step, kernel) for step, kernel in zip(self.steps, found, strict=True)],
            dict(self.constants),
            self.replaced,
        )

    @property
    def _names(self) -> list[str]:
        return [name or f"argument{k}" for k, (name, _) in enumerate(self.inputs)]

    # ------------------------------------------------------------------ as bytes

    def to_bytes(self, digests: Mapping[int, str], code: bytes) -> bytes | None:
        """The recipe and its code, or None if it cannot be kept.

        Args:
            digests: of constants that the reader will have, by the array's identity.
            code: the object file; empty if there is none.
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
            "needs_threads": self.needs_threads,
            "replaced": list(self.replaced.items()),
            "guards": [guard.plain() for guard in self.guards],
            "buckets": [
                [name, [[kernel, [p.plain() for p in predicates]] for kernel, predicates in choice]]
                for name, choice in self.buckets.items()
            ],
            "assertions": self.assertions,
        }
        too_large = sum(array.nbytes for array in own) > MOST_CONSTANT_BYTES
        if too_large or any(step.host is not None for step in self.steps):
            return None
        blobs = b"".join(np.ascontiguousarray(array).tobytes() for array in own)
        return json.dumps(header).encode() + b"\n" + blobs + code

    @staticmethod
    def from_bytes(data: bytes, given: Mapping[str, Array]) -> tuple[Recipe, bytes]:
        """The recipe and the object file in what `to_bytes` made; `given` is by digest."""
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
        recipe = Recipe(
            header["name"],
            tuple((name, _value(value)) for name, value in header["inputs"]),
            tuple(map(_value, header["outputs"])),
            tuple(map(_step, header["steps"])),
            constants,
            symbols,
            header["needs_threads"],
            replaced=dict(header["replaced"]),
            guards=tuple(map(_formula, header["guards"])),
            buckets={
                name: [(kernel, list(map(_formula, plain))) for kernel, plain in choice]
                for name, choice in header["buckets"]
            },
            assertions=tuple(header["assertions"]),
        )
        return recipe, data[offset:]


def digest(array: Array) -> str:
    """A string that differs whenever the type, the shape or an element does."""
    compact = np.ascontiguousarray(array)
    made = hashlib.sha256(f"{dtype(array.dtype)}{array.shape}".encode())
    made.update(compact.reshape(-1).view(np.uint8).data)
    return made.hexdigest()


def _plain(value: Value) -> list[Any]:
    return [value.slot, [_plain_number(n) for n in value.shape], str(value.dtype)]


def _formula(plain: Any) -> Any:
    return Polynomial.of(plain)


def _plain_number(number: Any) -> Any:
    return number.plain() if isinstance(number, Polynomial) else number


def _value(plain: Sequence[Any]) -> Value:
    return Value(plain[0], tuple(map(Polynomial.of, plain[1])), dtype(plain[2]))  # type: ignore[arg-type]


def _at(value: Value, sizes: Mapping[str, int]) -> Value:
    return Value(value.slot, tuple(value_of(n, sizes) for n in value.shape), value.dtype)


def _plain_step(step: Step) -> list[Any]:
    reads, writes = (list(map(_plain, part)) for part in (step.reads, step.writes))
    arena = [[_plain_number(size), *life] for size, *life in step.arena]
    return [step.symbol, reads, writes, step.arena_bytes, step.sizes, arena]


def _step(plain: Sequence[Any]) -> Step:
    symbol, reads, writes, arena_bytes, sizes, arena = plain
    return Step(
        symbol,
        tuple(map(_value, reads)),
        tuple(map(_value, writes)),
        arena_bytes,
        sizes=tuple(sizes),
        arena=tuple((Polynomial.of(size), *life) for size, *life in arena),
    )


def _param(name: str, value: Value, access: Any = "r") -> ParamSpec:
    extents: Sequence[Any] = value.shape
    shape = tuple(str(n) if isinstance(n, Polynomial) else n for n in extents)
    return ParamSpec(name, "buffer", value.dtype, shape, access=access)


#: The name of the scratch memory's size where it depends on others.
_ARENA_BYTES = "arena bytes"


def _kernel(
    step: Step,
    code: LoadedObject | None,
    keep: object,
    names: Sequence[str],
    assertions: Sequence[str],
) -> Kernel | None:
    if step.host is not None:
        return None
    if code is None:
        raise InternalError(f"there is no code for the step {step.symbol}")
    params = [
        _param(names[v.slot] if v.slot < len(names) else f"value{v.slot}", v) for v in step.reads
    ]
    params += [_param(f"output{k}", value, "w") for k, value in enumerate(step.writes)]
    room = _ARENA_BYTES if step.sizes else step.arena_bytes
    params.append(ParamSpec("arena", "buffer", dtype("uint8"), (room,), access="w"))
    if step.sizes:
        # Sizes that are extents of arrays are read off those.
        known = {extent for param in params for extent in param.shape}
        numbers = [(name, "int32") for name in step.sizes]
        numbers += [(f"place {k}", "int64") for k in range(len(step.arena))]
        numbers.append((_ARENA_BYTES, "int64"))
        params += [
            ParamSpec(name, "scalar", dtype(kind), implicit=name in known) for name, kind in numbers
        ]
    address, faults = code.address(f"{step.symbol}__packed"), code.find(FAULTS)
    return Kernel(step.symbol, address, params, keep, assertions, faults)


def _ready(step: Step, kernel: Kernel | None) -> NativeStep | HostStep:
    if kernel is None:
        return HostStep(step.host, step.reads, step.writes)
    return NativeStep(kernel, step.reads, step.writes, step.arena_bytes, step.numbers)
