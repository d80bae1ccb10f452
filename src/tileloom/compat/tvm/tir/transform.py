"""`tvm.tir.transform`: the passes of `tileloom.lower` under TVM's names.

A pass is made by calling its name, `Simplify()`, and takes a module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ....tir import PrimFunc
from .._names import missing
from ..ir import transform
from ..ir.transform import Pass, PassContext, PassInfo

Sequential = transform.Sequential

# TVM's name: module of `tileloom.lower`; the function has the module's name unless it is given.
_PASSES: dict[str, str] = {
    "CompactBufferAllocation": "compact_buffer_region",
    "ConvertBlocksToOpaque": "convert_blocks_to_opaque",
    "FlattenBuffer": "flatten_buffers",
    "HoistIfThenElse": "hoist_if",
    "InjectDoubleBuffer": "inject_double_buffer",
    "InjectSoftwarePipeline": "inject_software_pipeline",
    "InjectVirtualThread": "inject_virtual_thread",
    "LiftThreadBinding": "lift_thread_binding",
    "LoopPartition": "loop_partition",
    "LowerAutoCopy": "lower_auto_copy",
    "LowerCrossThreadReduction": "lower_cross_thread_reduction",
    "LowerInitBlock": "lower_init_block",
    "LowerMatchBuffer": "lower_match_buffer",
    "LowerOpaqueBlock": "lower_opaque_block",
    "LowerThreadAllreduce": "lower_thread_allreduce",
    "ManifestSharedMemoryLocalStage": "manifest_shared_memory_local_stage",
    "MergeSharedMemoryAllocations": "merge_shared_memory_allocations",
    "NarrowDataType": "narrow_index_dtype",
    "PlanAndUpdateBufferAllocationLocation":
        "plan_allocations.plan_and_update_buffer_allocation_location",
    "RemoveNoOp": "remove_no_op",
    "Simplify": "simplify",
    "StorageRewrite": "storage_rewrite",
    "ThreadSync": "thread_sync",
    "UnifyThreadBinding": "unify_thread_binding",
    "UnrollLoop": "unroll_loops",
    "VectorizeLoop": "vectorize_loops",
}  # fmt: skip
_OPTIONS_OF_TVM = {"LoopPartition", "NarrowDataType", "VectorizeLoop", "CompactBufferAllocation"}

FunctionPass = Callable[[PrimFunc], PrimFunc]


def _each(function: Callable[..., Any]) -> Callable[[Any, PassContext], Any]:
    """A function of functions as one of modules; where it answers None the function goes."""

    def run(mod: Any, _context: PassContext) -> Any:
        found = {name: function(func, mod, _context) for name, func in mod.functions.items()}
        return mod.replace(functions={k: func for k, func in found.items() if func is not None})

    return run


def _constructor(name: str, step: Callable[..., PrimFunc]) -> Callable[..., Pass]:
    def make(*args: Any, **kwargs: Any) -> Pass:
        if name in _OPTIONS_OF_TVM:
            args, kwargs = (), {}  # ours decide for themselves what TVM is told
        apply = _each(lambda func, _mod, _context: step(func, *args, **kwargs))
        return Pass(apply, PassInfo(0, f"tir.{name}"))

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


_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    path = _PASSES.get(name)
    if path is None:
        return _missing(name)
    module, _, function = path.partition(".")
    try:
        found = import_module(f"tileloom.lower.{module}")
    except ModuleNotFoundError:
        return _missing(name)
    return _constructor(name, getattr(found, function or module))


def __dir__() -> list[str]:
    return sorted({*globals(), *_PASSES})
