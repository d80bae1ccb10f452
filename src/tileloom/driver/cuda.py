"""Kernels for NVIDIA GPUs, run through the CUDA driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.errors import UnsupportedError
from ..runtime.cuda.programs import CudaDevice
from ..runtime.params import ParamSpec
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .launching import LaunchingBackend, functions_in, lowered
from .objects import ptx
from .parameters import parameters, with_symbols

if TYPE_CHECKING:
    from ..lower.gpu import HostPlan
    from ..runtime.cuda import CudaKernel


class CudaBackend(LaunchingBackend):
    """PTX, loaded on the GPU where it is called, and what the host does around it."""

    def __init__(self, target: Any, device: str | None = None) -> None:
        self.device = gpu = CudaDevice(device)
        here = gpu.where  # says at once what is missing
        self.target = here.target if target == "cuda" else parse_target(target)

    @staticmethod
    def device_named(name: str | None) -> CudaDevice:
        """A GPU."""
        return CudaDevice(name)

    @property
    def key(self) -> str:
        """The GPU that code is made for."""
        return repr(self.target)

    def build(
        self, module: IRModule, checked: bool | None = None, strict_sync: bool = False
    ) -> Mapping[str, CudaKernel]:
        """Kernels that are loaded where their arguments are."""
        from ..runtime.cuda import CudaKernel

        if checked:
            raise UnsupportedError(
                "kernels for GPUs check no indices",
                hint='build(..., device="emulator") checks each access, on the CPU',
            )
        functions = module.functions.items()
        return {name: CudaKernel(name, *self._parts(func, strict_sync)) for name, func in functions}

    def _parts(
        self, func: PrimFunc, strict_sync: bool = False
    ) -> tuple[list[ParamSpec], str, HostPlan]:
        """What a function takes, its PTX, and what its host does."""
        from ..lower.gpu import HostPlan, split_host_device

        flat = lowered(func, self.target, strict_sync)
        kernels = dict(split_host_device(flat).functions)
        host = kernels.pop(flat.name)
        plan = HostPlan(host, kernels)
        params = [
            replace(spec, access="rw") if spec.is_buffer and k in plan.written else spec
            for k, spec in enumerate(parameters(with_symbols(func), len(func.params)))
        ]
        return params, kernels_ptx(IRModule(kernels), self.target), plan

    def compile_kernel(self, func: PrimFunc) -> Any:
        """Parameters, PTX, and the host's function with kernels that have no bodies."""
        from ..script.show import show

        params, code, plan = self._parts(func)
        return [spec.plain() for spec in params], code, show(plan.outline)

    def load_kernel(self, name: str, data: Any) -> CudaKernel:
        """A launcher of the PTX."""
        from ..lower.gpu import HostPlan
        from ..runtime.cuda import CudaKernel

        params, code, outline = data
        plan = HostPlan.of(IRModule(functions_in(outline)))
        return CudaKernel(name, [ParamSpec.of(plain) for plain in params], code, plan)


def kernels_ptx(kernels: IRModule, target: Target) -> str:
    """The PTX of kernels, from the cache on disk where that has it."""
    from ..codegen import emit_kernels

    return ptx(emit_kernels(kernels, target), target)


BACKEND = CudaBackend
