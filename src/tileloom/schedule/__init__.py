"""Schedules: programs transformed step by step, the steps recorded as a trace."""

from .errors import ScheduleError
from .instruction import Instruction, InstructionKind
from .rv import BlockRV, ExprRV, LoopRV, SparseIterationRV
from .schedule import Schedule
from .sref import StmtSRef
from .state import ScheduleState
from .trace import Trace

__all__ = [
    "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule", "ScheduleError",
    "ScheduleState", "SparseIterationRV", "StmtSRef", "Trace",
]  # fmt: skip
