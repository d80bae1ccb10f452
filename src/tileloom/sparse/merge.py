"""Loops over the union or the intersection of sorted axes (co-iteration).

One finger walks along each axis; axes of other buffers that are only looked up at the merged
coordinate get a finger, too, which follows. So a row takes as many steps as it has elements, where
binary searches would take a logarithm for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ..base.errors import UnsupportedError, UserError
from ..expr import EQ, LT, Expr, Max, Min, Var, binary, cast, conjunction, const
from ..expr.intrin import if_then_else
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    SparseBuffer,
    SpIterVar,
    Stmt,
    While,
    buffer_accesses,
    make_buffer,
    seq,
)
from ..tir.sparse import MERGED, FusedAxis, IntersectionAxis, UnionAxis
from .index_arrays import IndexArrays, Path, structure
from .iterated import IteratedAxes, IteratedAxis
from .nest import GuardedStmt

_ZERO = const(0, "int32")
MakeBody = Callable[[IteratedAxes], GuardedStmt]


class Finger:
    """A place on an axis below one position of its parent."""

    def __init__(self, arrays: IndexArrays, axis: Axis, above: Path) -> None:
        if not axis.sorted:
            raise UserError(
                f"axis {axis.name!r} is merged with others, but its indices are not sorted",
                hint="sort them and declare the axis with sorted=True",
            )
        self.axis = axis
        self.above = above
        self.memory = make_buffer((1,), axis.idtype, f"{axis.name}_at", scope="local")
        self.end = cast(axis.idtype, arrays.extent(axis, above))
        self.coordinates = arrays.coordinates(axis)

    @property
    def position(self) -> Expr:
        """Where it is."""
        return BufferLoad(self.memory, (_ZERO,))

    @property
    def is_inside(self) -> Expr:
        """Whether there is an element at it."""
        return binary(LT, self.position, self.end)

    @property
    def coordinate(self) -> Expr:
        """The coordinate at it; only where it is inside."""
        return BufferLoad(self.coordinates, (*self.above, self.position))

    def is_at(self, wanted: Expr) -> Expr:
        """Whether the element at it has a coordinate."""
        same = binary(EQ, self.coordinate, cast(self.axis.idtype, wanted))
        return if_then_else(self.is_inside, same, const(False))

    def put(self, value: Expr) -> Stmt:
        """Move it."""
        return BufferStore(self.memory, cast(self.memory.dtype, value), (_ZERO,))

    def step(self) -> Stmt:
        """Move it by one element."""
        return self.put(self.position + 1)

    def follow(self, wanted: Expr) -> Stmt:
        """Move it to the first coordinate that is not less."""
        before = self.coordinate < cast(self.axis.idtype, wanted)
        return While(if_then_else(self.is_inside, before, const(False)), self.step())


def merged_loop(
    arrays: IndexArrays,
    places: IteratedAxes,
    items: Sequence[SpIterVar],
    body: Stmt,
    make_leaf: MakeBody,
) -> GuardedStmt:
    """The loop over a merged axis, and plain loops over the axes after it.

    Args:
        items: the variable of the merged axis and those after it.
        body: of the iteration, over coordinates.
        make_leaf: the body over positions.
    """
    first, *rest = items
    axis = first.axis
    parts = axis.parts if isinstance(axis, (UnionAxis, IntersectionAxis)) else ()
    fingers = [Finger(arrays, part, places.above(part)) for part in parts]
    followers = [
        Finger(arrays, other, places.above(other))
        for other in _looked_up(body, first.var, places)
        if structure(other) not in {structure(part) for part in parts}
    ]
    current = make_buffer((1,), axis.idtype, f"{first.var.name}_now", scope="local")
    now = BufferLoad(current, (_ZERO,))
    inner = IteratedAxes(arrays, places)
    inner.add(IteratedAxis(first, axis, None, (), now))
    for finger in (*fingers, *followers):
        inner.add_finger(first.var, finger.axis, finger.above, finger.position, finger.is_at(now))
    leaf = _plain_loops(arrays, inner, rest, make_leaf)
    stmts = [finger.follow(now) for finger in followers]
    loop = _intersection if isinstance(axis, IntersectionAxis) else _union
    walk = loop(fingers, current, now, seq(*stmts, leaf.guarded()))
    buffers: tuple[Buffer, ...] = (current, *(finger.memory for finger in (*fingers, *followers)))
    starts = [finger.put(const(0, finger.axis.idtype)) for finger in (*fingers, *followers)]
    return GuardedStmt(seq(*starts, walk), (), (*buffers, *leaf.buffers))


def _union(fingers: Sequence[Finger], current: Buffer, now: Expr, body: Stmt) -> Stmt:
    """`body` at each coordinate of any axis."""
    least = reduce(
        lambda a, b: binary(Min, a, b),
        [
            if_then_else(
                finger.is_inside,
                cast(current.dtype, finger.coordinate),
                cast(current.dtype, finger.axis.length),
            )
            for finger in fingers
        ],
    )
    steps = [IfThenElse(finger.is_at(now), finger.step()) for finger in fingers]
    some = reduce(lambda a, b: a | b, [finger.is_inside for finger in fingers])
    return While(some, seq(BufferStore(current, least, (_ZERO,)), body, *steps))


def _intersection(fingers: Sequence[Finger], current: Buffer, now: Expr, body: Stmt) -> Stmt:
    """`body` at each coordinate of all axes."""
    most = reduce(
        lambda a, b: binary(Max, a, b),
        [cast(current.dtype, finger.coordinate) for finger in fingers],
    )
    at_all = conjunction(
        binary(EQ, cast(current.dtype, finger.coordinate), now) for finger in fingers
    )
    catch_up = seq(
        *(
            IfThenElse(cast(current.dtype, finger.coordinate) < now, finger.step())
            for finger in fingers
        )
    )
    step = seq(*(finger.step() for finger in fingers))
    inside = conjunction(finger.is_inside for finger in fingers)
    walk = IfThenElse(at_all, seq(body, step), catch_up)
    return While(inside, seq(BufferStore(current, most, (_ZERO,)), walk))


def _plain_loops(
    arrays: IndexArrays, places: IteratedAxes, items: Sequence[SpIterVar], make_leaf: MakeBody
) -> GuardedStmt:
    """Loops without blocks around the body."""
    loops: list[For] = []
    for item in items:
        if isinstance(item.axis, (FusedAxis, *MERGED)):
            raise UnsupportedError(
                f"axis {item.axis.name!r} after a merged axis in one iteration",
                hint="nest an iteration of its own",
            )
        extent = cast(item.axis.idtype, arrays.extent(item.axis, places.above(item.axis)))
        var = Var(item.var.name, item.axis.idtype)
        places.enter(item, var)
        loops.append(For(var, const(0, var.dtype), extent, "serial", seq()))
    leaf = make_leaf(places)
    body = leaf.guarded()
    for loop in reversed(loops):
        body = loop.replace(body=body)
    return GuardedStmt(body, (), leaf.buffers)


def _looked_up(body: Stmt, var: Var, places: IteratedAxes) -> list[Axis]:
    """The sparse axes that the body indexes with a variable, in rows that are iterated."""
    found: dict[Axis, None] = {}
    for buffer, indices in _accesses(body):
        for k, axis in enumerate(buffer.axes):
            if (
                indices[k] is var
                and axis.is_sparse
                and _rows_iterated(buffer, indices, axis, places)
            ):
                found[axis] = None
    return list(found)


def _rows_iterated(
    buffer: SparseBuffer, indices: Sequence[Expr], axis: Axis, places: IteratedAxes
) -> bool:
    for part in axis.ancestors:
        index = indices[buffer.axes.index(part)]
        place = places.of_var.get(index) if isinstance(index, Var) else None
        if place is None or places.of_axis.get(part) is not place:
            return False
    return axis.sorted


def _accesses(body: Stmt) -> list[tuple[SparseBuffer, Sequence[Expr]]]:
    return [
        (buffer, indices)
        for buffer, indices in buffer_accesses(body)
        if isinstance(buffer, SparseBuffer)
    ]
