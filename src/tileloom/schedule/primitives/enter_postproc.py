"""enter_postproc: a mark in the trace."""

from __future__ import annotations

from ..instruction import primitive
from ..state import ScheduleState


@primitive("EnterPostproc")
def enter_postproc(state: ScheduleState) -> None:
    """Mark where the post-processing of a tuner starts; the program does not change."""
