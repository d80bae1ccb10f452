"""MultiLevelTilingWithIntrin: tiles of tiles, the innermost computed by a tensor intrinsic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...schedule.analysis.auto_tensorize import same_computation
from ...schedule.library.intrinsic_tile import tile_with_tensor_intrin
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.tensor_intrin import TensorIntrin
from ..annotations import AUTO_TENSORIZE
from .multi_level_tiling import MultiLevelTiling, SubRule, Tiling


@dataclass(frozen=True, slots=True)
class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Tile a block that does what an intrinsic does, and mark its innermost tile for it.

    The tile becomes a block of its own, annotated with "meta_schedule.auto_tensorize"; a
    postprocessor puts the intrinsic there. Blocks with other statements, and those whose loops the
    tile does not divide, are left alone.

    Attributes:
        intrin_name: the intrinsic, such as "dot_16x4_vnni".

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> from tileloom.tuner.context import TuneContext
    >>> A = te.placeholder((64, 32), "uint8", name="A")
    >>> B = te.placeholder((48, 32), "int8", name="B")
    >>> k = te.reduce_axis((0, 32), "k")
    >>> def product(i, j):
    ...     return te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)
    >>> sch = Schedule(te.create_prim_func([A, B, te.compute((64, 48), product, name="C")]))
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> rule = MultiLevelTilingWithIntrin(intrin_name="dot_16x4_vnni")
    >>> found = rule.apply(sch, sch.get_block("C"), context)
    >>> dict(found[0].get(found[0].get_block("C_o")).annotations)
    {'meta_schedule.auto_tensorize': 'dot_16x4_vnni'}
    """

    intrin_name: str = field(kw_only=True)

    def applies(self, sch: Schedule, sref: StmtSRef) -> bool:
        """Whether the block is one to be tiled, and does what the intrinsic does."""
        intrin = TensorIntrin.get(self.intrin_name)
        if intrin is None or not same_computation(sref.block, intrin.desc):
            return False
        return MultiLevelTiling.applies(self, sch, sref)

    def sub_rules(self) -> tuple[SubRule, ...]:
        """First the tile of the intrinsic; then the block around it is tiled."""
        return (self.tile_for_intrin, *MultiLevelTiling.sub_rules(self))

    def tile_for_intrin(self, way: Tiling) -> Iterator[Tiling]:
        """Put the tile of the intrinsic into a block of its own, which takes the block's place."""
        loop = tile_with_tensor_intrin(way.sch, way.block, self.intrin_name)
        if loop is not None:
            way.block = way.sch.blockize(loop)
            way.sch.annotate(way.block, AUTO_TENSORIZE, self.intrin_name)
            yield way
