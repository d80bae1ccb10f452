"""`tvm.tir.schedule.state`: a program with references to its loops and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ..... import schedule
from .....schedule import StmtSRef
from .....schedule.analysis.affine import affine_binding
from .....schedule.analysis.cover import region_cover_fault, stage_pipeline_fault
from .....schedule.analysis.debug import verify_analyses
from .....tir import Block, For, IRModule, PrimFunc, Stmt
from ..._names import NodeType, missing
from ...ir.module import IRModule as Module
from ...ir.module import as_module
from ..block_scope import BlockScope


class ScheduleDebugMask(IntEnum):
    """What a schedule checks after each step: bits of `debug_mask`."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class CachedFlags(NamedTuple):
    """What is known of a block."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


_MASKS = {"none": 0, "all": 3}


class _State(schedule.ScheduleState):
    """Our state, under the names by which TVM's is asked."""

    def get_sref(self, stmt: Stmt) -> StmtSRef | None:
        """The reference to a loop or block; None if it is not in the program."""
        return self.sref_of.get(stmt)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The dependences between the blocks in a block."""
        return BlockScope(self, block_sref.block)

    def _get_cached_flags(self, block_sref: StmtSRef) -> CachedFlags:
        is_root = block_sref.parent is None
        return CachedFlags(
            is_root or affine_binding(self, block_sref),
            is_root or region_cover_fault(self, block_sref) is None,
            stage_pipeline_fault(self, block_sref) is None,
        )

    def replace(
        self,
        src: StmtSRef,
        new: Stmt,
        block_map: Mapping[Block, Block] | None = None,
        *,
        block_sref_reuse: Mapping[Block, Block] | None = None,
    ) -> None:
        """Put a statement in the place of a loop or block."""
        super().replace(src, new, block_sref_reuse if block_map is None else block_map)
        if self.debug_mask & ScheduleDebugMask.VERIFY_SREF_TREE:
            self.verify_references()
        if self.debug_mask & ScheduleDebugMask.VERIFY_CACHED_FLAGS:
            verify_analyses(self)


class ScheduleState(metaclass=NodeType, node=schedule.ScheduleState):
    """`ScheduleState(mod, debug_mask="all")`."""

    @staticmethod
    def build(
        mod: PrimFunc | IRModule, *, debug_mask: str | int = "none", enable_check: bool = True
    ) -> _State:
        """The state of a function or module."""
        program: Any = Module({"main": mod}) if isinstance(mod, PrimFunc) else as_module(mod)
        mask = _MASKS[debug_mask] if isinstance(debug_mask, str) else debug_mask
        return _State(program, debug_mask=mask, enable_check=enable_check)


__all__ = ["Block", "CachedFlags", "For", "ScheduleDebugMask", "ScheduleState", "StmtSRef"]
__getattr__ = missing(__name__)
