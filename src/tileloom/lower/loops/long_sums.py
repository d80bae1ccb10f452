"""Finds the places in flat code that loops add floats to many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from math import prod

from ...base.sums import SUM_RUN
from ...expr import Add, Expr, Var, free_vars, has_load, post_order
from ...tir import (
    SERIAL,
    UNROLLED,
    Allocate,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    is_no_op,
    stmt_children,
    stmt_exprs,
)

#: Additions to one place in a run, unless a loop is annotated with another number.
RUN = 32
#: Sums of up to so many runs stay as they are.
SHORT = 4


@dataclass(frozen=True, eq=False)
class SumUpdate:
    """`store.buffer[index] = store.buffer[index] + addend`.

    Attributes:
        loops: those around it that were looked at, the outermost first.
        is_guarded: whether a branch inside them decides if it runs.
    """

    store: BufferStore
    addend: Expr
    loops: tuple[For, ...]
    is_guarded: bool

    @property
    def index(self) -> Expr:
        """The place."""
        return self.store.indices[0]

    @property
    def run(self) -> int:
        """How many additions make a run."""
        wanted = (int(loop.annotations.get(SUM_RUN, 0)) for loop in self.loops)
        return max(RUN, *wanted)

    @property
    def is_long(self) -> bool:
        """Whether a place may be added to more often than in a few runs.

        Who asks for long runs adds to many places, and does not want that for an unknown number.
        """
        extents = [loop.static_extent for loop in self.repeats()]
        known = prod(n for n in extents if n is not None)
        return known > SHORT * self.run or (None in extents and self.run == RUN)

    def repeats(self) -> list[For]:
        """The loops that add to the same place again."""
        return [loop for loop in self.loops if loop.loop_var not in free_vars(self.index)]


def repeated_updates(loop: For, done: Set[Var]) -> Mapping[Var, list[SumUpdate]]:
    """What a loop adds to and touches by nothing else, by memory.

    Each update is to a place that stays the same from one step of the loop to the next, and that
    is a matter of the loops inside it alone.
    """
    scan = _Scan()
    scan.visit(loop, ())
    if not scan.is_plain:
        return {}
    return {
        data: updates
        for data, updates in scan.updates.items()
        if data not in scan.others | done
        and all(loop.loop_var not in free_vars(update.index) for update in updates)
        and all(map(scan.knows, updates))
    }


class _Scan:
    """What a loop adds to, and what else it does.

    Attributes:
        updates: by the memory that they add to.
        others: memory that is read or written otherwise.
        is_plain: whether there are no calls for effects and no loops without a count.
    """

    def __init__(self) -> None:
        self.updates: dict[Var, list[SumUpdate]] = {}
        self.others: set[Var] = set()
        self.is_plain = True
        self._defined: set[Var] = set()

    def knows(self, update: SumUpdate) -> bool:
        """Whether the place of an update is a matter of loops alone."""
        return free_vars(update.index).isdisjoint(self._defined)

    def visit(self, stmt: Stmt, loops: tuple[For, ...], guarded: bool = False) -> None:
        """Look at a statement in the loops around it."""
        match stmt:
            case BufferStore():
                self._store(stmt, loops, guarded)
                return
            case For():
                if stmt.kind not in (SERIAL, UNROLLED):
                    self._defined.add(stmt.loop_var)
                loops = (*loops, stmt)
            case LetStmt():
                self._defined.add(stmt.var)
            case Allocate():
                self._defined.add(stmt.buffer_var)
                self.others.add(stmt.buffer_var)
            case IfThenElse():
                guarded = True
            case While():
                self.is_plain = False
            case Evaluate():
                self.is_plain &= is_no_op(stmt)
            case _:
                pass
        self._reads(stmt_exprs(stmt))
        for child in stmt_children(stmt):
            self.visit(child, loops, guarded)

    def _store(self, stmt: BufferStore, loops: tuple[For, ...], guarded: bool) -> None:
        addend = _addend(stmt)
        if addend is None:
            self.others.add(stmt.buffer.data)
            self._reads(stmt_exprs(stmt))
            return
        self.updates.setdefault(stmt.buffer.data, []).append(
            SumUpdate(stmt, addend, loops, guarded)
        )
        self._reads((addend,))

    def _reads(self, exprs: Iterable[Expr]) -> None:
        for expr in exprs:
            for node in post_order(expr):
                if isinstance(node, BufferLoad):
                    self.others.add(node.buffer.data)
                elif isinstance(node, Var) and node.dtype.is_handle:
                    self.others.add(node)


def _addend(stmt: BufferStore) -> Expr | None:
    """What a store adds to the float at its place."""
    value = stmt.value
    if not isinstance(value, Add) or not value.dtype.is_float or stmt.predicate is not None:
        return None
    if len(stmt.indices) != 1 or has_load(stmt.indices[0]):
        return None
    for old, new in ((value.a, value.b), (value.b, value.a)):
        if old is BufferLoad(stmt.buffer, stmt.indices):
            return new
    return None


def run_of(update: SumUpdate) -> tuple[For, int]:
    """The loop to be cut for the runs of a long sum, and how many of its steps make a run."""
    inner = 1
    loops = update.repeats()
    for loop in reversed(loops):
        extent = loop.static_extent
        if extent is None or inner * extent >= update.run:
            return loop, _steps(extent, -(-update.run // inner))
        inner *= extent
    return loops[0], _steps(loops[0].static_extent, 1)


def _steps(extent: int | None, wanted: int) -> int:
    """How many steps make a run: all, a divisor near what is wanted, or just that."""
    if extent is None:
        return wanted
    if extent <= 2 * wanted:
        return extent
    near = sorted(range((wanted + 1) // 2, 2 * wanted + 1), key=lambda n: abs(n - wanted))
    return next((n for n in near if extent % n == 0), wanted)
