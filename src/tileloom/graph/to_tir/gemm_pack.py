"""Packing the operands of a matrix product: panels of the right one, strips of the left one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ...base.errors import InternalError
from ...compute import if_then_else
from ...expr import Call, Expr, Min, Ramp, Var, cast, const
from ...expr.register_transpose import transposed as turned
from ...tir import SERIAL, Buffer, BufferLoad, BufferStore, For, LetStmt, Stmt, make_buffer, seq
from .gemm_plan import Plan, Stretch, Strip
from .microkernels import Rows
from .nest import allocate, loop, vector
from .words import load_words, words_across


class Packing:
    """The statements that pack the operands of a planned product."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.p = plan.product
        self.lanes, self.nr = plan.lanes, plan.nr
        self.kind = plan.micro.packed
        #: Steps in a window, where these are known apart from channels.
        self.window = 1 if plan.words or self.p.taps is None else prod(self.p.taps[0])

    # ------------------------------------------------------------------ panels

    def panels(
        self, at: list[Expr], packed: Buffer, first: Expr, count: Expr, stretch: Stretch
    ) -> Stmt:
        """Columns of the right operand from panel `first` on.

        An operand that lies in rows is read as it lies, a row over all these panels after the
        other: a panel at a time would touch a page for every row of a wide one. Other elements are
        computed, by index arithmetic that is mostly the same for all lines of a panel.
        """
        whole = self.plan.whole_steps(stretch)
        done: Expr = const(0)
        turned: Stmt | None = None
        if self.p.turned_right:
            blocks = whole // self.lanes
            done = blocks * self.lanes

            def turn(p: Expr, guard: bool) -> Stmt:
                block = Var("block")
                square = self._turn(at, packed, first, p, block * self.lanes, guard, stretch)
                return For(block, const(0), blocks, SERIAL, square)

            turned = self._each_panel(first, count, turn)

        def lines(start: Expr, count_: Expr, filled: bool) -> Stmt:
            step = Var("k")

            def line(p: Expr, guard: bool) -> Stmt:
                k = start + step

                def element(column: Expr) -> Expr:
                    return self.plan.right(at, stretch.start + k, column, filled=filled)

                woven = not guard and not filled
                return self._line(at, packed, first, p, k, stretch, guard, element, woven)

            if self.p.right_rows is not None:
                return For(step, const(0), count_, SERIAL, self._each_panel(first, count, line))

            def panel(p: Expr, guard: bool) -> Stmt:
                if self.window > 1 and stretch.room % self.window == 0:
                    return self._windows(at, packed, first, p, stretch, guard)
                return For(step, const(0), count_, SERIAL, line(p, guard))

            return self._each_panel(first, count, panel)

        rest = None
        if whole is not stretch.extent:
            rest = lines(whole, stretch.extent - whole, True)
        return seq(turned, lines(done, whole - done, False), rest)

    def _each_panel(self, first: Expr, count: Expr, body: Callable[[Expr, bool], Stmt]) -> Stmt:
        p = Var("p")
        part = self.plan.last_or_not(first + p, lambda guard: body(p, guard))
        return For(p, const(0), count, SERIAL, part)

    def _line(
        self,
        at: list[Expr],
        packed: Buffer,
        first: Expr,
        p: Expr,
        k: Expr,
        stretch: Stretch,
        guard: bool,
        element_at: Callable[[Expr], Expr],
        woven: bool,
    ) -> Stmt:
        rows, parts = self.p.right_rows, self.plan.micro.parts
        if rows is not None and self.plan.words and woven and self.lanes > 1:
            across = rows

            def whole(u: int) -> Stmt:
                column = (first + p) * self.nr + u * self.lanes
                step = (stretch.start + k) * parts
                places = [across.place(at, step + part, column) for part in range(parts)]
                place = (p * stretch.room + k) * self.nr + u * self.lanes
                words = words_across(across.buffer, places, self.lanes)
                return BufferStore(packed, words, (Ramp(place, const(1), self.lanes),))

            return seq(*map(whole, range(self.nr // self.lanes)))

        def lanes(u: int) -> Stmt:
            def element(lane: Expr) -> Stmt:
                column = (first + p) * self.nr + u * self.lanes + lane
                value = element_at(column)
                if guard:
                    value = if_then_else(column < self.p.columns, value, const(0, self.kind))
                place = (p * stretch.room + k) * self.nr + u * self.lanes + lane
                return BufferStore(packed, value, (place,))

            return vector(self.lanes, element)

        return seq(*(lanes(u) for u in range(self.nr // self.lanes)))

    def _windows(
        self, at: list[Expr], packed: Buffer, first: Expr, p: Expr, stretch: Stretch, guard: bool
    ) -> Stmt:
        """A panel channel by channel and window by window, so that no step is taken apart."""
        if self.p.taps is None:
            raise InternalError("a product without windows")
        window, tap = self.p.taps
        channel = Var("c")
        offsets = [Var("w") for _ in window]
        k: Expr = channel
        for offset, extent in zip(offsets, window, strict=True):
            k = k * extent + offset
        before = stretch.start // self.window

        def element(column: Expr) -> Expr:
            return cast(self.p.dtype, tap(at, before + channel, list(offsets), column))

        body = self._line(at, packed, first, p, k, stretch, guard, element, False)
        for offset, extent in reversed(list(zip(offsets, window, strict=True))):
            body = For(offset, const(0), const(extent), SERIAL, body)
        return For(channel, const(0), stretch.extent // self.window, SERIAL, body)

    def _turn(
        self,
        at: list[Expr],
        packed: Buffer,
        first: Expr,
        p: Expr,
        start: Expr,
        guard: bool,
        stretch: Stretch,
    ) -> Stmt:
        """Some lines of a panel from columns that lie in one piece: squares, turned round."""
        n = self.lanes
        square = make_buffer((n * n,), self.kind, "square", scope="local")

        def turn(u: int) -> Stmt:
            def line(a: int) -> Stmt:
                column: Expr = (first + p) * self.nr + u * n + a
                if guard:  # what is computed for columns that there are not is not stored
                    column = Min(column, const(self.p.columns - 1))
                return self._column(at, square, a, stretch.start + start, column)

            lines = [BufferLoad(square, [Ramp(const(a * n), const(1), n)]) for a in range(n)]

            def place(b: int) -> Expr:
                line: Expr = p * stretch.room + start + b
                return line * self.nr + u * n  # type: ignore[no-any-return]

            return seq(*map(line, range(n)), _store_transposed(lines, packed, place))

        return allocate(square, seq(*map(turn, range(self.nr // n))))

    def _column(self, at: list[Expr], square: Buffer, a: int, step: Expr, column: Expr) -> Stmt:
        """Line `a` of a square: what some steps take of a column."""
        n, lines = self.lanes, self.p.right_lines
        if self.plan.words and lines is not None:
            place = lines.place(at, step * self.plan.micro.parts, column)
            words = load_words(lines.buffer, place, n)
            return BufferStore(square, words, (Ramp(const(a * n), const(1), n),))

        def element(lane: Expr) -> Stmt:
            value = self.plan.right(at, step + lane, column)
            return BufferStore(square, value, (a * n + lane,))

        return vector(n, element)

    # ------------------------------------------------------------------ strips

    def rows(self, at: list[Expr], strip: Strip, stretch: Stretch) -> Rows:
        """The rows of a strip where they are."""
        lines = self.p.left_lines

        def element(r: int, k: Expr) -> Expr:
            return self.plan.left(at, strip.at(r), stretch.start + k)

        if lines is None or not self.plan.words:
            return Rows(strip.height, element)

        def pointer(r: int, k: Expr) -> Expr:
            place = self.plan.left_place(at, strip.at(r), stretch.start + k)
            return Call("handle", "tir.address_of", (BufferLoad(lines.buffer, [place]),))

        stride = const(self.p.depth * lines.buffer.dtype.bytes, "int64")
        return Rows(strip.height, element, pointer, stride)

    def with_copy(
        self, at: list[Expr], strip: Strip, stretch: Stretch, make: Callable[[Rows], Stmt]
    ) -> Stmt:
        """A statement about rows of the left operand, given where their copy is."""
        step = stretch.room + self.lanes  # not a power of two
        copy = make_buffer((strip.height * step,), self.kind, "strip", scope="local")
        place = _Copy(at, strip, stretch, copy, step)

        def pointer(r: int, k: Expr) -> Expr:
            return Call("handle", "tir.address_of", (BufferLoad(copy, [r * step + k]),))

        stride = const(step * self.kind.bytes, "int64")
        rows = Rows(strip.height, lambda r, k: BufferLoad(copy, [r * step + k]), pointer, stride)
        return allocate(copy, seq(self._copy(place), make(rows)))

    def _copy(self, to: _Copy) -> Stmt:
        """A strip copied, row by row or, where rows are neighbours, in squares turned round."""
        n, height = self.lanes, to.strip.height
        squares = height // n if self.plan.words and self.p.turned_left else 0
        if to.strip.count is not None:
            squares = 0
        steps = self.plan.whole_steps(to.stretch) // n * n if squares else const(0)
        block = Var("block")
        turned = [self._turned_rows(to, square * n, block * n) for square in range(squares)]
        return seq(
            For(block, const(0), steps // n, SERIAL, seq(*turned)) if squares else None,
            self._copied(to, 0, squares * n, steps),
            self._copied(to, squares * n, height - squares * n, const(0)),
        )

    def _copied(self, to: _Copy, first: int, count: int, start: Expr) -> Stmt:
        """Rows from `first` on, from step `start` on."""

        def row(r: Expr) -> Stmt:
            return self._row(to, first + r, start)

        return loop("r", count, row) if count else seq()

    def _row(self, to: _Copy, r: Expr, start: Expr) -> Stmt:
        def element(k: Expr, filled: bool = False) -> Stmt:
            row, step = to.strip.at(r), to.stretch.start + k
            value = self.plan.left(to.at, row, step, filled=filled)
            return BufferStore(to.copy, value, (r * to.step + k,))

        v, s, f = Var("v"), Var("s"), Var("f")
        whole = self.plan.whole_steps(to.stretch)
        vectors = (whole - start) // self.lanes
        done = start + vectors * self.lanes
        parts = [
            For(v, const(0), vectors, SERIAL, self._vector(to, r, start + v * self.lanes)),
            For(s, const(0), whole - done, SERIAL, element(done + s)),
        ]
        if whole is not to.stretch.extent:
            left = to.stretch.extent - whole
            parts.append(For(f, const(0), left, SERIAL, element(whole + f, filled=True)))
        return seq(*parts)

    def _vector(self, to: _Copy, r: Expr, k: Expr) -> Stmt:
        n, lines = self.lanes, self.p.left_lines
        row, step = to.strip.at(r), to.stretch.start + k
        if self.plan.words and lines is not None:
            place = self.plan.left_place(to.at, row, step)
            words = self.plan.flipped(load_words(lines.buffer, place, n))
            return BufferStore(to.copy, words, (Ramp(r * to.step + k, const(1), n),))

        def element(lane: Expr) -> Stmt:
            value = self.plan.left(to.at, row, step + lane)
            return BufferStore(to.copy, value, (r * to.step + k + lane,))

        return vector(n, element)

    def _turned_rows(self, to: _Copy, first: int, start: Expr) -> Stmt:
        """Some steps of as many rows, which are neighbours in memory."""
        n = self.lanes
        square = make_buffer((n * n,), self.kind, "square", scope="local")

        def line(a: int) -> Stmt:
            def element(lane: Expr) -> Stmt:
                row, step = to.strip.row + first + lane, to.stretch.start + start + a
                return BufferStore(square, self.plan.left(to.at, row, step), (a * n + lane,))

            return vector(n, element)

        def place(b: int) -> Expr:
            row: Expr = const((first + b) * to.step) + start
            return row

        lines = [BufferLoad(square, [Ramp(const(a * n), const(1), n)]) for a in range(n)]
        return allocate(square, seq(*map(line, range(n)), _store_transposed(lines, to.copy, place)))


@dataclass(frozen=True)
class _Copy:
    """Where a strip is copied to: step k of row r of a stretch is at `r * step + k`."""

    at: list[Expr]
    strip: Strip
    stretch: Stretch
    copy: Buffer
    step: int


def _store_transposed(
    vectors: Sequence[Expr], memory: Buffer, place: Callable[[int], Expr]
) -> Stmt:
    """Store the columns of a square whose rows are `vectors`: column b from `place(b)` on."""
    n = len(vectors)
    bound, columns = turned(vectors)
    stmt: Stmt = seq(
        *(
            BufferStore(memory, value, (Ramp(place(b), const(1), n),))
            for b, value in enumerate(columns)
        )
    )
    for var, value in reversed(bound):
        stmt = LetStmt(var, value, stmt)
    return stmt
