"""Functions of tensor IR for GPUs, to be launched or emulated, and what functions take.

Whatever is needed to make code is imported when some is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..base import Target
from ..base.errors import UnsupportedError, UserError
from ..base.faults import FAULTS
from ..base.gpu_instructions import MAP_SCOPE
from ..base.target import target as parse_target
from ..expr import Expr, IntImm, Var, free_vars
from ..runtime import LoadedObject
from ..runtime.kernel import Kernel
from ..runtime.params import ParamSpec
from ..runtime.returning import ReturningKernel
from ..tir import Allocate, IRModule, PrimFunc, collect
from ..tir.atomics import written_pointers

MakePtx = Callable[[str, Target], str]


def emulated(
    program: PrimFunc | IRModule, target: Any, device: str, strict_sync: bool = False
) -> Any:
    """Kernels for the emulator, as `build` returns them."""
    from ..lower import lower
    from ..lower.verify_gpu_code import check_launches
    from ..simt import EmulatedKernel, sizes_of

    wanted = parse_target(target)
    if device != "emulator" or wanted.kind != "cuda":
        raise UnsupportedError(
            f"there is no device {device!r} for the target {wanted}",
            hint='the device "emulator" runs code for the target "cuda"',
        )

    def made(func: PrimFunc) -> Any:
        closed = with_symbols(func)
        sizes = sizes_of(closed, len(func.params))
        flat = lower(closed, wanted, strict_sync=strict_sync)
        check_memory(flat)
        check_launches(flat, wanted)
        return EmulatedKernel(flat, wanted, sizes)

    if isinstance(program, PrimFunc):
        return made(program)
    return {name: made(func) for name, func in program.functions.items()}


def loaded(
    module: IRModule,
    closed: Mapping[str, PrimFunc],
    code: LoadedObject,
    messages: Sequence[str],
) -> dict[str, Kernel | ReturningKernel]:
    """The kernels of a module whose machine code is in memory.

    Args:
        closed: its functions with the symbols of their shapes as parameters.
        messages: of the assertions in the code.
    """
    made: dict[str, Kernel | ReturningKernel] = {}
    for name, func in module.functions.items():
        params = parameters(closed[name], len(func.params))
        if func.ret_type != "void":
            params.append(ParamSpec("result", "buffer", func.ret_type, (1,), access="w"))
        address, faults = code.address(f"{name}__packed"), code.find(FAULTS)
        kernel = Kernel(name, address, params, code, messages, faults)
        made[name] = kernel if func.ret_type == "void" else ReturningKernel(kernel, func.ret_type)
    return made


def launched(
    program: PrimFunc | IRModule,
    target: Any,
    device: str | None,
    make_ptx: MakePtx,
    checked: bool | None = None,
    strict_sync: bool = False,
) -> Any:
    """Kernels for a GPU, as `build` returns them; they are loaded where their arguments are.

    Args:
        make_ptx: from LLVM IR and a target to PTX.
        checked: whether code is asked to check its indices, which no GPU's does.
        strict_sync: whether a kernel that lacks a barrier is refused.
    """
    if checked:
        raise UnsupportedError(
            "kernels for GPUs check no indices",
            hint='build(..., device="emulator") checks each access, on the CPU',
        )
    from ..codegen.nvptx import emit_kernels
    from ..lower import lower
    from ..lower.launch_plan import HostPlan
    from ..lower.split_host_device import split_host_device
    from ..lower.verify_gpu_code import check_launches
    from ..runtime import cuda

    here = cuda.device(device)  # says at once what is missing
    wanted = here.target if target == "cuda" else parse_target(target)
    made = {}
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    for name, func in module.functions.items():
        closed = with_symbols(func)
        flat = lower(closed, wanted, strict_sync=strict_sync)
        check_memory(flat)
        check_launches(flat, wanted)
        kernels = dict(split_host_device(flat).functions)
        host = kernels.pop(closed.name)
        plan = HostPlan(host, kernels)
        params = [
            replace(spec, access="rw") if spec.is_buffer and k in plan.written else spec
            for k, spec in enumerate(parameters(closed, len(func.params)))
        ]
        ptx = make_ptx(emit_kernels(IRModule(kernels), wanted), wanted)
        made[name] = cuda.CudaKernel(name, params, ptx, plan)
    return next(iter(made.values())) if isinstance(program, PrimFunc) else made


def check_memory(func: PrimFunc) -> None:
    """Check that what threads and blocks have for themselves is of a size that code can have.

    Raises:
        UnsupportedError: registers or shared memory would be as large as an extent is.
    """
    from ..lower.threads import kernels

    for kernel in kernels(func.body):
        for one in collect(kernel.body, Allocate):
            if not all(isinstance(extent, IntImm) for extent in one.extents):
                size = " * ".join(map(str, one.extents))
                raise UnsupportedError(
                    f"{one.buffer_var.name!r} would be {size} elements for each thread or block, "
                    "and a kernel has constant sizes of such memory"
                )


def with_symbols(func: PrimFunc) -> PrimFunc:
    """The function with the symbols of its shapes as further parameters.

    Callers do not pass them: they are read off the arguments' shapes.
    """
    symbols: dict[Var, None] = {}
    for buffer in func.buffer_map.values():
        for extent in (*buffer.shape, *buffer.strides):
            if isinstance(extent, Var) and extent not in func.params:
                symbols[extent] = None
    return func.replace(params=(*func.params, *symbols)) if symbols else func


def parameters(func: PrimFunc, passed: int) -> list[ParamSpec]:
    """What a function takes, as the runtime checks it; callers pass the first `passed`."""
    written = written_pointers(func.body)
    specs = []
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            kind: Literal["scalar", "map"] = "map" if _is_map(param) else "scalar"
            specs.append(ParamSpec(param.name, kind, param.dtype, implicit=k >= passed))
            continue
        shape = tuple(_extent(extent, func) for extent in buffer.shape)
        access: Literal["r", "rw"] = "rw" if buffer.data in written else "r"
        strides = tuple(_extent(stride, func) for stride in buffer.strides) or None
        specs.append(ParamSpec(buffer.name, "buffer", buffer.dtype, shape, strides, access))
    return specs


def _is_map(param: Var) -> bool:
    return param.pointee is not None and param.pointee[1] == MAP_SCOPE


def _extent(extent: Any, func: PrimFunc) -> int | str:
    if isinstance(extent, Var):
        return extent.name
    if isinstance(extent, Expr) and free_vars(extent) and free_vars(extent) <= {*func.params}:
        return str(extent)  # the same wherever it stands; who passes the numbers knows its value
    if not hasattr(extent, "value"):
        raise UserError(f"the extent {extent} of a parameter is neither a number nor a variable")
    return int(extent.value)


__all__ = ["emulated", "launched", "loaded", "parameters", "with_symbols"]
