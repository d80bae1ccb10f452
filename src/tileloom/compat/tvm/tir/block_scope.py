"""`tvm.tir.block_scope`: which blocks of a scope depend on which."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ....schedule import ScheduleState, StmtSRef
from ....schedule.analysis import scope as ours
from ....tir import Block, IRModule, PrimFunc
from .._names import missing
from ..ir.module import as_module


class DepKind(IntEnum):
    """What a later block does to a buffer after what an earlier one has done."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class Dependency(NamedTuple):
    """`dst` depends on `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


class BlockScope:
    """The dependences between the blocks that stand directly in a block."""

    def __init__(self, state: ScheduleState, block: Block) -> None:
        self._state, self._scope = state, ours.block_scope(state, block)

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """What depends on a block."""
        return [self._dependency(d) for d in self._scope.by_src[block.block]]

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """What a block depends on."""
        return [self._dependency(d) for d in self._scope.by_dst[block.block]]

    def _dependency(self, found: ours.Dependence) -> Dependency:
        ends = self._state.sref(found.src), self._state.sref(found.dst)
        return Dependency(*ends, DepKind[found.kind.name])


class BlockDependenceInfo:
    """The dependences in all scopes of a module."""

    def __init__(self, mod: PrimFunc | IRModule) -> None:
        self._state = ScheduleState(as_module(mod))
        self.mod = self._state.mod

    def get_sref(self, block: Block) -> StmtSRef | None:
        """The reference to a block."""
        return self._state.sref_of.get(block)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The dependences between the blocks in a block."""
        return BlockScope(self._state, block_sref.block)


__all__ = ["BlockDependenceInfo", "BlockScope", "DepKind", "Dependency", "StmtSRef"]
__getattr__ = missing(__name__)
