"""Accumulators: reductions in vectors of partial results, and how those become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...compute.math import if_then_else
from ...expr import (
    EQ,
    LT,
    Add,
    BinaryOp,
    CommReducer,
    Expr,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Var,
    binary,
    const,
    free_vars,
    rewrite,
    substitute,
)
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
from .frame import Axis
from .nest import loop, vector


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Partial results of one reduction: `count` of them for each component.

    Attributes:
        in_order: whether each partial result chooses among elements whose positions, the first
            component, come in increasing order. Then it need not compare them.
    """

    reduce: Reduce
    buffers: tuple[Buffer, ...]
    count: int
    in_order: bool = False

    @staticmethod
    def make(body: Sequence[Expr], count: int, axes: Sequence[Axis]) -> Accumulator:
        """For the reduction over `axes` whose components are `body`."""
        first = body[0]
        if not isinstance(first, Reduce):
            raise TypeError("not a reduction")
        buffers = tuple(
            make_buffer((count,), value.dtype, "acc", scope="local") for value in first.source
        )
        in_order = len(first.source) == 2 and _goes_up(first.source[0], axes)
        return Accumulator(first, buffers, count, in_order)

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
        combiner = _in_order(self.combiner) if self.in_order else self.combiner
        new = combine(combiner, old, list(values))
        if len(new) == 1:
            return BufferStore(self.buffers[0], new[0], (at,))
        names = [Var("new", part.dtype) for part in new]
        stmt = seq(
            *(BufferStore(b, name, (at,)) for b, name in zip(self.buffers, names, strict=True))
        )
        for name, part in zip(reversed(names), reversed(new), strict=True):
            stmt = LetStmt(name, part, stmt)
        return stmt

    def chosen(self, values: Sequence[Expr], first: Callable[[Expr], Expr]) -> list[Expr]:
        """A result, given the value of an expression for the first element.

        Where nothing was better than the worst value there is, the first element is it.
        """
        if not self.in_order:
            return list(values)
        position, nothing = values[0], self.combiner.identity[0]
        start = first(self.reduce.source[0])
        return [Select(binary(EQ, position, nothing), start, position), *values[1:]]

    def finish(self, lanes: int, then: Callable[[list[Expr]], Stmt]) -> Stmt:
        """`then` with the one result that all partial results combine to."""
        if isinstance(self.combiner.result[0], BinaryOp) and len(self.buffers) == 1:
            return self._fold_vectors(lanes, then)
        parts, steps = list(self.buffers), list[Stmt]()
        made: list[Buffer] = []
        width = self.count
        while width > 1:
            half = lanes if width > lanes else width // 2
            parts, step = self._fold(parts, width, half)
            steps.append(step)
            made += parts
            width = half
        results: list[Expr] = [BufferLoad(buffer, [const(0)]) for buffer in parts]
        stmt = seq(*steps, self._with_init(results, then, None))
        for buffer in made:
            stmt = allocate(buffer, stmt)
        return stmt

    def _fold(self, parts: Sequence[Buffer], width: int, half: int) -> tuple[list[Buffer], Stmt]:
        """Fewer partial results, in memory of their own so that LLVM sees values, not memory."""
        fewer = [make_buffer((half,), b.dtype, "acc", scope="local") for b in parts]

        def element(lane: Expr) -> Stmt:
            steps: list[tuple[Var, Expr]] = []
            old: list[Expr] = [BufferLoad(buffer, [lane]) for buffer in parts]
            for start in range(half, width, half):
                new = [BufferLoad(buffer, [lane + start]) for buffer in parts]
                names = [Var("new", b.dtype) for b in parts]
                steps += zip(names, combine(self.combiner, old, new), strict=True)
                old = list(names)
            stmt = seq(*(BufferStore(b, v, (lane,)) for b, v in zip(fewer, old, strict=True)))
            for var, value in reversed(steps):
                stmt = LetStmt(var, value, stmt)
            return stmt

        return fewer, vector(half, element)

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


def _goes_up(position: Expr, axes: Sequence[Axis]) -> bool:
    """Whether an expression grows by one from each element of the axes to the next."""
    if len(axes) != 1 or len(axes[0].parts) != 1:
        return False
    (own,) = axes[0].parts
    if isinstance(position, Add) and own not in free_vars(position.a):
        position = position.b
    return position is own


def _in_order(combiner: CommReducer) -> CommReducer:
    """A choice between two elements of which the left one is known to come first."""
    comes_first = binary(LT, combiner.lhs[0], combiner.rhs[0])

    def known(expr: Expr) -> Expr | None:
        return const(True) if expr is comes_first else None

    result = [rewrite(part, known) for part in combiner.result]
    return CommReducer(combiner.lhs, combiner.rhs, result, combiner.identity)


def combine(combiner: CommReducer, old: Sequence[Expr], new: Sequence[Expr]) -> list[Expr]:
    """The combination of two tuples."""
    values = dict(zip(combiner.lhs, old, strict=True)) | dict(zip(combiner.rhs, new, strict=True))
    return [substitute(part, values) for part in combiner.result]


def allocate(buffer: Buffer, body: Stmt) -> Stmt:
    """`body` with memory for a buffer."""
    declared = DeclBuffer(buffer, body)
    return Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), declared)
