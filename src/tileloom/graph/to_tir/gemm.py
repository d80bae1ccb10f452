"""Matrix products in the way of BLIS: packed panels, and a kernel that lives in registers.

A panel is `NR` columns of the right operand over a stretch of the depth, packed so that the
micro-kernel reads it in order. The micro-kernel keeps `MR x NR` partial sums in registers and
broadcasts elements of the left operand. Convolutions use the same loops: packing a panel is then
gathering the windows.

Two ways to share the work: by columns, where each worker packs its own panels and the depth is
blocked for its cache; or, when there are few columns, by rows over panels that were packed once.

Source: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base import DType
from ...compute.math import if_then_else
from ...expr import EQ, Expr, Min, Ramp, Var, cast, const
from ...tir import (
    PARALLEL,
    SERIAL,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from ..symbols import bounds_of, everywhere_at_least, hint, is_symbolic
from .nest import PARALLEL_WORK, guarded, loop, vector, with_workers
from .reducing import allocate
from .tiles import store_turned

#: Depth of a packed panel: its columns and a strip of the left operand share the inner caches.
DEPTH = 512
#: Panels that one worker packs at a time.
PANELS = 10
#: Panels that must read a strip of the left operand to make up for copying it.
WORTH_COPYING = 4

#: An element, given the batch position and two indices.
Element = Callable[[list[Expr], Expr, Expr], Expr]
#: Stores a finished element, given the batch position, row, column and value.
Epilogue = Callable[[list[Expr], Expr, Expr, Expr], Stmt]


@dataclass(frozen=True)
class Product:
    """`result[b, i, j] = epilogue(sum over k of left[b, i, k] * right[b, k, j])`.

    Attributes:
        batch: extents that the product is repeated over.
        rows, columns, depth: extents of i, j and k.
        dtype: of the accumulators.
        left, right: elements of the operands, given (batch, i, k) and (batch, k, j).
        epilogue: stores a finished element.
        partial: memory where unfinished sums wait between blocks of the depth, and the position
            in it given (batch, i, j); None: the depth is never blocked.
        packed: the right operand as panels over the whole depth, made beforehand, the same for
            all of the batch, and the columns of a panel; `right` is not used then.
        turned_right: whether a column of the right operand lies in one piece, rather than a row.
        copies_left: whether rows of the left operand are better copied before they are read by
            every panel: they need converting, or they lie a power of two apart and would push each
            other out of the cache.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    dtype: DType
    left: Element
    right: Element
    epilogue: Epilogue
    partial: tuple[Buffer, Element] | None = None
    packed: tuple[Buffer, int] | None = None
    turned_right: bool = False
    copies_left: bool = False


