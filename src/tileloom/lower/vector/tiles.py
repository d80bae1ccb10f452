"""Loops over two axes, in square tiles that are transposed in registers.

A kernel may read an array along one axis and write along another, as a transpose does. Two loops,
each around nothing but the next, whose outer one is annotated with `vector_tile` and whose inner
one with `vector_lanes`, run in tiles: what is read along the outer loop is loaded in vectors along
it, transposed, and used in vectors along the inner loop. So both sides access whole cache lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import (
    Add,
    BinaryOp,
    Expr,
    FloorDiv,
    IntImm,
    Ramp,
    Var,
    binary,
    const,
    rewrite,
)
from ...expr.register_transpose import transposed
from ...tir import (
    SERIAL,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    collect,
    collect_exprs,
    pre_order,
    seq,
    under_names,
)
from ..analysis.linear import linear
from ..common import Replacer, fresh_copy
from .accumulators import find_accumulators, with_plain_indices
from .body import CannotVectorize, Vectorizer
from .strips import LANES, TILE, in_strips
from .tile_loads import TileLoad, find_loads


def is_tiled(loop: For) -> bool:
    """Whether a loop and the one inside of it ask for tiles."""
    inner = loop.body
    return TILE in loop.annotations and isinstance(inner, For) and LANES in inner.annotations


def in_tiles(outer: For) -> Stmt:
    """The two loops in tiles.

    Raises:
        CannotVectorize: their iterations depend on each other, or nothing is to be transposed.
    """
    inner = outer.body
    if not isinstance(inner, For):
        raise CannotVectorize("there is no inner loop")
    return _Tiles(outer, inner.replace(body=with_plain_indices(inner.body))).loops()


class _Tiles:
    def __init__(self, outer: For, inner: For) -> None:
        self.outer = outer
        self.inner = inner
        self.side = int(outer.annotations[TILE])
        self.kind = inner.loop_var.dtype
        if not all(isinstance(stmt, BufferStore | SeqStmt) for stmt in pre_order(inner.body)):
            raise CannotVectorize("more than stores in a tile")
        if list(find_accumulators(inner)) or list(
            find_accumulators(outer.replace(body=inner.body))
        ):
            raise CannotVectorize("a sum in a tile")
        loads = find_loads(inner.body)
        stored = {stmt.buffer for stmt in pre_order(inner.body) if isinstance(stmt, BufferStore)}
        self.changes = any(not load.buffers.isdisjoint(stored) for load in loads)  # what it reads
        late = _read_after_stores(inner.body)  # a whole tile is loaded before any of it is stored
        self.transposed = [
            load
            for load in loads
            if load.is_transposed(outer.loop_var, inner.loop_var) and load.buffers.isdisjoint(late)
        ]
        if not self.transposed or outer.loop_var.dtype is not self.kind:
            raise CannotVectorize("nothing to transpose")

    # ------------------------------------------------------------------ loops

    def loops(self) -> Stmt:
        """Tiles, then the columns and the rows that are left."""
        rows, columns = self._tiles_of(self.outer), self._tiles_of(self.inner)
        side = const(self.side, self.kind)
        row, column = (
            Var(f"{loop.loop_var.name}_t", self.kind) for loop in (self.outer, self.inner)
        )
        tile = self._tile(self.outer.min + row * side, self.inner.min + column * side)
        stmts: list[Stmt] = [_loop(column, columns, tile)]
        over = self._overlapping()
        if over is not None:
            stmts.append(fresh_copy(self._tile(self.outer.min + row * side, over), {}))
        elif not _is_zero(self.inner.extent - columns * side):
            lane_rows = Var(self.outer.loop_var.name, self.kind)
            start = self.outer.min + row * side
            rest = self._strip(start + lane_rows, columns)
            stmts.append(For(lane_rows, const(0, self.kind), side, SERIAL, rest))
        main = _loop(row, rows, seq(*stmts))
        left = self.outer.extent - rows * side
        if _is_zero(left):
            return main
        last = Var(self.outer.loop_var.name, self.kind)
        at = self.outer.min + rows * side + last
        return seq(main, _loop(last, left, self._strip(at, const(0, self.kind))))

    def _overlapping(self) -> Expr | None:
        """Where a last tile begins that does some of its neighbour's columns again, if it may."""
        extent = self.inner.extent
        if not isinstance(extent, IntImm) or extent.value < self.side:
            return None
        if extent.value % self.side == 0 or self.changes:
            return None
        return binary(Add, self.inner.min, const(extent.value - self.side, self.kind))

    def _tiles_of(self, loop: For) -> Expr:
        if isinstance(loop.extent, IntImm):
            return const(loop.extent.value // self.side, self.kind)
        return binary(FloorDiv, loop.extent, const(self.side, self.kind))

    def _strip(self, row: Expr, done: Expr) -> Stmt:
        """One row from a tile on, without transposing anything."""
        start = done * const(self.side, self.kind)
        var = self.inner.loop_var.with_name(self.inner.loop_var.name)
        body = fresh_copy(
            self.inner.body, {self.outer.loop_var: row, self.inner.loop_var: start + var}
        )
        extent = self.inner.extent - start
        loop = self.inner.replace(
            loop_var=var, min=self.inner.min, extent=_folded(extent), body=body
        )
        return in_strips([loop])[0]

    # ------------------------------------------------------------------ tiles

    def _tile(self, row: Expr, column: Expr) -> Stmt:
        bound: list[tuple[Var, Expr]] = []
        tiles = [self._transpose(load, row, column, bound) for load in self.transposed]
        stmt = seq(
            *(
                self._row(row + const(k, self.kind), column, [part[k] for part in tiles])
                for k in range(self.side)
            )
        )
        return under_names(bound, stmt)

    def _transpose(
        self, load: TileLoad, row: Expr, column: Expr, bound: list[tuple[Var, Expr]]
    ) -> Sequence[Expr]:
        """A tile of what is loaded: for each of its rows a vector along the inner loop."""
        vectors = [
            load.vector(
                self.outer.loop_var,
                row,
                {self.inner.loop_var: column + const(k, self.kind)},
                self.side,
            )
            for k in range(self.side)
        ]
        new, columns = transposed(vectors)
        bound += new
        return columns

    def _row(self, row: Expr, column: Expr, values: Sequence[Expr]) -> Stmt:
        lane = Var("lane", self.kind)
        holes = {load.value: Var("transposed", load.value.dtype) for load in self.transposed}
        body = _Filled(holes).visit(self.inner.body)
        body = fresh_copy(body, {self.outer.loop_var: row, self.inner.loop_var: column + lane})
        ramp = Ramp(const(0, self.kind), const(1, self.kind), self.side)
        vectorizer = Vectorizer(lane, ramp)
        for load, value in zip(self.transposed, values, strict=True):
            vectorizer.values[holes[load.value]] = value
        return vectorizer.visit(body)


def _read_after_stores(body: Stmt) -> set[Buffer]:
    """The buffers that a statement reads after another one has stored to them."""
    stored: set[Buffer] = set()
    found: set[Buffer] = set()
    for store in collect(body, BufferStore):
        found |= {load.buffer for load in collect_exprs(store, BufferLoad)} & stored
        stored.add(store.buffer)
    return found


class _Filled(Replacer):
    """Loads replaced by variables."""

    def __init__(self, holes: dict[Expr, Var]) -> None:
        super().__init__({}, {})
        self.holes = holes

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self.holes.get)


def _folded(extent: Expr) -> Expr:
    return linear(extent).to_expr(extent.dtype) if isinstance(extent, BinaryOp) else extent


def _is_zero(expr: Expr) -> bool:
    form = linear(expr)
    return not form.terms and form.const == 0


def _loop(var: Var, extent: Expr, body: Stmt) -> Stmt:
    folded = _folded(extent)
    if isinstance(folded, IntImm) and folded.value <= 0:
        return seq()
    return For(var, const(0, var.dtype), folded, SERIAL, body)
