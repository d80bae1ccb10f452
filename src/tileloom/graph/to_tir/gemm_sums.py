"""Where the sums of a matrix product begin, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable

from ...compute import if_then_else
from ...expr import EQ, Expr, Var, const
from ...tir import SERIAL, Buffer, BufferLoad, BufferStore, For, IfThenElse, Stmt, make_buffer, seq
from ..symbols import is_symbolic
from .gemm_plan import Plan, Stretch, Strip
from .nest import allocate, guarded, loop, vector


class Sums:
    """The statements before and after a micro-kernel, which adds to `acc[row * nr + column]`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.p = plan.product
        self.lanes, self.nr = plan.lanes, plan.nr

    def around(
        self,
        at: list[Expr],
        rows: Strip,
        panel: Expr,
        stretch: Stretch,
        multiply: Callable[[Buffer], Stmt],
    ) -> Stmt:
        """A micro-kernel with its accumulators."""
        acc = make_buffer((rows.height * self.nr,), self.p.dtype, "acc", scope="local")
        if rows.count is not None:
            end = self._end_of_rest(at, acc, rows, rows.count, panel, stretch)
            clear = None if self.plan.micro.from_zero else self._clear(acc, rows, panel)
            return allocate(acc, seq(clear, multiply(acc), end))
        begin = None if self.plan.micro.from_zero else self._clear(acc, rows, panel)
        end = self._end(at, acc, rows, panel, stretch)
        return allocate(acc, seq(begin, multiply(acc), end))

    def _clear(self, acc: Buffer, rows: Strip, panel: Expr) -> Stmt:
        def zero(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return BufferStore(acc, const(0, self.p.dtype), (slot,))

        return self._each(rows, panel, zero, guard=False)

    def _end(self, at: list[Expr], acc: Buffer, rows: Strip, panel: Expr, stretch: Stretch) -> Stmt:
        """Results, or sums that the next stretch of the depth adds its own to."""

        def store(body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
            return self.plan.last_or_not(panel, lambda guard: self._each(rows, panel, body, guard))

        def result(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return self._finish(at, row, column, BufferLoad(acc, [slot]))

        if stretch.blocks == 1 or self.p.partial is None:
            return store(result)
        memory, place = self.p.partial

        def total(row: Expr, column: Expr, slot: Expr) -> Expr:
            before = BufferLoad(memory, [place(at, row, column)])
            whole: Expr = BufferLoad(acc, [slot]) + before
            return whole

        def last(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return self._finish(at, row, column, total(row, column, slot))

        def first(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return BufferStore(memory, BufferLoad(acc, [slot]), (place(at, row, column),))

        def next_(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return BufferStore(memory, total(row, column, slot), (place(at, row, column),))

        is_first = EQ(stretch.number, const(0))
        is_last = EQ(stretch.number, const(stretch.blocks - 1))
        only = IfThenElse(is_first, store(result), store(last))
        end = only if is_symbolic(stretch.blocks) else store(last)
        return IfThenElse(is_last, end, IfThenElse(is_first, store(first), store(next_)))

    def _finish(self, at: list[Expr], row: Expr, column: Expr, total: Expr) -> Stmt:
        return self.p.epilogue(at, row, column, self.plan.rounded(total))

    def _end_of_rest(
        self,
        at: list[Expr],
        acc: Buffer,
        rows: Strip,
        count: Expr,
        panel: Expr,
        stretch: Stretch,
    ) -> Stmt:
        """What `_end` does for the rows that are left, in a loop: there is one for each height."""
        memory = make_buffer(acc.shape, acc.dtype, "rest", scope="local")
        copies = []
        for start in range(0, rows.height * self.nr, self.lanes):

            def copy(lane: Expr, start: int = start) -> Stmt:
                slot = start + lane
                return BufferStore(memory, BufferLoad(acc, [slot]), (slot,))

            copies.append(vector(self.lanes, copy))
        r = Var("r")
        row: Expr = rows.row + r

        def line(store: Callable[[Expr, Expr], Stmt], guard: bool) -> Stmt:
            def part(u: int) -> Stmt:
                def element(lane: Expr) -> Stmt:
                    column = panel * self.nr + u * self.lanes + lane
                    slot = r * self.nr + u * self.lanes + lane
                    stmt = store(column, BufferLoad(memory, [slot]))
                    return guarded(column < self.p.columns if guard else None, stmt)

                return vector(self.lanes, element)

            return seq(*map(part, range(self.nr // self.lanes)))

        if stretch.blocks == 1 or self.p.partial is None:

            def finished(column: Expr, value: Expr) -> Stmt:
                return self._finish(at, row, column, value)

            stmt = self.plan.last_or_not(panel, lambda guard: line(finished, guard))
        else:
            sums, place = self.p.partial
            not_first = stretch.number > 0

            def total(column: Expr, value: Expr) -> Expr:
                before = BufferLoad(sums, [place(at, row, column)])
                whole: Expr = value + if_then_else(not_first, before, const(0, self.p.dtype))
                return whole

            def last(column: Expr, value: Expr) -> Stmt:
                return self._finish(at, row, column, total(column, value))

            def wait(column: Expr, value: Expr) -> Stmt:
                return BufferStore(sums, total(column, value), (place(at, row, column),))

            stmt = IfThenElse(
                EQ(stretch.number, const(stretch.blocks - 1)),
                self.plan.last_or_not(panel, lambda guard: line(last, guard)),
                self.plan.last_or_not(panel, lambda guard: line(wait, guard)),
            )
        return allocate(memory, seq(*copies, For(r, const(0), count, SERIAL, stmt)))

    def _each(
        self,
        rows: Strip,
        panel: Expr,
        body: Callable[[Expr, Expr, Expr], Stmt],
        guard: bool,
    ) -> Stmt:
        """`body(row, column, slot)` for all partial sums of a micro-kernel.

        Args:
            guard: only for columns that there are.
        """

        def row(r: Expr) -> Stmt:
            def part(u: int) -> Stmt:
                def element(lane: Expr) -> Stmt:
                    column = panel * self.nr + u * self.lanes + lane
                    slot = r * self.nr + u * self.lanes + lane
                    stmt = body(rows.row + r, column, slot)
                    return guarded(column < self.p.columns if guard else None, stmt)

                return vector(self.lanes, element)

            return seq(*map(part, range(self.nr // self.lanes)))

        if self.plan.micro.in_registers:  # none of which has a number at run time
            return seq(*(row(const(r)) for r in range(rows.height)))
        return loop("r", rows.height, row)
