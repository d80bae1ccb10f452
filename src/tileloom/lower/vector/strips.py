"""Loops cut into vectors by an annotation: whole vectors, then a masked rest; sums in lanes.

A loop annotated with `vector_lanes` runs in vectors of so many lanes, whatever its extent is,
which need not be known. What its iterations add up in one place (or multiply, or take the minimum
or maximum of) is kept in vectors of partial results, `vector_parts` of them to hide the latency of
adding. They become one result after the loop, or after the loops around it that hold nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...expr import (
    LT,
    Add,
    And,
    Call,
    Expr,
    FloorDiv,
    IntImm,
    Or,
    Ramp,
    Shuffle,
    Sub,
    Var,
    binary,
    broadcast_to,
    conjunction,
    const,
    free_vars,
    has_load,
    post_order,
)
from ...tir import (
    SERIAL,
    UNROLLED,
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    StmtRewriter,
    is_no_op,
    make_buffer,
    parts_of,
    seq,
    stmt_exprs,
    under_loops,
    under_names,
)
from ..analysis.conditions import negate
from ..blocks import allocate
from ..common import IF_THEN_ELSE, conjuncts, fresh_copy, replace_vars
from .accumulators import (
    COLUMNS,
    Accumulator,
    add_columns,
    after_inits,
    find_accumulators,
    keep_columns,
    most_steps,
    with_plain_indices,
    with_rows_apart,
)
from .body import Vectorizer

LANES, PARTS, TILE = "vector_lanes", "vector_parts", "vector_tile"
#: So few vectors are written out: what they add up in stays in registers.
WRITTEN_OUT = 4
#: Columns of sums are written out where that does not make more statements than this.
STATEMENTS = 64
#: So many columns of sums, of which several rows are added at a time, lie in the nearest cache.
NEAR = 8192


def annotated_chain(loop: For) -> list[For] | None:
    """A serial loop and those that alone stand below it, down to one that asks for vectors."""
    chain = [loop]
    while LANES not in chain[-1].annotations:
        below = chain[-1].body
        if chain[-1].kind != SERIAL or TILE in chain[-1].annotations or not isinstance(below, For):
            return None
        chain.append(below)
    return chain if chain[-1].kind == SERIAL else None


def in_strips(chain: Sequence[For], before: Stmt | None = None) -> tuple[Stmt, bool]:
    """The loops of a chain, the innermost in vectors; and whether that makes up for `before`.

    Args:
        before: what runs just before, perhaps to set what the loops add to.

    Raises:
        CannotVectorize: its iterations depend on each other, or have no form for vectors.
    """
    *outer, loop = chain
    strips = Strips(loop.replace(body=with_plain_indices(loop.body)), outer)
    bodies = strips.bodies()
    accumulators = (*strips.accumulators.values(), *strips.columns.values())
    places = [free_vars(accumulator.index) for accumulator in accumulators]
    while outer and not any(outer[-1].loop_var in found for found in places):
        around = outer.pop()
        bodies = {limit: around.replace(body=body) for limit, body in bodies.items()}
    (_, body), *shorter = bodies.items()
    for limit, few in shorter:
        is_short = strips.loop.extent <= const(limit, strips.kind)
        body = IfThenElse(is_short, fresh_copy(few, {}), body)
    known = None
    if before is not None and strips.columns and not outer:
        known = after_inits(strips.columns, strips.loop, before)
        strips.columns = known or strips.columns
    stmt = strips.with_accumulators(body)
    return under_loops(outer, stmt), known is not None


class Strips:
    """The loops over the vectors of a loop."""

    def __init__(self, loop: For, outer: Sequence[For]) -> None:
        loop = with_rows_apart(loop)
        self.kind = loop.loop_var.dtype
        self.width = int(loop.annotations[LANES])
        self.columns: Mapping[Stmt, Accumulator] = {}
        if isinstance(loop.extent, IntImm):
            self.width = min(self.width, 1 << max(0, loop.extent.value - 1).bit_length())
        most = min(COLUMNS, STATEMENTS // _short_stores(loop.body))
        most = max(WRITTEN_OUT, most) * self.width
        rows = _rows(loop.body)
        self.written_out = min(COLUMNS, STATEMENTS // rows)
        if rows > 1:
            most = max(most, NEAR)
        if outer and most_steps(loop) <= most:
            loop, self.columns = keep_columns(loop, outer[-1], self.width)
        self.loop = loop
        accumulators = list(find_accumulators(loop))
        self.parts = int(loop.annotations.get(PARTS, 1)) if accumulators else 1
        if isinstance(loop.extent, IntImm):
            self.parts = max(1, min(self.parts, loop.extent.value // self.width))
        self.accumulators: Mapping[Stmt, Accumulator] = {
            store: Accumulator(store, op, value, store.indices[0], self._partial(store))
            for store, op, value in accumulators
        }
        self.copies = 0

    def _partial(self, store: BufferStore) -> Buffer:
        return make_buffer((self.width * self.parts,), store.value.dtype, "parts", scope="local")

    # ------------------------------------------------------------------ loops

    def loops(self) -> Stmt:
        """All iterations, their sums left in partial results."""
        extent = self.loop.extent
        return self._known(extent.value) if isinstance(extent, IntImm) else self._unknown(extent)

    def bodies(self) -> dict[int, Stmt]:
        """The same by how many iterations there are at most, the longest first.

        Columns of open number have one for each power of two of vectors.
        """
        extent, most = self.loop.extent, most_steps(self.loop)
        if not self.columns or isinstance(extent, IntImm):
            return {most: self.loops()}
        count = -(-most // self.width)
        if count > self.written_out:
            return {most: self._short(extent, count)}
        counts = [count, *(1 << k for k in reversed(range((count - 1).bit_length())))]
        return {n * self.width: self._few(extent, n) for n in counts}

    def _short(self, extent: Expr, count: int) -> Stmt:
        """Vectors as far as there are any, each by itself, of a loop of few steps."""
        var = Var(f"{self.loop.loop_var.name}_v", self.kind)
        start = var * const(self.width, self.kind)
        piece = self._piece(start, 0, extent - start)
        body = IfThenElse(binary(LT, start, extent), piece)
        return For(var, const(0, self.kind), const(count, self.kind), SERIAL, body)

    def _few(self, extent: Expr, count: int) -> Stmt:
        """The vectors of iterations that fill at most so many, and more than half as many."""
        full = (1 << (count - 1).bit_length()) // 2
        stmts = []
        for part in range(count):
            start = const(part * self.width, self.kind)
            piece = self._piece(start, part, None if part < full else extent - start)
            stmts.append(IfThenElse(binary(LT, start, extent), piece) if part > full else piece)
        return seq(*stmts)

    def _known(self, extent: int) -> Stmt:
        blocks, rest = divmod(extent, self.width * self.parts)
        stmts: list[Stmt] = []
        if blocks:
            stmts.append(self._blocks(const(blocks, self.kind), blocks))
        at = extent - rest
        stmts += [
            self._piece(const(at + part * self.width, self.kind), part)
            for part in range(rest // self.width)
        ]
        left = rest % self.width
        if left:
            part = rest // self.width % self.parts
            stmts.append(self._piece(const(extent - left, self.kind), part, left))
        return seq(*stmts)

    def _blocks(self, count: Expr, known: int | None) -> Stmt:
        """The loop over as many vectors at a time as there are partial results."""
        if known == 1:
            return self._block(const(0, self.kind))
        var = Var(f"{self.loop.loop_var.name}_v", self.kind)
        most = self.written_out if self.columns else WRITTEN_OUT // self.parts
        kind = UNROLLED if known is not None and known <= most else SERIAL
        return For(var, const(0, self.kind), count, kind, self._block(var))

    def _block(self, number: Expr) -> Stmt:
        step = const(self.width * self.parts, self.kind)
        return seq(
            *(
                self._piece(number * step + const(part * self.width, self.kind), part)
                for part in range(self.parts)
            )
        )

    def _unknown(self, extent: Expr) -> Stmt:
        name, width = self.loop.loop_var.name, const(self.width, self.kind)
        vectors = Var(f"{name}_vectors", self.kind)
        if self.parts == 1:
            stmts = [self._blocks(vectors, None)]
        else:
            parts = const(self.parts, self.kind)
            blocks = Var(f"{name}_blocks", self.kind)
            done = blocks * parts
            few = [
                IfThenElse(
                    binary(LT, const(part, self.kind), vectors - done),
                    self._piece((done + part) * width, part),
                )
                for part in range(self.parts - 1)
            ]
            both = seq(self._blocks(blocks, None), *few)
            stmts = [LetStmt(blocks, binary(FloorDiv, vectors, parts), both)]
        left = Var(f"{name}_left", self.kind)
        tail = self._piece(vectors * width, self.parts - 1, left)
        tail = IfThenElse(binary(LT, const(0, self.kind), left), tail)
        stmts.append(LetStmt(left, binary(Sub, extent, vectors * width), tail))
        return LetStmt(vectors, binary(FloorDiv, extent, width), seq(*stmts))

    def _piece(self, start: Expr, part: int, wanted: int | Expr | None = None) -> Stmt:
        """A vector of iterations from `start` on; of a last one only the lanes that are wanted."""
        width = self.width
        if isinstance(wanted, int):
            width = 1 << (wanted - 1).bit_length()
            wanted = None if wanted == width else const(wanted, self.kind)
        lane = Var("lane", self.kind)
        valid = [] if wanted is None else [binary(LT, lane, wanted)]
        slot = const(part * self.width, self.kind) + lane
        body = self.placed(slot, valid)
        values: dict[Var, Expr] = {self.loop.loop_var: self.loop.min + start + lane}
        body = fresh_copy(body, values) if self.copies else replace_vars(body, values)
        self.copies += 1
        if width == 1:
            return replace_vars(body, {lane: const(0, self.kind)})
        ramp = Ramp(const(0, self.kind), const(1, self.kind), width)
        return Vectorizer(lane, ramp).visit(body)

    def placed(self, slot: Expr, valid: Sequence[Expr]) -> Stmt:
        """The body with its sums in a slot of the partial results, under conditions."""
        return _Placed(self.accumulators, self.columns, self.loop.loop_var, slot, valid).visit(
            self.loop.body
        )

    # ------------------------------------------------------------------ accumulators

    def with_accumulators(self, body: Stmt) -> Stmt:
        """The loops between the start of partial results and their sum."""
        accumulators, columns = self.accumulators.values(), self.columns.values()
        before = [
            part for accumulator in (*accumulators, *columns) for part in self._start(accumulator)
        ]
        after = [self._finish(accumulator) for accumulator in accumulators]
        after += [part for c in columns for part in add_columns(c, self.loop, self.width)]
        stmt = seq(*before, body, *after)
        for accumulator in (*accumulators, *columns):
            stmt = allocate(accumulator.parts, stmt)
        return stmt

    def _at(self, part: int) -> Expr:
        start = const(part * self.width, self.kind)
        return Ramp(start, const(1, self.kind), self.width) if self.width > 1 else start

    def _start(self, accumulator: Accumulator) -> Iterator[Stmt]:
        begins = accumulator.unit if accumulator.begins is None else accumulator.begins
        unit = broadcast_to(begins, self.width)
        count = (accumulator.parts.static_shape or (0,))[0] // self.width
        if count > COLUMNS:
            var = Var("v", self.kind)
            start: Expr = var * const(self.width, self.kind)
            at = Ramp(start, const(1, self.kind), self.width) if self.width > 1 else start
            clear = BufferStore(accumulator.parts, unit, (at,))
            yield For(var, const(0, self.kind), const(count, self.kind), SERIAL, clear)
            return
        for part in range(count):
            yield BufferStore(accumulator.parts, unit, (self._at(part),))

    def _finish(self, accumulator: Accumulator) -> Stmt:
        value: Expr = BufferLoad(accumulator.parts, (self._at(0),))
        for part in range(1, self.parts):
            value = accumulator.op(value, BufferLoad(accumulator.parts, (self._at(part),)))
        halves: list[tuple[Var, Expr]] = []
        width = self.width
        while width > 1:
            whole = Var("halves", value.dtype)
            halves.append((whole, value))
            low, high = (Shuffle([whole], picks) for picks in _halves(width, accumulator))
            width //= 2
            value = accumulator.op(low, high)
        old = BufferLoad(accumulator.store.buffer, accumulator.store.indices)
        stmt: Stmt = accumulator.store.replace(value=accumulator.op(old, value))
        return under_names(halves, stmt)


def _halves(lanes: int, accumulator: Accumulator) -> tuple[range, range]:
    """The lanes of partial results that are joined with each other.

    Of four integers neighbours are added, not the lower two to the upper two. Where every step
    takes the lower and the upper half, LLVM makes PSADBW of sums of numbers below 256 on AVX-512;
    if it finds only after legalization of types that they are, it truncates them to vectors that
    the machine does not have (<8 x i8>) and aborts the process.
    """
    if lanes == 4 and accumulator.op is Add and accumulator.parts.dtype.is_int:
        return range(0, 4, 2), range(1, 4, 2)
    return range(lanes // 2), range(lanes // 2, lanes)


class _Placed(StmtRewriter):
    """The body with its sums in a slot of the partial results, under conditions."""

    def __init__(
        self,
        accumulators: Mapping[Stmt, Accumulator],
        columns: Mapping[Stmt, Accumulator],
        var: Var,
        slot: Expr,
        conditions: Sequence[Expr],
    ) -> None:
        self.var = var
        self.accumulators = accumulators
        self.columns = columns
        self.slot = slot
        self.conditions = tuple(conditions)
        self.private: set[Var] = set()  # memory that each iteration has for itself

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        self.private.add(stmt.buffer_var)
        return super().visit_Allocate(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        accumulator = self.accumulators.get(stmt) or self.columns.get(stmt)
        condition = conjunction(self.conditions)
        if stmt.buffer.data in self.private and self.conditions:
            return stmt.replace(value=choose(condition, stmt.value, const(0, stmt.value.dtype)))
        if accumulator is None:
            return IfThenElse(condition, stmt) if self.conditions else stmt
        uniform, value = self._without_uniform(accumulator)
        value = choose(condition, value, accumulator.unit) if self.conditions else value
        slot = self.slot if stmt in self.accumulators else stmt.indices[0]
        old = BufferLoad(accumulator.parts, (slot,))
        if accumulator.op not in (And, Or):
            added: Stmt = BufferStore(accumulator.parts, accumulator.op(old, value), (slot,))
        else:
            name = Var("new", value.dtype)  # or else it is loaded under a mask, where it matters
            added = LetStmt(
                name, value, BufferStore(accumulator.parts, accumulator.op(old, name), (slot,))
            )
        return IfThenElse(conjunction(uniform), added) if uniform else added

    def _without_uniform(self, accumulator: Accumulator) -> tuple[list[Expr], Expr]:
        """Conditions that are one for all lanes, without which nothing is added; and the rest."""
        value = accumulator.value
        if not isinstance(value, Call) or value.op != IF_THEN_ELSE or self.private:
            return [], value
        condition, chosen, other = value.args
        if other is not accumulator.unit:
            return [], value
        parts = conjuncts(condition)
        uniform = [p for p in parts if self.var not in free_vars(p) and not has_load(p)]
        rest = [part for part in parts if part not in uniform]
        return uniform, choose(conjunction(rest), chosen, other) if rest else chosen

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        if not self.conditions or is_no_op(stmt):
            return stmt
        return IfThenElse(conjunction(self.conditions), stmt)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        if self.conditions and has_load(stmt.value):
            zero = const(0, stmt.value.dtype)
            stmt = stmt.replace(value=choose(conjunction(self.conditions), stmt.value, zero))
        return super().visit_LetStmt(stmt)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        outer = self.conditions
        self.conditions = (*outer, stmt.condition)
        parts = [self.visit(stmt.then_case)]
        if stmt.else_case is not None:
            self.conditions = (*outer, negate(stmt.condition))
            parts.append(self.visit(stmt.else_case))
        self.conditions = outer
        return seq(*parts)


def _rows(body: Stmt) -> int:
    """How many rows a body adds at a time."""
    if not isinstance(body, For) or body.kind != UNROLLED:
        return 1
    return body.extent.value if isinstance(body.extent, IntImm) else 1


def _short_stores(body: Stmt) -> int:
    """How many stores a body consists of; many if some take long to compute."""
    stmts = parts_of(body)
    calls = (
        isinstance(node, Call)
        for stmt in stmts
        for expr in stmt_exprs(stmt)
        for node in post_order(expr)
    )
    plain = all(isinstance(stmt, BufferStore) for stmt in stmts) and not any(calls)
    return len(stmts) if plain else STATEMENTS


def choose(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """One of two values; what is not chosen is not evaluated."""
    return Call(yes.dtype, IF_THEN_ELSE, (condition, yes, no))
