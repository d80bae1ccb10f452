"""A call of a function, laid out once so that the next one only fills in addresses.

The layout is described at the head of `codegen.launch_stub`, whose native code reads it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ...base.dtype import DType
from ...base.launches import Argument, Launches
from .. import native
from ..check import encode_scalar
from ..params import ParamSpec
from . import api, maps
from .modules import Function

_STREAM, _VALUES = 7, 8
MISALIGNED, OVERLAP = -1, -2
_SYMBOLS = ("cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuLaunchKernel")
#: How numbers of a type are packed into eight bytes; other types go as bytes.
_FORMATS = {
    "int8": "b7x",
    "uint8": "B7x",
    "int16": "h6x",
    "uint16": "H6x",
    "int32": "i4x",
    "uint32": "I4x",
    "int64": "q",
    "uint64": "Q",
    "float16": "e6x",
    "float32": "f4x",
    "float64": "d",
    "handle": "Q",
}
Encoder = Callable[[Any], bytes]


@cache
def _native_launch() -> Any:
    """The native function: it lets the GIL go, for a full queue makes a launch wait."""
    symbols = {name: api.function_address(name) for name in _SYMBOLS}
    code = native.load("launch", symbols)
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address("tileloom_cuda_launch"))


class Checks(NamedTuple):
    """What the native code checks, by positions of parameters."""

    aligned: tuple[int, ...]
    apart: tuple[tuple[int, int, int, int], ...]  # parameter, bytes, parameter, bytes


class Packet(NamedTuple):
    """One laid-out call; used by one thread at a time."""

    memory: Any
    address: int
    keep: Any


class Packer:
    """Makes packets for a list of launches, and fills them in.

    Args:
        context: the CUDA context to launch in.
        params: what the function takes.
        given: the values of implicit parameters, by position.
        launches: what to launch.
        functions: the kernel of each launch.
        checks: what to look at before launching.
    """

    def __init__(
        self,
        context: int,
        params: Sequence[ParamSpec],
        given: dict[int, int | float],
        launches: Launches,
        functions: Sequence[Function],
        checks: Checks,
    ) -> None:
        self._context, self._params, self._given = context, params, given
        self._launches = [
            (launch, function)
            for launch, function in zip(launches.launches, functions, strict=True)
            if not launch.is_empty
        ]
        self._checks = checks
        self._native = _native_launch()
        self._free: list[Packet] = []
        self.offsets, self.temporary_bytes = _arrange(launches.temporaries)
        passed = [param for k, param in enumerate(params) if k not in given]
        self._encoders = [_encoder(param) for param in passed]
        #: Whether `launch` itself refuses numbers that are not of their parameter's type.
        self.is_strict = not any(self._encoders)
        formats = "".join(map(_format, passed))
        #: Where the value of each parameter begins, in words.
        self._places, word = {}, _VALUES
        for k in [k for k in range(len(params)) if k not in given]:
            self._places[k] = word
            word += _words(params[k])
        self._temporaries = word
        word += len(launches.temporaries)
        for k in given:
            self._places[k] = word
            word += 1
        self._numbers = word
        self._pack = struct.Struct(f"<Q{formats}{'Q' * len(launches.temporaries)}").pack_into

    def launch(self, values: Sequence[Any], stream: int, temporary: int = 0) -> tuple[int, int]:
        """Launch everything: the driver's code and the launch that failed.

        Args:
            values: an address or a number for each parameter that is not implicit.
            stream: where to.
            temporary: the address of the memory for temporaries.

        Raises:
            struct.error, TypeError, OverflowError: a number is not of its parameter's type.
        """
        try:
            packet = self._free.pop()
        except IndexError:
            packet = self._make()
        if not self.is_strict:
            pairs = zip(values, self._encoders, strict=True)
            values = [value if encode is None else encode(value) for value, encode in pairs]
        if self.offsets:
            values = [*values, *[temporary + offset for offset in self.offsets]]
        self._pack(packet.memory, 8 * _STREAM, stream, *values)
        code = self._native(packet.address)
        failed = packet.memory[4] if code else 0
        self._free.append(packet)
        return code, failed

    # ------------------------------------------------------------------ laying out

    def _place(self, argument: Argument, numbers: dict[tuple[bytes], int]) -> int:
        """The word that holds an argument's value."""
        if argument.kind == "param":
            return self._places[argument.position]
        if argument.kind == "temporary":
            return self._temporaries + argument.position
        word = encode_scalar(argument.value, argument.number_type)
        return self._numbers + numbers.setdefault((word,), len(numbers))

    def _make(self) -> Packet:
        numbers: dict[tuple[bytes], int] = {}
        tables = [
            [self._place(argument, numbers) for argument in launch.arguments]
            for launch, _ in self._launches
        ]
        checks = self._check_words()
        head = self._numbers + len(numbers)
        start = head + len(checks)
        ends = start + 9 * len(self._launches)
        total = ends + sum(map(len, tables)) + 1
        memory = (ctypes.c_uint64 * total)()
        base = ctypes.addressof(memory)
        counts = (len(self._checks.aligned), len(self._checks.apart), len(self._launches))
        _fill(memory, 0, [self._context, *counts, 0, head, start])
        for place, (word,) in enumerate(numbers, self._numbers):
            memory[place] = int.from_bytes(word, "little")
        for k, value in self._given.items():
            word = encode_scalar(value, self._params[k].dtype)
            memory[self._place(Argument("param", k), numbers)] = int.from_bytes(word, "little")
        _fill(memory, head, checks)
        place = ends
        for k, ((launch, function), table) in enumerate(zip(self._launches, tables, strict=True)):
            _fill(memory, place, [base + 8 * word for word in table])
            sizes = [*launch.grid, *launch.block, launch.dynamic_bytes]
            _fill(memory, start + 9 * k, [function.handle, *sizes, base + 8 * place])
            place += len(table)
        return Packet(memory, base, self)

    def _check_words(self) -> list[int]:
        def at(position: int) -> int:
            return self._place(Argument("param", position), {})

        words = [at(position) for position in self._checks.aligned]
        for a, a_bytes, b, b_bytes in self._checks.apart:
            words += [at(a), a_bytes, at(b), b_bytes]
        return words


def _fill(memory: Any, place: int, words: Sequence[int]) -> None:
    memory[place : place + len(words)] = list(words)


def _arrange(sizes: Sequence[int], alignment: int = 256) -> tuple[list[int], int]:
    """Where temporaries begin in one piece of memory, and its bytes."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // alignment) * alignment
    return offsets, total


def _words(param: ParamSpec) -> int:
    return maps.BYTES // 8 if param.kind == "map" else 1


def _format(param: ParamSpec) -> str:
    if param.kind == "map":
        return f"{maps.BYTES}s"
    return "Q" if param.is_buffer else _FORMATS.get(param.dtype, "8s")


def _encoder(param: ParamSpec) -> Encoder | None:
    if param.kind != "scalar" or param.dtype in _FORMATS:
        return None
    kind: DType = param.dtype
    return lambda value: encode_scalar(value, kind)


def forget() -> None:
    """Find the driver's functions anew; for tests."""
    _native_launch.cache_clear()
