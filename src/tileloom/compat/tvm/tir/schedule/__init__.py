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
from .....schedule.primitives.transform_layout import accessed_region, find_access
from .....tir import IRModule, PrimFunc
from ..._names import NodeType, missing
from ...ir.module import IRModule as Module
from ...ir.module import as_module
from ..block_scope import BlockDependenceInfo, BlockScope, Dependency, DepKind
from ..function import IndexMap
from .state import CachedFlags, ScheduleDebugMask, ScheduleState


class InstructionKind(metaclass=NodeType, node=schedule.InstructionKind):
    """A primitive, as traces know it: `InstructionKind.get("Split")`."""

    @staticmethod
    def get(name: str) -> schedule.InstructionKind:
        """The kind of a name."""
        return find_kind(name)


class _Schedule(schedule.Schedule):
    """Our schedule; an index map may say where the axes of the buffer separate.

    Refusals end with TVM's words, which scripts may look for.
    """

    def _complete(self, error: ScheduleError, kind: Any, arguments: Any) -> None:
        super()._complete(error, kind, arguments)
        error.with_fast = True

    def transform_layout(  # type: ignore[override,unused-ignore]
        self, block: Any, buffer: Any, index_map: Any, pad_value: Any = None, **options: Any
    ) -> None:
        """As ours, then `set_axis_separator` where the map has `IndexMap.AXIS_SEPARATOR`."""
        block = self.get_block(block) if isinstance(block, str) else block
        separators: list[int] = []
        if callable(index_map):
            sref = self.get_sref(block)
            access = find_access(sref, buffer)
            region = accessed_region(sref, **access)
            buffer = ("write" if access["buffer_index_type"] else "read", access["buffer_index"])
            index_map, separators = IndexMap.from_func_with_separators(
                index_map, region.buffer.ndim, index_dtype=_index_dtype(sref.block)
            )
        super().transform_layout(block, buffer, index_map, pad_value, **options)
        if separators:
            self.set_axis_separator(block, buffer, separators)


def _index_dtype(block: Any) -> str:
    """The type of a block's indices."""
    return str(block.iter_vars[0].var.dtype) if block.iter_vars else "int32"


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
        return _Schedule(program, **options)

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
