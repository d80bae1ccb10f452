"""MultiLevelTilingWideVector: tiles of tiles, the innermost of the output one wide vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...expr import Expr, Var, const
from ...schedule.rv import LoopRV
from .multi_level_tiling import MultiLevelTiling, Tiling


@dataclass(frozen=True, slots=True)
class MultiLevelTilingWideVector(MultiLevelTiling):
    """Tile as `MultiLevelTiling` does, but take whole vectors of the output's last dimension.

    The loop over that dimension is split so that its innermost part is a vector, or all of the
    loop where that is shorter; a last vector may be cut short. For machines with vectors much
    longer than those of CPUs, such as Hexagon.

    Attributes:
        vector_length_in_bits: the length of a vector, in bits of the output's type.

    >>> from tileloom import te
    >>> from tileloom.schedule import Schedule
    >>> from tileloom.target import target
    >>> from tileloom.tuner.context import TuneContext
    >>> A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 96), name="B")
    >>> k = te.reduce_axis((0, 32), "k")
    >>> C = te.compute((64, 96), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> rule = MultiLevelTilingWideVector("SRSRS", vector_length_in_bits=1024)
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> found = rule.apply(sch, sch.get_block("C"), context)[0]
    >>> found.get(found.get_loops(found.get_block("C"))[-1]).static_extent  # of 32 bits each
    32
    """

    vector_length_in_bits: int = field(kw_only=True)

    def split_loop(
        self, way: Tiling, loop: LoopRV, count: int
    ) -> tuple[Sequence[Expr], Sequence[LoopRV]]:
        """Split a loop into `count`; the last part is a vector where it is the output's."""
        if not _is_innermost(way, loop):
            return MultiLevelTiling.split_loop(self, way, loop, count)
        length = self.vector_length_in_bits // way.stmt().writes[0].buffer.dtype.bits
        extent = way.sch.get_sref(loop).loop.static_extent
        if extent is not None and extent <= length:
            sizes = [1] * (count - 1) + [extent]
            return [const(size) for size in sizes], way.sch.split(loop, sizes)
        outer, vector = way.sch.split(loop, [None, length])
        factors, parts = MultiLevelTiling.split_loop(self, way, outer, count - 1)
        return [*factors, const(length)], [*parts, vector]


def _is_innermost(way: Tiling, loop: LoopRV) -> bool:
    """Whether a loop runs over the last dimension of the output."""
    region = way.stmt().writes[0].region
    realize = way.sch.state.realize(way.sch.get_sref(way.block))
    values = {
        axis.var: value
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    last = region[-1].min if region else None
    return isinstance(last, Var) and values.get(last) is way.sch.get_sref(loop).loop.loop_var
