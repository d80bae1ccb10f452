"""The pipelines: blocks -> loops -> flat, as lists of passes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..base.compiling import compiling
from ..base.errors import InternalError, UserError, VerifyError
from ..base.settings import settings
from ..target import target as parse_target
from ..tir import Block, IRModule, PrimFunc, Stmt, stmt_children
from ..tir.spec import verify
from .blocks import (
    check_accesses,
    compact_buffer_region,
    convert_blocks_to_opaque,
    inject_software_pipeline,
    limit_workers,
    lower_atomic,
    lower_init_block,
    lower_match_buffer,
    lower_opaque_block,
    plan_and_update_buffer_allocation_location,
)
from .gpu import (
    compact_strides,
    eliminate_common_loads,
    hoist_barriers,
    horizontal_fusion,
    inject_ptx_async_copy,
    inject_virtual_thread,
    lower_auto_copy,
    lower_cross_thread_reduction,
    lower_numbered_barriers,
    lower_thread_allreduce,
    lower_thread_binding,
    lower_warp_memory,
    manifest_shared_memory_local_stage,
    merge_grid_reductions,
    merge_shared_memory_allocations,
    require_barriers,
    thread_storage_sync,
    unify_thread_binding,
    unroll_register_loops,
)
from .loops import (
    compensate_sums,
    dispatch_extents,
    eliminate_invariant_loops,
    flatten_buffers,
    fuse_ifs,
    hoist_if,
    hoist_tile_setup,
    inject_double_buffer,
    legalize_parallel,
    loop_partition,
    map_calls,
    narrow_index_dtype,
    offset_sums,
    remove_no_op,
    simplify,
    storage_rewrite,
    unroll_loops,
    widen_index_dtype,
)
from .vector import vectorize_loops

Pass = Callable[[PrimFunc], PrimFunc]
OnStage = Callable[[str, PrimFunc], None]
Program = TypeVar("Program", PrimFunc, IRModule)

BLOCKS_TO_LOOPS: Sequence[Pass] = (
    lower_atomic,  # first: it asks for the stores as they were written
    limit_workers,  # while blocks tell their domains
    lower_init_block,  # before the next: an init apart decides where its buffer may live
    plan_and_update_buffer_allocation_location,  # asks the blocks which loops carry a reduction
    convert_blocks_to_opaque,
    compact_buffer_region,  # before the views go: their offsets are computed from the new strides
    lower_match_buffer,
    inject_software_pipeline,  # when views are gone: their buffers get versions
    lower_opaque_block,
)

LOOPS_TO_FLAT: Sequence[Pass] = (
    legalize_parallel,
    hoist_tile_setup,  # when it is settled which loops threads share
    widen_index_dtype,  # before rows of elements are counted, and before anything is simplified
    flatten_buffers,
    simplify,  # brings guards and indices into the form that the next passes read
    narrow_index_dtype,
    loop_partition,  # before vectors: a scalar guard is easier to take apart than a mask
    dispatch_extents,  # of the tiles that partition has cut short
    offset_sums,  # when loops are as long as they will be, and before they are vectors
    vectorize_loops,  # before unrolling: one vector body is cheaper to build than many scalar ones
    compensate_sums,  # of vectors, before loops over them are unrolled
    inject_double_buffer,
    storage_rewrite,
    unroll_loops,
    hoist_if,
    simplify,  # of what partition, lanes and copies have made constant
    map_calls,  # after simplification has made exponents constant
    eliminate_invariant_loops,  # which simplification has left nothing to say
    remove_no_op,
)

PIPELINE: Sequence[Pass] = (*BLOCKS_TO_LOOPS, *LOOPS_TO_FLAT)
_after = PIPELINE.index(convert_blocks_to_opaque) + 1
# Checks are made where views and the shapes that the program gave are still there.
CHECKED_PIPELINE: Sequence[Pass] = (*PIPELINE[:_after], check_accesses, *PIPELINE[_after:])
# The spec that a pass's result obeys, where that changes. None: between two stages, where blocks
# stand still but may use the variables of the loops around them.
ENSURES: Mapping[Pass, str | None] = {
    lower_cross_thread_reduction: None,
    lower_init_block: None,
    plan_and_update_buffer_allocation_location: None,
    lower_opaque_block: "loops",
    vectorize_loops: "flat",
}
_FRAMES_OF_A_LEVEL, _SPARE_FRAMES = 8, 600  # of Python, in the walks over statements
GPU_PIPELINE: Sequence[Pass] = (
    lower_atomic,  # first: it asks for the stores as they were written
    lower_cross_thread_reduction,  # asks the blocks which loops carry a reduction
    lower_init_block,
    plan_and_update_buffer_allocation_location,
    convert_blocks_to_opaque,
    manifest_shared_memory_local_stage,  # makes buffers to compact
    compact_buffer_region,  # thread loops still stand around what they run: see the next lines
    compact_strides,
    lower_auto_copy,  # makes thread loops to unify
    unify_thread_binding,  # after compaction, which reads there what each thread has of a buffer
    lower_match_buffer,
    inject_software_pipeline,
    lower_opaque_block,
    lower_thread_binding,
    horizontal_fusion,  # when it is seen what the kernels are, and each has its memory inside
    lower_numbered_barriers,  # where it is seen what a kernel is
    widen_index_dtype,  # before rows of elements are counted, and before anything is simplified
    flatten_buffers,
    simplify,
    lower_warp_memory,  # before vectors and unrolling: it reads whose an element is off its index
    narrow_index_dtype,
    vectorize_loops,
    compensate_sums,  # before the arrays of its runs are put into registers
    inject_virtual_thread,  # makes loops to unroll
    inject_double_buffer,
    storage_rewrite,
    eliminate_common_loads,  # before unrolling: loops are compared, not their copies
    unroll_register_loops,  # with the arrays that the pass before has made
    unroll_loops,
    hoist_if,
    simplify,
    map_calls,  # after simplification has made exponents constant
    eliminate_invariant_loops,  # which simplification has left nothing to say
    remove_no_op,
    inject_ptx_async_copy,  # before barriers, which belong after the waits
    thread_storage_sync,  # after the last pass that moves or merges memory
    hoist_barriers,  # out of branches that threads take differently, those set just before too
    lower_thread_allreduce,  # which sets its own barriers
    merge_grid_reductions,  # last of what sets barriers: it asks who is in time for them
    fuse_ifs,  # after barriers, so that none has to be put into a branch
    merge_shared_memory_allocations,  # after barriers: one pointer for all would ask for too many
)
STAGES = ("loops", "flat")


@compiling
def lower(
    program: Program,
    target: Any = None,
    until: str | None = None,
    on_stage: OnStage | None = None,
    checked: bool = False,
    strict_sync: bool = False,
) -> Program:
    """The function, or each function of a module, as flat code.

    Args:
        program: what to lower, at any stage before flat.
        target: what it is for, as a `Target` or its text: "cuda" takes the GPU pipeline, anything
            else the one for CPUs.
        until: stop after this stage ("loops", "flat") or this pass (by name).
        on_stage: called with the name of each pass and its result.
        checked: whether code for CPUs checks its indices; see `check_accesses`.
        strict_sync: whether kernels for GPUs must have all their barriers; see `require_barriers`.

    With the setting `verify` (TILELOOM_VERIFY=1) the program is checked between passes.

    Raises:
        UserError: `until` names no stage and no pass.
        VerifyError: the program is not legal.
    """
    passes = passes_until(until, pipeline_of(target, checked, strict_sync))
    if isinstance(program, PrimFunc):
        return run_passes(program, passes, on_stage)
    functions = {
        name: run_passes(func, passes, on_stage) for name, func in program.functions.items()
    }
    return program.replace(functions=functions)


def pipeline_of(target: Any, checked: bool = False, strict_sync: bool = False) -> Sequence[Pass]:
    """The passes for a target; None is a CPU.

    Args:
        checked: whether code for CPUs checks its indices.
        strict_sync: whether kernels for GPUs must have all their barriers.
    """
    kind = "cpu" if target is None else parse_target(target).kind
    return _PIPELINES[kind](checked, strict_sync)


def _for_cpus(checked: bool, strict_sync: bool) -> Sequence[Pass]:
    return CHECKED_PIPELINE if checked else PIPELINE


def _for_gpus(checked: bool, strict_sync: bool) -> Sequence[Pass]:
    if not strict_sync:
        return GPU_PIPELINE
    swapped: dict[Pass, Pass] = {thread_storage_sync: require_barriers}
    return [swapped.get(step, step) for step in GPU_PIPELINE]


_PIPELINES: Mapping[str, Callable[[bool, bool], Sequence[Pass]]] = {
    "cpu": _for_cpus,
    "cuda": _for_gpus,
}


def passes_until(until: str | None, pipeline: Sequence[Pass] | None = None) -> Sequence[Pass]:
    """The passes up to a stage or up to a pass, itself included."""
    passes = PIPELINE if pipeline is None else pipeline
    if until is None or until == "flat":
        return passes
    names = [name_of(step) for step in passes]
    last = "lower_opaque_block" if until == "loops" else until
    if last not in names:
        raise UserError(
            f"there is no stage and no pass {until!r}",
            hint=f"one of {', '.join((*STAGES, *names))}",
        )
    return passes[: len(names) - names[::-1].index(last)]


def run_passes(
    func: PrimFunc,
    passes: Sequence[Pass],
    on_stage: OnStage | None = None,
    check: bool | None = None,
) -> PrimFunc:
    """`func` through passes, in order, verified in between if `check` (or the settings) says."""
    if check is None:
        check = settings().verify
    allow_depth(func)
    if check:
        verify(func, "blocks")  # which allows what the later stages do
    stage: str | None = "blocks"
    for step in passes:
        func = step(func)
        stage = ENSURES.get(step, stage)
        if check and stage is not None:
            verify_result(func, stage, name_of(step))
        if on_stage is not None:
            on_stage(name_of(step), func)
    return func


def allow_depth(func: PrimFunc) -> None:
    """Let Python recurse as deep as the statements of a function will nest.

    Every allocation is a level (two, with its declaration). The limit is not lowered again: code
    generation walks the same nest, and other threads may be at theirs.
    """
    depth = deepest = 0
    buffers = 0
    stack: list[tuple[Stmt, int]] = [(func.body, 1)]
    while stack:
        stmt, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(stmt, Block):
            buffers += len(stmt.alloc_buffers)
        stack.extend((child, depth + 1) for child in stmt_children(stmt))
    needed = _SPARE_FRAMES + _FRAMES_OF_A_LEVEL * (deepest + 2 * buffers)
    if needed > sys.getrecursionlimit():
        sys.setrecursionlimit(needed)


def verify_result(func: PrimFunc, stage: str, step: str) -> None:
    """Complain about a pass whose result is not legal; that is our defect, not the user's."""
    try:
        verify(func, stage)
    except VerifyError as error:
        raise InternalError(f"{step} made an illegal program: {error}", str(func)) from error


def name_of(step: Pass) -> str:
    """The name of a pass."""
    return str(getattr(step, "__name__", step))
