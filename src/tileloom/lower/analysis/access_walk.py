"""Walks over the accesses of a function that know what loops and guards say of their indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...expr import Expr, IntImm, Var, logical_not
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from ...tir import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    stmt_children,
)
from ..common import THREAD_KEYS
from .guarded_accesses import Access, accesses_of
from .known_bounds import under

_HUGE = 1 << 31  # bounds of what nothing is known of


class AccessWalk:
    """Visits statements that may be run; subclasses override `access`."""

    def __init__(self) -> None:
        self.known = BoundAnalyzer({})
        self.ranges: dict[Var, tuple[int, int]] = {}  # of the loops around
        self.values: list[tuple[Var, Expr]] = []  # names given to expressions, outer ones first
        self.spans: tuple[Expr, ...] = ()  # conditions of loops whose ends are not constant
        self.guards: tuple[Expr, ...] = ()
        self.certain = True  # whether what the guards let through is certain to be run

    def access(self, stmt: Stmt, access: Access, guards: tuple[Expr, ...]) -> None:
        """An access of a statement that is carried out under some guards of its own."""
        raise NotImplementedError

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        """Check a statement and what it holds."""
        for access, guards in accesses_of(stmt):
            self.access(stmt, access, guards)
        rule = _RULES.get(type(stmt))
        if rule is not None:
            rule(self, stmt)
            return
        for child in stmt_children(stmt):
            self.stmt(child)

    def loop(self, stmt: For) -> None:
        self._running(stmt.loop_var, stmt.min, stmt.extent, stmt.body)

    def attribute(self, stmt: AttrStmt) -> None:
        if stmt.attr_key in THREAD_KEYS:
            var = stmt.node.var
            self._running(var, IntImm(var.dtype, 0), stmt.value, stmt.body)
        else:
            self.stmt(stmt.body)

    def _running(self, var: Var, low: Expr, extent: Expr, body: Stmt) -> None:
        first, count = self.known.of(low), self.known.of(extent)
        if count[1] <= 0:
            return
        ends = ConstIntBound(first[0], first[1] + count[1] - 1)
        is_known = ends[0] > -_HUGE and ends[1] < _HUGE
        fixed = isinstance(low, IntImm) and isinstance(extent, IntImm)
        inside = () if fixed else (var >= low, var < low + extent)
        outer = self.ranges.get(var)
        spans = self.spans
        with self._fact(var, ends):
            known, outside = under(self.known, inside), self.known
            if is_known:
                self.ranges[var] = ends
            if known is not None:
                self.known, self.spans = known, (*spans, *inside)
                self.stmt(body)
            self.known, self.spans = outside, spans
        self.ranges.pop(var, None)
        if outer is not None:
            self.ranges[var] = outer

    def branch(self, stmt: IfThenElse) -> None:
        with self._under((stmt.condition,)) as live:
            if live:
                self.stmt(stmt.then_case)
        if stmt.else_case is not None:
            with self._under((logical_not(stmt.condition),)) as live:
                if live:
                    self.stmt(stmt.else_case)

    def assertion(self, stmt: AssertStmt) -> None:
        with self._under((stmt.condition,)) as live:
            if live:
                self.stmt(stmt.body)

    def repetition(self, stmt: While) -> None:
        outer, self.certain = self.certain, False
        self.stmt(stmt.body)
        self.certain = outer

    def name(self, stmt: LetStmt) -> None:
        with self._named(stmt.var, stmt.value):
            self.stmt(stmt.body)

    def realize(self, stmt: BlockRealize) -> None:
        with self._under((stmt.predicate,)) as live:
            if live:
                self._block(stmt, len(stmt.iter_values))

    def _block(self, stmt: BlockRealize, left: int) -> None:
        if left == 0:
            block: Block = stmt.block
            for child in stmt_children(block):
                self.stmt(child)
            return
        k = len(stmt.iter_values) - left
        with self._named(stmt.block.iter_vars[k].var, stmt.iter_values[k]):
            self._block(stmt, left - 1)

    # ------------------------------------------------------------------ what is known

    @contextmanager
    def _fact(self, var: Var, bound: ConstIntBound) -> Iterator[None]:
        outer = self.known
        if var in outer.facts or var in outer.memo:  # a name used before: what is known of it goes
            self.known = BoundAnalyzer({**outer.facts, var: bound})
            yield
        else:
            facts: Any = outer.facts
            facts[var] = bound
            yield
        self.known = outer

    @contextmanager
    def _named(self, var: Var, value: Expr) -> Iterator[None]:
        self.values.append((var, value))
        bound = self.known.of(value) if value.dtype.is_int else None
        if bound is None:
            yield
        else:
            with self._fact(var, bound):
                yield
        self.values.pop()

    @contextmanager
    def _under(self, guards: tuple[Expr, ...]) -> Iterator[bool]:
        """Whether anything is run where the guards hold too, for the length of the block."""
        outer = self.known, self.guards
        inner = under(self.known, guards)
        if inner is not None:
            self.known, self.guards = inner, (*self.guards, *guards)
        yield inner is not None
        self.known, self.guards = outer


def is_inside(access: Access, known: BoundAnalyzer) -> bool:
    """Whether every index of an access is provably within its buffer."""
    for index, extent in zip(access.indices, access.buffer.shape, strict=False):
        low, high = known.of(index)
        if low < 0 or not isinstance(extent, IntImm) or high >= extent.value:
            return False
    return True


_RULES: dict[type[Stmt], Callable[[Any, Any], None]] = {
    For: AccessWalk.loop,
    AttrStmt: AccessWalk.attribute,
    IfThenElse: AccessWalk.branch,
    AssertStmt: AccessWalk.assertion,
    While: AccessWalk.repetition,
    LetStmt: AccessWalk.name,
    BlockRealize: AccessWalk.realize,
}
