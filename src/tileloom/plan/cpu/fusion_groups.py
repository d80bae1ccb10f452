"""Which blocks of a group share a loop nest on a CPU, and in which pass over it each runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from ...expr import IntImm, Var, free_vars, is_int
from ...expr.extents import limits
from ...schedule.errors import ScheduleError
from ...schedule.schedule import Schedule
from ...tir import Block, Buffer
from ..cost import is_costly, work
from ..domain import Domain, GroupRefused, accesses, blocks_by_name, domain_of
from ..loops import checked_once, reduces, writes_output
from ..sizes import Sizes


@dataclass
class FusionGroup:
    """Blocks over one domain.

    Attributes:
        names: of the blocks, in order.
        levels: for each the number of reductions, one after another, that its values need.
    """

    names: list[str]
    domain: Domain
    levels: dict[str, int]

    def copy(self) -> FusionGroup:
        """The same, from which blocks can be taken."""
        return replace(self, names=list(self.names))

    @property
    def passes(self) -> int:
        """How often the data is passed over."""
        return 1 + max(self.levels.values(), default=0)

    def full(self, name: str) -> bool:
        """Whether a block runs over the reduced axes too, if there are any."""
        return not self.domain.reduced or self.domain.over_depth(name)


def inline_elementwise(sch: Schedule) -> None:
    """Compute elementwise blocks where they are used, unless that repeats what is costly.

    A costly elementwise block is materialized if it would be computed for each element of more axes
    than it has (rows aside, along which it stays the same), or both in a reduction and after it.
    """
    with suppress(ScheduleError), checked_once(sch):
        _inline_elementwise(sch)


def _inline_elementwise(sch: Schedule) -> None:
    for name, block in reversed(blocks_by_name(sch).items()):
        if reduces(block) or writes_output(sch, block):
            continue
        rv = sch.get_block(name)
        if is_costly(block) and _would_repeat(block, [sch.get(r) for r in sch.get_consumers(rv)]):
            continue
        try:
            sch.compute_inline(rv)
        except ScheduleError:
            continue  # it stays a block of its own


def _would_repeat(block: Block, consumers: Sequence[Block]) -> bool:
    if len(consumers) > 1 and any(map(reduces, consumers)):
        return True
    return any(_repeats(block, consumer) for consumer in consumers)


def _repeats(block: Block, consumer: Block) -> bool:
    """Whether a block needs the values of another again and again, other than along its rows.

    What stays the same along a row is computed once for it, as a scalar; long rows make up for
    that.
    """
    used: set[Var] = set()
    for buffer, indices in accesses(consumer):
        if buffer is block.writes[0].buffer:
            used.update(*map(free_vars, indices))
    axes = [axis for axis in consumer.iter_vars if not is_int(axis.domain.extent, 1)]
    row = list(takewhile(lambda axis: axis.var not in used, reversed(axes)))
    if any(axis.var not in used for axis in axes[: len(axes) - len(row)]):
        return True
    extents = [axis.domain.extent for axis in row]
    known = [extent.value for extent in extents if isinstance(extent, IntImm)]
    is_long = len(known) == len(row) and prod(known) >= work(block)
    return bool(row) and (reduces(consumer) or not is_long)


def find_fusion_groups(sch: Schedule, sizes: Sizes) -> list[FusionGroup]:
    """The blocks of the function, those together that share a domain, in an order that is right."""
    return fusion_groups_of(blocks_by_name(sch).values(), sizes)


def fusion_groups_of(blocks: Iterable[Block], sizes: Sizes) -> list[FusionGroup]:
    """Blocks, those together that share a domain, in an order that is right."""
    found: list[list[Block]] = []
    for block in blocks:
        _place(block, found, sizes)
    return [fusion_group_of(blocks, sizes) for blocks in found]


def _place(block: Block, found: list[list[Block]], sizes: Sizes) -> None:
    """Put a block into the fusions that it needs, made one, or into one no earlier than these."""
    needed = [k for k, blocks in enumerate(found) if depends(block, blocks)]
    if len(needed) > 1 and all(_may_wait(found, k, needed) for k in needed[:-1]):
        union = [other for k in needed for other in found[k]]
        if _fits([*union, block], sizes):
            found[needed[-1]] = [*union, block]
            for k in reversed(needed[:-1]):
                del found[k]
            return
    for k in reversed(range(needed[-1] if needed else 0, len(found))):
        if _fits([*found[k], block], sizes):
            found[k].append(block)
            return
    found.append([block])


def _may_wait(found: Sequence[Sequence[Block]], k: int, needed: Sequence[int]) -> bool:
    """Whether a fusion may run as late as the last one of some."""
    between = (found[j] for j in range(k + 1, needed[-1]) if j not in needed)
    return not any(depends(block, found[k]) for blocks in between for block in blocks)


def _fits(blocks: Sequence[Block], sizes: Sizes) -> bool:
    try:
        domain = domain_of(blocks, sizes.guess)
    except GroupRefused:
        return False
    return all(domain.is_regular(block.name_hint) for block in blocks)


def depends(block: Block, others: Iterable[Block]) -> bool:
    """Whether a block needs, overwrites or is needed by what others touch."""
    reads, writes = _accessed(block)
    for other in others:
        its_reads, its_writes = _accessed(other)
        if reads & its_writes or writes & (its_reads | its_writes):
            return True
    return False


def _accessed(block: Block) -> tuple[set[Buffer], set[Buffer]]:
    reads = {region.buffer for region in block.reads}
    return reads, {region.buffer for region in block.writes}


def fusion_group_of(blocks: Sequence[Block], sizes: Sizes) -> FusionGroup:
    """The fusion of blocks that share a domain."""
    levels: dict[str, int] = {}
    ready: dict[Buffer, int] = {}  # the level from which a buffer can be read
    for block in blocks:
        reads, writes = _accessed(block)
        level = max((ready.get(buffer, 0) for buffer in reads - writes), default=0)
        levels[block.name_hint] = level
        for buffer in writes:
            ready[buffer] = level + 1 if reduces(block) else level
    return FusionGroup([b.name_hint for b in blocks], domain_of(blocks, sizes.guess), levels)


def materialized_bytes(sch: Schedule, fusion: FusionGroup, sizes: Sizes, room: int) -> int | None:
    """The bytes of the intermediates of one row, at most; None if they may be more than `room`.

    Where that depends on sizes it is decided.
    """
    total = sum(block.writes[0].buffer.dtype.bytes for block in materialized_blocks(sch, fusion))
    if not total:
        return 0
    for axis in fusion.domain.reduced:
        if axis.size is None or sizes.most(axis.size) is None:
            return None
        total *= sizes.number(axis.size)
    if not total <= room:
        return None
    return limits(total)[1]


def recompute_materialized(sch: Schedule, fusion: FusionGroup) -> None:
    """Compute intermediates again wherever they are read."""
    for block in reversed(materialized_blocks(sch, fusion)):
        try:
            sch.compute_inline(block.name_hint)
        except ScheduleError:
            continue  # it stays, in memory of its own
        fusion.names.remove(block.name_hint)


def materialized_blocks(sch: Schedule, fusion: FusionGroup) -> list[Block]:
    """The elementwise blocks whose values stay from pass to pass."""
    blocks = [sch.get(sch.get_block(name)) for name in fusion.names if fusion.full(name)]
    if not fusion.domain.reduced:
        return []
    return [b for b in blocks if not reduces(b) and not writes_output(sch, b)]
