"""MutateParallel: other loops are shared among the cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import SPATIAL
from ...schedule.analysis.blocks import loop_iter_type
from ...schedule.analysis.tree import child_blocks, loops_above
from ...schedule.instruction import Instruction
from ...schedule.random import Random
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...schedule.trace import Trace
from ...tir import SERIAL, For
from ..annotations import PARALLEL
from ..context import TuneContext
from .steps import one_of, sampling_part


@dataclass(frozen=True, slots=True)
class MutateParallel:
    """Another limit for the iterations that are shared among cores, with another effect.

    Attributes:
        max_jobs_per_core: the limit is at most this, times the number of cores.
    """

    max_jobs_per_core: int = 16

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with another limit; None if all limits come to the same."""
        marks = [inst for inst in sampling_part(trace) if _is_limit(inst)]
        if not marks:
            return None
        mark = one_of(marks, random)
        most = self.max_jobs_per_core * context.target.cores
        chains = _products_by_block(trace, mark, context, random)
        current = _plan(chains, mark.inputs[1])
        limits: dict[tuple[int, ...], int] = {}
        for limit in sorted({1, *(p for chain in chains for p in chain if p <= most)}):
            limits.setdefault(_plan(chains, limit), limit)
        limits.pop(current, None)
        return _with_limit(trace, mark, one_of([*limits.values()], random)) if limits else None


def _is_limit(inst: Instruction) -> bool:
    return (
        inst.kind.name == "Annotate"
        and inst.attrs[0] == PARALLEL
        and isinstance(inst.inputs[1], int)
    )


def _products_by_block(
    trace: Trace, mark: Instruction, context: TuneContext, random: Random
) -> list[list[int]]:
    """For each block under the one that has the limit: its outer loops' extents, multiplied up."""
    sch = Schedule(context.mod, seed=random.fork_seed())
    marked: list[Any] = []

    def look(inst: Instruction, inputs: list[Any], _attrs: list[Any], decision: Any) -> Any:
        if inst is mark:
            marked.append(inputs[0])
        return decision

    trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=look)
    blocks = child_blocks(sch.state, sch.get_sref(marked[0]))
    return [_products(sch.state, block) for block in blocks]


def _products(state: ScheduleState, block: StmtSRef) -> list[int]:
    """Of the loops that could be fused into one that runs in parallel, from the outermost on."""
    result: list[int] = []
    for sref in loops_above(block):
        loop, extent = sref.loop, sref.loop.static_extent
        plain = loop.kind == SERIAL and not loop.annotations
        if extent is None or not plain or loop_iter_type(state, sref) != SPATIAL:
            break
        result.append(extent * (result[-1] if result else 1))
        if not isinstance(loop.body, For):
            break
    return result


def _plan(chains: Sequence[Sequence[int]], limit: int) -> tuple[int, ...]:
    """How many iterations of each block run in parallel: loops up to the one that exceeds it."""
    return tuple(
        next((product for product in chain if product > limit), chain[-1] if chain else 1)
        for chain in chains
    )


def _with_limit(trace: Trace, mark: Instruction, limit: int) -> Trace:
    changed = Instruction(mark.kind, [mark.inputs[0], limit], mark.attrs, mark.outputs)
    insts = [changed if inst is mark else inst for inst in sampling_part(trace)]
    return Trace(insts, {i: trace.decisions[i] for i in insts if i in trace.decisions})
