"""Which variables run over which axes, and which indices need no search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..base.record import Record
from ..expr import Expr, Var, free_vars, post_order
from ..tir import (
    Axis,
    BufferLoad,
    BufferStore,
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    all_exprs,
    stmt_children,
    stmt_exprs,
)
from ..tir.sparse import MERGED, AttachedAxis, FusedAxis


def own_axis(axis: Axis) -> Axis:
    """The axis that buffers are over and children stand below: what a derived axis is made of."""
    match axis:
        case FusedAxis():
            return axis.base
        case AttachedAxis(base=Axis() as base):
            return base
        case _:
            return axis


def parts_of_axis(axis: Axis) -> tuple[Axis, ...]:
    """The axes that a merged axis is made of."""
    return axis.parts if isinstance(axis, MERGED) else ()


def loops_of(items: Sequence[SpIterVar]) -> list[list[SpIterVar]]:
    """The variables of each loop: one, or all parts of fused axes."""
    found: list[list[SpIterVar]] = []
    for group, run in groupby(items, lambda item: getattr(item.axis, "group", item)):
        same = list(run)
        width = len(group) if isinstance(group, tuple) else 1
        found += [same[k : k + width] for k in range(0, len(same), width)]
    return found


class IteratedVar(Record):
    """A variable of an iteration in scope.

    Attributes:
        item: the variable and the axis that it is declared over.
        above: the variable below whose position (of an attached axis: coordinate) it runs.
    """

    item: SpIterVar
    above: Var | None

    @property
    def axis(self) -> Axis:
        """The axis that it has positions on."""
        return own_axis(self.item.axis)


class IterationScope:
    """The variables of an iteration and of those around it."""

    def __init__(self, outer: IterationScope | None = None) -> None:
        self.of_var: dict[Var, IteratedVar] = {} if outer is None else dict(outer.of_var)
        self.of_axis: dict[Axis, Var] = {} if outer is None else dict(outer.of_axis)
        self.around: tuple[SparseIteration, ...] = () if outer is None else outer.around

    def inside(self, stmt: SparseIteration) -> IterationScope:
        """The scope of the body of an iteration in this scope."""
        scope = IterationScope(self)
        scope.around = (*self.around, stmt)
        for item in stmt.sp_iter_vars:
            scope.enter(item)
        return scope

    def above(self, axis: Axis) -> Var | None:
        """The variable over the parent of an axis; None for a root, and where there is none."""
        if isinstance(axis, FusedAxis):
            return self.of_axis.get(axis.group[axis.index - 1]) if axis.index else None
        return None if axis.parent is None else self.of_axis.get(axis.parent)

    def enter(self, item: SpIterVar) -> None:
        """Add a variable; the one over its parent is there."""
        self.of_var[item.var] = IteratedVar(item, self.above(item.axis))
        self.of_axis[item.axis] = self.of_axis[own_axis(item.axis)] = item.var

    def own_indices(self, buffer: SparseBuffer, indices: Sequence[Expr]) -> set[int]:
        """The numbers of the indices that are just the variable over the axis of the buffer there.

        Their positions are those of the variable; on other axes coordinates are looked up.
        """
        found: set[int] = set()
        for k, axis in enumerate(buffer.axes):
            index = indices[k]
            iterated = self.of_var.get(index) if isinstance(index, Var) else None
            if iterated is None or iterated.axis is not axis:
                continue
            if axis.parent is None:
                found.add(k)
                continue
            above = buffer.axes.index(axis.parent)
            attached = isinstance(iterated.item.axis, AttachedAxis)
            if indices[above] is iterated.above and (attached or above in found):
                found.add(k)
        return found


def needed_vars(stmt: SparseIteration, part: Stmt) -> list[SpIterVar]:
    """The variables that a part of an iteration needs, and those over the axes above them."""
    used = {var for expr in all_exprs(part) for var in free_vars(expr)}
    scope = IterationScope().inside(stmt)
    needed = {item.var for item in stmt.sp_iter_vars if item.var in used}
    for loop in reversed(loops_of(stmt.sp_iter_vars)):
        own = {item.var for item in loop}
        if own & needed:
            needed |= own
            above = scope.above(loop[0].axis)
            needed |= set() if above is None else {above}
    return [item for item in stmt.sp_iter_vars if item.var in needed]


def in_scope(
    stmt: Stmt, scope: IterationScope | None = None
) -> Iterator[tuple[Stmt, IterationScope]]:
    """Every statement, parents before children, with the variables of the iterations around it."""
    scope = IterationScope() if scope is None else scope
    yield stmt, scope
    inner = scope.inside(stmt) if isinstance(stmt, SparseIteration) else scope
    for child in stmt_children(stmt):
        yield from in_scope(child, inner)


def sparse_accesses(stmt: Stmt) -> Iterator[tuple[SparseBuffer, tuple[Expr, ...]]]:
    """The elements of sparse buffers that a statement itself accesses, not those inside it."""
    if isinstance(stmt, BufferStore) and isinstance(stmt.buffer, SparseBuffer):
        yield stmt.buffer, stmt.indices
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, BufferLoad) and isinstance(part.buffer, SparseBuffer):
                yield part.buffer, part.indices


def looked_up_axes(func: PrimFunc) -> set[Axis]:
    """The axes on which the positions of coordinates are searched for."""
    found: set[Axis] = set()
    for stmt, scope in in_scope(func.body):
        if isinstance(stmt, SparseIteration):
            found.update(part for item in stmt.sp_iter_vars for part in parts_of_axis(item.axis))
        for buffer, indices in sparse_accesses(stmt):
            own = scope.own_indices(buffer, indices)
            searched = [axis for k, axis in enumerate(buffer.axes) if k not in own]
            found.update(axis for axis in searched if axis.is_sparse)
    return found
