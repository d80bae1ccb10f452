"""`tvm.tir.transform`: the passes of `tileloom.lower` under TVM's names.

A pass is made by calling its name, `Simplify()`, and takes a module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ....lower.blocks import (
    compact_buffer_region,
    convert_blocks_to_opaque,
    inject_software_pipeline,
    lower_init_block,
    lower_match_buffer,
    lower_opaque_block,
    plan_and_update_buffer_allocation_location,
)
from ....lower.gpu import (
    inject_ptx_async_copy,
    inject_virtual_thread,
    lower_auto_copy,
    lower_cross_thread_reduction,
    lower_thread_allreduce,
    lower_thread_binding,
    manifest_shared_memory_local_stage,
    merge_shared_memory_allocations,
    split_host_device,
    thread_storage_sync,
    unify_thread_binding,
)
from ....lower.loops import (
    flatten_buffers,
    hoist_if,
    inject_double_buffer,
    loop_partition,
    narrow_index_dtype,
    remove_no_op,
    simplify,
    storage_rewrite,
    unroll_loops,
)
from ....lower.vector import vectorize_loops
from ....tir import PrimFunc
from .._names import missing
from ..ir import transform
from ..ir.transform import Pass, PassContext, PassInfo

Sequential = transform.Sequential

FunctionPass = Callable[[PrimFunc], PrimFunc]


def _lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """No blocks and no loops over threads; TVM's pass does what two of ours do."""
    return lower_thread_binding(lower_opaque_block(func))


_PASSES: dict[str, FunctionPass] = {
    "CompactBufferAllocation": compact_buffer_region,
    "ConvertBlocksToOpaque": convert_blocks_to_opaque,
    "FlattenBuffer": flatten_buffers,
    "HoistIfThenElse": hoist_if,
    "InjectDoubleBuffer": inject_double_buffer,
    "InjectPTXAsyncCopy": inject_ptx_async_copy,
    "InjectSoftwarePipeline": inject_software_pipeline,
    "InjectVirtualThread": inject_virtual_thread,
    "LoopPartition": loop_partition,
    "LowerAutoCopy": lower_auto_copy,
    "LowerCrossThreadReduction": lower_cross_thread_reduction,
    "LowerInitBlock": lower_init_block,
    "LowerMatchBuffer": lower_match_buffer,
    "LowerOpaqueBlock": _lower_opaque_block,
    "LowerThreadAllreduce": lower_thread_allreduce,
    "ManifestSharedMemoryLocalStage": manifest_shared_memory_local_stage,
    "MergeSharedMemoryAllocations": merge_shared_memory_allocations,
    "NarrowDataType": narrow_index_dtype,
    "PlanAndUpdateBufferAllocationLocation": plan_and_update_buffer_allocation_location,
    "RemoveNoOp": remove_no_op,
    "Simplify": simplify,
    "StorageRewrite": storage_rewrite,
    "ThreadSync": thread_storage_sync,
    "UnifyThreadBinding": unify_thread_binding,
    "UnrollLoop": unroll_loops,
    "VectorizeLoop": vectorize_loops,
}


def _each(function: Callable[..., Any]) -> Callable[[Any, PassContext], Any]:
    """A function of functions as one of modules; where it answers None the function goes."""

    def run(mod: Any, _context: PassContext) -> Any:
        found = {name: function(func, mod, _context) for name, func in mod.functions.items()}
        return mod.replace(functions={k: func for k, func in found.items() if func is not None})

    return run


def _constructor(name: str, step: FunctionPass) -> Callable[..., Pass]:
    def make(*_options: Any, **_more: Any) -> Pass:
        # Ours find out for themselves what TVM's passes are told.
        return Pass(_each(lambda func, _mod, _context: step(func)), PassInfo(0, f"tir.{name}"))

    make.__name__, make.__doc__ = name, step.__doc__
    return make


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or of a class with `transform_function(...)`."""
    return transform.make_pass(_each, pass_func, opt_level, name, required)


def Apply(ftransform: FunctionPass) -> Pass:
    """A pass that applies a Python function to each function."""
    return Pass(_each(lambda func, _mod, _context: ftransform(func)), PassInfo(0, "tir.Apply"))


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """A pass that keeps the functions for which `fcond` holds."""
    keep = _each(lambda func, _mod, _context: func if fcond(func) else None)
    return Pass(keep, PassInfo(0, "tir.Filter"))


def SplitHostDevice() -> Pass:
    """A pass that makes kernels functions of their own."""

    def split(mod: Any, _context: PassContext) -> Any:
        found = {}
        for name, func in mod.functions.items():
            for part, made in split_host_device(func).functions.items():
                found[name if part == func.name else part] = made
        return mod.replace(functions=found)

    return Pass(split, PassInfo(0, "tir.SplitHostDevice"))


def BindTarget(target: Any) -> Pass:
    """A pass that notes the target on each function."""
    return Apply(lambda func: func.with_attr("target", str(target)))


def AnnotateEntryFunc() -> Pass:
    """A pass that marks the only function as the entry."""

    def mark(mod: Any, _context: PassContext) -> Any:
        if len(mod.functions) != 1:
            return mod
        ((name, func),) = mod.functions.items()
        return mod.replace(functions={name: func.with_attr("tir.is_entry_func", True)})

    return Pass(mark, PassInfo(0, "tir.AnnotateEntryFunc"))


#: Those of SparseTIR, in `_sparse_passes`, which are loaded when they are asked for.
_SPARSE = (
    "ExtractPreprocess", "HorizontalFusion", "LowerAtomic", "LowerSparseBuffer",
    "LowerSparseIter", "RemovePreprocess", "RemoveUnusedArgs", "SparseFormatDecompose",
    "SpecializeBuffer",
)  # fmt: skip
_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    if name in _SPARSE:
        return getattr(import_module("tileloom.compat.tvm.tir._sparse_passes"), name)
    step = _PASSES.get(name)
    return _missing(name) if step is None else _constructor(name, step)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PASSES, *_SPARSE})
