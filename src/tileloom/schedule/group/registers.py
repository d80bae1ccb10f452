"""Which intermediates of a cluster are kept in registers, and how they are laid out there."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Expr, Var
from ..instruction import can
from ..schedule import Schedule
from .clusters import Cluster, axes_of_result, over_depth
from .domain import GroupAxis
from .loops import is_costly, reduces
from .tile import KEPT, Tile

#: Results that a thread keeps while others read them; beyond, it reads them in memory.
LONGEST = 2 * KEPT


def inline_the_rest(sch: Schedule, cluster: Cluster, tile: Tile) -> None:
    """Compute again what costs less than keeping it; the rest stays in registers."""
    for name in reversed(list(cluster.names)):
        block = sch.get(sch.get_block(name))
        if reduces(block) or cluster.leaves(sch, block):
            continue
        rv = sch.get_block(name)
        full = over_depth(cluster.domain, name)
        many = len(sch.get_consumers(rv)) > 1 or not full
        if many and is_costly(block) and (not full or tile.reduce_inner <= KEPT):
            continue
        if can(sch.state, "ComputeInline", sch.get_sref(rv)):
            sch.compute_inline(rv)
            cluster.names.remove(name)


def keep_results(sch: Schedule, cluster: Cluster, tile: Tile) -> None:
    """What leaves the kernel is first made in registers, where other blocks read it.

    So are sums that one thread makes by itself: it would go to memory with every step.
    """
    for name in list(cluster.names):
        block = sch.get(sch.get_block(name))
        if not cluster.leaves(sch, block):
            continue
        made = {region.buffer for region in block.writes}
        readers = [
            other
            for other, its in cluster.blocks(sch).items()
            if other != name and made & {region.buffer for region in its.reads}
        ]
        if over_depth(cluster.domain, name) and not reduces(block) and tile.reduce_inner > LONGEST:
            continue  # threads read in memory what they have stored there
        if readers or (reduces(block) and tile.reduce_thread == 1 and len(block.writes) == 1):
            axes = axes_of_result(block, cluster.domain)
            copy = sch.cache_write(sch.get_block(name), 0, "local", consumer_blocks=readers)
            other = sch.get(copy).name_hint
            cluster.domain.axes[other] = axes
            cluster.names.insert(cluster.names.index(name) + 1, other)


def flatten(sch: Schedule, name: str, cluster: Cluster) -> None:
    """Store an intermediate by row and by position in the row."""
    block = sch.get(sch.get_block(name))
    if cluster.leaves(sch, block) or len(block.writes) != 1:
        return
    domain = cluster.domain
    axes = axes_of_result(block, domain)

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

    kinds = [axis is not None and axis.reduced for axis in axes]
    if kinds != [False, True][: 1 + full]:
        sch.transform_layout(name, ("write", 0), index_map)


__all__ = ["flatten", "inline_the_rest", "keep_results"]
