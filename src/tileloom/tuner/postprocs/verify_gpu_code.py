"""VerifyGPUCode: what a GPU cannot run is no candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...base.errors import UserError
from ...expr import Analyzer, Range, Var, substitute
from ...lower import lower, verify_gpu_code
from ...schedule.analysis.tree import child_realizes, is_one, lowest_common_ancestor
from ...schedule.instruction import Instruction
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.trace import DecisionProvider
from ...target import Target
from ...target.limits import GPULimits
from ...tir import VECTORIZED, Buffer, For, IRModule
from ..annotations import FEWEST_THREADS, MOST_THREADS, WARP_EXECUTION
from ..context import TuneContext
from ..rules.binding import thread_tag
from ._common import all_blocks

_VECTOR_BYTES, _VIRTUAL_THREADS = 16, 8
_ALLOCATED = "lower_opaque_block"  # the pass after which memory has its size
_SHARED = "bytes of shared memory"
_OF_A_BLOCK = ("threadIdx", "vthread")


@dataclass(frozen=True, slots=True)
class VerifyGPUCode:
    """Reject what asks for more threads, shared memory or lanes than a kernel may have.

    Threads are compared with what rules have annotated on tiled blocks as well. How much memory a
    kernel takes is seen on the lowered program.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((4096,), name="A")
    >>> B = te.compute((4096,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> outer, inner = sch.split(sch.get_loops("B")[0], [None, 2048])
    >>> sch.bind(outer, "blockIdx.x"); sch.bind(inner, "threadIdx.x")
    >>> VerifyGPUCode().apply(sch, TuneContext(sch.mod, target("cuda -arch=sm_80")))
    False
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Whether the target can run the program; takes no steps."""
        if not _threads_fit(sch, context.target) or not _lanes_fit(sch):
            return False
        if least_shared_bytes(sch) > GPULimits.of(context.target).max_shared_memory_per_block:
            return False
        try:
            return _fits(sch.mod, context.target)
        except UserError:
            return False


def _threads_fit(sch: Schedule, target: Target) -> bool:
    """Whether as many threads run each annotated block as the annotations allow."""
    for _, block in all_blocks(sch):
        notes = block.block.annotations
        if FEWEST_THREADS in notes and MOST_THREADS in notes:
            threads = _threads(block, target)
            fewest, most = int(notes[FEWEST_THREADS]), int(notes[MOST_THREADS])
            if threads is None or not fewest <= threads <= most:
                return False
    return True


def reject_early(sch: Schedule, target: Target) -> DecisionProvider:
    """A decision provider that leaves decisions alone, and a replay where its threads do not fit.

    Rules note how many threads a tile may have as soon as they have bound them. Most tiles drawn at
    random have too many, and most of a replay comes after that.

    Raises:
        UserError: out of the replay.
    """

    def keep(inst: Instruction, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
        if inst.kind.name == "Annotate" and attrs[0] == MOST_THREADS:
            block = sch.get_sref(inputs[0])
            threads = _threads(block, target)
            fewest = block.block.annotations.get(FEWEST_THREADS, 0)
            if threads is None or not int(fewest) <= threads <= int(sch.get(inputs[1])):
                raise UserError(f"{threads} threads for block {block.block.name_hint!r}")
        return decision

    return keep


def _threads(block: StmtSRef, target: Target) -> int | None:
    """How many threads run a block; None if it is not a number."""
    found: dict[str, int | None] = {}  # the innermost loop of each axis counts
    for outer in (block, *block.ancestors()):
        if isinstance(outer.stmt, For):
            tag = thread_tag(outer.stmt)
            if tag.startswith("threadIdx"):
                found.setdefault(tag, outer.stmt.static_extent)
        elif WARP_EXECUTION in outer.block.annotations:
            found.setdefault("threadIdx.x", target.warp_size)
    known = [extent for extent in found.values() if extent is not None]
    return prod(known) if len(known) == len(found) else None


def _lanes_fit(sch: Schedule) -> bool:
    """Whether no access in a loop of lanes is to more bytes than an instruction takes."""
    lanes = [
        (node.static_extent or 1, sref)
        for node, sref in sch.state.sref_of.items()
        if isinstance(node, For) and node.kind == VECTORIZED
    ]
    return all(count * _widest(sch, loop) <= _VECTOR_BYTES for count, loop in lanes)


def _widest(sch: Schedule, loop: StmtSRef) -> int:
    """The bytes of the largest element that a loop's blocks read or write."""
    blocks = [realize.block for realize in child_realizes(sch.state, loop.loop)]
    regions = [region for block in blocks for region in (*block.reads, *block.writes)]
    return max((region.buffer.dtype.bytes for region in regions), default=1)


def least_shared_bytes(sch: Schedule) -> int:
    """Shared memory that a program needs in any case: what one of its blocks reads of it.

    Lowering would find the same in most programs, and takes a hundred times as long.
    """
    blocks = [block for _, block in all_blocks(sch)]
    writers: dict[Buffer, StmtSRef] = {}
    for block in blocks:
        for region in block.block.writes:
            if region.buffer.scope.startswith("shared"):
                writers.setdefault(region.buffer, block)
    return max((_bytes_read(sch, block, writers) for block in blocks), default=0)


def _bytes_read(sch: Schedule, block: StmtSRef, writers: Mapping[Buffer, StmtSRef]) -> int:
    """What all runs of a block read of shared memory between two times that it is written."""
    realize = sch.state.realize(block)
    regions = [region for region in block.block.reads if region.buffer in writers]
    if not regions or not is_one(realize.predicate):
        return 0
    total = 0
    for region in {region.buffer: region for region in regions}.values():
        common = lowest_common_ancestor([block, writers[region.buffer]])
        known = Analyzer(_running(block, common))
        count = 1
        for part in region.region:
            low, high = known.const_int_bound(substitute(part.min, realize.bindings))
            count *= int(high - low) + 1
        total += count * region.buffer.dtype.bytes
    return total


def _running(block: StmtSRef, common: StmtSRef) -> dict[Var, Range]:
    """The loops around a block: those inside of a place and threads run, others stand still."""
    inside, found = True, {}
    for outer in block.ancestors():
        inside = inside and outer is not common
        if isinstance(outer.stmt, For):
            runs = inside or thread_tag(outer.stmt).startswith(_OF_A_BLOCK)
            found[outer.stmt.loop_var] = outer.stmt.domain if runs else Range(0, 1)
    return found


def _fits(mod: IRModule, target: Target) -> bool:
    limits = replace(
        GPULimits.of_hardware(target), max_vthread=_VIRTUAL_THREADS, constant_threads=True
    )
    for func in mod.functions.values():
        reasons = verify_gpu_code(lower(func, target, until=_ALLOCATED), limits)
        if any(_SHARED not in reason for reason in reasons):
            return False
        # Buffers of one kernel may take turns in its memory, which later passes find out.
        if reasons and verify_gpu_code(lower(func, target), limits):
            return False
    return True
