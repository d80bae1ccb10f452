"""MultiLevelTilingTensorCore: tiles of matrix products for the matrix units of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from ...expr import SPATIAL, Expr, IndexMap, IntImm, Var
from ...schedule.analysis.auto_tensorize import AutoTensorizeMappingInfo, auto_tensorize_mapping
from ...schedule.library.intrinsic_tile import tile_with_tensor_intrin
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.tensor_intrin import TensorIntrin
from ...target import Target
from ..annotations import (
    AUTO_TENSORIZE,
    AUTO_TENSORIZE_INIT,
    TILING_STRUCTURE,
    WARP_EXECUTION,
)
from .as_product import as_product
from .multi_level_tiling import MultiLevelTiling, SubRule, Tiling

_WARPS = "threadIdx.y"  # the axis that tells the warps of a block apart
_PADDED_ROWS = {"float16": 8, "int8": 16}  # rows are longer by so many elements: other banks


@dataclass(frozen=True, slots=True)
class TensorCoreIntrinGroup:
    """The intrinsics that make a product together.

    Attributes:
        init: starts a tile of the result.
        load_a, load_b: bring a tile of a factor from shared memory to where `compute` takes it.
        compute: adds the product of two tiles to a tile of the result.
        store: writes a tile of the result into shared memory.
    """

    init: str
    load_a: str
    load_b: str
    compute: str
    store: str


def wmma_group(
    factor: str, total: str, trans_b: bool = False, scope: str = "shared.dyn"
) -> TensorCoreIntrinGroup:
    """The intrinsics of fragments of 16 by 16.

    Args:
        factor: the type of the factors, "f16" or "s8".
        total: the type of the sum, "f16", "f32" or "s32".
        trans_b: whether the second factor is stored by columns.
        scope: where tiles come from and go to, "shared" or "shared.dyn".

    >>> wmma_group("f16", "f32", trans_b=True).compute
    'wmma_sync_16x16x16_f16f16f32_trans'
    """
    size, tail, place = "16x16x16", "_trans" if trans_b else "", scope.replace(".", "_")
    return TensorCoreIntrinGroup(
        init=f"wmma_fill_{size}_{total}",
        load_a=f"wmma_load_{size}_{factor}_a_{place}",
        load_b=f"wmma_load_{size}_{factor}_b{tail}_{place}",
        compute=f"wmma_sync_{size}_{factor}{factor}{total}{tail}",
        store=f"wmma_store_{size}_{total}_{place}",
    )


@dataclass(slots=True)
class TensorCoreTiling(Tiling):
    """A schedule on its way through the sub-rules, to the intrinsics of one group.

    Attributes:
        group: the intrinsics.
        mapping: the axes of the block that become those of the intrinsic.
        store: the copy between the layout of the intrinsic and that of the output.
    """

    group: TensorCoreIntrinGroup = field(kw_only=True)
    mapping: AutoTensorizeMappingInfo = field(kw_only=True)
    store: BlockRV | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Tile what is a matrix product, perhaps of other axes, for the matrix units of a GPU.

    Axes are fused into those of a product (a convolution's into rows, columns and depth), domains
    rounded up to whole tiles, operands and result go through shared memory and the memory of the
    matrix unit. Each group of intrinsics that computes what the block does gives a variant; blocks
    that none does are left alone. Tiles are annotated with the intrinsics that postprocessors put
    there.

    Attributes:
        intrin_groups: the intrinsics to be tried.
        use_software_pipeline: load tiles of the next step of the reduction during the present one.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> from tileloom.tuner.context import TuneContext
    >>> from tileloom.tuner.rules.multi_level_tiling import ReuseType
    >>> A, B = (te.placeholder((64, 64), "float16", name=n) for n in "AB")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> def product(i, j):
    ...     return te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)
    >>> sch = Schedule(te.create_prim_func([A, B, te.compute((64, 64), product, name="C")]))
    >>> rule = MultiLevelTilingTensorCore(
    ...     structure="SSSRRSRS",
    ...     tile_binds=("blockIdx.y", "blockIdx.x", "threadIdx.y"),
    ...     max_innermost_factor=4,
    ...     vector_load_lens=(1, 2, 3, 4, 8, 16),
    ...     reuse_read=ReuseType("must", (4,), "shared.dyn"),
    ...     reuse_write=ReuseType("must", (2,), "shared.dyn"),
    ...     intrin_groups=(wmma_group("f16", "f32"),),
    ... )
    >>> context = TuneContext(sch.mod, target("cuda -arch=sm_80"))
    >>> (found,) = rule.apply(sch, sch.get_block("C"), context)
    >>> found.get(found.get_block("C_o")).annotations["meta_schedule.auto_tensorize"]
    'wmma_sync_16x16x16_f16f16f32'
    """

    intrin_groups: tuple[TensorCoreIntrinGroup, ...] = field(kw_only=True)
    use_software_pipeline: bool = field(default=False, kw_only=True)

    def starts(self, sch: Schedule, block: BlockRV, target: Target) -> list[Tiling]:
        """A way for each group of intrinsics that computes what the block does, the last first."""
        ways: list[Tiling] = []
        for group in reversed(self.intrin_groups):  # TVM's order
            intrin = TensorIntrin.get(group.compute)
            stmt = sch.get_sref(block).block
            mapping = None if intrin is None else auto_tensorize_mapping(stmt, intrin.desc)
            if mapping is not None:
                start = sch.copy()
                start.annotate(block, TILING_STRUCTURE, self.structure)
                ways.append(TensorCoreTiling(start, block, target, group=group, mapping=mapping))
        return ways

    def sub_rules(self) -> tuple[SubRule, ...]:
        """What is done to a block, in order."""
        return (
            self.transform_for_tensorization,
            self.tile_loop_nest,
            self.transform_intermediate_layout,
            self.add_write_reuse,
            self.add_accumulators,
            self.add_read_reuse,
            self.add_fragments,
            self.add_software_pipeline,
        )

    def whole_loops(
        self, way: TensorCoreTiling, loops: Iterable[tuple[LoopRV, int]]
    ) -> list[LoopRV]:
        """Batches are not split: the loops, outermost, of axes that the intrinsic has not."""
        (index_map,) = way.mapping.mappings
        count = len(index_map.final_indices) - len(way.mapping.rhs_iters)
        return [
            loop
            for loop, kind in list(loops)[:count]
            if kind == SPATIAL or way.sch.get_sref(loop).loop.static_extent == 1
        ]

    # ------------------------------------------------------------------ axes

    def transform_for_tensorization(self, way: TensorCoreTiling) -> Iterator[Tiling]:
        """Give the block the axes of the intrinsic, and a tile of it a block of its own."""
        way.store = as_product(way.sch, way.block, way.mapping)["write", 0]
        sch = way.sch
        loop = tile_with_tensor_intrin(sch, way.block, way.group.compute, allow_padding=True)
        if loop is not None:
            way.block = sch.blockize(loop)
            sch.annotate(way.block, AUTO_TENSORIZE, way.group.compute)
            sch.annotate(way.block, AUTO_TENSORIZE_INIT, way.group.init)
            sch.annotate(way.block, WARP_EXECUTION, 1)
            yield way

    def transform_intermediate_layout(self, way: TensorCoreTiling) -> Iterator[Tiling]:
        """Store the result by warps, in these by fragments: each is together in shared memory."""
        region = way.stmt().writes[0].region
        sides = [part.extent.value for part in region[-2:] if isinstance(part.extent, IntImm)]
        counts = [self.fragments_of_warp(way, axis) for axis in (-2, -1)]
        indices = [Var(f"i{n}", "int32") for n in range(len(region))]
        tiles = [index // side for index, side in zip(indices[-2:], sides, strict=True)]
        finals: list[Expr] = [
            *indices[:-2],
            *(tile // count for tile, count in zip(tiles, counts, strict=True)),
            *(tile % count for tile, count in zip(tiles, counts, strict=True)),
            *(index % side for index, side in zip(indices[-2:], sides, strict=True)),
        ]
        way.sch.transform_layout(
            way.block, ("write", 0), IndexMap(indices, finals), assume_injective_transform=True
        )
        yield way

    def fragments_of_warp(self, way: Tiling, axis: int) -> Expr:
        """How many fragments a warp has along rows (-2) or columns (-1)."""
        levels = self.levels("S")[self.tile_binds.index(_WARPS) + 1 :]
        factors: list[Expr] = [way.factors[level][axis] for level in levels]
        return reduce(lambda a, b: a * b, factors)

    # ------------------------------------------------------------------ copies

    def add_accumulators(self, way: TensorCoreTiling) -> Iterator[Tiling]:
        """Sum up in fragments, from where warps write to the copy of the output."""
        sch, shared = way.sch, way.write_copies[0]
        fragments = sch.cache_write(way.block, 0, "wmma.accumulator")
        rows, columns, row, column = sch.get_loops(shared)[-6:-2]
        sch.reorder(row, rows, columns, column)
        sch.compute_at(fragments, row, preserve_unit_loops=True)
        warps = sch.fuse(*sch.get_loops(fragments)[-6:-4])
        sch.bind(warps, _WARPS)
        if way.store is not None:
            sch.reverse_compute_inline(way.store)
        tile = sch.blockize(sch.get_loops(fragments)[-2])
        sch.annotate(tile, AUTO_TENSORIZE, way.group.store)
        sch.fuse(*sch.get_loops(shared)[-5:])
        self.note_cooperative_fetch(way, shared)
        yield way

    def add_fragments(self, way: TensorCoreTiling) -> Iterator[Tiling]:
        """Load fragments of the factors from their copies in shared memory."""
        sch = way.sch
        place = way.tiles[self.levels("R")[1]][-1]
        for index, (letter, intrin) in enumerate(zip("ab", (way.group.load_a, way.group.load_b))):
            fragments = sch.cache_read(way.block, index, f"wmma.matrix_{letter}")
            sch.compute_at(fragments, place, preserve_unit_loops=True)
            loop = tile_with_tensor_intrin(sch, fragments, intrin)
            if loop is None:
                return
            sch.annotate(sch.blockize(loop), AUTO_TENSORIZE, intrin)
        for index in range(2):
            _align(sch, way.read_copies[index])
        yield way

    # ------------------------------------------------------------------ pipeline

    def add_software_pipeline(self, way: TensorCoreTiling) -> Iterator[Tiling]:
        """Load the next tiles and fragments while the present ones are computed with."""
        levels = self.levels("R")
        steps = [way.sch.get_sref(n).loop.static_extent for r in levels for n in way.tiles[r]]
        if self.use_software_pipeline and len(levels) >= 2 and prod(n or 0 for n in steps) > 1:
            outer, inner = (way.tiles[level][-1] for level in levels[:2])
            for index in range(2):
                copy = way.read_copies[index]
                way.sch.annotate(copy, "tir.manifest_shared_memory_local_stage", 1)
                way.sch.annotate(copy, "double_buffer_scope", 0)
            # Fragments are loaded one step ahead; of the copies, global memory is read two ahead.
            for loop, stages, order in (
                (inner, [0, 0, 1], [0, 1, 2]),
                (outer, [0, 0, 0, 0, 0, 1, 1], [0, 3, 1, 4, 5, 2, 6]),
            ):
                way.sch.annotate(loop, "software_pipeline_stage", stages)
                way.sch.annotate(loop, "software_pipeline_order", order)
        yield way


def _align(sch: Schedule, copy: BlockRV) -> None:
    """Copy right from where operands are made, into rows that start in different banks."""
    (maker,) = sch.get_producers(copy)
    sch.compute_inline(maker)
    longer = _PADDED_ROWS.get(str(sch.get_sref(copy).block.writes[0].buffer.dtype))
    if longer is not None:
        sch.storage_align(copy, 0, axis=-2, factor=32, offset=longer)
