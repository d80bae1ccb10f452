"""Formulas that read along one axis and write along another: transposes, in square tiles.

A tile is read in vectors along the operand's own axis, turned round in registers, and used in
vectors along the output's axis, so that both sides touch memory in whole cache lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ... import compute as te
from ...expr import Expr, ProducerLoad, Ramp, Var, const, post_order
from ...expr.turning import turned
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from .access import Linear, flat_index
from .cluster import Cluster
from .frame import Axis, Frame
from .nest import guarded, loop, parallel_nest, vector, vector_loop
from .reducing import allocate
from .stages import base_of

#: The longest side of a tile; a side is one vector.
LONGEST = 16


def turned_axis(cluster: Cluster, lanes: int) -> Axis | None:
    """The axis along which an operand lies, when that is not the output's innermost one."""
    if len(cluster.spatial) < 2:
        return None
    *outer, inner = cluster.spatial
    side = min(lanes, LONGEST)
    for load in _loads(cluster):
        form = _form(cluster, load)
        if (inner.stride(form) or 0) in (0, 1) or inner.extent < side:
            continue
        for axis in outer:
            if axis.stride(form) == 1 and axis.extent >= side:
                return axis
    return None


def _loads(cluster: Cluster) -> list[ProducerLoad]:
    found: dict[ProducerLoad, None] = {}
    for member in cluster.members:
        for part in member.body:
            found.update((n, None) for n in post_order(part) if isinstance(n, ProducerLoad))
    return list(found)


def _form(cluster: Cluster, load: ProducerLoad) -> Linear:
    variables = {part for axis in cluster.spatial for part in axis.parts}
    return flat_index(load.indices, load.producer.static_shape, variables)


class TileKernel:
    """The loops of a cluster whose operand lies along `turned`."""

    def __init__(
        self, cluster: Cluster, buffers: Mapping[te.Tensor, Buffer], lanes: int, turned: Axis
    ) -> None:
        self.cluster = cluster
        self.buffers = buffers
        self.side = min(lanes, LONGEST)
        self.turned = turned
        *outer, self.inner = cluster.spatial
        self.others = [axis for axis in outer if axis is not turned]
        self.loads = [
            load
            for load in _loads(cluster)
            if turned.stride(_form(cluster, load)) == 1
            and (self.inner.stride(_form(cluster, load)) or 0) not in (0, 1)
        ]

    def build(self, parallel: bool) -> Stmt:
        """The whole kernel: strips of tiles, then the rows that are left."""
        whole, rest = divmod(self.turned.extent, self.side)
        strips = Axis((Var("strip"),), (whole,))

        def strip(at: list[Expr]) -> Stmt:
            *others, number = at
            return self._strip(others, number * self.side)

        main = parallel_nest([*self.others, strips], strip, parallel)
        if not rest:
            return main

        def left(at: list[Expr]) -> Stmt:
            return loop("row", rest, lambda r: self._row(at, const(whole * self.side) + r))

        return seq(main, parallel_nest(self.others, left, False))

    def _frame(
        self,
        others: Sequence[Expr],
        row: Expr,
        column: Expr,
        loads: Mapping[Expr, Expr] | None = None,
    ) -> Frame:
        axes = [*self.others, self.turned, self.inner]
        return Frame(axes, [*others, row, column], self.buffers, known=loads)

    def _stores(self, frame: Frame) -> Stmt:
        stores = []
        for member in self.cluster.members:
            where = frame.position(member.axes, member.stage.extents)
            for tensor, part in zip(member.tensors, member.body, strict=True):
                stores.append(BufferStore(self.buffers[tensor], frame.formula(part), (where,)))
        return seq(*stores)

    def _row(self, others: Sequence[Expr], row: Expr) -> Stmt:
        """One row without turning anything."""
        return vector_loop(
            self.inner.extent,
            self.side,
            lambda i, valid: guarded(valid, self._stores(self._frame(others, row, i))),
            overlap=True,
        )

    def _strip(self, others: Sequence[Expr], row: Expr) -> Stmt:
        whole, rest = divmod(self.inner.extent, self.side)
        tiles = loop("tile", whole, lambda t: self._tile(others, row, t * self.side))
        if not rest:
            return tiles
        # The last tile does again some of its neighbour's columns.
        last = self._tile(others, row, const(self.inner.extent - self.side))
        return seq(tiles, last)

    def _tile(self, others: Sequence[Expr], row: Expr, column: Expr) -> Stmt:
        tiles = {
            load: make_buffer((self.side**2,), load.dtype, "tile", scope="local")
            for load in self.loads
        }
        fill = [self._turn(load, tile, others, row, column) for load, tile in tiles.items()]
        rows = []
        for b in range(self.side):

            def element(lane: Expr, b: int = b) -> Stmt:
                loads: dict[Expr, Expr] = {
                    load: BufferLoad(tile, [const(b * self.side) + lane])
                    for load, tile in tiles.items()
                }
                return self._stores(self._frame(others, row + b, column + lane, loads))

            rows.append(vector(self.side, element))
        body = seq(*fill, *rows)
        for tile in tiles.values():
            body = allocate(tile, body)
        return body

    def _turn(
        self, load: ProducerLoad, tile: Buffer, others: Sequence[Expr], row: Expr, column: Expr
    ) -> Stmt:
        """Read a tile along the turned axis, and put it down along the inner one."""
        n = self.side
        source = load.producer
        memory = self.buffers[base_of(source)]
        vectors: list[Expr] = []
        for a in range(n):
            frame = self._frame(others, row, column + a)
            start = frame.position(load.indices, source.static_shape)
            vectors.append(BufferLoad(memory, [Ramp(start, const(1, start.dtype), n)]))
        return store_turned(vectors, tile, lambda b: const(b * n))


def store_turned(vectors: Sequence[Expr], memory: Buffer, place: Callable[[int], Expr]) -> Stmt:
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
