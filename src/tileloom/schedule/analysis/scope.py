"""Dependences between the blocks of a scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ...tir import Block, Buffer, Stmt
from ..sref import StmtSRef
from ..state import ScheduleState
from .memo import memoised
from .tree import child_realizes, scope_root


class DepKind(Enum):
    """What a later block does to a buffer after what an earlier block has done."""

    RAW = "read after write"
    WAW = "write after write"
    WAR = "write after read"


@dataclass(frozen=True, slots=True)
class Dependence:
    """`dst` comes after `src` and both touch a buffer."""

    src: Block
    dst: Block
    kind: DepKind


@dataclass(frozen=True, slots=True)
class BlockScope:
    """The blocks directly in a scope (or in a loop), in program order, and their dependences.

    Buffers count as a whole: two regions of one buffer are taken to overlap.
    """

    blocks: tuple[Block, ...]
    by_src: dict[Block, tuple[Dependence, ...]]
    by_dst: dict[Block, tuple[Dependence, ...]]
    writers: dict[Buffer, tuple[Block, ...]]

    def producers(self, block: Block) -> list[Block]:
        """The blocks that write what a block reads."""
        return _each_once(d.src for d in self.by_dst[block] if d.kind is DepKind.RAW)

    def consumers(self, block: Block) -> list[Block]:
        """The blocks that read what a block writes."""
        return _each_once(d.dst for d in self.by_src[block] if d.kind is DepKind.RAW)


def _each_once(blocks: Iterable[Block]) -> list[Block]:
    return list(dict.fromkeys(blocks))


Buffers = dict[Buffer, None]


@memoised
def accessed_buffers(state: ScheduleState, block: Block) -> tuple[Buffers, Buffers]:
    """The buffers that a block reads and writes, each once, in order.

    A block without variables that declares nothing (loop_partition makes such, as TVM does) is
    looked into.
    """
    reads = dict.fromkeys(region.buffer for region in block.reads)
    writes = dict.fromkeys(region.buffer for region in block.writes)
    if is_silent(block):
        for realize in child_realizes(state, block):
            inner = accessed_buffers(state, realize.block)
            reads.update(inner[0])
            writes.update(inner[1])
    return reads, writes


def is_silent(block: Block) -> bool:
    """Whether a block has no variables and declares nothing: analyses look into it."""
    return not (block.iter_vars or block.reads or block.writes)


def speaking_blocks(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """A block itself; of one that declares nothing, the blocks in it that do."""
    if not is_silent(block.block):
        return [block]
    inside = (state.sref(realize.block) for realize in child_realizes(state, block.block))
    return [found for child in inside for found in speaking_blocks(state, child)]


@memoised
def block_scope(state: ScheduleState, stmt: Stmt) -> BlockScope:
    """The scope of a block, or the part of one inside a loop."""
    blocks = tuple(realize.block for realize in child_realizes(state, stmt))
    edges: list[Dependence] = []
    writers: dict[Buffer, list[Block]] = {}
    readers: dict[Buffer, list[Block]] = {}
    for block in blocks:
        # Each buffer once, in order; a block does not depend on itself.
        reads, writes = accessed_buffers(state, block)
        for buffer in reads:
            edges += [Dependence(w, block, DepKind.RAW) for w in writers.get(buffer, ())]
        for buffer in writes:
            edges += [Dependence(w, block, DepKind.WAW) for w in writers.get(buffer, ())]
            edges += [Dependence(r, block, DepKind.WAR) for r in readers.get(buffer, ())]
        for buffer in reads:
            readers.setdefault(buffer, []).append(block)
        for buffer in writes:
            writers.setdefault(buffer, []).append(block)
    by_src: dict[Block, list[Dependence]] = {block: [] for block in blocks}
    by_dst: dict[Block, list[Dependence]] = {block: [] for block in blocks}
    for edge in dict.fromkeys(edges):
        by_src[edge.src].append(edge)
        by_dst[edge.dst].append(edge)
    return BlockScope(
        blocks,
        {block: tuple(found) for block, found in by_src.items()},
        {block: tuple(found) for block, found in by_dst.items()},
        {buffer: tuple(found) for buffer, found in writers.items()},
    )


def is_seen_outside(state: ScheduleState, loop: StmtSRef, buffer: Buffer) -> bool:
    """Whether a buffer is used by more than what a loop holds; if not, each iteration has its own.

    Lowering puts a buffer inside of the innermost loop that holds all that uses it.
    """
    scope = scope_root(loop)
    if buffer not in scope.block.alloc_buffers:
        return True
    inside = {realize.block for realize in child_realizes(state, loop.loop)}
    return any(
        buffer in side
        for realize in child_realizes(state, scope.block)
        if realize.block not in inside
        for side in accessed_buffers(state, realize.block)
    )


def scope_of(state: ScheduleState, sref: StmtSRef) -> BlockScope:
    """The scope that a block or loop stands in."""
    return block_scope(state, scope_root(sref).block)


def producers(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """The blocks in the scope that write what a block reads, in program order."""
    return [state.sref(found) for found in scope_of(state, block).producers(block.block)]


def consumers(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """The blocks in the scope that read what a block writes, in program order."""
    return [state.sref(found) for found in scope_of(state, block).consumers(block.block)]