def panel_width(columns: int, vector_bits: int, dtype: DType) -> int:
    """The columns of a panel: two vectors of accumulators, or one when that is enough."""
    lanes = max(1, vector_bits // dtype.bits)
    return lanes if columns <= lanes else 2 * lanes


def product_kernel(product: Product, vector_bits: int, workers: int) -> Stmt:
    """The loops of a product."""
    return _Gemm(product, vector_bits, workers).build()


@dataclass(frozen=True)
class _Stretch:
    """A stretch of the depth: block `number` of `blocks`."""

    number: Expr
    blocks: int
    start: Expr
    extent: Expr
    room: int  # the depth that a packed panel has room for


#: Heights of the strip that is left where the number of rows is symbolic: the next is taken.
REST_HEIGHTS = (3, 6, 9)


@dataclass(frozen=True)
class _Strip:
    """Rows of the result that a micro-kernel makes: `height`, or the first `count` of them."""

    row: Expr
    height: int
    count: Expr | None = None

    def at(self, r: int | Expr) -> Expr:
        """Row `r`; the last one for those that there are not."""
        place: Expr = self.row + (r if self.count is None else Min(const(r), self.count - 1))
        return place


class _Gemm:
    def __init__(self, product: Product, vector_bits: int, workers: int) -> None:
        self.p = product
        self.lanes = max(1, vector_bits // product.dtype.bits)
        # 24 of 32 registers hold partial sums; with 16 registers, 12 do.
        most = 12 if vector_bits >= 512 else 6
        self.mr = most if is_symbolic(product.rows) else max(1, min(most, product.rows))
        self.packed: Buffer | None = None
        self.nr = panel_width(product.columns, vector_bits, product.dtype)
        if product.packed is not None:
            self.packed, self.nr = product.packed
        while self.nr % self.lanes:  # panels that were made for narrower vectors
            self.lanes //= 2
        self.panels = -(-product.columns // self.nr)
        self.ragged = product.columns % self.nr != 0
        self.batch = 1
        for extent in product.batch:
            self.batch *= extent
        self.copies_left = product.copies_left and hint(self.panels) >= WORTH_COPYING
        work = 2 * self.batch * product.rows * product.columns * product.depth
        self.work = work
        self.workers = workers if everywhere_at_least(work, PARALLEL_WORK) is not False else 1

    def build(self) -> Stmt:
        return with_workers(self._loops(), self.work, PARALLEL_WORK)

    def _loops(self) -> Stmt:
        few = self.batch * self.panels < 2 * self.workers
        if self.workers > 1 and few and self.p.rows >= 2 * self.mr:
            return self._by_rows()
        return self._by_columns()

    # ------------------------------------------------------------------ sharing the work

    def _by_columns(self) -> Stmt:
        groups = self._groups()
        most = PANELS if is_symbolic(self.panels) else -(-self.panels // groups)
        blocks, room = self._depth_blocks()

        def task(number: Expr) -> Stmt:
            at, group = self._position(number, groups)
            first, last = Var("first"), Var("last")

            def block(packed: Buffer, kb: Expr) -> Stmt:
                stretch = self._stretch(kb, blocks, room)
                return self._block(at, packed, first, last - first, stretch, SERIAL)

            body = self._with_panels(
                most * room, lambda packed: loop("kb", blocks, lambda kb: block(packed, kb))
            )
            body = LetStmt(last, (group + 1) * self.panels // groups, body)
            return LetStmt(first, group * self.panels // groups, body)

        return loop("task", self.batch * groups, task, PARALLEL if self.workers > 1 else SERIAL)

    def _depth_blocks(self) -> tuple[int, int]:
        """Into how many stretches the depth is cut, and how long they are."""
        depth = self.p.depth
        if self.p.partial is None or bounds_of(depth)[1] <= DEPTH:
            return 1, depth
        if is_symbolic(depth):
            return -(-depth // DEPTH), DEPTH
        blocks = max(1, -(-depth // DEPTH))
        return blocks, -(-depth // blocks)

    def _by_rows(self) -> Stmt:
        def matrix(number: Expr) -> Stmt:
            at, _ = self._position(number, 1)
            stretch = self._stretch(const(0), 1, self.p.depth)
            panels = const(self.panels)
            return self._with_panels(
                self.panels * self.p.depth,
                lambda packed: self._block(at, packed, const(0), panels, stretch, PARALLEL),
            )

        return loop("matrix", self.batch, matrix)

    def _with_panels(self, rows: int, make: Callable[[Buffer], Stmt]) -> Stmt:
        """A statement about panels: those given, or room for new ones of `rows` lines in all."""
        if self.packed is not None:
            return make(self.packed)
        size = rows * self.nr
        room = size if is_symbolic(size) else max(1, size)
        packed = make_buffer((room,), self.p.dtype, "packed", scope="local")
        return allocate(packed, make(packed))

    def _block(
        self, at: list[Expr], packed: Buffer, first: Expr, count: Expr, stretch: _Stretch, kind: str
    ) -> Stmt:
        """All rows times `count` panels over a stretch of the depth."""
        given = packed is self.packed
        return seq(
            None if given else self._pack(at, packed, first, count, stretch),
            self._multiply(at, packed, first, count, stretch, kind),
        )

    def _groups(self) -> int:
        """Into how many tasks the panels of one matrix are cut."""
        groups = -(-self.panels // PANELS)
        if is_symbolic(self.batch) or is_symbolic(self.panels):
            return -(-groups // self.workers) * self.workers  # those without panels do nothing
        shares = -(-self.workers // self.batch)
        if self.batch % self.workers:  # let every worker get as many
            groups = -(-groups // shares) * shares
        return max(1, min(groups, self.panels))

    def _position(self, number: Expr, groups: int) -> tuple[list[Expr], Expr]:
        """The batch position and the group of a task."""
        group = number % groups if groups > 1 else const(0)
        number = number // groups if groups > 1 else number
        at, step = [], self.batch
        for extent in self.p.batch:
            whole, step = step, step // extent
            inner = number if whole == self.batch else number % whole
            at.append(inner // step if step > 1 else inner)
        return at, group

    def _stretch(self, kb: Expr, blocks: int, room: int) -> _Stretch:
        start, extent = kb * room, const(room)
        if blocks * room != self.p.depth:
            extent = Min(const(room), const(self.p.depth) - start)
        return _Stretch(kb, blocks, start, extent, room)

    # ------------------------------------------------------------------ packing

    def _pack(
        self, at: list[Expr], packed: Buffer, first: Expr, count: Expr, stretch: _Stretch
    ) -> Stmt:
        """Columns of the right operand from panel `first` on, panel by panel."""
        p = Var("p")

        def copy(guard: bool) -> Stmt:
            if not self.p.turned_right:
                return lines(guard, const(0), stretch.extent)
            whole, block = stretch.extent // self.lanes, Var("block")
            turned = self._turn(at, packed, first, p, block * self.lanes, guard, stretch)
            done = whole * self.lanes
            return seq(
                For(block, const(0), whole, SERIAL, turned),
                lines(guard, done, stretch.extent - done),
            )

        def lines(guard: bool, start: Expr, count: Expr) -> Stmt:
            step = Var("k")
            k = start + step

            def lanes(u: int) -> Stmt:
                def element(lane: Expr) -> Stmt:
                    column = (first + p) * self.nr + u * self.lanes + lane
                    value = self.p.right(at, stretch.start + k, column)
                    if guard:
                        value = if_then_else(column < self.p.columns, value, const(0, self.p.dtype))
                    place = (p * stretch.room + k) * self.nr + u * self.lanes + lane
                    return BufferStore(packed, value, (place,))

                return vector(self.lanes, element)

            body = seq(*(lanes(u) for u in range(self.nr // self.lanes)))
            return For(step, const(0), count, SERIAL, body)

        return For(p, const(0), count, SERIAL, self._last_or_not(first + p, copy))

    def _turn(
        self,
        at: list[Expr],
        packed: Buffer,
        first: Expr,
        p: Expr,
        start: Expr,
        guard: bool,
        stretch: _Stretch,
    ) -> Stmt:
        """Some lines of a panel from columns that lie in one piece: squares, turned round."""
        n = self.lanes
        square = make_buffer((n * n,), self.p.dtype, "square", scope="local")

        def turn(u: int) -> Stmt:
            def line(a: int) -> Stmt:
                column: Expr = (first + p) * self.nr + u * n + a
                if guard:  # what is computed for columns that there are not is not stored
                    column = Min(column, const(self.p.columns - 1))

                def element(lane: Expr) -> Stmt:
                    value = self.p.right(at, stretch.start + start + lane, column)
                    return BufferStore(square, value, (a * n + lane,))

                return vector(n, element)

            lines = [BufferLoad(square, [Ramp(const(a * n), const(1), n)]) for a in range(n)]

            def place(b: int) -> Expr:
                line: Expr = p * stretch.room + start + b
                return line * self.nr + u * n  # type: ignore[no-any-return]

            return seq(*map(line, range(n)), store_turned(lines, packed, place))

        return allocate(square, seq(*map(turn, range(self.nr // n))))

    def _last_or_not(self, panel: Expr, make: Callable[[bool], Stmt]) -> Stmt:
        """`make(True)` where the panel has columns beyond the matrix, else `make(False)`."""
        if not self.ragged:
            return make(False)
        if self.panels == 1:
            return make(True)
        return IfThenElse(EQ(panel, const(self.panels - 1)), make(True), make(False))

    # ------------------------------------------------------------------ multiplying

    def _multiply(
        self,
        at: list[Expr],
        packed: Buffer,
        first: Expr,
        count: Expr,
        stretch: _Stretch,
        kind: str,
    ) -> Stmt:
        def strip(rows: _Strip) -> Stmt:
            def panels(left: Element) -> Stmt:
                q = Var("q")
                panel = self._micro(left, at, rows, packed, (q, first + q), stretch)
                return For(q, const(0), count, SERIAL, panel)

            if self.copies_left:
                return self._with_copy(at, rows, stretch, panels)
            return panels(lambda at, r, k: self.p.left(at, rows.at(r), stretch.start + k))

        whole, rest = divmod(self.p.rows, self.mr)
        body = None
        if whole:
            body = loop("ib", whole, lambda ib: strip(_Strip(ib * self.mr, self.mr)), kind)
        if is_symbolic(rest):
            return seq(body, self._open_rest(const(whole) * self.mr, strip))
        return seq(body, strip(_Strip(const(whole * self.mr), rest)) if rest else None)

    def _open_rest(self, start: Expr, strip: Callable[[_Strip], Stmt]) -> Stmt:
        """The strip of the rows that are left: of the next height that there is."""
        count = const(self.p.rows) - start
        stmt = strip(_Strip(start, self.mr, count))
        for height in reversed([h for h in REST_HEIGHTS if h < self.mr]):
            stmt = IfThenElse(count <= height, strip(_Strip(start, height, count)), stmt)
        return IfThenElse(count > 0, stmt)

    def _with_copy(
        self,
        at: list[Expr],
        rows: _Strip,
        stretch: _Stretch,
        make: Callable[[Element], Stmt],
    ) -> Stmt:
        """A statement about rows of the left operand, given where their copy is."""
        step = stretch.room + self.lanes  # not a power of two
        copy = make_buffer((rows.height * step,), self.p.dtype, "strip", scope="local")

        def element(r: int, k: Expr) -> Stmt:
            value = self.p.left(at, rows.at(r), stretch.start + k)
            return BufferStore(copy, value, (r * step + k,))

        def vectors(r: int) -> Stmt:
            v, s = Var("v"), Var("s")
            whole = stretch.extent // self.lanes
            body = vector(self.lanes, lambda lane: element(r, v * self.lanes + lane))
            rest = stretch.extent - whole * self.lanes
            return seq(
                For(v, const(0), whole, SERIAL, body),
                For(s, const(0), rest, SERIAL, element(r, whole * self.lanes + s)),
            )

        copied = make(lambda _, r, k: BufferLoad(copy, [r * step + k]))
        return allocate(copy, seq(*(vectors(r) for r in range(rows.height)), copied))

    def _micro(
        self,
        left_at: Element,
        at: list[Expr],
        rows: _Strip,
        packed: Buffer,
        panel: tuple[Expr, Expr],
        stretch: _Stretch,
    ) -> Stmt:
        """A strip of rows times one panel."""
        height, (local, number) = rows.height, panel
        acc = make_buffer((height * self.nr,), self.p.dtype, "acc", scope="local")
        k = Var("k")
        line = local * stretch.room + k
        if self.packed is not None:
            line = number * self.p.depth + stretch.start + k
        step = []
        for r in range(height):
            left = Var(f"left{r}", self.p.dtype)
            adds = [
                vector(self.lanes, lambda lane, r=r, u=u, left=left: self._add(  # type: ignore[misc]
                    acc, packed, left, r * self.nr + u * self.lanes + lane,
                    line * self.nr + u * self.lanes + lane,
                ))
                for u in range(self.nr // self.lanes)
            ]  # fmt: skip
            step.append(LetStmt(left, left_at(at, const(r), k), seq(*adds)))
        steps = For(k, const(0), stretch.extent, SERIAL, seq(*step))
        if rows.count is not None:
            end = self._end_of_rest(at, acc, rows, rows.count, number, stretch)
            return allocate(acc, seq(self._clear(acc, rows, number), steps, end))
        begin = self._begin(at, acc, rows, number, stretch)
        return allocate(acc, seq(begin, steps, self._end(at, acc, rows, number, stretch)))

    @staticmethod
    def _add(acc: Buffer, packed: Buffer, left: Expr, slot: Expr, place: Expr) -> Stmt:
        product = left * cast(acc.dtype, BufferLoad(packed, [place]))
        return BufferStore(acc, BufferLoad(acc, [slot]) + product, (slot,))

    def _clear(self, acc: Buffer, rows: _Strip, panel: Expr) -> Stmt:
        def zero(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return BufferStore(acc, const(0, self.p.dtype), (slot,))

        return self._each(rows, panel, zero, guard=False)

    def _begin(
        self, at: list[Expr], acc: Buffer, rows: _Strip, panel: Expr, stretch: _Stretch
    ) -> Stmt:
        """Zeros, or the sums over the stretches before."""
        clear = self._clear(acc, rows, panel)
        if stretch.blocks == 1 or self.p.partial is None:
            return clear
        memory, place = self.p.partial

        def resume(guard: bool) -> Stmt:
            def load(row: Expr, column: Expr, slot: Expr) -> Stmt:
                value: Expr = BufferLoad(memory, [place(at, row, column)])
                if guard:
                    value = if_then_else(column < self.p.columns, value, const(0, self.p.dtype))
                return BufferStore(acc, value, (slot,))

            return self._each(rows, panel, load, guard=False)

        return IfThenElse(EQ(stretch.number, const(0)), clear, self._last_or_not(panel, resume))

    def _end(
        self, at: list[Expr], acc: Buffer, rows: _Strip, panel: Expr, stretch: _Stretch
    ) -> Stmt:
        """Results, or sums to go on from."""

        def finished(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return self.p.epilogue(at, row, column, BufferLoad(acc, [slot]))

        def finish(guard: bool) -> Stmt:
            return self._each(rows, panel, finished, guard)

        if stretch.blocks == 1 or self.p.partial is None:
            return self._last_or_not(panel, finish)
        memory, place = self.p.partial

        def unfinished(row: Expr, column: Expr, slot: Expr) -> Stmt:
            return BufferStore(memory, BufferLoad(acc, [slot]), (place(at, row, column),))

        def wait(guard: bool) -> Stmt:
            return self._each(rows, panel, unfinished, guard)

        is_last = EQ(stretch.number, const(stretch.blocks - 1))
        return IfThenElse(is_last, self._last_or_not(panel, finish), self._last_or_not(panel, wait))

    def _end_of_rest(
        self,
        at: list[Expr],
        acc: Buffer,
        rows: _Strip,
        count: Expr,
        panel: Expr,
        stretch: _Stretch,
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
                return self.p.epilogue(at, row, column, value)

            stmt = self._last_or_not(panel, lambda guard: line(finished, guard))
        else:
            sums, place = self.p.partial
            not_first = stretch.number > 0

            def total(column: Expr, value: Expr) -> Expr:
                before = BufferLoad(sums, [place(at, row, column)])
                whole: Expr = value + if_then_else(not_first, before, const(0, self.p.dtype))
                return whole

            def last(column: Expr, value: Expr) -> Stmt:
                return self.p.epilogue(at, row, column, total(column, value))

            def wait(column: Expr, value: Expr) -> Stmt:
                return BufferStore(sums, total(column, value), (place(at, row, column),))

            stmt = IfThenElse(
                EQ(stretch.number, const(stretch.blocks - 1)),
                self._last_or_not(panel, lambda guard: line(last, guard)),
                self._last_or_not(panel, lambda guard: line(wait, guard)),
            )
        return allocate(memory, seq(*copies, For(r, const(0), count, SERIAL, stmt)))

    def _each(
        self,
        rows: _Strip,
        panel: Expr,
        body: Callable[[Expr, Expr, Expr], Stmt],
        guard: bool,
    ) -> Stmt:
        """`body(row, column, slot)` for all partial sums of a micro-kernel.

        Args:
            guard: only for columns that there are.
        """
        parts = []
        for r in range(rows.height):
            own = []
            for u in range(self.nr // self.lanes):

                def element(lane: Expr, r: int = r, u: int = u) -> Stmt:
                    column = panel * self.nr + u * self.lanes + lane
                    stmt = body(rows.row + r, column, const(r * self.nr + u * self.lanes) + lane)
                    return guarded(column < self.p.columns if guard else None, stmt)

                own.append(vector(self.lanes, element))
            parts.append(seq(*own))
        return seq(*parts)
