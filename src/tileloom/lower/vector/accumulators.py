"""What the iterations of a loop add up in one place, and that they are independent but for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from ...expr import (
    LT,
    Add,
    And,
    BinaryOp,
    Expr,
    FloatImm,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Ramp,
    Var,
    binary,
    const,
    free_vars,
    has_load,
    post_order,
    substitute,
)
from ...expr.analyzer import Analyzer
from ...tir import (
    SERIAL,
    UNROLLED,
    Allocate,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    collect_exprs,
    make_buffer,
    parts_of,
    pre_order,
    seq,
    stmt_exprs,
)
from ..analysis.linear import linear
from ..analysis.thread_reductions import identity
from ..common import Access, Replacer, fresh_copy, loaded_buffers, replace_vars, replaced
from .body import CannotVectorize, Vectorizer
from .places import StoredPlaces

#: So many vectors of columns of sums are written out, which stay in registers; more are a loop.
COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A place that every iteration adds to: `store.buffer[index] = op(..., value)`.

    Attributes:
        parts: partial results.
        begins: the number that the place holds at first, where it need not be stored before.
    """

    store: BufferStore
    op: type[BinaryOp]
    value: Expr
    index: Expr
    parts: Buffer
    begins: Expr | None = None

    @property
    def unit(self) -> Expr:
        """What partial results start from."""
        return identity(self.op, self.parts.dtype)


def find_accumulators(loop: For) -> Iterator[tuple[BufferStore, type[BinaryOp], Expr]]:
    """The stores of a body that add up, once it is known that its iterations are independent."""
    moving, accumulators, places = {loop.loop_var}, set[Var](), dict[Var, set[Expr]]()
    private: set[Var] = set()  # memory that each iteration has for itself
    found = []
    for stmt in pre_order(loop.body):
        match stmt:
            case For():
                moving.add(stmt.loop_var)
            case Allocate():
                private.add(stmt.buffer_var)
            case LetStmt() if not free_vars(stmt.value).isdisjoint(moving) or has_load(stmt.value):
                moving.add(stmt.var)
            case BufferStore():
                if len(stmt.indices) != 1 or stmt.predicate is not None:
                    raise CannotVectorize("a store of vectors")
                if stmt.buffer.data in private:
                    continue
                if free_vars(stmt.indices[0]).isdisjoint(moving) and not has_load(stmt.indices[0]):
                    found.append((stmt, *_update(stmt)))
                    accumulators.add(stmt.buffer.data)
                else:
                    places.setdefault(stmt.buffer.data, set()).add(stmt.indices[0])
            case _:
                pass
    _check_loads(loop, accumulators, places)
    if not accumulators.isdisjoint(places) or any(
        a.buffer.data is b.buffer.data and not _differ(a.indices[0], b.indices[0])
        for (a, *_), (b, *_) in combinations(found, 2)
    ):
        raise CannotVectorize("two sums in one place")
    yield from found


def _differ(a: Expr, b: Expr) -> bool:
    gap = linear(a).plus(linear(b), -1)
    return not gap.terms and gap.const != 0


def with_rows_apart(loop: For) -> For:
    """A loop whose body is a statement for each of several rows, where each row has its sums.

    It takes the place of an unrolled loop over the rows.
    """
    rows = loop.body
    if not isinstance(rows, For) or rows.kind != UNROLLED or not isinstance(rows.extent, IntImm):
        return loop
    stores = [stmt for stmt in pre_order(rows.body) if isinstance(stmt, BufferStore)]
    if any(loop.loop_var in free_vars(index) for store in stores for index in store.indices):
        return loop
    var, start = rows.loop_var, rows.min
    each = [
        fresh_copy(rows.body, {var: start + const(k, var.dtype)}) for k in range(rows.extent.value)
    ]
    return loop.replace(body=seq(*each))


def _update(stmt: BufferStore) -> tuple[type[BinaryOp], Expr]:
    """The operation and what it takes in, of `A[i] = op(A[i], value)`."""
    value = stmt.value
    if isinstance(value, Add | Mul | Max | Min | And | Or):
        for old, new in ((value.a, value.b), (value.b, value.a)):
            here = isinstance(old, BufferLoad) and old.indices == stmt.indices
            others = loaded_buffers(new)
            if here and loaded_buffers(old) == {stmt.buffer} and stmt.buffer not in others:
                return type(value), new
    raise CannotVectorize(f"all iterations store into {stmt.buffer.name}[{stmt.indices[0]}]")


def _check_loads(loop: For, accumulators: set[Var], places: Mapping[Var, set[Expr]]) -> None:
    """No iteration may touch what another writes: each reads the elements that it stores."""
    stored = StoredPlaces(loop)
    for data, indices in places.items():
        if len(indices) > 1 and stored.cross(indices):
            raise CannotVectorize(f"iterations store into one element of {data}")
    for stmt in pre_order(loop.body):
        for expr in stmt_exprs(stmt):
            for node in post_order(expr) if has_load(expr) else ():
                if not isinstance(node, BufferLoad):
                    continue
                data, name = node.buffer.data, node.buffer.name
                own = isinstance(stmt, BufferStore) and stmt.buffer.data is data
                if data in accumulators and not own:
                    raise CannotVectorize(f"{name} is read while it is added up")
                if data not in places:
                    continue
                if node.indices[0] not in places[data]:
                    raise CannotVectorize(f"{name} is read elsewhere than it is written")
                if not stored.apart(node.indices[0]):
                    raise CannotVectorize(f"an element of {name} is read in several iterations")


