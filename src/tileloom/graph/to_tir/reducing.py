"""Accumulators: reductions in vectors of partial results, and how those become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...compute.math import if_then_else
from ...expr import BinaryOp, CommReducer, Expr, Ramp, Reduce, Shuffle, Var, const, substitute
from ...tir import (
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from .cluster import reduction_source
from .nest import loop, vector


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Partial results of one reduction: `count` of them for each component."""

    reduce: Reduce
    buffers: tuple[Buffer, ...]
    count: int

    @staticmethod
    def make(body: Sequence[Expr], count: int) -> Accumulator:
        """For the reduction whose components are `body`."""
        first = body[0]
        if not isinstance(first, Reduce):
            raise TypeError("not a reduction")
        buffers = tuple(
            make_buffer((count,), value.dtype, "acc", scope="local") for value in first.source
        )
        return Accumulator(first, buffers, count)

    @property
    def combiner(self) -> CommReducer:
        """How two partial results become one."""
        return self.reduce.combiner

    def start(self, at: Expr) -> Stmt:
        """Partial result `at` becomes the identity."""
        return seq(
            *(
                BufferStore(buffer, unit, (at,))
                for buffer, unit in zip(self.buffers, self.combiner.identity, strict=True)
            )
        )

    def clear(self, lanes: int) -> Stmt:
        """All partial results become the identity."""
        if self.count % lanes:
            lanes = 1
        return loop(
            "a",
            self.count // lanes,
            lambda a: vector(lanes, lambda lane: self.start(a * lanes + lane)),
        )

    def sources(self) -> list[Expr]:
        """What is combined, as formulas of the program's variables."""
        return reduction_source(self.reduce)

    def take(self, at: Expr, values: Sequence[Expr], valid: Expr | None) -> Stmt:
        """Combine values into partial result `at`, where they are valid."""

        units = self.combiner.identity
        if valid is not None:
            values = [if_then_else(valid, v, u) for v, u in zip(values, units, strict=True)]
        old = [BufferLoad(buffer, [at]) for buffer in self.buffers]
        new = combine(self.combiner, old, list(values))
        if len(new) == 1:
            return BufferStore(self.buffers[0], new[0], (at,))
        names = [Var("new", part.dtype) for part in new]
        stmt = seq(
            *(BufferStore(b, name, (at,)) for b, name in zip(self.buffers, names, strict=True))
        )
        for name, part in zip(reversed(names), reversed(new), strict=True):
            stmt = LetStmt(name, part, stmt)
        return stmt

    def finish(self, lanes: int, then: Callable[[list[Expr]], Stmt]) -> Stmt:
        """`then` with the one result that all partial results combine to."""
        if isinstance(self.combiner.result[0], BinaryOp) and len(self.buffers) == 1:
            return self._fold_vectors(lanes, then)
        step = loop("a", self.count - 1, lambda a: self._fold(a + 1))
        results: list[Expr] = [BufferLoad(buffer, [const(0)]) for buffer in self.buffers]
        return self._with_init(results, lambda final: seq(step, then(final)), step=None)

    def _fold(self, at: Expr) -> Stmt:
        values = [BufferLoad(buffer, [at]) for buffer in self.buffers]
        return self.take(const(0), values, None)

    def _fold_vectors(self, lanes: int, then: Callable[[list[Expr]], Stmt]) -> Stmt:
        buffer = self.buffers[0]
        total: Expr | None = None
        for k in range(0, self.count, lanes):
            index = Ramp(const(k), const(1), lanes) if lanes > 1 else const(k)
            part = BufferLoad(buffer, [index])
            total = part if total is None else combine(self.combiner, [total], [part])[0]
        if total is None:
            return then(list(self.combiner.identity))
        steps: list[tuple[Var, Expr]] = []
        while lanes > 1:
            whole = Var("partial", total.dtype)
            steps.append((whole, total))
            lanes //= 2
            low, high = (Shuffle([whole], range(k, k + lanes)) for k in (0, lanes))
            total = combine(self.combiner, [low], [high])[0]
        stmt = self._with_init([total], then, step=None)
        for var, value in reversed(steps):
            stmt = LetStmt(var, value, stmt)
        return stmt

    def _with_init(
        self, results: list[Expr], then: Callable[[list[Expr]], Stmt], step: Stmt | None
    ) -> Stmt:
        if self.reduce.init:
            results = combine(self.combiner, list(self.reduce.init), results)
        return seq(step, then(results))

    def within(self, body: Stmt) -> Stmt:
        """`body` with the memory of the partial results."""
        for buffer in self.buffers:
            body = allocate(buffer, body)
        return body


def combine(combiner: CommReducer, old: Sequence[Expr], new: Sequence[Expr]) -> list[Expr]:
    """The combination of two tuples."""
    values = dict(zip(combiner.lhs, old, strict=True)) | dict(zip(combiner.rhs, new, strict=True))
    return [substitute(part, values) for part in combiner.result]


def allocate(buffer: Buffer, body: Stmt) -> Stmt:
    """`body` with memory for a buffer."""
    declared = DeclBuffer(buffer, body)
    return Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), declared)
