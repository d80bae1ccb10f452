"""Which intermediates of a group are kept in registers, and how they are laid out there."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Expr, Var
from ...tir import Block
from ..instruction import can
from ..schedule import Schedule
from .domain import Domain, GroupAxis
from .loops import blocks_by_name, is_costly, reduces, writes_output
from .tile import KEPT, Tile


def inline_the_rest(sch: Schedule, domain: Domain, tile: Tile) -> None:
    """Compute again what costs less than keeping it; the rest stays in registers."""
    for name, block in reversed(blocks_by_name(sch).items()):
        if reduces(block) or writes_output(sch, block):
            continue
        rv = sch.get_block(name)
        full = any(axis is not None and axis.reduced for axis in domain.axes[name])
        many = len(sch.get_consumers(rv)) > 1 or not full
        if many and is_costly(block) and (not full or tile.reduce_inner <= KEPT):
            continue
        if can(sch.state, "ComputeInline", sch.get_sref(rv)):
            sch.compute_inline(rv)


def keep_outputs_that_are_read(sch: Schedule, domain: Domain) -> None:
    """An output that other blocks read stays in registers too; they read it there."""
    for name in blocks_by_name(sch):
        block = sch.get(sch.get_block(name))
        if not writes_output(sch, block):
            continue
        made = {region.buffer for region in block.writes}
        readers = [
            other
            for other, its in blocks_by_name(sch).items()
            if other != name and made & {region.buffer for region in its.reads}
        ]
        if readers:
            copy = sch.cache_write(sch.get_block(name), 0, "local", consumer_blocks=readers)
            domain.axes[sch.get(copy).name_hint] = _axes_of_copy(block, domain)


def _axes_of_copy(block: Block, domain: Domain) -> list[GroupAxis | None]:
    """The axes of a block that copies what another one writes, dimension by dimension."""
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    return [
        by_var.get(dim.min) if isinstance(dim.min, Var) else None for dim in block.writes[0].region
    ]


def flatten(sch: Schedule, name: str, domain: Domain) -> None:
    """Store an intermediate by row and by position in the row."""
    block = sch.get(sch.get_block(name))
    if writes_output(sch, block) or len(block.writes) != 1:
        return
    shape = [int(n) for n in block.writes[0].buffer.shape]
    axes = _axes_of_copy(block, domain)

    def position(index: Sequence[Var], kept: Sequence[GroupAxis]) -> Expr | int:
        total: Expr | int = 0
        for axis in kept:
            if axis in axes:
                total = total * axis.extent + index[axes.index(axis)]
        return total

    full = any(axis is not None and axis.reduced for axis in axes)

    def index_map(*index: Var) -> list[Expr | int]:
        row = position(index, domain.spatial)
        return [row, position(index, domain.reduced)] if full else [row]

    if len(shape) > 1 + full:
        sch.transform_layout(name, ("write", 0), index_map)
