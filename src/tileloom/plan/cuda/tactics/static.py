"""The tactics in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....schedule.schedule import Schedule
from ....tir import IRModule, PrimFunc
from .align_loops import align_loops
from .bind_axes import bind_axes
from .factor_reductions import factor_reductions
from .fuse_nests import fuse_horizontally, fuse_vertically
from .inline_compute import inline_compute
from .place_storage import place_storage

TACTICS: Sequence[Callable[[Schedule], list[str]]] = (
    align_loops,
    inline_compute,
    factor_reductions,
    fuse_horizontally,
    fuse_vertically,
    bind_axes,
    place_storage,
)


@dataclass(frozen=True)
class TacticStage:
    """What a tactic did, and the program after it."""

    tactic: str
    said: Sequence[str]
    module: IRModule

    def __str__(self) -> str:
        return "\n".join([f"# {self.tactic}", *(f"#   {line}" for line in self.said)])


def schedule_static(mod: IRModule | PrimFunc) -> tuple[Schedule, list[TacticStage]]:
    """A group of static shapes as one GPU kernel, tactic by tactic.

    Returns:
        The schedule, and the program after each tactic with what the tactic says of it.

    Raises:
        GroupRefused: blocks of threads would have to wait for each other.
    """
    sch = Schedule(mod)
    stages = []
    for tactic in TACTICS:
        said = tactic(sch)
        stages.append(TacticStage(tactic.__name__, said, sch.mod))
    return sch, stages
