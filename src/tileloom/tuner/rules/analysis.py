"""What rules ask of a block: whether tiling pays, and how its reads follow its writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...expr import SPATIAL, Add, Expr, IntImm, Sub, Var, free_vars
from ...schedule.analysis.blocks import has_trivial_binding
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...tir import Block, BufferRegion
from ..annotations import TILING_STRUCTURE


def is_spatial(block: Block) -> bool:
    """Whether all iterations of a block are data-parallel."""
    return all(axis.iter_type == SPATIAL for axis in block.iter_vars)


def is_tiled(block: Block) -> bool:
    """Whether a rule of multi-level tiling has been here."""
    return TILING_STRUCTURE in block.annotations


def needs_multi_level_tiling(state: ScheduleState, sref: StmtSRef) -> bool:
    """Whether a block is a reduction that reads some of its inputs again and again.

    It writes one buffer, its iteration variables are plainly its loops, and at least one
    data-parallel one, of more than one value, does not index all of what is read.
    """
    block = sref.block
    if is_tiled(block) or is_spatial(block) or len(block.writes) != 1 or not block.reads:
        return False
    buffers = [region.buffer for region in block.reads]
    if len(set(buffers)) < len(buffers) or not has_trivial_binding(state, sref):
        return False
    axes = [axis for axis in block.iter_vars if axis.iter_type == SPATIAL]
    spatial = {axis.var for axis in axes if not _is_unit(axis.domain.min, axis.domain.extent)}
    inputs = [r for r in block.reads if r.buffer is not block.writes[0].buffer]
    if any(not isinstance(part.extent, IntImm) for region in inputs for part in region.region):
        return False
    return any(spatial - _starts_use(region) for region in inputs)


def _is_unit(start: Expr, extent: Expr) -> bool:
    values = [part.value for part in (start, extent) if isinstance(part, IntImm)]
    return values == [0, 1]


def _starts_use(region: BufferRegion) -> set[Var]:
    return {var for part in region.region for var in free_vars(part.min)}


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """How the indices of a read follow those of a write, whose indices are plain variables.

    Attributes:
        surjective: each index of the write is somewhere in the read.
        injective: none is there twice.
        ordered: they come in the same order.
        no_const_read: no index of the read is a constant.
        no_shift_read: none is a variable plus or minus a constant.
    """

    surjective: bool
    injective: bool
    ordered: bool
    no_const_read: bool
    no_shift_read: bool


def access_pattern(read: BufferRegion, write: BufferRegion) -> AccessPattern | None:
    """How a read follows a write; None unless the indices are variables, shifted or constant."""
    if any(not isinstance(p.extent, IntImm) for r in (read, write) for p in r.region):
        return None
    places: dict[Var, int] = {}
    for place, part in enumerate(write.region):
        if not isinstance(part.min, Var):
            return None
        places.setdefault(part.min, place)
    starts = [part.min for part in read.region if not isinstance(part.min, IntImm)]
    parts = [_var_and_shift(start) for start in starts]
    found = [places[var] for var, _ in parts if var is not None and var in places]
    if len(found) < len(starts):
        return None
    return AccessPattern(
        surjective=len(set(found)) == len(write.region),
        injective=len(set(found)) == len(found),
        ordered=_is_sorted(found),
        no_const_read=len(starts) == len(read.region),
        no_shift_read=not any(shifted for _, shifted in parts),
    )


def _var_and_shift(value: Expr) -> tuple[Var | None, bool]:
    """The variable of `var`, `var + constant` or `var - constant`, and whether it is shifted."""
    match value:
        case Var():
            return value, False
        case Add(a=Var() as var, b=IntImm()) | Sub(a=Var() as var, b=IntImm()):
            return var, True
    return None, False


def _is_sorted(places: Sequence[int]) -> bool:
    return all(a <= b for a, b in pairwise(places))


def is_write_cache(block: Block) -> bool:
    """Whether a block writes one buffer, element by element in the order of all that it reads.

    A copy does, and also a sum or an activation of such elements.
    """
    if len(block.writes) != 1:
        return False
    patterns = [access_pattern(read, block.writes[0]) for read in block.reads]
    return all(p is not None and p.injective and p.ordered for p in patterns)
