"""Products of a matrix with a vector: every element of the matrix is read once, from memory.

What counts is to read memory in several long pieces at a time, which is what processors fetch
ahead. Lines of the matrix that lie along the depth are taken `LINES` at a time, in vectors along
the depth; where the depth is the other dimension, as many lines are added, times their factors, to
a row of sums in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base import DType
from ...base.sums import is_split
from ...compute.math import if_then_else
from ...expr import EQ, Expr, Ramp, Shuffle, Var, const
from ...tir import (
    PARALLEL,
    SERIAL,
    Buffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from ..symbols import is_symbolic
from .gemm_plan import Element
from .nest import PARALLEL_WORK, guarded, loop, vector
from .reducing import allocate

if TYPE_CHECKING:
    from .kernel import Machine

#: Lines of the matrix that are read side by side.
LINES = 8
#: Results that have their sums in the nearest cache.
WIDEST = 4096
#: Steps along the depth whose sums are made before they are added to the others, so that errors
#: do not grow with the depth.
RUN = 512

#: Stores a finished element, given the batch position and its number.
Store = Callable[[list[Expr], Expr, Expr], Stmt]


@dataclass(frozen=True)
class Thin:
    """`result[b, i] = store(sum over k of matrix[b, i, k] * factor[b, k])`.

    Attributes:
        batch: extents that the product is repeated over.
        results, depth: extents of i and k.
        dtype: of the sums.
        matrix: an element, given (batch, i, k).
        factor: an element, given (batch, k, 0).
        along_depth: whether elements along the depth are neighbours in the matrix, or else those
            of neighbouring results.
    """

    batch: tuple[int, ...]
    results: int
    depth: int
    dtype: DType
    matrix: Element
    factor: Callable[[list[Expr], Expr], Expr]
    store: Store
    along_depth: bool


def suits_lines(batch: int, results: int, depth: int, *, along_depth: bool) -> bool:
    """Whether a product with a vector is large enough in the right dimensions."""
    if any(map(is_symbolic, (batch, results, depth))) or is_split(batch * results, depth):
        return False
    return results >= LINES and depth >= 64 if along_depth else results >= 128 and depth >= LINES


def thin_kernel(thin: Thin, machine: Machine) -> Stmt:
    """The loops of a product with a vector."""
    return (_Lines if thin.along_depth else _Columns)(thin, machine).build()


class _Kernel:
    def __init__(self, thin: Thin, machine: Machine) -> None:
        self.thin = thin
        self.lanes = max(1, machine.vector_bits // thin.dtype.bits)
        self.batch = 1
        for extent in thin.batch:
            self.batch *= extent
        work = 2 * self.batch * thin.results * thin.depth
        self.workers = machine.workers if work >= PARALLEL_WORK else 1
        self.kind = PARALLEL if self.workers > 1 else SERIAL

    def zeros(self, sums: Buffer, count: int) -> Stmt:
        """Vectors of zeros."""
        zero = const(0, self.thin.dtype)
        return loop(
            "z",
            count // self.lanes,
            lambda z: vector(
                self.lanes, lambda lane: BufferStore(sums, zero, (z * self.lanes + lane,))
            ),
        )

    def position(self, number: Expr, shares: int) -> tuple[list[Expr], Expr]:
        """The batch position and the share of a task, where there are so many shares of each."""
        share = number % shares if shares > 1 and self.batch > 1 else number
        if shares == 1:
            share = const(0)
        number = number // shares if shares > 1 else number
        at, step = [], self.batch
        for extent in self.thin.batch:
            whole, step = step, step // extent
            inner = number if whole == self.batch else number % whole
            at.append(inner // step if step > 1 else inner)
        return at, share

    def in_runs(self, sums: Buffer, count: int, run: int, add: Callable[[Expr, int], Stmt]) -> Stmt:
        """`add(first, steps)` to `count` sums for all of the depth, run by run if it is long."""
        depth = self.thin.depth
        if depth <= run:
            return seq(self.zeros(sums, count), add(const(0), depth))
        totals = make_buffer(sums.shape, sums.dtype, "totals", scope="local")

        def total(z: Expr) -> Stmt:
            def element(lane: Expr) -> Stmt:
                at = z * self.lanes + lane
                value = BufferLoad(totals, [at]) + BufferLoad(sums, [at])
                return BufferStore(totals, value, (at,))

            return vector(self.lanes, element)

        def back(z: Expr) -> Stmt:
            def element(lane: Expr) -> Stmt:
                at = z * self.lanes + lane
                return BufferStore(sums, BufferLoad(totals, [at]), (at,))

            return vector(self.lanes, element)

        def one(first: Expr, steps: int) -> Stmt:
            vectors = count // self.lanes
            return seq(self.zeros(sums, count), add(first, steps), loop("z", vectors, total))

        whole, rest = divmod(depth, run)
        return allocate(totals, seq(
            self.zeros(totals, count),
            loop("run", whole, lambda r: one(r * run, run)),
            one(const(whole * run), rest) if rest else None,
            loop("z", count // self.lanes, back),
        ))  # fmt: skip


class _Lines(_Kernel):
    """Vectors run along the depth."""

    def build(self) -> Stmt:
        """All lines, in groups."""
        groups, rest = divmod(self.thin.results, LINES)
        each = groups + bool(rest)

        def task(number: Expr) -> Stmt:
            at, group = self.position(number, each)
            first = group * LINES
            if not rest:
                return self.lines(at, first, LINES)
            if not groups:
                return self.lines(at, first, rest)
            last = EQ(group, const(groups))
            return IfThenElse(last, self.lines(at, first, rest), self.lines(at, first, LINES))

        return loop("group", self.batch * each, task, self.kind)

    def lines(self, at: list[Expr], first: Expr, height: int) -> Stmt:
        """Some results."""
        lanes = self.lanes
        sums = make_buffer((height * lanes,), self.thin.dtype, "sums", scope="local")

        def step(k: Expr, width: int) -> Stmt:
            def part(r: int) -> Stmt:
                def element(lane: Expr) -> Stmt:
                    slot = r * lanes + lane
                    value = self.thin.matrix(at, first + r, k + lane) * self.thin.factor(
                        at, k + lane
                    )
                    if width < lanes:
                        value = if_then_else(lane < width, value, const(0, self.thin.dtype))
                    return BufferStore(sums, BufferLoad(sums, [slot]) + value, (slot,))

                return vector(lanes, element)

            return seq(*map(part, range(height)))

        def add(start: Expr, steps: int) -> Stmt:
            whole, rest = divmod(steps, lanes)
            return seq(
                loop("v", whole, lambda v: step(start + v * lanes, lanes)) if whole else None,
                step(start + whole * lanes, rest) if rest else None,
            )

        ends = [self.finish(at, first + r, sums, r * lanes) for r in range(height)]
        body = self.in_runs(sums, height * lanes, RUN * lanes, add)
        return allocate(sums, seq(body, *ends))

    def finish(self, at: list[Expr], line: Expr, sums: Buffer, slot: int) -> Stmt:
        """The result of the sums in the lanes of a vector."""
        lanes = self.lanes
        index = Ramp(const(slot), const(1), lanes) if lanes > 1 else const(slot)
        total: Expr = BufferLoad(sums, [index])
        bound: list[tuple[Var, Expr]] = []
        while lanes > 1:
            whole = Var("partial", total.dtype)
            bound.append((whole, total))
            lanes //= 2
            low, high = (Shuffle([whole], range(k, k + lanes)) for k in (0, lanes))
            total = low + high
        stmt = self.thin.store(at, line, total)
        for var, value in reversed(bound):
            stmt = LetStmt(var, value, stmt)
        return stmt


class _Columns(_Kernel):
    """Vectors run along the results."""

    def build(self) -> Stmt:
        """All results, in blocks of even width."""
        results, lanes = self.thin.results, self.lanes
        shares = -(-self.workers // self.batch)
        blocks = max(shares, -(-results // WIDEST))
        width = -(-results // (blocks * lanes)) * lanes
        blocks = -(-results // width)
        rest = results - (blocks - 1) * width

        def task(number: Expr) -> Stmt:
            at, block = self.position(number, blocks)
            if rest == width:
                return self.block(at, block * width, width)
            if blocks == 1:
                return self.block(at, const(0), rest)
            last = EQ(block, const(blocks - 1))
            return IfThenElse(
                last, self.block(at, block * width, rest), self.block(at, block * width, width)
            )

        return loop("block", self.batch * blocks, task, self.kind)

    def block(self, at: list[Expr], first: Expr, width: int) -> Stmt:
        """Results from `first` on."""
        lanes = self.lanes
        room = -(-width // lanes) * lanes
        sums = make_buffer((room,), self.thin.dtype, "sums", scope="local")

        def each(body: Callable[[Expr], Stmt]) -> Stmt:
            """`body(offset)` for all results, in vectors."""
            whole, rest = divmod(width, lanes)
            main = loop("v", whole, lambda v: vector(lanes, lambda lane: body(v * lanes + lane)))
            if not rest:
                return main

            def tail(lane: Expr) -> Stmt:
                return guarded(lane < rest, body(const(whole * lanes) + lane))

            return seq(main if whole else None, vector(lanes, tail))

        def lines(k: Expr, count: int) -> Stmt:
            factors = [Var(f"factor{u}", self.thin.dtype) for u in range(count)]

            def element(offset: Expr) -> Stmt:
                value: Expr = BufferLoad(sums, [offset])
                for u, factor in enumerate(factors):
                    value = value + self.thin.matrix(at, first + offset, k + u) * factor
                return BufferStore(sums, value, (offset,))

            stmt = each(element)
            for u, factor in enumerate(factors):
                stmt = LetStmt(factor, self.thin.factor(at, k + u), stmt)
            return stmt

        def add(start: Expr, steps: int) -> Stmt:
            whole, rest = divmod(steps, LINES)
            return seq(
                loop("k", whole, lambda k: lines(start + k * LINES, LINES)) if whole else None,
                lines(start + whole * LINES, rest) if rest else None,
            )

        def finish(offset: Expr) -> Stmt:
            return self.thin.store(at, first + offset, BufferLoad(sums, [offset]))

        return allocate(sums, seq(self.in_runs(sums, room, RUN, add), each(finish)))
