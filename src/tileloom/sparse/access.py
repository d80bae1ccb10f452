"""Statements over coordinates as statements over positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.record import Record
from ..expr import Expr, Var, cast, conjunction, free_vars
from ..expr.intrin import if_then_else
from ..tir import (
    Axis,
    BufferLoad,
    BufferStore,
    SparseBuffer,
    SparseIteration,
    Stmt,
    StmtRewriter,
    seq,
)
from .index_arrays import IndexArrays, Path
from .iterated import IteratedAxes, in_range
from .nest import GuardedStmt, guarded
from .searches import Inline, Searches

Nested = Callable[[SparseIteration], Stmt]


class StoredElement(Record):
    """Where an element of a sparse buffer is, if the conditions hold; else it is not stored."""

    indices: Path
    conditions: tuple[Expr, ...]


class Translator(StmtRewriter):
    """Translates the body of an iteration over the places of its variables.

    Args:
        nested: what becomes of an iteration inside.
    """

    def __init__(
        self, arrays: IndexArrays, searches: Searches, places: IteratedAxes, nested: Nested
    ) -> None:
        self.arrays = arrays
        self.searches = searches
        self.places = places
        self.nested = nested
        self.inline = Inline()
        self._known: dict[Expr, Expr] = {}

    def leaf(self, stmt: Stmt) -> GuardedStmt:
        """A statement, with the conditions of its store where it is one store."""
        if isinstance(stmt, BufferStore) and isinstance(stmt.buffer, SparseBuffer):
            element = self.element(stmt.buffer, stmt.indices)
            store = stmt.replace(value=self.visit_expr(stmt.value), indices=element.indices)
            if not self.inline.stmts:
                return GuardedStmt(store, element.conditions)
            body = guarded(element.conditions, store)
        else:
            body = self.visit(stmt)
        return GuardedStmt(seq(*self.inline.stmts, body), (), tuple(self.inline.buffers))

    # ------------------------------------------------------------------------ statements

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        return self.nested(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        if not isinstance(stmt.buffer, SparseBuffer):
            return super().visit_BufferStore(stmt)
        element = self.element(stmt.buffer, stmt.indices)
        store = stmt.replace(value=self.visit_expr(stmt.value), indices=element.indices)
        return guarded(element.conditions, store)

    # ------------------------------------------------------------------------ expressions

    def visit_expr(self, expr: Expr) -> Expr:
        """An expression with coordinates and elements in terms of positions."""
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = self._translated(expr)
        return found

    def _translated(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            place = self.places.of_var.get(expr)
            return expr if place is None else cast(expr.dtype, place.coordinate)
        if isinstance(expr, BufferLoad) and isinstance(expr.buffer, SparseBuffer):
            element = self.element(expr.buffer, expr.indices)
            load = BufferLoad(expr.buffer, element.indices)
            if not element.conditions:
                return load
            return if_then_else(conjunction(element.conditions), load, expr.buffer.default)
        if not expr.children:
            return expr
        return expr.with_children([self.visit_expr(child) for child in expr.children])

    # ------------------------------------------------------------------------ elements

    def element(self, buffer: SparseBuffer, indices: Sequence[Expr]) -> StoredElement:
        """Where the element at some coordinates is."""
        known = self.places.matched(buffer, indices)
        conditions: list[Expr] = []
        found: list[Expr] = []
        for k, axis in enumerate(buffer.axes):
            if k in known:
                found.append(known[k])
                continue
            wanted = self.visit_expr(indices[k])
            above = tuple(found[buffer.axes.index(part)] for part in axis.ancestors)
            found.append(self._local(axis, above, indices[k], wanted, conditions))
        return StoredElement(tuple(found), tuple(dict.fromkeys(conditions)))

    def _local(
        self, axis: Axis, above: Path, index: Expr, wanted: Expr, conditions: list[Expr]
    ) -> Expr:
        """The position below the parent; conditions under which there is one are added."""
        finger = self.places.finger(axis, above, index)
        if finger is not None:
            local, condition = finger
            conditions.append(condition)
            return local
        if axis.is_sparse:
            local = self.searches.position(
                self.places, axis, above, wanted, tuple(conditions), self.inline
            )
            conditions.append(local >= 0)
            return local
        extent = axis.length if axis.parent is None else self.arrays.extent(axis, above)
        if not self._is_coordinate_below(index, axis.length) or axis.parent is not None:
            conditions += in_range(wanted, cast(wanted.dtype, extent), self.places)
        return wanted

    def _is_coordinate_below(self, index: Expr, length: Expr) -> bool:
        """Whether an index is a variable over an axis of the same length."""
        place = self.places.of_var.get(index) if isinstance(index, Var) else None
        if place is None:
            return False
        return place.axis.length is length or (
            not free_vars(length) and not in_range(place.coordinate, length, self.places)
        )
