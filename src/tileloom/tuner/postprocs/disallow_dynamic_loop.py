"""DisallowDynamicLoop: no loops whose number of iterations is not known."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import IntImm
from ...schedule.schedule import Schedule
from ...tir import For
from ..context import TuneContext


@dataclass(frozen=True, slots=True)
class DisallowDynamicLoop:
    """Reject candidates with a loop of unknown extent, which sampling steps could not split."""

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Whether all extents are numbers."""
        nodes = sch.state.sref_of
        return all(isinstance(node.extent, IntImm) for node in nodes if isinstance(node, For))
