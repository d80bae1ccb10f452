"""Kernels become functions of their own; what is left launches them."""

from __future__ import annotations

from typing import Any

from ...expr import Call, Expr, IntImm, StringImm, Var, free_vars
from ...tir import (
    Allocate,
    Buffer,
    Evaluate,
    IRModule,
    PrimFunc,
    Stmt,
    collect,
    undefined_vars,
    used_buffers,
)
from ...tir.atomics import written_pointers
from ..analysis.pointers import is_map, written_through
from ..analysis.threads import GRID_TAGS, THREAD_TAGS, KernelBody, scope_of
from .kernels import on_kernels
from .merge_shared_memory import DYNAMIC, allocated_bytes

LAUNCH = "tir.launch_kernel"
LAUNCH_PARAMS, DYNAMIC_BYTES = "tir.kernel_launch_params", "dyn_shared_memory_bytes"
THREADS = "thread_extent"
TAGS = (*GRID_TAGS, *reversed(THREAD_TAGS))  # as a launch takes them: grid x, y, z, block x, y, z


def split_host_device(func: PrimFunc) -> IRModule:
    """A module of the host's part and its kernels, `name_kernel`, `name_kernel_1`, ...

    The host calls `launch_kernel(name, arguments..., extents...)`, the extents in the order that
    the kernel's attribute "tir.kernel_launch_params" gives. A kernel's parameters are the buffers
    it touches and the scalars it uses, read ones first used first. Its attributes:

    * "thread_extent": the extents by tag, numbers where they are constant;
    * "dyn_shared_memory_bytes": of its dynamic shared memory;
    * "tir.is_global_func": it is an entry of the device; "tir.written": the names of its
      parameters that it writes.

    Needs: flat code at the end of the GPU pipeline.
    """
    made: dict[str, PrimFunc] = {}

    def launch(kernel: KernelBody) -> Stmt:
        number = f"_{len(made)}" if made else ""
        name = f"{func.name}_kernel{number}"
        device, arguments = _device(name, kernel, func)
        made[name] = device
        sizes = [kernel.extents[tag] for tag in device.attrs[LAUNCH_PARAMS]]
        return Evaluate(Call("int32", LAUNCH, (StringImm(name), *arguments, *sizes)))

    host = on_kernels(func, launch)
    return IRModule({func.name: host, **made})


#: Attributes of a function that hold of its kernels; of the last, a number of blocks that are to
#: fit on a multiprocessor together.
MIN_BLOCKS = "tir.min_blocks_per_multiprocessor"
_KEPT = ("target", "tir.noalias", "tir.cluster_dims", MIN_BLOCKS)


def _device(name: str, kernel: KernelBody, func: PrimFunc) -> tuple[PrimFunc, list[Expr]]:
    """The function of a kernel, and what its caller passes."""
    stmt = kernel.root
    inside = {node.buffer_var for node in collect(stmt, Allocate)}
    buffers: dict[Var, Buffer] = {}
    for buffer in used_buffers(stmt):
        if buffer.data not in inside:
            buffers.setdefault(buffer.data, buffer)
    for buffer in func.buffers:  # those that only an asynchronous copy reads
        if buffer.data in undefined_vars(stmt):
            buffers.setdefault(buffer.data, buffer)
    params = {data: Var(buffer.name, "handle") for data, buffer in buffers.items()}
    used = [var for var in undefined_vars(stmt) if not var.dtype.is_handle or is_map(var)]
    for extent in (*kernel.extents.values(), *(s for b in buffers.values() for s in b.shape)):
        used += sorted(free_vars(extent), key=lambda var: var.serial)
    scalars = list(dict.fromkeys(var for var in used if var not in buffers))
    written = written_pointers(stmt) | written_through(stmt)
    attrs: dict[str, Any] = {
        **{key: value for key, value in func.attrs.items() if key in _KEPT},
        "global_symbol": name,
        "tir.is_global_func": True,
        LAUNCH_PARAMS: [tag for tag in TAGS if tag in kernel.extents],
        THREADS: {tag: _number(extent) for tag, extent in kernel.extents.items()},
        DYNAMIC_BYTES: _dynamic_bytes(stmt),
        "tir.written": [params[data].name for data in buffers if data in written],
    }
    buffer_map = {params[data]: buffer for data, buffer in buffers.items()}
    device = PrimFunc((*params.values(), *scalars), stmt, buffer_map, attrs)
    return device, [*buffers, *scalars]


def _number(extent: Expr) -> int | Expr:
    return extent.value if isinstance(extent, IntImm) else extent


def _dynamic_bytes(stmt: Stmt) -> int:
    dynamic = (node for node in collect(stmt, Allocate) if scope_of(node) == DYNAMIC)
    return sum(allocated_bytes(node) or 0 for node in dynamic)
