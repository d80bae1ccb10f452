"""Debug mode: everything that analyses remember, derived anew and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.errors import InternalError
from ..sref import StmtSRef
from ..state import ScheduleState
from .affine import affine_binding
from .blocks import complete_fault, reduction_fault
from .cover import region_cover_fault, stage_pipeline_fault
from .scope import scope_of


def verify_analyses(state: ScheduleState) -> None:
    """Compare what the memoised analyses say with what they say on a state that knows nothing.

    Raises:
        InternalError: names the block and the analysis that differ.
    """
    fresh, twins = state.copy()
    fresh.memo = {}
    for sref in list(state.sref_of.values()):
        if not sref.is_block:
            continue
        for (name, known), (_, anew) in zip(
            facts(state, sref), facts(fresh, twins[sref]), strict=True
        ):
            if known != anew:
                raise InternalError(f"{name} of {sref!r} is remembered as {known!r}, is {anew!r}")


def facts(state: ScheduleState, block: StmtSRef) -> Iterator[tuple[str, Any]]:
    """What analyses say of a block."""
    pipeline = stage_pipeline_fault(state, block)
    yield "stage pipeline", None if pipeline is None else pipeline[0]
    if block.parent is None:
        return
    scope = next(outer for outer in block.ancestors() if outer.is_block)
    yield "affine binding", affine_binding(state, block)
    yield "region cover", region_cover_fault(state, block)
    yield "complete", complete_fault(state, block, scope)
    yield "reduction", reduction_fault(state, block, scope)
    yield "producers", scope_of(state, block).producers(block.block)
