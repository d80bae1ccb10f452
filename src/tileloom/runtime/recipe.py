"""A compiled program as data: what is needed, beside machine code, to run it again.

A recipe goes to the disk cache as one line of JSON, the bytes of its constants and the object
file. Constants that the caller has anyway (a model's weights) are named by their digest instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.dtype import DType, dtype
from ..base.errors import InternalError
from ..base.panels import pack_panels
from .elf import LoadedObject
from .executable import Array, Executable, Host, HostStep, NativeStep, Value
from .kernel import Kernel
from .params import ParamSpec

#: Programs with more constants of their own than this are not worth a file.
MOST_CONSTANT_BYTES = 16 << 20


@dataclass(frozen=True)
class Step:
    """One step: a native function by name, or a NumPy function of the host."""

    symbol: str
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    arena_bytes: int = 0
    host: Host | None = None


@dataclass(frozen=True, eq=False)
class Panels:
    """A constant that is another one, `matrix`, laid out as panels; see `base.panels`."""

    array: Array
    matrix: Array
    transposed: bool
    width: int


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

    def executable(self, code: LoadedObject | None) -> Executable:
        """The program, ready to be called."""
        names = [name or f"argument{k}" for k, (name, _) in enumerate(self.inputs)]
        keep = (code, self.symbols)
        return Executable(
            self.name,
            [_param(name, value) for name, (_, value) in zip(names, self.inputs, strict=True)],
            self.outputs,
            [_ready(step, code, keep, names) for step in self.steps],
            dict(self.constants),
            self.replaced,
        )

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
                return ["panels", digests[id(made.matrix)], made.transposed, made.width]
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
                return pack_panels(matrix.reshape(matrix.shape[-2:]), about[2], about[3])
            kind, shape = dtype(about[0]), tuple(about[1])
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(data, kind.numpy, count, offset).reshape(shape)
            offset += array.nbytes
            return array.copy()  # where alignment is what NumPy promises

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
        )
        return recipe, data[offset:]


def digest(array: Array) -> str:
    """A string that differs whenever the type, the shape or an element does."""
    compact = np.ascontiguousarray(array)
    made = hashlib.sha256(f"{dtype(array.dtype)}{array.shape}".encode())
    made.update(compact.reshape(-1).view(np.uint8).data)
    return made.hexdigest()


def _plain(value: Value) -> list[Any]:
    return [value.slot, value.shape, str(value.dtype)]


def _value(plain: Sequence[Any]) -> Value:
    return Value(plain[0], tuple(plain[1]), dtype(plain[2]))


def _plain_step(step: Step) -> list[Any]:
    reads, writes = (list(map(_plain, part)) for part in (step.reads, step.writes))
    return [step.symbol, reads, writes, step.arena_bytes]


def _step(plain: Sequence[Any]) -> Step:
    symbol, reads, writes, arena_bytes = plain
    return Step(symbol, tuple(map(_value, reads)), tuple(map(_value, writes)), arena_bytes)


def _param(name: str, value: Value, access: Any = "r") -> ParamSpec:
    return ParamSpec(name, "buffer", value.dtype, value.shape, access=access)


def _ready(
    step: Step, code: LoadedObject | None, keep: object, names: Sequence[str]
) -> NativeStep | HostStep:
    if step.host is not None:
        return HostStep(step.host, step.reads, step.writes)
    if code is None:
        raise InternalError(f"there is no code for the step {step.symbol}")
    params = [
        _param(names[v.slot] if v.slot < len(names) else f"value{v.slot}", v) for v in step.reads
    ]
    params += [_param(f"output{k}", value, "w") for k, value in enumerate(step.writes)]
    arena: tuple[DType, tuple[int]] = dtype("uint8"), (step.arena_bytes,)
    params.append(_param("arena", Value(-1, arena[1], arena[0]), "w"))
    kernel = Kernel(step.symbol, code.address(f"{step.symbol}__packed"), params, keep)
    return NativeStep(kernel, step.reads, step.writes, step.arena_bytes)
