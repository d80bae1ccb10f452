"""The machine code of a program on the CPU it runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.dtype import dtype
from ..base.errors import InternalError
from ..base.faults import FAULTS
from .device import HOST
from .elf import LoadedObject
from .executable import NativeStep
from .kernel import Kernel
from .params import ParamSpec
from .serialized import SerializedExecutable, Step, parameter


class NativeCode:
    """The native functions of a program's steps; those for many shapes check their guards.

    Args:
        code: has a function for each step that is not the host's; None if there is none.
        assertions: what the code says when it ends early, by number.
    """

    device = HOST
    each_size: Mapping[str, str] = {}

    def __init__(
        self, program: SerializedExecutable, code: LoadedObject | None, assertions: Sequence[str]
    ) -> None:
        self.constants: dict[int, Any] = dict(program.constants)
        keep = (code, program.symbols)
        self._kernels = {
            k: _kernel(step, code, keep, program.names, assertions)
            for k, step in enumerate(program.steps)
            if step.host is None
        }

    def ready(self, number: int, step: Step, sizes: Mapping[str, int]) -> NativeStep:
        """The function of a step, with the memory and the numbers that it takes."""
        memory = step.reads, step.writes, step.arena_bytes
        return NativeStep(self._kernels[number], *memory, step.numbers)


#: The name of the scratch memory's size where it depends on others.
_ARENA_BYTES = "arena bytes"


def _kernel(
    step: Step,
    code: LoadedObject | None,
    keep: object,
    names: Sequence[str],
    assertions: Sequence[str],
) -> Kernel:
    if code is None:
        raise InternalError(f"there is no code for the step {step.symbol}")
    params = [
        parameter(names[v.slot] if v.slot < len(names) else f"value{v.slot}", v) for v in step.reads
    ]
    params += [parameter(f"output{k}", value, "w") for k, value in enumerate(step.writes)]
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
