"""MultiLevelTilingWithPackedIntrin: products of bfloat16 and of bytes as x86 multiplies them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from ...expr import IndexMap, IntImm, as_expr
from ...schedule.analysis.auto_tensorize import AutoTensorizeMappingInfo, auto_tensorize_mapping
from ...schedule.errors import ScheduleError
from ...schedule.library.intrinsic_tile import tile_with_tensor_intrin
from ...schedule.library.intrinsics.packed import packed_matmul, parts_of, plain_product
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import PrimFunc
from ..annotations import AUTO_TENSORIZE, TILING_STRUCTURE
from ..context import TuneContext
from .as_product import Access, as_product, has_axes_of_product
from .multi_level_tiling import MultiLevelTiling, SubRule, Tiling

Unit = Literal["amx", "dots"]
#: Rows of a tile, from the fewest that are worth it to the most that registers hold.
_ROWS = {"amx": (4, 32), "dots": (1, 12)}
#: Steps along the depth that are one tile register wide, in words.
_STEPS = {"amx": 16, "dots": 1}
_COLUMNS = (32, 16)
_DEEPEST = {"amx": 1024, "dots": 512}


@dataclass(slots=True)
class PackedTiling(Tiling):
    """A schedule on its way through the sub-rules, to an intrinsic for factors of some types.

    Attributes:
        kinds: the types.
        mapping: the axes of the block that become rows, columns and depth.
    """

    kinds: str = field(kw_only=True)
    mapping: AutoTensorizeMappingInfo = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class MultiLevelTilingWithPackedIntrin(MultiLevelTiling):
    """Tile what is a matrix product of bfloat16 or of bytes, the innermost tile an intrinsic.

    Axes are fused into those of a product, a convolution's too. The right factor is copied into
    the order in which the instructions take it, the left one where its rows do not lie along the
    depth already. Sizes of the intrinsic are the largest that divide those of the product; where
    none do, and for other blocks, there is no such way. The ways without an intrinsic stay open,
    as the copy of a small product may cost more than is saved.

    Attributes:
        unit: "amx" for tile registers, "dots" for dot products of vectors.
        kinds: of the factors: "bf16", or "u8s8" and the like; "bf16_words" for words of them.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> from tileloom.tuner.context import TuneContext
    >>> A, B = (te.placeholder((64, 64), "bfloat16", name=n) for n in "AB")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> def product(i, j):
    ...     return te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)
    >>> sch = Schedule(te.create_prim_func([A, B, te.compute((64, 64), product, name="C")]))
    >>> context = TuneContext(sch.mod, target("cpu -mcpu=sapphirerapids"))
    >>> rule = MultiLevelTilingWithPackedIntrin(unit="amx", kinds=("bf16",))
    >>> *found, plain = rule.apply(sch, sch.get_block("C"), context)
    >>> found[0].get(found[0].get_block("C_o")).annotations["meta_schedule.auto_tensorize"]
    'matmul_bf16_32x32x64_amx'
    """

    unit: Unit = field(kw_only=True)
    kinds: tuple[str, ...] = field(kw_only=True)

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The ways with an intrinsic, if there are any, and the one that is open for others."""
        ways = MultiLevelTiling.apply(self, sch, block, context)
        return ways if ways == [sch] else [*ways, sch]

    def starts(self, sch: Schedule, block: BlockRV, target: Target) -> list[Tiling]:
        """A way for the types that the block multiplies."""
        sref = sch.get_sref(block)
        if not self.applies(sch, sref):
            return []
        for kinds in self.kinds:
            mapping = auto_tensorize_mapping(sref.block, _product(kinds))
            if mapping is not None:
                start = sch.copy()
                start.annotate(block, TILING_STRUCTURE, self.structure)
                return [PackedTiling(start, block, target, kinds=kinds, mapping=mapping)]
        return []

    def sub_rules(self) -> tuple[SubRule, ...]:
        """First the tile of the intrinsic; then the block around it is tiled."""
        return (self.tile_for_intrin, *MultiLevelTiling.sub_rules(self))

    def tile_for_intrin(self, way: PackedTiling) -> Iterator[Tiling]:
        """Pack the factors, and put the tile of the intrinsic into a block of its own."""
        sizes = self.sizes(way)
        if sizes is None:
            return
        name = packed_matmul(way.kinds, *sizes, self.unit)
        _pack(way, sizes[1])
        loop = tile_with_tensor_intrin(way.sch, way.block, name)
        if loop is not None:
            way.block = way.sch.blockize(loop)
            way.sch.annotate(way.block, AUTO_TENSORIZE, name)
            yield way

    def sizes(self, way: PackedTiling) -> tuple[int, int, int] | None:
        """Rows, columns and depth of the largest intrinsic that divides the product, if any."""
        rows, columns, depth = _extents(way)
        least, most = _ROWS[self.unit]
        heights = [n for n in range(most, least - 1, -1) if n <= 16 or n % 2 == 0]
        height = next((n for n in heights if rows % n == 0), None)
        width = next((n for n in _COLUMNS if columns % n == 0), None)
        step = _STEPS[self.unit] * parts_of(way.kinds)
        depths = range(_DEEPEST[self.unit] // step * step, 0, -step)
        length = next((n for n in depths if depth % n == 0), None)
        if height is None or width is None or length is None:
            return None
        return height, width, length


@cache
def _product(kinds: str) -> PrimFunc:
    return plain_product(kinds)


def _extents(way: PackedTiling) -> list[int]:
    """The rows, the columns and the depth of the product that a block is; zeros if unknown."""
    extents = [axis.dom.extent for axis in way.mapping.lhs_iters if axis.dom is not None]
    shape = way.mapping.mappings[0].map_shape(extents)
    return [size.value if isinstance(size, IntImm) else 0 for size in map(as_expr, shape[-3:])]


def _pack(way: PackedTiling, width: int) -> None:
    """Let the block read its left factor in rows along the depth, its right one in words.

    A panel of the right one, so many columns, lies in one piece.
    """
    sch, block, parts = way.sch, way.block, parts_of(way.kinds)
    before, mapping = way.stmt(), way.mapping
    _, b, _ = _product(way.kinds).buffers
    right = next(n for n in range(2) if mapping.lhs_buffer_map[before.reads[n].buffer] is b)
    others: list[Access] = [("read", 1 - right), ("write", 0)]
    kept = [access for access in others if has_axes_of_product(before, access, mapping)]
    copies = as_product(sch, block, mapping, kept)
    in_words = IndexMap.from_func(
        lambda *at: [
            *(*at[:-2], at[-1] // width, at[-2] // parts, at[-1] % width),
            *((at[-2] % parts,) if parts > 1 else ()),
        ],
        way.stmt().reads[right].buffer.ndim,
    )
    sch.transform_layout(block, ("read", right), in_words, assume_injective_transform=True)
    sch.transform_block_layout(copies["read", right], in_words)
    if parts == 1:
        for maker in sch.get_producers(copies["read", right]):
            with suppress(ScheduleError):  # words that are computed: they stay where they are
                sch.compute_inline(maker)
        copied = {sch.get(copy).name_hint for copy in copies.values()}
        for maker in sch.get_producers(block):
            if sch.get(maker).name_hint not in copied:
                # Counts as tiled, so that no rule inlines it: intrinsics read words from memory.
                sch.annotate(maker, TILING_STRUCTURE, "S")
        return
    # Rows are interleaved by shuffles: a sixth of the time of vectors as short as a word.
    sch.unroll(sch.get_loops(copies["read", right])[-1])
    by_words = IndexMap.from_func(
        lambda *at: [*at[:-1], at[-1] // parts, at[-1] % parts], len(way.stmt().iter_vars)
    )
    sch.transform_block_layout(block, by_words)
