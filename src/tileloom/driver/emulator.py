"""Kernels for GPUs run on the CPU, every thread of them, by the checking emulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..runtime.device import HOST, Device
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .launching import LaunchingBackend, functions_in, lowered
from .parameters import with_symbols

if TYPE_CHECKING:
    from ..simt import EmulatedKernel


class EmulatorBackend(LaunchingBackend):
    """Flat tensor IR for the emulator."""

    device = HOST

    def __init__(self, target: Any, device: str | None = None) -> None:
        self.target = parse_target(target)

    @staticmethod
    def device_named(name: str | None) -> Device:
        """The CPU."""
        return HOST

    @property
    def key(self) -> str:
        """The GPU that is emulated."""
        return f"emulator {self.target!r}"

    def build(
        self, module: IRModule, checked: bool | None = None, strict_sync: bool = False
    ) -> Mapping[str, EmulatedKernel]:
        """Kernels for the emulator."""
        functions = module.functions.items()
        return {name: self._emulated(func, strict_sync) for name, func in functions}

    def _emulated(self, func: PrimFunc, strict_sync: bool = False) -> EmulatedKernel:
        from ..simt import EmulatedKernel, sizes_of

        sizes = sizes_of(with_symbols(func), len(func.params))
        return EmulatedKernel(lowered(func, self.target, strict_sync), self.target, sizes)

    def compile_kernel(self, func: PrimFunc) -> Any:
        """The text of the lowered function, and what sizes it finds in its arguments."""
        from ..script.show import show

        made = self._emulated(func)
        return show(IRModule({made.func.name: made.func})), made.sizes

    def load_kernel(self, name: str, data: Any) -> EmulatedKernel:
        """The function read again."""
        from ..simt import EmulatedKernel

        text, sizes = data
        (func,) = functions_in(text).values()
        return EmulatedKernel(func, self.target, sizes)


BACKEND = EmulatorBackend
