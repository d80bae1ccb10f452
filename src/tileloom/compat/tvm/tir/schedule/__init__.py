"""`tvm.tir.schedule`: schedules, traces, and their errors."""

from __future__ import annotations

import sys
from typing import Any

from ..... import schedule
from .....schedule import (
    BlockRV,
    ExprRV,
    Instruction,
    LoopRV,
    ScheduleError,
    StmtSRef,
    Trace,
)
from .....schedule.instruction import find_kind
from .....tir import IRModule, PrimFunc
from ..._names import NodeType, missing
from ...ir.module import IRModule as Module
from ...ir.module import as_module
from ..block_scope import BlockDependenceInfo, BlockScope, Dependency, DepKind
from .state import CachedFlags, ScheduleDebugMask, ScheduleState


class InstructionKind(metaclass=NodeType, node=schedule.InstructionKind):
    """A primitive, as traces know it: `InstructionKind.get("Split")`."""

    @staticmethod
    def get(name: str) -> schedule.InstructionKind:
        """The kind of a name."""
        return find_kind(name)


class Schedule(metaclass=NodeType, node=schedule.Schedule):
    """`Schedule(mod, seed=..., debug_mask=..., error_render_level=..., enable_check=...)`."""

    @staticmethod
    def build(mod: PrimFunc | IRModule, **options: Any) -> schedule.Schedule:
        """A schedule of a function or module."""
        if options.get("seed") == -1:
            options["seed"] = None
        if options.get("debug_mask") is None:
            options.pop("debug_mask", None)
        program = Module({"main": mod}) if isinstance(mod, PrimFunc) else as_module(mod)
        return schedule.Schedule(program, **options)

    @staticmethod
    def _create_non_traced(mod: PrimFunc | IRModule, **options: Any) -> schedule.Schedule:
        """A schedule that records no steps."""
        return Schedule.build(mod, trace=False, **options)


# TVM spreads these over files.
for _file in ("schedule", "trace", "instruction"):
    sys.modules[f"{__name__}.{_file}"] = sys.modules[__name__]

__all__ = [
    "BlockDependenceInfo", "BlockRV", "BlockScope", "CachedFlags", "DepKind", "Dependency",
    "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule", "ScheduleDebugMask",
    "ScheduleError", "ScheduleState", "StmtSRef", "Trace",
]  # fmt: skip
__getattr__ = missing(__name__)
