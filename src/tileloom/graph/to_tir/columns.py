"""Kernels that reduce along outer axes, or over windows: vectors run along the last kept axis.

Workers share blocks of columns. A block keeps one partial result for each column, in registers when
it is narrow and in the nearest cache when it is wide, and sweeps the reduced axes row by row, so
that memory is read in long contiguous pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ... import compute as te
from ...expr import Expr, Min, Reduce, Var, const, free_vars
from ...tir import (
    SERIAL,
    UNROLLED,
    Buffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from ..symbols import bounds_of, hint, is_symbolic
from .cluster import SCRATCH_BYTES, Cluster, Member, calls_functions, column_bytes, intermediates
from .frame import Axis, Frame, Source, constantly
from .nest import guarded, lanes_for, loop, nest, parallel_nest, vector, vector_loop
from .reducing import Accumulator, allocate, combine

#: The widest block of columns: its partial results stay in the nearest cache.
WIDEST = 1024
#: Blocks of up to this many vectors have their loops written out, to live in registers.
REGISTERS = 4
#: Blocks of an unknown number of columns up to these vectors are taken in strips, whose partial
#: results live in registers.
IN_STRIPS = 32
#: The widths of those strips, in vectors, where formulas are costly and where they are not: as many
#: of the widest as there are, then the next for the rest.
COSTLY_STRIPS, CHEAP_STRIPS = (1, 2, 3, 4), (1, 2, 3, 5, 7, 9, 12, 16)


class ColumnKernel:
    """The body of a kernel whose vectors run along the last spatial axis."""

    def __init__(
        self,
        cluster: Cluster,
        buffers: Mapping[te.Tensor, Buffer],
        outputs: Sequence[te.Tensor],
        lanes: int,
    ) -> None:
        self.cluster = cluster
        self.buffers = dict(buffers)
        self.outputs = set(outputs)
        *self.outer, self.inner = cluster.spatial
        self.lanes = lanes_for(self.inner.extent, lanes)
        self.local: dict[te.Tensor, Buffer] = {}
        self.scratch: dict[te.Tensor, Buffer] = {}
        self.at: list[Expr] = []
        self.start: Expr = const(0)
        self.width = self.inner.extent
        self.in_strips = False
        #: Of a strip that has not always all of its columns: the vectors, and those always whole.
        self.vectors = self.full = 0

    def build(self, parallel: bool, workers: int) -> Stmt:
        """The whole kernel."""
        self.width = self._block_width(workers if parallel else 1)
        self.in_strips = is_symbolic(self.width) and self.width <= IN_STRIPS * self.lanes
        blocks = -(-self.inner.extent // self.width)
        axes = [*self.outer, Axis((Var("block"),), (blocks,))]
        return parallel_nest(axes, self._block, parallel)

    @property
    def room(self) -> int:
        """Elements that whole vectors over a block or strip reach."""
        if self.in_strips and is_symbolic(self.width):
            return self.vectors * self.lanes
        room = -(-self.width // self.lanes) * self.lanes
        return min(bounds_of(room)[1], WIDEST) if is_symbolic(room) else room

    def _block_width(self, workers: int) -> int:
        extent = self.inner.extent
        if is_symbolic(extent):
            return self._open_width(workers)
        rows = 1
        for axis in self.outer:
            rows *= axis.extent
        wanted = max(1, -(-2 * workers // hint(rows))) if workers > 1 else 1
        widest = min(WIDEST, max(self.lanes, self._most_columns()))
        width = min(extent, widest, max(8 * self.lanes, extent // wanted))
        if width == extent:
            return width
        blocks = -(-extent // width)  # an even share, in whole vectors
        share = -(-extent // blocks)
        return min(extent, -(-share // self.lanes) * self.lanes)

    def _open_width(self, workers: int) -> int:
        """Blocks for any number of columns: one, an even share for every worker, or the widest."""
        extent, shares = self.inner.extent, 2 * workers if workers > 1 else 1
        most = min(WIDEST, bounds_of(self._most_columns())[0])
        if most < WIDEST:  # long columns of intermediates
            narrow = most // 2 // self.lanes * self.lanes
            return extent if extent <= most else max(self.lanes, narrow)
        if extent >= shares * WIDEST:
            return self._even_share(-(-extent // WIDEST))
        for parts in (shares, shares // 2):
            if parts > 1 and extent >= parts * 8 * self.lanes:
                return self._even_share(parts)
        return extent

    def _even_share(self, blocks: int) -> int:
        """The columns of each of so many blocks, in whole vectors."""
        share = -(-self.inner.extent // blocks)
        return -(-share // self.lanes) * self.lanes

    def _most_columns(self) -> int:
        """How many columns of the intermediates have room near the core, in whole vectors."""
        kept = column_bytes(self.cluster, self.outputs)
        return SCRATCH_BYTES // kept // self.lanes * self.lanes if kept else WIDEST

    def _block(self, at: list[Expr]) -> Stmt:
        *self.at, block = at
        make = self._strips if self.in_strips else self._columns_from
        if self.width == self.inner.extent:
            return make(const(0))
        # The last block is as wide as the others: it does again some of its neighbour's.
        start = Var("start")
        first = Min(block * self.width, const(self.inner.extent - self.width))
        return LetStmt(start, first, make(start))

    def _columns_from(self, start: Expr) -> Stmt:
        """All passes over `width` columns."""
        self.start, self.local = start, {}
        self._keep_intermediates()
        body = self._pass(0)
        for buffer in self.scratch.values():
            body = allocate(buffer, body)
        return body

    def _strips(self, start: Expr) -> Stmt:
        """A block as strips of known numbers of vectors."""
        block, lanes = self.width, self.lanes
        widths = COSTLY_STRIPS if self._is_costly() else CHEAP_STRIPS
        self.width = step = widths[-1] * lanes
        count = block // step
        strips = loop("strip", count, lambda k: self._columns_from(start + k * step))
        done = count * step
        self.width = rest = block - done
        narrower: Stmt | None = None
        for self.full, self.vectors in reversed(list(pairwise((0, *widths)))):
            stmt = self._columns_from(start + const(done))
            fits = const(rest) <= self.vectors * lanes
            narrower = stmt if narrower is None else IfThenElse(fits, stmt, narrower)
        self.width = block
        rests = None if narrower is None else IfThenElse(const(rest) > 0, narrower)
        return seq(strips if count != 0 else None, rests)

    def _is_costly(self) -> bool:
        """Whether formulas call functions, such as exp, or values are reduced together."""
        bodies = [member.body for member in self.cluster.members]
        if any(len(body) > 1 and isinstance(body[0], Reduce) for body in bodies):
            return True
        return any(calls_functions(part) for body in bodies for part in body)

    def _keep_intermediates(self) -> None:
        length = self.room
        for axis in self.cluster.reduce:
            length *= axis.extent
        for tensor in intermediates(self.cluster, self.outputs):
            self.scratch[tensor] = make_buffer((length,), tensor.dtype, tensor.name, scope="local")

    # ------------------------------------------------------------------ passes

    def _pass(self, level: int) -> Stmt:
        here = [m for m in self.cluster.members if m.level == level]
        reductions = [m for m in here if m.is_reduction]
        formulas = [m for m in here if m.full and not m.is_reduction]
        rows = [m for m in here if not m.full and not m.is_reduction]
        accumulators = [
            Accumulator.make(m.body, self.room, self.cluster.reduce) for m in reductions
        ]
        parts: list[Stmt] = []
        before, kept = self._columns(rows)
        parts.append(before)
        parts += [acc.clear(self.lanes) for acc in accumulators]
        if formulas or accumulators:
            parts.append(
                nest(self.cluster.reduce, lambda at: self._sweep(at, formulas, accumulators))
            )
        for member, acc in zip(reductions, accumulators, strict=True):
            parts.append(self._finish(member, acc))
        if level + 1 < self.cluster.passes:
            parts.append(self._pass(level + 1))
        body = seq(*parts)
        for acc in accumulators:
            body = acc.within(body)
        for buffer in kept:
            body = allocate(buffer, body)
        return body

    def _sweep(
        self,
        reduced: list[Expr],
        formulas: Sequence[Member],
        accumulators: Sequence[Accumulator],
    ) -> Stmt:
        """One step of the reduced axes, for all columns of the block."""
        condition = None if formulas else self._condition_of_row(accumulators, reduced)

        def element(column: Expr, valid: Expr | None) -> Stmt:
            frame = self._frame(column, reduced)
            stmts: list[Stmt] = []
            for member in formulas:
                for tensor, part in zip(member.tensors, member.body, strict=True):
                    if tensor in self.scratch:
                        place, where = self.scratch[tensor], self._scratch_position(column, reduced)
                    else:
                        place = self.buffers[tensor]
                        where = frame.position(member.axes, member.stage.extents)
                    store = BufferStore(place, frame.formula(part), (where,))
                    stmts.append(guarded(valid, store))
            for acc in accumulators:
                sources = acc.sources() if condition is None else acc.reduce.source
                values = [frame.formula(value) for value in sources]
                stmts.append(acc.take(column, values, valid))
            return seq(*stmts)

        body = self._along(element, overlap=not accumulators, together=4)
        return guarded(condition, body)

    def _condition_of_row(
        self, accumulators: Sequence[Accumulator], reduced: list[Expr]
    ) -> Expr | None:
        """What must hold for a row to be reduced, where no column is asked for it."""
        conditions = {acc.reduce.condition for acc in accumulators}
        condition = conditions.pop()
        if condition is const(True) or conditions or free_vars(condition) & set(self.inner.parts):
            return None
        return self._frame(const(0), reduced).formula(condition)

    def _along(
        self, element: Callable[[Expr, Expr | None], Stmt], overlap: bool, together: int = 1
    ) -> Stmt:
        if self.in_strips and is_symbolic(self.width):
            return seq(*(self._vector(u, element) for u in range(self.vectors)))
        few = self.in_strips or (
            not is_symbolic(self.width) and self.width <= REGISTERS * self.lanes
        )
        kind = UNROLLED if few else SERIAL
        return vector_loop(
            self.width, self.lanes, element, overlap=overlap, kind=kind, together=together
        )

    def _vector(self, u: int, element: Callable[[Expr, Expr | None], Stmt]) -> Stmt:
        """Vector `u` of a strip: as far as there are columns, unless they are known to be there."""

        def lane_of(lane: Expr) -> Stmt:
            column = u * self.lanes + lane
            return element(column, None if u < self.full else column < self.width)

        return vector(self.lanes, lane_of)

    def _finish(self, member: Member, acc: Accumulator) -> Stmt:
        """The partial results are the columns' results: keep them, and write outputs."""
        for tensor, buffer in zip(member.tensors, acc.buffers, strict=True):
            self.local[tensor] = buffer
        changes = bool(acc.reduce.init) or acc.in_order

        def element(column: Expr, valid: Expr | None) -> Stmt:
            values: list[Expr] = [BufferLoad(buffer, [column]) for buffer in acc.buffers]
            if acc.reduce.init:
                values = combine(acc.combiner, list(acc.reduce.init), values)
            zeros = [const(0)] * len(self.cluster.reduce)
            values = acc.chosen(values, self._frame(column, zeros).formula)
            stores = [
                BufferStore(buffer, value, (column,))
                for buffer, value in zip(acc.buffers, values, strict=True)
                if changes
            ]
            where = self._frame(column, None).position(member.axes, member.stage.extents)
            for tensor, value in zip(member.tensors, values, strict=True):
                if tensor in self.outputs:
                    stores.append(BufferStore(self.buffers[tensor], value, (where,)))
            return guarded(valid, seq(*stores))

        if changes or any(tensor in self.outputs for tensor in member.tensors):
            return self._along(element, overlap=not changes)
        return seq()

    def _columns(self, members: Sequence[Member]) -> tuple[Stmt, list[Buffer]]:
        """Values of whole columns, kept for the passes that follow."""
        if not members:
            return seq(), []
        kept = []
        for member in members:
            for tensor in member.tensors:
                buffer = make_buffer((self.room,), tensor.dtype, tensor.name, scope="local")
                kept.append(buffer)
                self.local[tensor] = buffer

        def element(column: Expr, valid: Expr | None) -> Stmt:
            frame = self._frame(column, None)
            stmts = []
            for member in members:
                where = frame.position(member.axes, member.stage.extents)
                for tensor, part in zip(member.tensors, member.body, strict=True):
                    value = frame.formula(part)
                    stmts.append(BufferStore(self.local[tensor], value, (column,)))
                    if tensor in self.outputs:
                        stmts.append(BufferStore(self.buffers[tensor], value, (where,)))
            return guarded(valid, seq(*stmts))

        return self._along(element, overlap=True), kept

    def _frame(self, column: Expr, reduced: list[Expr] | None) -> Frame:
        axes: list[Axis] = [*self.outer, self.inner]
        positions = [*self.at, self.start + column]
        if reduced is not None:
            axes += self.cluster.reduce
            positions += reduced
        sources: dict[te.Tensor, Source] = {}
        for tensor, buffer in self.local.items():
            load = BufferLoad(buffer, [column])
            sources[tensor] = constantly(load)
        if reduced is not None:
            where = self._scratch_position(column, reduced)
            for tensor, buffer in self.scratch.items():
                sources[tensor] = constantly(BufferLoad(buffer, [where]))
        return Frame(axes, positions, self.buffers, sources)

    def _scratch_position(self, column: Expr, reduced: Sequence[Expr]) -> Expr:
        line: Expr = const(0)
        for axis, at in zip(self.cluster.reduce, reduced, strict=True):
            line = line * axis.extent + at
        where: Expr = line * self.room + column
        return where