# ---------------------------------------------------------------------------- columns


def most_steps(loop: For) -> int:
    """A number that the steps of a loop are not more than."""
    if isinstance(loop.extent, IntImm):
        return loop.extent.value
    return int(Analyzer().const_int_bound(loop.extent).max_value)


def keep_columns(loop: For, around: For, width: int) -> tuple[For, dict[Stmt, Accumulator]]:
    """A loop whose sums, one for each iteration, lie in a small array; and these by their stores.

    They are those that every iteration of the loop around adds to again.
    """
    found: dict[Stmt, Accumulator] = {}
    length = -(-most_steps(loop) // width) * width
    loads = _loaded_elsewhere(loop.body)
    swapped: dict[Stmt, Stmt] = {}
    for stmt in pre_order(loop.body):
        if not isinstance(stmt, BufferStore) or stmt.buffer.data in loads:
            continue
        index = stmt.indices[0]
        if around.loop_var in free_vars(index) or loop.loop_var not in free_vars(index):
            continue
        try:
            op, value = _update(stmt)
        except CannotVectorize:
            continue
        parts = make_buffer((length,), stmt.value.dtype, "columns", scope="local")
        at = loop.loop_var - loop.min
        new = BufferStore(parts, op(BufferLoad(parts, (at,)), value), (at,))
        found[new] = Accumulator(stmt, op, value, index, parts)
        swapped[stmt] = new
    return (loop.replace(body=replaced(loop.body, swapped)), found) if found else (loop, found)


def _loaded_elsewhere(body: Stmt) -> set[Var]:
    """The memory that is read by other statements than those that write it, or written twice."""
    found: set[Var] = set()
    written: set[Var] = set()
    for stmt in pre_order(body):
        own = {stmt.buffer.data} if isinstance(stmt, BufferStore) else set()
        found |= own & written
        written |= own
        for expr in stmt_exprs(stmt):
            found |= {buffer.data for buffer in loaded_buffers(expr)} - own
    return found


def after_inits(
    columns: Mapping[Stmt, Accumulator], loop: For, before: Stmt
) -> dict[Stmt, Accumulator] | None:
    """Columns of sums that begin with the numbers that `before` stores, and does nothing else.

    None if it does something else.
    """
    if not isinstance(before, For) or before.kind != loop.kind:
        return None
    if before.extent is not loop.extent or before.min is not loop.min:
        return None
    stores = parts_of(before.body)
    found = dict(columns)
    for store in stores:
        if not isinstance(store, BufferStore) or not isinstance(store.value, IntImm | FloatImm):
            return None
        (index,) = (substitute(i, {before.loop_var: loop.loop_var}) for i in store.indices)
        keys = [
            key
            for key, accumulator in columns.items()
            if accumulator.store.buffer is store.buffer
            and linear(accumulator.index).same_as(linear(index))
        ]
        if len(keys) != 1 or found[keys[0]].begins is not None:
            return None
        found[keys[0]] = replace(found[keys[0]], begins=store.value)
    return found if all(accumulator.begins is not None for accumulator in found.values()) else None


def add_columns(accumulator: Accumulator, loop: For, width: int) -> Iterator[Stmt]:
    """Add the sums in the small array to what they belong to."""
    kind = loop.loop_var.dtype
    known = isinstance(loop.extent, IntImm)
    extent = most_steps(loop)
    count = extent // width if known else -(-extent // width)
    if count > COLUMNS:
        var = Var("v", kind)
        start_of: Expr = var * const(width, kind)
        left = None if known else loop.extent - start_of
        body = _add_column(accumulator, loop, width, start_of, left)
        yield For(var, const(0, kind), const(count, kind), SERIAL, body)
    for start in range(count * width if count > COLUMNS else 0, extent, width):
        left = None if known and extent - start >= width else loop.extent - const(start, kind)
        yield _add_column(accumulator, loop, width, const(start, kind), left)


def _add_column(
    accumulator: Accumulator, loop: For, width: int, start: Expr, left: Expr | None
) -> Stmt:
    """A vector of columns from `start` on, of which so many are left."""
    kind = loop.loop_var.dtype
    lane, hole = Var("lane", kind), Var("columns", accumulator.parts.dtype)
    at = {loop.loop_var: loop.min + start + lane}
    old = BufferLoad(accumulator.store.buffer, accumulator.store.indices)
    store = accumulator.store.replace(
        value=accumulator.op(old, hole) if accumulator.begins is None else hole
    )
    body: Stmt = replace_vars(store, at)
    if left is not None:
        body = IfThenElse(binary(LT, lane, left), body)
    if width == 1:
        return replace_vars(
            body, {lane: const(0, kind), hole: BufferLoad(accumulator.parts, (start,))}
        )
    vectorizer = Vectorizer(lane, Ramp(const(0, kind), const(1, kind), width))
    vectorizer.values[hole] = BufferLoad(accumulator.parts, (Ramp(start, const(1, kind), width),))
    return vectorizer.visit(body)


# ---------------------------------------------------------------------------- indices


def with_plain_indices(body: Stmt) -> Stmt:
    """A body whose indices have the two halves of a divided number put together again."""
    divides = next(collect_exprs(body, FloorMod), None) is not None
    return _Plain({}, {}).visit(body) if divides else body


class _Plain(Replacer):
    def concerns(self, expr: Expr) -> bool:
        return has_load(expr)

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        return buffer, tuple(map(_plain, indices))


def _plain(index: Expr) -> Expr:
    return linear(index).to_expr(index.dtype) if index.dtype.lanes == 1 else index
