"""Loops and blocks over positions, from the variables of an iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.record import Record, field
from ..expr import Expr, IterVar, Range, Var, cast, conjunction, const, post_order, substitute
from ..tir import (
    Axis,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    For,
    IfThenElse,
    Stmt,
    infer_block_access,
)
from ..tir.sparse import FusedAxis


class LoopOver(Record):
    """A loop over the positions of an axis below one position of its parent.

    Attributes:
        var: the position.
        axis: the axis; of fused ones their last part.
        extent: how many positions there are.
        kind: SPATIAL or REDUCE.
    """

    var: Var
    axis: Axis
    extent: Expr
    kind: int

    @property
    def domain(self) -> Range:
        """The range of the position for any position of the parent."""
        return Range(const(0, self.var.dtype), cast(self.var.dtype, self.axis.positions))

    @property
    def own_axes(self) -> tuple[Axis, ...]:
        """The axes that children name as their parent."""
        return self.axis.group if isinstance(self.axis, FusedAxis) else (self.axis,)


class GuardedStmt(Record):
    """A statement that runs under conditions, with memory of its own."""

    stmt: Stmt
    conditions: tuple[Expr, ...] = ()
    buffers: tuple[Buffer, ...] = ()

    def guarded(self) -> Stmt:
        """The statement in a branch where there are conditions."""
        return guarded(self.conditions, self.stmt)


class Start(Record):
    """How a block starts its results: the number of the block among those of a nest."""

    block: int
    leaf: GuardedStmt


def guarded(conditions: Sequence[Expr], stmt: Stmt) -> Stmt:
    """A statement where all conditions hold."""
    return IfThenElse(conjunction(conditions), stmt) if conditions else stmt


def grouped(loops: Sequence[LoopOver]) -> list[list[LoopOver]]:
    """The loops of each block, outermost first.

    A loop whose extent depends on a position of the block itself opens a block of its own.
    """
    groups: list[list[LoopOver]] = [[]]
    for loop in loops:
        axis = loop.axis
        if axis.is_variable and any(axis.parent in other.own_axes for other in groups[-1]):
            groups.append([])
        groups[-1].append(loop)
    return groups


class Nest(Record):
    """Blocks `<name>0`, `<name>1`, ... each below the loops of its group and inside the last."""

    name: str
    groups: list[list[LoopOver]]
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def around(self, leaf: GuardedStmt, start: Start | None = None) -> Stmt:
        """The nest with a statement in the innermost block."""
        for number in range(len(self.groups) - 1, -1, -1):
            own = start.leaf if start is not None and start.block == number else None
            leaf = GuardedStmt(self._block(number, leaf, own))
        return leaf.stmt

    def _block(self, number: int, leaf: GuardedStmt, start: GuardedStmt | None) -> Stmt:
        loops = self.groups[number]
        outside = {loop.var: Var(_loop_name(loop.var.name), loop.var.dtype) for loop in loops}
        outer = [condition for condition in leaf.conditions if not _loads(condition)]
        inner = [condition for condition in leaf.conditions if _loads(condition)]
        block = Block(
            tuple(IterVar(loop.domain, loop.var, loop.kind) for loop in loops),
            (),
            (),
            f"{self.name}{number}",
            guarded(inner, leaf.stmt),
            None if start is None else guarded(_without(start.conditions, outer), start.stmt),
            leaf.buffers,
            annotations={"sparse": True, **self.annotations},
        )
        reads, writes = infer_block_access(block)
        where = conjunction(substitute(c, outside) for c in outer) if outer else const(True)
        nest: Stmt = BlockRealize(
            tuple(outside[loop.var] for loop in loops),
            where,
            block.replace(reads=reads, writes=writes),
        )
        for loop in reversed(loops):
            zero = const(0, loop.var.dtype)
            nest = For(outside[loop.var], zero, loop.extent, "serial", nest)
        return nest


def block_name(name: str) -> str:
    """The name of a position in a block: `vi` for the variable `i`, and for `vi`, too."""
    return name if _is_prefixed(name) else f"v{name}"


def _loop_name(name: str) -> str:
    return name[1:].lstrip("_") if _is_prefixed(name) else name


def _is_prefixed(name: str) -> bool:
    return len(name) > 1 and name[0] == "v" and bool(name[1:].lstrip("_"))


def _without(conditions: Sequence[Expr], known: Sequence[Expr]) -> list[Expr]:
    return [c for c in conditions if not any(c is other for other in known)]


def _loads(expr: Expr) -> bool:
    return any(isinstance(part, BufferLoad) for part in post_order(expr))
