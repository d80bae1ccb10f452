"""Graphs of symbolic shapes on GPUs: kernels once, which ones a call launches by its sizes.

Kernels take the sizes after the arrays. The host evaluates the predicates of buckets, once for each
combination of sizes that occurs; the blocks of a grid, and memory for what is between kernels, are
counted then. Groups that no schedule takes while sizes are open are scheduled for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base import Target
from ..base.errors import UnsupportedError
from ..graph.nodes import Tensor
from ..graph.program import Program
from ..graph.to_tir.whole_vectors import parts_of
from ..plan import plan_kernel
from ..runtime.family import Choices
from ..tir import IRModule, PrimFunc
from .gpu import EACH_SIZE, GpuExecutable, Memory

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
        self.each_size: dict[str, str] = {}
        self._make = make
        self._constants: dict[Tensor, Any] = {}
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._sized: dict[tuple[str, tuple[int, ...]], Callable[..., Any]] = {}
        self._origins: dict[str, str] = {}
        for origin, buckets in program.buckets.items():
            for name in {bucket.kernel for bucket in buckets}:
                self._origins[name] = origin
                self._add(name, program.module.functions[name])

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The kernels that are compiled once."""
        return tuple(self._kernels)

    def _add(self, name: str, func: PrimFunc) -> None:
        """Compile a function, if it can be for all sizes."""
        try:
            if EACH_SIZE in func.attrs:
                raise UnsupportedError(str(func.attrs[EACH_SIZE]))
            self._kernels |= self._make(IRModule({name: func}))
        except UnsupportedError as refusal:
            self.each_size[name] = refusal.message

    def at(self, sizes: Mapping[str, int]) -> GpuExecutable:
        """The program for these sizes, for which it `holds`."""
        taken = self.kernels(sizes)
        chosen = {name: self._kernel(kernel, sizes) for name, kernel in taken.items()}
        return GpuExecutable(
            self.program, chosen, self.memory, sizes=sizes, constants=self._constants
        )

    def explain(self, sizes: Mapping[str, int]) -> str:
        """The kernels, their buckets with predicates, and which are taken for some sizes."""
        lines = [super().explain(sizes)]
        lines += [
            f"{name} is compiled for each size: {why}" for name, why in self.each_size.items()
        ]
        return "\n".join(lines)

    def _kernel(self, name: str, sizes: Mapping[str, int]) -> Callable[..., Any]:
        if name not in self.each_size:
            further = parts_of(self.program.module.functions[name], sizes)
            made = self._kernels[name]
            return partial(_with, further, len(sizes), made) if further else made
        key = self._origins[name], tuple(sizes.values())
        found = self._sized.get(key)
        if found is None:
            made = self._made_for(self.program.planned[key[0]].blocks, sizes)
            found = self._sized[key] = partial(_without, len(sizes), made)
        return found

    def _made_for(self, blocks: PrimFunc, sizes: Mapping[str, int]) -> Callable[..., Any]:
        """The kernels of a group, scheduled for these sizes alone."""
        symbols = self.program.space.symbols if self.program.space is not None else {}
        whole = blocks.replace(params=(*blocks.params, *(s.var for s in symbols.values())))
        known = whole.specialize({s.var: sizes[name] for name, s in symbols.items()})
        scheduled = plan_kernel(known, self.target).func
        (made,) = self._make(IRModule({scheduled.name: scheduled})).values()
        return made


def _with(
    further: tuple[int, ...], count: int, kernel: Callable[..., Any], *arguments: Any
) -> None:
    """Call a kernel with more numbers before the sizes at the end."""
    kernel(*arguments[:-count], *further, *arguments[-count:])


def _without(count: int, kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a kernel without the sizes at the end."""
    kernel(*arguments[:-count])


__all__ = ["GpuFamily"]
