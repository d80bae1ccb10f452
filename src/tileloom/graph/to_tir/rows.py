"""Kernels that reduce along the innermost axis, and kernels that reduce nothing.

Rows are shared among the workers. Each row is passed over as often as reductions follow each other;
inside a pass, vectors of partial results are kept, several to hide the latency of adding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ... import compute as te
from ...compute.math import if_then_else
from ...expr import Div, Expr, ProducerLoad, Var, const, free_vars, post_order
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
    undefined_vars,
)
from ..symbols import at_least, bounds_of, is_symbolic
from .cluster import Cluster, Member, calls_functions, intermediates
from .frame import Axis, Frame, Source, constantly
from .nest import guarded, lanes_for, loop, nest, parallel_nest, vector, vector_loop
from .reducing import Accumulator, allocate
from .stages import base_of

#: Vectors of partial results in one pass.
UNROLL = 4
#: Rows of unknown length up to these vectors have all of them written out, with masks.
SHORT = (1, 2, 3, 5, 8)


class RowKernel:
    """The body of a kernel whose vectors run along the innermost reduced axis."""

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
        self.sources: dict[te.Tensor, Source] = {}
        self.scratch: list[Buffer] = []
        # A reduction over unit axes alone has none left.
        *self.outer, self.inner = cluster.reduce or (Axis((Var("k"),), (1,), reduce=True),)
        self.lanes = lanes_for(self.inner.extent, lanes)
        self.row: list[Expr] = []
        #: Vectors, all written out, that any row fits into.
        self.vectors: int | None = None
        #: Whether intermediates are kept as whole vectors: those stored under a mask are slow to
        #: be read again soon.
        self.whole = is_symbolic(self.inner.extent) and not self.outer
        #: Terms of the formulas of a pass that are the same for a whole row, and their values.
        self.terms: dict[Expr, Var] = {}

    def build(self, parallel: bool) -> Stmt:
        """The whole kernel."""
        self.vectors = self._few_vectors()
        return parallel_nest(self.cluster.spatial, self._one_row, parallel)

    def _few_vectors(self) -> int | None:
        """In how many vectors a row of unknown length lies, where these are few."""
        is_kept = bool(intermediates(self.cluster, self.outputs))
        if not is_symbolic(self.inner.extent) or (is_kept and self.outer):
            return None
        return next((n for n in SHORT if self.inner.extent <= n * self.lanes), None)

    def _one_row(self, at: list[Expr]) -> Stmt:
        self.row = at
        self._keep_intermediates()
        body = self._pass(0)
        for buffer in self.scratch:
            body = allocate(buffer, body)
        return body

    def _keep_intermediates(self) -> None:
        length = self.inner.extent
        for axis in self.outer:
            length *= axis.extent
        for tensor in intermediates(self.cluster, self.outputs):
            room = self.vectors * self.lanes if self.vectors else bounds_of(length)[1]
            if self.whole:
                room = -(-room // self.lanes) * self.lanes
            scratch = make_buffer((room,), tensor.dtype, tensor.name, scope="local")
            self.scratch.append(scratch)
            self.buffers[tensor] = scratch

    # ------------------------------------------------------------------ passes

    def _pass(self, level: int) -> Stmt:
        """Everything from this pass on."""
        here = [m for m in self.cluster.members if m.level == level]
        reductions = [m for m in here if m.is_reduction]
        accumulators = [
            Accumulator.make(m.body, (self.vectors or UNROLL) * self.lanes, self.cluster.reduce)
            for m in reductions
        ]
        formulas = [m for m in here if m.full and not m.is_reduction]
        rows = [m for m in here if not m.full and not m.is_reduction]
        before = self._row_values(rows)
        clear = [acc.clear(self.lanes) for acc in accumulators]
        sweep = self._with_terms(formulas, accumulators)
        if level + 1 >= self.cluster.passes and not reductions:
            return before(seq(sweep))
        body = seq(*clear, sweep, self._finish(reductions, accumulators, level))
        for acc in accumulators:
            body = acc.within(body)
        return before(body)

    def _row_values(self, rows: Sequence[Member]) -> Callable[[Stmt], Stmt]:
        """A function that puts the values of whole rows before a statement."""
        axes = self.cluster.spatial
        bound: list[tuple[Var, Expr]] = []
        stores: list[Stmt] = []
        for member in rows:
            frame = Frame(axes, self.row, self.buffers, self.sources)
            for tensor, part in zip(member.tensors, member.body, strict=True):
                var = Var(tensor.name, tensor.dtype)
                bound.append((var, frame.formula(part)))
                self.sources[tensor] = constantly(var)
                if tensor in self.outputs:
                    where = frame.position(member.axes, _extents(member))
                    stores.append(BufferStore(self.buffers[tensor], var, (where,)))

        def wrap(stmt: Stmt) -> Stmt:
            result = seq(*stores, stmt)
            for var, value in reversed(bound):
                result = LetStmt(var, value, result)
            return result

        return wrap

    def _finish(
        self,
        reductions: Sequence[Member],
        accumulators: Sequence[Accumulator],
        level: int,
    ) -> Stmt:
        """The results of the reductions, then the passes that need them."""
        if not reductions:
            return self._pass(level + 1) if level + 1 < self.cluster.passes else seq()
        member, acc = reductions[0], accumulators[0]

        def then(results: list[Expr]) -> Stmt:
            names = [Var(t.name, t.dtype) for t in member.tensors]
            stores = []
            frame = Frame(self.cluster.spatial, self.row, self.buffers, self.sources)
            for tensor, var in zip(member.tensors, names, strict=True):
                self.sources[tensor] = constantly(var)
                if tensor in self.outputs:
                    where = frame.position(member.axes, _extents(member))
                    stores.append(BufferStore(self.buffers[tensor], var, (where,)))
            rest = self._finish(reductions[1:], accumulators[1:], level)
            stmt = seq(*stores, rest)
            axes = [*self.cluster.spatial, *self.outer, self.inner]
            zeros = [const(0)] * (len(self.outer) + 1)
            whole = Frame(axes, [*self.row, *zeros], self.buffers, self.sources)
            results = acc.chosen(results, whole.formula)
            for var, value in zip(reversed(names), reversed(results), strict=True):
                stmt = LetStmt(var, value, stmt)
            return stmt

        return acc.finish(self.lanes, then)

    # ------------------------------------------------------------------ loops

    def _with_terms(self, formulas: Sequence[Member], accumulators: Sequence[Accumulator]) -> Stmt:
        """One pass over the row, after costly terms that are the same for all of it.

        The pieces of a row stand in branches, and LLVM computes such a term in each of them.
        """
        bodies = [part for member in formulas for part in member.body]
        bodies += [part for acc in accumulators for part in acc.reduce.source]
        frame = Frame(self.cluster.spatial, self.row, self.buffers, self.sources)
        self.terms = {term: Var("term", term.dtype) for term in self._terms_of_row(bodies)}
        stmt = self._sweep(formulas, accumulators)
        for term, var in reversed(self.terms.items()):
            stmt = LetStmt(var, frame.formula(term), stmt)
        return stmt

    def _terms_of_row(self, bodies: Iterable[Expr]) -> list[Expr]:
        """The largest such terms of what is known of the row, and so are safe to compute."""
        inside = {part for axis in self.cluster.reduce for part in axis.parts}
        found: dict[Expr, None] = {}
        stack, seen = list(bodies), set[Expr]()
        while stack:
            expr = stack.pop()
            if expr in seen or not _is_costly(expr):
                continue
            seen.add(expr)
            loads = (n.producer for n in post_order(expr) if isinstance(n, ProducerLoad))
            if (
                expr.dtype.is_float
                and not free_vars(expr) & inside
                and all(base_of(tensor) in self.sources for tensor in loads)
            ):
                found[expr] = None
            else:
                stack += expr.children
        return list(found)

    def _sweep(self, formulas: Sequence[Member], accumulators: Sequence[Accumulator]) -> Stmt:
        """One pass over the row."""
        if not formulas and not accumulators:
            return seq()
        return nest(self.outer, lambda at: self._inner(at, formulas, accumulators))

    def _inner(
        self,
        outer: list[Expr],
        formulas: Sequence[Member],
        accumulators: Sequence[Accumulator],
    ) -> Stmt:
        extent, width = self.inner.extent, self.lanes

        def element(position: Expr, slot: Expr, valid: Expr | None) -> Stmt:
            return self._element([*outer, position], slot, valid, formulas, accumulators)

        if not accumulators and self.vectors is not None:
            return self._short(lambda p, valid: element(p, const(0), valid))
        if not accumulators:
            return vector_loop(
                extent, width, lambda p, valid: element(p, const(0), valid), overlap=True
            )

        def piece(base: Expr, slot: int, lanes: int, wanted: int) -> Stmt:
            """`wanted` elements from `base` on, in one vector, into partial results from `slot`."""

            def body(lane: Expr) -> Stmt:
                valid = None if wanted == lanes else lane < wanted
                return element(base + lane, const(slot) + lane, valid)

            return vector(lanes, body)

        if self.vectors is not None:
            starts = [u * width for u in range(self.vectors)]
            wanted = [width if at_least(extent, s + width) else extent - s for s in starts]
            return seq(*(piece(const(s), s, width, n) for s, n in zip(starts, wanted, strict=True)))
        if is_symbolic(extent):
            return self._open(piece)
        blocks, rest = divmod(extent, width * UNROLL)
        start = extent - rest
        parts: list[Stmt] = []
        if blocks:
            parts.append(
                loop(
                    "v",
                    blocks,
                    lambda v: seq(
                        *(
                            piece((v * UNROLL + u) * width, u * width, width, width)
                            for u in range(UNROLL)
                        )
                    ),
                )
            )
        parts += [
            piece(const(start + u * width), u * width, width, width) for u in range(rest // width)
        ]
        left = rest % width
        if left:
            slot = rest // width % UNROLL * width
            parts.append(piece(const(extent - left), slot, lanes_for(left, width), left))
        return seq(*parts)

    def _open(self, piece: Callable[[Expr, int, int, int], Stmt]) -> Stmt:
        """A pass over a row of unknown length: blocks, whole vectors, and what is left."""
        extent, width, step = self.inner.extent, self.lanes, self.lanes * UNROLL

        def block(v: Expr) -> Stmt:
            places = [(v * UNROLL + u) * width for u in range(UNROLL)]
            return seq(*(piece(p, u * width, width, width) for u, p in enumerate(places)))

        parts: list[Stmt] = [loop("v", extent // step, block)]
        count = UNROLL
        while count > 1:  # half of the block, a quarter, ...
            done, count = extent // (count * width) * count * width, count // 2
            more = [piece(const(done + u * width), u * width, width, width) for u in range(count)]
            parts.append(IfThenElse(const(extent - done) >= count * width, seq(*more)))
        left = extent - extent // width * width
        if width > 1:
            tail = piece(const(extent - left), (UNROLL - 1) * width, width, left)
            parts.append(IfThenElse(const(left) > 0, tail))
        return seq(*parts)

    def _short(self, body: Callable[[Expr, Expr | None], Stmt]) -> Stmt:
        """A pass over a short row without reductions."""

        def one(start: int) -> Stmt:
            whole = at_least(self.inner.extent, start + self.lanes)

            def at(lane: Expr) -> Stmt:
                position: Expr = start + lane
                here: Expr = position < self.inner.extent
                return body(position, None if whole else here)

            return vector(self.lanes, at)

        return seq(*(one(u * self.lanes) for u in range(self.vectors or 0)))

    def _element(
        self,
        position: list[Expr],
        slot: Expr,
        valid: Expr | None,
        formulas: Sequence[Member],
        accumulators: Sequence[Accumulator],
    ) -> Stmt:
        axes: list[Axis] = [*self.cluster.spatial, *self.outer, self.inner]
        here = self._scratch_position(position)
        kept = {t: BufferLoad(b, [here]) for t, b in self.buffers.items() if b in self.scratch}
        named = {t: Var(t.name, t.dtype) for t in kept if self.whole}
        sources = {t: constantly(named.get(t, load)) for t, load in kept.items()}
        sources = {**self.sources, **sources}
        frame = Frame(axes, [*self.row, *position], self.buffers, sources, self.terms)
        steps: list[Stmt | tuple[Var, Expr]] = []
        for member in formulas:
            for tensor, part in zip(member.tensors, member.body, strict=True):
                place, value = self.buffers[tensor], frame.formula(part)
                if tensor in self.outputs:
                    where = frame.position(member.axes, _extents(member))
                    steps.append(guarded(valid, BufferStore(place, value, (where,))))
                elif tensor in named:
                    if valid is not None:
                        value = if_then_else(valid, value, const(0, value.dtype))
                    var = named.pop(tensor)
                    steps += [(var, value), BufferStore(place, var, (here,))]
                else:
                    steps.append(guarded(valid, BufferStore(place, value, (here,))))
        for acc in accumulators:
            values = [frame.formula(value) for value in acc.sources()]
            steps.append(acc.take(slot, values, valid))
        stmt: Stmt = seq()
        for step in reversed(steps):
            stmt = seq(step, stmt) if isinstance(step, Stmt) else LetStmt(*step, stmt)
        used = undefined_vars(stmt)
        for tensor, var in named.items():
            if var in used:
                stmt = LetStmt(var, kept[tensor], stmt)
        return stmt

    def _scratch_position(self, position: list[Expr]) -> Expr:
        result: Expr = const(0)
        for axis, at in zip([*self.outer, self.inner], position, strict=True):
            result = result * axis.extent + at
        return result


def _is_costly(expr: Expr) -> bool:
    """Whether a function is called or a quotient taken."""
    return calls_functions(expr) or any(isinstance(n, Div) for n in post_order(expr))


def _extents(member: Member) -> tuple[int, ...]:
    return member.stage.extents


__all__ = ["RowKernel"]
