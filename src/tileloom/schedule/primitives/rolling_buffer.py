"""rolling_buffer: keep what tiles share in a circular buffer instead of computing it again."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import (
    GE,
    LT,
    OPAQUE,
    REDUCE,
    SPATIAL,
    Analyzer,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Mul,
    Or,
    Range,
    Var,
    binary,
    const,
    substitute,
)
from ...tir import (
    SERIAL,
    UNROLLED,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    Stmt,
    StmtRewriter,
    collect,
    infer_block_access,
)
from ..analysis.blocks import check_not_output
from ..analysis.regions import path_domains, ranges_at
from ..analysis.scope import DepKind, consumers, scope_of
from ..analysis.tree import is_one, loops_above, lowest_common_ancestor, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, WriteIndex, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import accessed_box, covers, made_whole
from ._cache import Region, UseInstead, domains_around
from ._domains import covering


@dataclass(frozen=True, slots=True)
class _Roll:
    """How tiles of a buffer follow each other.

    Attributes:
        axis: the axis that becomes circular.
        extent: how much of it one tile needs.
        steps: for each axis the loop variable that moves the tile along it, if tiles overlap.
        overlaps: by how many elements.
    """

    axis: int
    extent: int
    steps: tuple[Var | None, ...]
    overlaps: tuple[int, ...]


@primitive("RollingBuffer")
def rolling_buffer(state: ScheduleState, block: BlockRef, write_buffer_index: WriteIndex) -> None:
    """Compute each element of tiles that overlap once, and keep it as long as tiles need it.

    The block must be computed in tiles that overlap along some axis, such as those that
    `compute_at` makes for a consumer with a window. The buffer becomes circular along the outermost
    such axis, and the block runs for what the tile before has not computed.

    Args:
        write_buffer_index: which of the buffers that the block writes.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((10,), name="A")
    >>> B = te.compute((10,), lambda i: A[i] * 2.0, name="B")
    >>> C = te.compute((8,), lambda i: B[i] + B[i + 2], name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> tile, _ = sch.split(sch.get_loops("C")[0], [None, 4]); sch.compute_at("B", tile)
    >>> sch.rolling_buffer("B", 0)
    >>> print(sch.get(sch.get_block("B")).body)
    B[v_i % 6] = A[v_i] * T.float32(2.0)
    """
    region = block.block.writes[write_buffer_index]
    buffer, scope = region.buffer, scope_root(block)
    check_not_output(state, block)
    _check_dependences(state, block)
    _check_no_views(scope.block, buffer)
    place = lowest_common_ancestor([*consumers(state, block), block])
    if not place.is_loop:
        raise refuse(
            f"there is no loop around all uses of {buffer.name!r}",
            at=[block],
            hint="tile the consumer and move the block under the loop over the tiles first",
            fast="rolling_buffer injection is invalid, the lca of the access location of the "
            "target buffer is not a for loop.",
        )
    tile = _tile(state, block, region, place)
    roll = _match(block, buffer, tile)
    _check_order(block, roll)
    _check_free(block, region)
    _check_whole(state, block, region, place, tile)
    _check_axes(block, region, roll)
    shape = list(buffer.shape)
    shape[roll.axis] = IntImm(shape[roll.axis].dtype, roll.extent)
    rewriter = _Rewriter(block.block, buffer, buffer.replace(shape=tuple(shape)), roll)
    old = scope.block
    new = old.replace(
        body=rewriter.visit(old.body),
        alloc_buffers=tuple(rewriter.new if b is buffer else b for b in old.alloc_buffers),
    )
    state.replace(scope, new, rewriter.block_map)


# ---------------------------------------------------------------------------- checks


def _check_dependences(state: ScheduleState, block: StmtSRef) -> None:
    scope = scope_of(state, block)
    for edge in (*scope.by_dst[block.block], *scope.by_src[block.block]):
        if edge.kind is not DepKind.RAW:
            raise refuse(
                f"{name_of(block)} and another block do not just write and read after that: "
                f"{edge.kind.value}",
                at=[state.sref(edge.src), state.sref(edge.dst)],
                fast="The target block is required to have only RAW dependencies",
            )


def _tile(state: ScheduleState, block: StmtSRef, region: BufferRegion, place: StmtSRef) -> Region:
    """What the block writes in one iteration of a loop, conditions aside."""
    parts = ranges_at(state.realize(block), region.region)
    outer = domains_around(place)
    box = accessed_box(parts, path_domains(block, place), const(True), outer)
    analyzer = Analyzer()
    return tuple(
        covering(analyzer, interval, Range.from_extent(size))
        for interval, size in zip(box, region.buffer.shape, strict=True)
    )


def _check_whole(
    state: ScheduleState, block: StmtSRef, region: BufferRegion, place: StmtSRef, tile: Region
) -> None:
    """Refuse tiles of which conditions leave out a part: the next one would count on that."""
    outer = domains_around(place)
    made = made_whole(state, block, region, path_domains(block, place), outer)
    if not covers(made, tile, Analyzer(outer)):
        raise refuse(
            f"{name_of(block)} makes only some of a tile of {region.buffer.name!r}, so it is not "
            "known what the tile before has made",
            at=[block, place],
            hint="let loops make whole tiles, by factors that divide",
        )


def _match(block: StmtSRef, buffer: Buffer, region: Region) -> _Roll:
    steps: list[Var | None] = []
    overlaps: list[int] = []
    for part in region:
        found = _step(part.min)
        if found is None or not isinstance(part.extent, IntImm):
            raise _no_match(block, buffer, f"{part.min} is no tile number times a stride")
        var, stride = found
        overlap = 0 if var is None else part.extent.value - stride
        steps.append(var if overlap > 0 else None)
        overlaps.append(overlap)
    for sref in loops_above(block):
        if sref.loop.loop_var in steps:
            axis = steps.index(sref.loop.loop_var)
            extent = region[axis].extent
            if isinstance(extent, IntImm):
                return _Roll(axis, extent.value, tuple(steps), tuple(overlaps))
    raise _no_match(block, buffer, "no two tiles overlap")


def _no_match(block: StmtSRef, buffer: Buffer, why: str) -> Exception:
    return refuse(
        f"the tiles of {buffer.name!r} do not roll over it: {why}",
        at=[block],
        hint="compute the block in tiles like outer * stride + inner that overlap",
        fast="rolling_buffer expect the buffer region to have at least one dimention matching the "
        "rolling pattern such as: hh.outer * stride + hh.inner",
    )


def _step(start: Expr) -> tuple[Var | None, int] | None:
    """The variable that moves a tile, and how far it moves it."""
    match start:
        case IntImm():
            return None, 0
        case Var():
            return start, 1
        case Mul(Var() as var, IntImm(_, stride)):
            return var, stride
        case FloorDiv(Mul(Var() as var, IntImm(_, stride)), IntImm(_, divisor)):
            return var, -(-stride // divisor)
        case FloorDiv(Var() as var, IntImm()):
            return var, 1
    return None


def _check_order(block: StmtSRef, roll: _Roll) -> None:
    """Refuse tiles that are not computed one after another."""
    for sref in loops_above(block):
        if sref.loop.loop_var in roll.steps and sref.loop.kind not in (SERIAL, UNROLLED):
            raise refuse(
                f"{name_of(sref)} is {sref.loop.kind}, so a tile cannot rely on the one before",
                at=[block, sref],
            )


def _check_no_views(scope: Block, buffer: Buffer) -> None:
    """Refuse where parts of the buffer have other names, which know nothing of a circle."""
    for holder in (scope, *collect(scope.body, Block)):
        if any(match.source.buffer is buffer for match in holder.match_buffers):
            raise refuse(
                f"{name_of(holder)} accesses {buffer.name!r} by another name for a part of it",
                at=[holder],
                hint="take this step before tensorize",
            )


def _check_free(block: StmtSRef, region: BufferRegion) -> None:
    """Along one axis a tile finds the rows of all tiles before it; circular along two it cannot.

    A block that only reads a circular buffer has an opaque variable as well, but writes at it.
    """
    again = any(read.buffer is region.buffer for read in block.block.reads)
    plain = {part.min for part in region.region}
    for axis in block.block.iter_vars:
        if axis.iter_type in (SPATIAL, REDUCE):
            continue
        if axis.iter_type != OPAQUE or again or axis.var not in plain:
            raise refuse(
                f"{name_of(block)} needs its iterations in order, as {axis.var.name!r} is neither "
                "data-parallel nor reduced: maybe its buffer is circular along an axis already",
                at=[block],
            )


def _check_axes(block: StmtSRef, region: BufferRegion, roll: _Roll) -> None:
    axes = block.block.iter_vars
    for i, step in enumerate(roll.steps):
        if step is None:
            continue
        if not is_one(region.region[i].extent):
            raise refuse(
                f"an instance of {name_of(block)} writes {region.region[i].extent} elements along "
                f"axis {i} of {region.buffer.name!r}, of which the tile before may have some",
                at=[block],
            )
        if i >= len(axes) or region.region[i].min is not axes[i].var:
            raise refuse(
                f"axis {i} of {region.buffer.name!r} is not plainly the iteration variable {i} of "
                f"{name_of(block)}",
                at=[block],
            )


# ---------------------------------------------------------------------------- rewrite


class _Rewriter(UseInstead):
    def __init__(self, writer: Block, old: Buffer, new: Buffer, roll: _Roll) -> None:
        super().__init__(old, new, self._wrapped, writes=True)
        self.writer, self.roll = writer, roll

    def _wrapped(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        axis = self.roll.axis
        wrapped = binary(FloorMod, indices[axis], IntImm(indices[axis].dtype, self.roll.extent))
        return (*indices[:axis], wrapped, *indices[axis + 1 :])

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return region

    def visit_Block(self, stmt: Block) -> Block:
        if all(region.buffer is not self.old for region in (*stmt.reads, *stmt.writes)):
            return stmt
        new = StmtRewriter.visit_Block(self, stmt)
        new = new.replace(iter_vars=self._axes(new))
        reads, writes = infer_block_access(new)
        found = {r.buffer: r for r in writes}, {r.buffer: r for r in reads}
        new = new.replace(
            reads=tuple(self._region(r, found[1]) for r in new.reads),
            writes=tuple(self._region(r, found[0]) for r in new.writes),
        )
        self.block_map[stmt] = new
        return new

    def _region(self, region: BufferRegion, found: dict[Buffer, BufferRegion]) -> BufferRegion:
        if region.buffer is not self.old:
            return region
        return found.get(self.new, BufferRegion.full(self.new))

    def _axes(self, block: Block) -> tuple[IterVar, ...]:
        """What a tile computes depends on the tiles before it along the rolling axis.

        A variable that is reduced stays so: it says which instances begin a result.
        """
        return tuple(
            IterVar(axis.dom, axis.var, OPAQUE, axis.thread_tag)
            if i == self.roll.axis and axis.iter_type == SPATIAL
            else axis
            for i, axis in enumerate(block.iter_vars)
        )

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        new = super().visit_BlockRealize(stmt)
        if stmt.block is not self.writer or not isinstance(new, BlockRealize):
            return new
        condition = new.predicate
        for i, (var, overlap) in enumerate(zip(self.roll.steps, self.roll.overlaps, strict=True)):
            if var is not None and overlap > 0:
                zero = IntImm(var.dtype, 0)
                inner = substitute(stmt.iter_values[i], {var: zero})
                first = binary(LT, var, IntImm(var.dtype, 1))
                fresh = binary(GE, inner, IntImm(inner.dtype, overlap))
                condition = binary(And, condition, binary(Or, first, fresh))
        return new.replace(predicate=Analyzer().simplify(condition))
