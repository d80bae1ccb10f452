"""Graphs of symbolic shapes on GPUs: kernels once, which ones a call launches by its sizes.

Kernels take the sizes after the arrays. The host evaluates the predicates of buckets, once for each
combination of sizes that occurs; the blocks of a grid, and memory for what is between kernels, are
counted then. Groups that no schedule takes while sizes are open are scheduled for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .base import Target
from .driver_gpu import EACH_SIZE, GpuExecutable, Memory
from .expr import Var
from .graph.program import Program
from .runtime.family import Choices
from .schedule.group import schedule_gpu
from .tir import IRModule, PrimFunc

#: From scheduled functions to what calls them, by name.
Make = Callable[[IRModule], Mapping[str, Callable[..., Any]]]


class GpuFamily(Choices):
    """A program for a GPU whose shapes are formulas of named sizes.

    Args:
        program: over the symbols of a space.
        make: what compiles functions.
        memory: of the device.

    Attributes:
        each_size: why kernels are not compiled once, by their names.
    """

    def __init__(self, program: Program, target: Target, make: Make, memory: Memory) -> None:
        space = program.space
        super().__init__(() if space is None else tuple(space.guards), program.buckets)
        self.program, self.target, self.memory = program, target, memory
        self._make = make
        used = {bucket.kernel for buckets in program.buckets.values() for bucket in buckets}
        functions = {
            name: program.module.functions[name] for name in used or program.module.functions
        }
        self.each_size = {
            name: str(func.attrs[EACH_SIZE])
            for name, func in functions.items()
            if EACH_SIZE in func.attrs
        }
        ready = {name: f for name, f in functions.items() if name not in self.each_size}
        self._kernels = dict(make(IRModule(ready))) if ready else {}
        self._sized: dict[tuple[str, tuple[int, ...]], Callable[..., Any]] = {}

    def at(self, sizes: Mapping[str, int]) -> GpuExecutable:
        """The program for these sizes, for which it `holds`."""
        taken = self.kernels(sizes)
        chosen = {name: self._kernel(kernel, sizes) for name, kernel in taken.items()}
        return GpuExecutable(self.program, chosen, self.memory, sizes=sizes)

    def explain(self, sizes: Mapping[str, int]) -> str:
        """The kernels, their buckets with predicates, and which are taken for some sizes."""
        lines = [super().explain(sizes)]
        lines += [
            f"{name} is compiled for each size: {why}" for name, why in self.each_size.items()
        ]
        return "\n".join(lines)

    def _kernel(self, name: str, sizes: Mapping[str, int]) -> Callable[..., Any]:
        if name not in self.each_size:
            return self._kernels[name]
        func = self.program.module.functions[name]
        symbols = func.params[len(func.buffer_map) :]
        values = {symbol: sizes[symbol.name] for symbol in symbols}
        key = name, tuple(values.values())
        found = self._sized.get(key)
        if found is None:
            found = self._sized[key] = partial(_without, len(values), self._made_for(func, values))
        return found

    def _made_for(self, func: PrimFunc, values: Mapping[Var, int]) -> Callable[..., Any]:
        """A function that is scheduled for these sizes alone."""
        (scheduled,) = schedule_gpu(func.specialize(values), self.target).mod.functions.values()
        (made,) = self._make(IRModule({scheduled.name: scheduled})).values()
        return made


def _without(count: int, kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a kernel without the sizes at the end."""
    kernel(*arguments[:-count])


__all__ = ["GpuFamily"]
