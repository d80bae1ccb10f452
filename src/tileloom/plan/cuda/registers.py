"""Which intermediates of a fusion are kept in registers, and how they are laid out there."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Expr, Var
from ...expr.extents import is_number
from ...schedule.analysis.tree import is_one
from ...schedule.instruction import can
from ...schedule.schedule import Schedule
from ...tir import Block, Buffer
from ..cost import is_costly
from ..domain import Domain, GroupAxis, accesses
from ..loops import reduces
from .fusion_groups import TiledGroup, axes_of_result
from .tile import LONGEST, Tile


def inline_the_rest(sch: Schedule, fusion: TiledGroup, tile: Tile) -> None:
    """Compute again what costs less than keeping it; the rest stays in registers."""
    for name in reversed(list(fusion.names)):
        block = sch.get(sch.get_block(name))
        if reduces(block) or fusion.leaves(sch, block):
            continue
        rv = sch.get_block(name)
        full = fusion.domain.over_depth(name)
        many = len(sch.get_consumers(rv)) > 1 or not full
        if many and is_costly(block) and (not full or tile.keeps_rows):
            continue
        if can(sch.state, "ComputeInline", sch.get_sref(rv)):
            sch.compute_inline(rv)
            fusion.names.remove(name)


def keep_results(sch: Schedule, fusion: TiledGroup, tile: Tile) -> None:
    """What leaves the kernel is first made in registers, where other blocks read it.

    So are sums that one thread makes by itself: it would go to memory with every step.
    """
    for name in list(fusion.names):
        block = sch.get(sch.get_block(name))
        if not fusion.leaves(sch, block):
            continue
        made = {region.buffer for region in block.writes}
        readers = [
            other
            for other, its in fusion.blocks(sch).items()
            if other != name and made & {region.buffer for region in its.reads}
        ]
        if fusion.domain.over_depth(name) and not reduces(block) and tile.reduce_inner > LONGEST:
            continue  # threads read in memory what they have stored there
        if readers or (reduces(block) and tile.reduce_thread == 1 and len(block.writes) == 1):
            axes = axes_of_result(block, fusion.domain)
            copy = sch.cache_write(sch.get_block(name), 0, "local", consumer_blocks=readers)
            other = sch.get(copy).name_hint
            fusion.domain.axes[other] = axes
            fusion.names.insert(fusion.names.index(name) + 1, other)


def rows_of_inputs(sch: Schedule, fusion: TiledGroup) -> dict[Buffer, list[str]]:
    """What blocks read position by position, with neighbours in memory along rows.

    Threads can read these by vectors. Each with the names of its readers.
    """
    blocks = fusion.blocks(sch)
    made = {region.buffer for block in blocks.values() for region in block.writes}
    axes: dict[Buffer, set[tuple[GroupAxis | None, ...]]] = {}
    readers: dict[Buffer, list[str]] = {}
    for name, block in blocks.items():
        by_var = dict(zip((i.var for i in block.iter_vars), fusion.domain.axes[name], strict=True))
        for buffer, indices in accesses(block):
            if buffer not in made:
                found = tuple(by_var.get(i) if isinstance(i, Var) else None for i in indices)
                axes.setdefault(buffer, set()).add(found)
                if name not in readers.setdefault(buffer, []):
                    readers[buffer].append(name)
    return {
        buffer: names
        for buffer, names in readers.items()
        if len(axes[buffer]) == 1 and _is_rows(buffer, next(iter(axes[buffer])), fusion.domain)
    }


def _is_rows(buffer: Buffer, axes: Sequence[GroupAxis | None], domain: Domain) -> bool:
    """Whether a buffer has an element for each position, those of a row side by side."""
    own = [axis for axis in axes if axis is not None]
    sizes = zip(axes, buffer.shape, strict=True)
    long = any(axis is None and not is_one(extent) for axis, extent in sizes)
    return (
        not long
        and bool(domain.reduced)
        and len(own) == len(set(own)) == len(domain.spatial) + len(domain.reduced)
        and own[-1] is domain.reduced[-1]
    )


def read_by_vectors(sch: Schedule, fusion: TiledGroup) -> None:
    """Read inputs into registers first, once for all blocks that need them."""
    for buffer, names in rows_of_inputs(sch, fusion).items():
        first = sch.get_block(names[0])
        number = [region.buffer for region in sch.get(first).reads].index(buffer)
        axes = _read_axes(sch.get(first), buffer, fusion.domain)
        copy = sch.cache_read(first, number, "local", consumer_blocks=names)
        name = sch.get(copy).name_hint
        fusion.domain.axes[name] = axes
        fusion.names.insert(0, name)


def streams_of(sch: Schedule, fusion: TiledGroup) -> dict[Buffer, list[GroupAxis | None]]:
    """The same inputs with the axes of their dimensions."""
    return {
        buffer: _read_axes(sch.get(sch.get_block(names[0])), buffer, fusion.domain)
        for buffer, names in rows_of_inputs(sch, fusion).items()
    }


def _read_axes(block: Block, buffer: Buffer, domain: Domain) -> list[GroupAxis | None]:
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    indices = next(indices for read, indices in accesses(block) if read is buffer)
    return [by_var.get(i) if isinstance(i, Var) else None for i in indices]


def flatten(sch: Schedule, name: str, fusion: TiledGroup, vector: int = 1) -> None:
    """Store an intermediate by row and by position in the row, counted in vectors."""
    block = sch.get(sch.get_block(name))
    domain = fusion.domain
    known = is_number(domain.rows) and is_number(domain.depth)
    if fusion.leaves(sch, block) or (len(block.writes) != 1 and known):
        return
    for number in range(len(block.writes)):
        _flatten(sch, name, domain, axes_of_result(block, domain, number), vector, number)


def _flatten(
    sch: Schedule,
    name: str,
    domain: Domain,
    axes: Sequence[GroupAxis | None],
    vector: int,
    number: int,
) -> None:
    """The same for one buffer that a block writes, with the axes of its dimensions."""

    def position(index: Sequence[Var], kept: Sequence[GroupAxis]) -> Expr | int:
        total: Expr | int = 0
        for axis in kept:
            if axis in axes:
                total = total * axis.base + index[axes.index(axis)]
        return total

    full = any(axis is not None and axis.reduced for axis in axes)

    def index_map(*index: Var) -> list[Expr | int]:
        row, place = position(index, domain.spatial), position(index, domain.reduced)
        if full and vector > 1:
            return [row, place // vector, place % vector]
        return [row, place] if full else [row]

    kinds = [axis is not None and axis.reduced for axis in axes]
    if kinds != [False, True][: 1 + full] or (full and vector > 1):
        sch.transform_layout(name, ("write", number), index_map)
