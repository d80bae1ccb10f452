"""Copies of buffers: where they are made, the blocks that make them, and who uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ...expr import (
    GE,
    LT,
    SPATIAL,
    Add,
    Analyzer,
    And,
    Expr,
    IntImm,
    IterVar,
    Range,
    Var,
    binary,
    const,
    free_vars,
    post_order,
    rewrite,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IfThenElse,
    MatchBufferRegion,
    Stmt,
    StmtRewriter,
    While,
    make_buffer,
    stmt_children,
)
from ..analysis.cover import check_region_cover
from ..analysis.regions import Box, lower_bound, path_domains, ranges_at, sure_writes
from ..analysis.scope import accessed_buffers, block_scope, producers
from ..analysis.tree import (
    child_blocks,
    is_one,
    is_zero,
    lowest_common_ancestor,
    scope_root,
)
from ..errors import name_of, refuse
from ..rewrite import nest, statements, with_statements
from ..sref import StmtSRef
from ..state import ScheduleState, copy_loop
from ._boxes import accessed_box, covers, made_whole
from ._buffers import check_views
from ._domains import covering
from ._rebuild import index_in, paths_to, rebuilt

_TRUE = const(True)
Indices = tuple[Expr, ...]
Region = tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the body of a loop or of a scope: before the statement of this index."""

    place: StmtSRef
    index: int


# ---------------------------------------------------------------------------- where


