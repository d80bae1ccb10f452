"""What code is made for: machines, the instructions that they have, their matrix units."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, room

if TYPE_CHECKING:
    from .description import FAST_MATH, Target, current_process_may_run
    from .parse import target

room(__name__, description="FAST_MATH Target current_process_may_run", parse="target")

__all__ = ["FAST_MATH", "Target", "current_process_may_run", "target"]
