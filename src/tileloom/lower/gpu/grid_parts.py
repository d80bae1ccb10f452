"""Which blocks of one kernel make what a block of the next needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from ...expr import Expr, IntImm, Range, Var, has_load, post_order
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    stmt_children,
    stmt_exprs,
)
from ..analysis.linear import linear
from ..analysis.thread_places import MANY, NOBODY, Array, Threads
from ..analysis.threads import KernelBody

GRID_TAG = "blockIdx.x"


def blocks_of(kernel: KernelBody) -> int | None:
    """The number of blocks of a kernel on one axis whose threads are counted."""
    tags = [tag for tag in kernel.threads if tag.startswith("blockIdx")]
    counted = all(isinstance(extent, IntImm) for _, extent in kernel.threads.values())
    return int(kernel.threads[GRID_TAG][1]) if counted and tags == [GRID_TAG] else None  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Around:
    """Loops and conditions around a statement."""

    loops: Mapping[Var, Range | None] = field(default_factory=dict)
    conditions: tuple[tuple[Expr, bool], ...] = ()

    def with_loop(self, var: Var, run: Range | None) -> Around:
        return Around({**self.loops, var: run}, self.conditions)

    def where(self, condition: Expr, holds: bool) -> Around:
        return Around(self.loops, (*self.conditions, (condition, holds)))


@dataclass(frozen=True, slots=True)
class DeviceAccess:
    """An access to memory of the device."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    around: Around
    predicated: bool
    is_store: bool = False


def places(stmt: Stmt, memory: Set[Var], around: Around) -> Iterator[DeviceAccess]:
    """Where some memory is stored to or loaded from."""
    for expr in stmt_exprs(stmt):
        for node in post_order(expr) if has_load(expr) else ():
            if isinstance(node, BufferLoad) and node.buffer.data in memory:
                yield DeviceAccess(node.buffer, node.indices, around, node.predicate is not None)
    match stmt:
        case BufferStore(buffer=buffer) if buffer.data in memory:
            yield DeviceAccess(buffer, stmt.indices, around, stmt.predicate is not None, True)
        case For():
            yield from places(stmt.body, memory, around.with_loop(stmt.loop_var, stmt.domain))
        case LetStmt():
            yield from places(stmt.body, memory, around.with_loop(stmt.var, None))
        case IfThenElse():
            yield from places(stmt.then_case, memory, around.where(stmt.condition, True))
            if stmt.else_case is not None:
                yield from places(stmt.else_case, memory, around.where(stmt.condition, False))
        case _:
            for child in stmt_children(stmt):
                yield from places(child, memory, around)


def _owners(kernel: KernelBody, data: Var) -> Array | None:
    """By element, the block that touches it; None where that is not known of each."""
    var, extent = kernel.threads[GRID_TAG]
    batch = Threads({var: extent})
    threads = {v: (0, int(n)) for tag, (v, n) in kernel.threads.items() if tag != GRID_TAG}  # type: ignore[call-overload]
    owners = np.full(0, NOBODY, np.int64)
    for place in places(kernel.root, {data}, Around()):
        loops = dict(threads)
        for loop, run in place.around.loops.items():
            if run is None or not isinstance(run.min, IntImm) or not isinstance(run.extent, IntImm):
                return None
            loops[loop] = run.min.value, run.extent.value
        index = linear(place.indices[0])
        found = batch.places(index, loops, place.around.conditions)
        if found is None or found.low < 0 or (found.owner == MANY).any():
            return None
        end = found.low + len(found.owner)
        if end > len(owners):
            owners = np.append(owners, np.full(end - len(owners), NOBODY, np.int64))
        here = owners[found.low : end]
        if ((here != NOBODY) & (found.owner != NOBODY) & (here != found.owner)).any():
            return None
        here[found.owner != NOBODY] = found.owner[found.owner != NOBODY]
    return owners


def blocks_of_a_part(first: KernelBody, second: KernelBody, needed: Set[Var]) -> int | None:
    """How many neighbouring blocks of the first kernel make what one of the second needs."""
    blocks, later = blocks_of(first) or 0, blocks_of(second) or 0
    reader = np.full(blocks, NOBODY, np.int64)
    for data in sorted(needed, key=lambda var: var.serial):
        made, used = _owners(first, data), _owners(second, data)
        if made is None or used is None:
            return None
        size = min(len(made), len(used))
        both = (made[:size] != NOBODY) & (used[:size] != NOBODY)
        makers, users = made[:size][both], used[:size][both]
        known = reader[makers]
        if ((known != NOBODY) & (known != users)).any():
            return None
        reader[makers] = users
        if (reader[makers] != users).any():
            return None
    together = int((reader == 0).sum())
    if together < 1 or -(-blocks // together) != later:
        return None
    expected = np.arange(blocks) // together
    return together if (reader == expected).all() else None