def only_writer(state: ScheduleState, scope: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer; refuses several."""
    writers = block_scope(state, scope.block).writers.get(buffer, ())
    if len(writers) > 1:
        names = ", ".join(repr(writer.name_hint) for writer in writers)
        raise refuse(
            f"{len(writers)} blocks write {buffer.name!r}: {names}",
            at=[state.sref(writer) for writer in writers],
            fast="The buffer is allowed to be written by single block.",
        )
    return state.sref(writers[0]) if writers else None


def before_first(
    writer: StmtSRef, readers: Sequence[StmtSRef], scope: StmtSRef, order: Sequence[Block]
) -> Location:
    """After the writer and before the first of the readers; at the end if there is none."""
    place_of = {block: i for i, block in enumerate(order)}
    after = [r for r in readers if place_of[r.block] > place_of[writer.block]]
    if not after:
        return Location(scope, len(statements(scope.block.body)))
    first = min(after, key=lambda r: place_of[r.block])
    place = lowest_common_ancestor([writer, first])
    return Location(place, index_in(place, first))


def written_region(
    state: ScheduleState,
    block: StmtSRef,
    region: BufferRegion,
    place: StmtSRef,
    given: Expr = _TRUE,
) -> Region:
    """The region that a block touches in one iteration of a loop around, cut off at the shape.

    Args:
        given: a condition that holds in that iteration.
    """
    realize = state.realize(block)
    inside, outer = path_domains(block, place), domains_around(place)
    parts = ranges_at(realize, region.region)
    analyzer = Analyzer() if is_one(realize.predicate) else Analyzer(outer)
    box: Box | None = None
    if not is_one(realize.predicate):
        box = lower_bound(parts, inside, realize.predicate, analyzer)  # exact, if it is known
    if box is None:
        box = made_whole(state, block, region, inside, outer, given)
    if box is None:
        box = accessed_box(parts, inside, realize.predicate, outer)
    return tuple(
        clipped(covering(analyzer, interval, Range.from_extent(size)), size)
        for interval, size in zip(box, region.buffer.shape, strict=True)
    )


def check_made_whole(
    state: ScheduleState,
    writer: StmtSRef,
    region: BufferRegion,
    place: StmtSRef,
    given: Expr = _TRUE,
) -> None:
    """Refuse to copy a box of which an iteration of a place makes only some elements.

    Args:
        given: a condition under which alone the box is copied.
    """
    if _whole_box(state, writer, region, place, given) is not None:
        return
    raise refuse(
        f"{name_of(writer)} makes only some of the elements of {region.buffer.name!r} in a box "
        f"around them, so a copy in {name_of(place)} would read others before they are made",
        at=[writer, place],
        hint="let loops make whole boxes, by factors that divide",
    )


def _whole_box(
    state: ScheduleState,
    writer: StmtSRef,
    region: BufferRegion,
    place: StmtSRef,
    given: Expr = _TRUE,
) -> Box | None:
    """The box that a block makes all of, if the blocks in it make all that it declares."""
    inside, outer = path_domains(writer, place), domains_around(place)
    box = made_whole(state, writer, region, inside, outer, given)
    return box if parts_make_whole(state, writer, region.buffer) else None


def parts_make_whole(state: ScheduleState, writer: StmtSRef, buffer: Buffer) -> bool:
    """Whether the blocks in a block, if any write a buffer, make all of what it declares."""
    wholes = [(buffer, region_of(writer.block.writes, buffer))]
    wholes += [
        (match.buffer, BufferRegion.full(match.buffer))
        for match in writer.block.match_buffers
        if match.source.buffer is buffer
    ]
    known = Analyzer(domains_around(writer))
    views = {view for view, _ in wholes}
    if _stores(writer.block.body, views) and not _surely_stores(writer.block.body, views, known):
        return False
    inside = [
        (part, written, whole or BufferRegion.full(view))
        for part in child_blocks(state, writer)
        for view, whole in wholes
        if (written := region_of(sure_writes(state, part.block), view)) is not None
    ]
    return not inside or any(
        covers(_whole_box(state, part, written, writer), whole.region, known)
        for part, written, whole in inside
    )


def check_parts_whole(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> None:
    """Refuse to copy all that a block reads where those before it may make only some of that."""
    for sref in [block, *block.ancestors()]:
        if not sref.is_block or sref.parent is None:
            continue
        check_region_cover(state, sref)
        started = [sref] if sref is not block and sref.block.init is not None else []
        for giver in [*producers(state, sref), *started]:
            made = buffer in accessed_buffers(state, giver.block)[1]
            if made and not parts_make_whole(state, giver, buffer):
                raise refuse(
                    f"{name_of(giver)} may make only some of the elements of {buffer.name!r} that "
                    "it declares, so a copy would read others before they are made",
                    at=[block, giver],
                )
        if buffer in scope_root(sref).block.alloc_buffers:
            return


def _stores(stmt: Stmt, buffers: set[Buffer]) -> bool:
    """Whether a statement holds a store to one of some buffers; blocks are taken at their word."""
    if isinstance(stmt, BlockRealize):
        return any(region.buffer in buffers for region in stmt.block.writes)
    if isinstance(stmt, BufferStore):
        return stmt.buffer in buffers
    return any(_stores(child, buffers) for child in stmt_children(stmt))


def _surely_stores(stmt: Stmt, buffers: set[Buffer], known: Analyzer) -> bool:
    """Whether a statement comes to a store to one of some buffers whatever its conditions are.

    What calls do is not looked into; blocks are asked for themselves.
    """
    match stmt:
        case BufferStore():
            return stmt.buffer in buffers and stmt.predicate is None
        case IfThenElse():
            if not _surely_stores(stmt.then_case, buffers, known):
                return False
            other = stmt.else_case
            return known.can_prove(stmt.condition) or (
                other is not None and _surely_stores(other, buffers, known)
            )
        case BlockRealize():
            return _stores(stmt, buffers)
        case While():
            return False
    return any(_surely_stores(child, buffers, known) for child in stmt_children(stmt))


def clipped(part: Range, size: Expr) -> Range:
    """A range cut off at the shape, where it is known by numbers."""
    low, extent = part.min, part.extent
    if not (isinstance(low, IntImm) and isinstance(extent, IntImm) and isinstance(size, IntImm)):
        return part
    first, end = max(low.value, 0), min(low.value + extent.value, size.value)
    if first == low.value and end - first == extent.value:
        return part
    return Range(IntImm(low.dtype, first), IntImm(extent.dtype, max(end - first, 0)))


def own_shape(region: Region, scope: StmtSRef, location: Location) -> Region | None:
    """The region, if a copy of just that can be made: its extents are the same everywhere."""
    if location.place is not scope:
        return None
    around = domains_around(scope)
    known = Analyzer(around)
    parts = [Range(part.min, known.simplify(part.extent)) for part in region]
    fixed = all(free_vars(part.extent).isdisjoint(around) for part in parts)
    return tuple(parts) if fixed else None


def domains_around(place: StmtSRef) -> dict[Var, Range]:
    """The ranges of what a place may use: loops and iteration variables, itself included."""
    found: dict[Var, Range] = {}
    for sref in [place, *place.ancestors()]:
        if sref.is_loop:
            found[sref.loop.loop_var] = sref.loop.domain
        else:
            found.update((axis.var, axis.domain) for axis in sref.block.iter_vars)
    return found


def region_of(regions: Sequence[BufferRegion], buffer: Buffer) -> BufferRegion | None:
    """The region of a buffer among those of a block."""
    return next((region for region in regions if region.buffer is buffer), None)


# ---------------------------------------------------------------------------- the copy


def cache_buffer(buffer: Buffer, scope: str, shape: Sequence[Expr] | None = None) -> Buffer:
    """A buffer for the copy, in another storage scope."""
    name = f"{buffer.name}_{scope}"
    extents = buffer.shape if shape is None else tuple(shape)
    return make_buffer(
        extents, str(buffer.dtype), name, scope=scope, data_alignment=buffer.data_alignment
    )


def copy_stage(
    region: Region,
    source: Buffer,
    target: Buffer,
    name: str,
    offset_in: Buffer | None,
    outer: Mapping[Var, Range],
    condition: Expr = _TRUE,
) -> tuple[Stmt, Block]:
    """Loops and a block that copy a region from one buffer to another.

    Args:
        offset_in: the one of the two that holds the region where it lies; the other one holds just
            the region. None: both hold it where it lies.
        outer: the ranges of the loops around. Where the region may leave the buffer, the block
            runs under a condition.
        condition: on the loops around, under which alone anything is copied.
    """
    loops: list[tuple[Var, Expr]] = []
    axes: list[IterVar] = []
    values: list[Expr] = []
    places: list[Expr] = []
    offset: list[Expr] = []
    for i, (part, size) in enumerate(zip(region, source.shape, strict=True)):
        kind = part.extent.dtype
        var = Var(f"ax{i}", kind)
        loops.append((var, part.extent))
        whole = size if offset_in is None else part.extent
        axis = IterVar(Range(const(0, whole.dtype), whole), Var(f"v{i}", kind), SPATIAL)
        axes.append(axis)
        places.append(binary(Add, part.min, var))
        values.append(places[-1] if offset_in is None else var)
        offset.append(axis.var if offset_in is None else binary(Add, part.min, axis.var))
    plain = [axis.var for axis in axes]
    read = offset if source is offset_in else plain
    write = offset if target is offset_in else plain
    block = copy_block(axes, source, read, target, write, name)
    shape = (offset_in or source).shape
    predicate = binary(And, condition, _inside(region, shape, places, outer))
    return nest(loops, BlockRealize(tuple(values), predicate, block)), block


def _inside(
    region: Region, shape: Sequence[Expr], values: Sequence[Expr], outer: Mapping[Var, Range]
) -> Expr:
    """The condition that the copied elements are in the buffer, where that is not sure."""
    predicate: Expr = _TRUE
    analyzer: Analyzer | None = None
    for part, size, value in zip(region, shape, values, strict=True):
        if _is_plainly_inside(part, size):
            continue
        analyzer = analyzer or Analyzer(outer)
        if not analyzer.can_prove(part.min >= 0):
            predicate = binary(And, predicate, binary(GE, value, const(0, value.dtype)))
        if not analyzer.can_prove(part.min + part.extent <= size):
            predicate = binary(And, predicate, binary(LT, value, size))
    return predicate


def _is_plainly_inside(part: Range, size: Expr) -> bool:
    low, extent = part.min, part.extent
    if not isinstance(low, IntImm) or low.value < 0:
        return False
    if isinstance(extent, IntImm) and isinstance(size, IntImm):
        return low.value + extent.value <= size.value
    return low.value == 0 and extent is size


def copy_block(
    axes: Sequence[IterVar],
    source: Buffer,
    read: Sequence[Expr],
    target: Buffer,
    write: Sequence[Expr],
    name: str,
) -> Block:
    """A block that copies one element; indices that are data are read as well."""
    loads = (n for e in (*read, *write) for n in post_order(e) if isinstance(n, BufferLoad))
    looked_up = dict.fromkeys(BufferRegion.point(n.buffer, n.indices) for n in loads)
    return Block(
        tuple(axes),
        (BufferRegion.point(source, read), *looked_up),
        (BufferRegion.point(target, write),),
        name,
        BufferStore(target, BufferLoad(source, read), tuple(write)),
    )


# ---------------------------------------------------------------------------- who uses it


class UseInstead(StmtRewriter):
    """Puts accesses of a cache in place of those of a buffer.

    Args:
        indices: the indices into the cache for those into the buffer.
        region: the same for regions.
        writes: whether stores change too.

    Attributes:
        block_map: the blocks that changed, for `ScheduleState.replace`.
    """

    def __init__(
        self,
        old: Buffer,
        new: Buffer,
        indices: Callable[[Indices], Indices] | None = None,
        region: Callable[[Region], Region] | None = None,
        writes: bool = False,
    ) -> None:
        self.old, self.new = old, new
        self.indices = indices or (lambda given: given)
        self.region = region or (lambda given: given)
        self.writes = writes
        self.block_map: dict[Block, Block] = {}

    @classmethod
    def at(cls, old: Buffer, new: Buffer, place: Sequence[Expr], writes: bool) -> Self:
        """The rewriter that puts one element of the cache in place of every access."""
        region = tuple(Range(index, const(1, index.dtype)) for index in place)
        return cls(old, new, lambda _: tuple(place), lambda _: region, writes)

    def _rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is self.old:
            return BufferLoad(self.new, self.indices(expr.indices), expr.predicate)
        return self.new.data if expr is self.old.data else None

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._rule)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        region = super().visit_region(region)
        if region.buffer is not self.old:
            return region
        return BufferRegion(self.new, self.region(region.region))

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        source = self.visit_region(match.source)
        return match if source is match.source else MatchBufferRegion(match.buffer, source)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if self.writes and isinstance(new, BufferStore) and new.buffer is self.old:
            return new.replace(buffer=self.new, indices=self.indices(new.indices))
        return new

    def visit_Block(self, stmt: Block) -> Block:
        new = super().visit_Block(stmt)
        if not self.writes:
            new = self.update(new, writes=stmt.writes)
        if new is not stmt:
            check_views(new)
            self.block_map[stmt] = new
        return new


def offset_rules(
    region: Region,
) -> tuple[Callable[[Indices], Indices] | None, Callable[[Region], Region] | None]:
    """Rules for a cache that holds just a region."""
    if all(is_zero(part.min) for part in region):
        return None, None
    analyzer = Analyzer()

    def move(index: Expr, start: Expr) -> Expr:
        return index if is_zero(start) else analyzer.simplify(index - start)

    def indices(given: Indices) -> Indices:
        return tuple(move(index, part.min) for index, part in zip(given, region, strict=True))

    def moved(given: Region) -> Region:
        return tuple(
            Range(move(p.min, start.min), p.extent) for p, start in zip(given, region, strict=True)
        )

    return indices, moved


def insert_cache(
    state: ScheduleState,
    scope: StmtSRef,
    location: Location,
    stages: Sequence[tuple[int, Stmt]],
    users: Sequence[StmtSRef],
    rewriter: UseInstead,
    alloc: Buffer,
) -> None:
    """Put copies into the scope, let the users use them, allocate the buffer.

    Args:
        stages: how far after the location, counted in statements of the body as it is, and what.
        users: blocks directly in the scope.
    """
    path = paths_to([location.place, *users])
    changes: dict[Stmt, Stmt | None] = {user.block: rewriter.visit(user.block) for user in users}
    place = location.place.loop if location.place.is_loop else location.place.block
    body = rebuilt(place.body, path, changes)
    if body is None:
        raise refuse("nothing is left of the scope", at=[scope])
    parts = list(statements(body))
    for after, stage in sorted(stages, key=lambda stage: -stage[0]):
        parts.insert(location.index + after, stage)
    body = with_statements(body, parts)
    if isinstance(place, For):
        changes[place] = copy_loop(place, body)
        body = rebuilt(scope.block.body, path, changes) or body
    old = scope.block
    new = old.replace(body=body, alloc_buffers=(*old.alloc_buffers, alloc))
    state.replace(scope, new, rewriter.block_map)


def consumers_in(block: StmtSRef, listed: Sequence[StmtSRef] | None) -> list[StmtSRef]:
    """The consumers that the user has listed, which must be in the block's scope."""
    scope = scope_root(block)
    for consumer in listed or ():
        if consumer.parent is None or scope_root(consumer) is not scope:
            raise refuse(
                f"{name_of(consumer)} is not in the same scope as {name_of(block)}",
                at=[block, consumer],
            )
    return list(dict.fromkeys(listed or ()))
