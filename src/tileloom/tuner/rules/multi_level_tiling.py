"""MultiLevelTiling: tiles of tiles, with copies of what they read and write in faster memory.

After Ansor (Zheng et al., OSDI 2020), as TVM's MetaSchedule has it; the steps, their order and
their annotations are TVM's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import Any, Literal, Self

from ...expr import REDUCE, SPATIAL, Expr
from ...schedule.errors import ScheduleError
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...target import Target
from ...tir import Block, For, SeqStmt
from ..annotations import COOPERATIVE_FETCH, FEWEST_THREADS, MOST_THREADS, TILING_STRUCTURE
from ..context import TuneContext
from .analysis import is_write_cache, needs_multi_level_tiling

_ASYNC_COPIES = 80  # compute capability from which copies run beside the computation
_ASYNC_STAGES = (4, 5)  # iterations that are under way at once: the copies, and what computes
#: The largest vectors of a load, in elements, and whether all longer than one must be even.
_LONGEST = {"float32": (4, False), "float16": (8, True), "int8": (16, False)}


@dataclass(frozen=True, slots=True)
class ReuseType:
    """Whether, where and in which memory a copy is kept.

    Attributes:
        req: "no" copy, "may" for a variant with it beside one without, "must" for a copy always.
        levels: of tiles, from 1 for the outermost: a copy stands in the last loop of one of these,
            and each gives a variant.
        scope: the storage scope of the copy, such as "shared".
    """

    req: Literal["no", "may", "must"]
    levels: tuple[int, ...] = ()
    scope: str = ""


@dataclass(slots=True)
class Tiling:
    """A schedule on its way through the sub-rules.

    Attributes:
        sch: the schedule, which belongs to this way alone.
        block: the block that is tiled.
        target: the machine.
        tiles: the loops of each letter of the structure, outermost first; one loop after binding.
        factors: the extents of these loops, as they were drawn; none for a loop taken whole.
        read_copies: from indices of read buffers to the blocks that copy them.
        write_copies: from indices of written buffers to the blocks that copy them back.
    """

    sch: Schedule
    block: BlockRV
    target: Target
    tiles: list[list[LoopRV]] = field(default_factory=list)
    factors: list[list[Expr]] = field(default_factory=list)
    read_copies: dict[int, BlockRV] = field(default_factory=dict)
    write_copies: dict[int, BlockRV] = field(default_factory=dict)

    def copy(self) -> Self:
        """Another way on from here."""
        return replace(
            self,
            sch=self.sch.copy(),
            tiles=[[*tile] for tile in self.tiles],
            factors=[[*tile] for tile in self.factors],
            read_copies=dict(self.read_copies),
            write_copies=dict(self.write_copies),
        )

    def innermost(self, level: int) -> LoopRV:
        """The last loop of a level of tiles, counted from 1."""
        return self.tiles[level - 1][-1]

    def stmt(self) -> Block:
        """The block as it is now."""
        return self.sch.get_sref(self.block).block


#: What is done to a block: from a way to the ways on, of the same kind.
SubRule = Callable[[Any], Iterator[Tiling]]


@dataclass(frozen=True, slots=True)
class MultiLevelTiling:
    """Tile a block that reads its inputs again and again; copy tiles into faster memory.

    Each data-parallel loop is split into as many loops as the structure has "S", each reduction
    into as many as it has "R", by factors that are drawn; the loops are put into the order of the
    structure. The defaults are those for CPUs.

    Attributes:
        structure: a letter for each level of tiles, outermost first: "S" or "R".
        tile_binds: the thread axes of the first levels, each of whose loops become one.
        max_innermost_factor: the largest extent of an innermost tile.
        vector_load_lens: elements that a thread may load at once in a copy of what is read; one of
            them is drawn.
        reuse_read: the copies of tiles that are read; not "may".
        reuse_write: the copies of tiles that are written. The annotation
            "meta_schedule.write_cache_level" of a block, a list of levels, is stronger.
        filter_fn: `filter_fn(sch, sref)` says of blocks that they are to be tiled in any case.

    >>> from tileloom import te
    >>> from tileloom.schedule import Schedule
    >>> from tileloom.target import target
    >>> A, B = te.placeholder((32, 64), name="A"), te.placeholder((64, 16), name="B")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> C = te.compute((32, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]), seed=1)
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> found = MultiLevelTiling(structure="SRS").apply(sch, sch.get_block("C"), context)
    >>> [step.kind.method for step in found[1].trace.insts][-2:]
    ['cache_write', 'reverse_compute_at']
    >>> [len(s.get_loops(s.get_block("C"))) for s in found]  # one without a copy, two with one
    [5, 5, 5]
    """

    structure: str = "SSRSRS"
    tile_binds: tuple[str, ...] = ()
    max_innermost_factor: int = 64
    vector_load_lens: tuple[int, ...] = ()
    reuse_read: ReuseType = ReuseType("no")
    reuse_write: ReuseType = ReuseType("may", (1, 2), "global")
    filter_fn: Callable[[Schedule, StmtSRef], bool] | None = None

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """Tile the block, in each of the ways that the machine leaves open."""
        ways = self.starts(sch, block, context.target)
        for sub_rule in self.sub_rules():
            ways = list(chain.from_iterable(_open_ways(sub_rule, way) for way in ways))
        return [way.sch for way in ways] or [sch]

    def starts(self, sch: Schedule, block: BlockRV, target: Target) -> list[Tiling]:
        """Where the first sub-rule starts from: copies of the schedule; none for other blocks."""
        if not self.applies(sch, sch.get_sref(block)):
            return []
        start = sch.copy()
        start.annotate(block, TILING_STRUCTURE, self.structure)
        return [Tiling(start, block, target)]

    def applies(self, sch: Schedule, sref: StmtSRef) -> bool:
        """Whether the block is one to be tiled."""
        chosen = self.filter_fn is not None and self.filter_fn(sch, sref)
        return chosen or needs_multi_level_tiling(sch.state, sref)

    def sub_rules(self) -> tuple[SubRule, ...]:
        """What is done to a block, in order; each gives the ways on from where it starts."""
        return (
            self.tile_loop_nest, self.add_write_reuse, self.add_read_reuse, self.add_async_pipeline,
        )  # fmt: skip

    def levels(self, letter: Literal["S", "R"]) -> list[int]:
        """The levels of tiles, from 0, that have a letter."""
        return [level for level, found in enumerate(self.structure) if found == letter]

    # ------------------------------------------------------------------ tiles

    def tile_loop_nest(self, way: Tiling) -> Iterator[Tiling]:
        """Split the loops, put them in order, and bind the first levels to threads."""
        sch = way.sch
        kinds = [axis.iter_type for axis in way.stmt().iter_vars]
        loops = list(zip(sch.get_loops(way.block), kinds, strict=True))
        whole = self.whole_loops(way, loops)
        loops = [(loop, kind) for loop, kind in loops if loop not in whole]
        extents = [sch.get_sref(loop).loop.static_extent for loop, _ in loops]
        work = prod(n or 0 for n, (_, kind) in zip(extents, loops, strict=True) if kind == SPATIAL)
        self.split_loops(way, loops)
        sch.reorder(*chain.from_iterable(way.tiles))
        if self.tile_binds:
            way.tiles[0][:0] = whole
        for level, axis in enumerate(self.tile_binds[: len(way.tiles)]):
            fused = sch.fuse(*way.tiles[level])
            sch.bind(fused, axis)
            way.tiles[level] = [fused]
        _note_threads(way, work)
        yield way

    def whole_loops(self, way: Any, loops: Iterable[tuple[LoopRV, int]]) -> list[LoopRV]:
        """Of loops and their kinds those that are not split, but are part of the first tile."""
        return []

    def split_loops(self, way: Tiling, loops: Iterable[tuple[LoopRV, int]]) -> None:
        """Split each loop into one of each level of its kind."""
        way.tiles = [[] for _ in self.structure]
        way.factors = [[] for _ in self.structure]
        levels_of = {SPATIAL: self.levels("S"), REDUCE: self.levels("R")}
        for loop, kind in loops:
            levels = levels_of.get(kind, [])
            if len(levels) == 1:
                way.tiles[levels[0]].append(loop)
            elif levels:
                factors, parts = self.split_loop(way, loop, len(levels))
                for level, factor, part in zip(levels, factors, parts, strict=True):
                    way.factors[level].append(factor)
                    way.tiles[level].append(part)

    def split_loop(
        self, way: Tiling, loop: LoopRV, count: int
    ) -> tuple[Sequence[Expr], Sequence[LoopRV]]:
        """Split a loop into `count`, by factors that are drawn; answer factors and loops."""
        factors = way.sch.sample_perfect_tile(loop, count, self.max_innermost_factor)
        return factors, way.sch.split(loop, factors)

    # ------------------------------------------------------------------ copies

    def add_write_reuse(self, way: Tiling) -> Iterator[Tiling]:
        """Sum up in a copy of the output, which is written back when a tile is done."""
        reuse = _own_levels(way.stmt(), self.reuse_write)
        if reuse.req == "no":
            yield way
            return
        copy = _present_copy(way) if reuse.req == "may" else None
        if copy is not None:
            yield from _moved_back(way, copy, reuse.levels)
            way.write_copies[0] = copy
            yield way
            return
        if reuse.req == "may":
            yield way.copy()
        copy = way.sch.cache_write(way.block, 0, reuse.scope)
        way.write_copies[0] = copy
        yield from _moved_back(way, copy, reuse.levels)

    def add_read_reuse(self, way: Tiling) -> Iterator[Tiling]:
        """Copy each tile that is read before it is used."""
        reuse = self.reuse_read
        if reuse.req == "no":
            yield way
            return
        for level in reuse.levels:
            other = way.copy()
            for index, dims in _inputs(other.stmt()):
                copy = other.sch.cache_read(other.block, index, reuse.scope, [other.block])
                other.sch.compute_at(copy, other.innermost(level), preserve_unit_loops=True)
                other.sch.fuse(*other.sch.get_loops(copy)[-dims:])
                self.note_cooperative_fetch(other, copy)
                other.read_copies[index] = copy
            yield other

    def note_cooperative_fetch(self, way: Tiling, copy: BlockRV) -> None:
        """Draw how many elements a thread copies at once."""
        dtype = str(way.sch.get_sref(copy).block.writes[0].buffer.dtype)
        lengths = list(_load_lengths(dtype, self.vector_load_lens))
        if lengths:
            drawn = way.sch.sample_categorical(lengths, [1.0 / len(lengths)] * len(lengths))
            way.sch.annotate(copy, COOPERATIVE_FETCH, drawn)

    # ------------------------------------------------------------------ pipeline

    def add_async_pipeline(self, way: Tiling) -> Iterator[Tiling]:
        """Let the copies of later tiles run beside the computation, where a GPU can.

        Only where the outermost reduction holds three loops: two copies, and what uses them.
        """
        yield way
        reductions = self.levels("R")
        if way.target.sm < _ASYNC_COPIES or not reductions:
            return
        outer = way.tiles[reductions[0]]
        body = way.sch.get_sref(outer[-1]).loop.body
        parts = body.seq if isinstance(body, SeqStmt) else ()
        if len(parts) != 3 or not all(isinstance(part, For) for part in parts):
            return
        for stages in _ASYNC_STAGES:
            other = way.copy()
            fused = other.sch.fuse(*outer)
            other.sch.annotate(fused, "software_pipeline_stage", [0, 0, stages - 2])
            other.sch.annotate(fused, "software_pipeline_order", [0, 1, 2])
            other.sch.annotate(fused, "software_pipeline_async_stages", [0])
            yield other


def _open_ways(sub_rule: SubRule, way: Tiling) -> Iterator[Tiling]:
    """The ways on; what a primitive refuses is none."""
    try:
        yield from sub_rule(way)
    except ScheduleError:
        return


def _note_threads(way: Tiling, work: int) -> None:
    """Note how many threads a block may have; `work` is the number of elements, 0 if open."""
    warp = way.target.warp_size
    if warp:
        least = warp if work > 2 * warp else 1
        way.sch.annotate(way.block, FEWEST_THREADS, least)
        way.sch.annotate(way.block, MOST_THREADS, way.target.max_threads)


def _own_levels(block: Block, reuse: ReuseType) -> ReuseType:
    """What a block says about its copy of the output, or else what the rule says."""
    own = block.annotations.get("meta_schedule.write_cache_level")
    if reuse.req == "no" or own is None:
        return reuse
    return ReuseType("must", tuple(int(level) for level in own), reuse.scope)


def _present_copy(way: Tiling) -> BlockRV | None:
    """The only consumer of a block, if it can stand for a copy of the output."""
    consumers = way.sch.get_consumers(way.block)
    if len(consumers) != 1 or not is_write_cache(way.sch.get_sref(consumers[0]).block):
        return None
    return consumers[0]


def _moved_back(way: Tiling, copy: BlockRV, levels: Iterable[int]) -> Iterator[Tiling]:
    """The copy of the output, at each of the levels."""
    for level in levels:
        other = way.copy()
        other.sch.reverse_compute_at(copy, other.innermost(level), preserve_unit_loops=True)
        yield other


def _inputs(block: Block) -> list[tuple[int, int]]:
    """The buffers that a block reads and does not write: their indices, and their dimensions."""
    written = {region.buffer for region in block.writes}
    return [
        (index, region.buffer.ndim)
        for index, region in enumerate(block.reads)
        if region.buffer not in written
    ]


def _load_lengths(dtype: str, lengths: Sequence[int]) -> Iterator[int]:
    """The lengths, in elements, that a vector of a type may have."""
    longest, even = _LONGEST.get(dtype, (None, False))
    for length in lengths:
        short = longest is None or length <= longest
        if short and not (even and length > 1 and length % 2):
            yield length
