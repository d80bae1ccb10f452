"""Which blocks of a group share a domain, and so a kernel: the fusion groups.

Most groups are one fusion group. Where blocks share no domain (independent elementwise blocks, a
reduction of reductions), or where a row is so long that all of the GPU should reduce it before it
is read again, the group falls into several, of which later ones read what earlier ones leave in
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...expr import IntImm, Var
from ...expr.extents import is_number
from ...schedule.instruction import can
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import Block, Buffer
from ..domain import Domain, GroupAxis, GroupRefused, accesses, blocks_by_name, domain_of
from ..loops import reduces, writes_output
from .online import find_pairs
from .products import is_product
from .tile import busy_blocks

#: Positions of a row, and of a column, from which all of the GPU reduces it; and of all together.
LONG, DEEP, LARGE = 16_384, 2048, 1 << 16


@dataclass(eq=False)
class TiledGroup:
    """Blocks that are tiled alike.

    Attributes:
        names: of the blocks, producers first.
        domain: what they run over.
        exported: buffers that other fusions read.
        pairs: reductions that are made in one pass.
    """

    names: list[str]
    domain: Domain
    exported: set[Buffer] = field(default_factory=set)
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def blocks(self, sch: Schedule) -> dict[str, Block]:
        """The blocks by name."""
        return {name: sch.get(sch.get_block(name)) for name in self.names}

    def copy(self) -> TiledGroup:
        """The same, to which blocks can be added."""
        return TiledGroup(list(self.names), self.domain.copy(), self.exported, self.pairs)

    def leaves(self, sch: Schedule, block: Block) -> bool:
        """Whether what a block makes is seen outside of the kernel."""
        made = {region.buffer for region in block.writes}
        return bool(made & self.exported) or writes_output(sch, block)

    def is_product(self, sch: Schedule) -> bool:
        """Whether a block is a product of matrices, a convolution, or the like."""
        return any(is_product(block) for block in self.blocks(sch).values())


def settle(sch: Schedule, target: Target) -> list[TiledGroup]:
    """The fusions of the function that is worked on, in an order in which they can run.

    An elementwise block that is read in other fusions than its own is computed there instead.
    """
    while True:
        fusions = find_fusion_groups(sch, target)
        if not _inline_across(sch, fusions):
            _export(sch, fusions)
            return fusions


def find_fusion_groups(sch: Schedule, target: Target) -> list[TiledGroup]:
    """The fusions of the function as it is."""
    blocks = blocks_by_name(sch)
    found: list[TiledGroup] = []
    for fusion in _Sorter(blocks).run():
        if is_long(fusion.domain, target):
            pairs = find_pairs(sch, fusion.names, fusion.domain)
            found += _stages(blocks, fusion, pairs)
        else:
            found.append(fusion)
    return found


# ---------------------------------------------------------------------------- forming


class _Sorter:
    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self.blocks = blocks
        self.writers = {r.buffer: name for name, block in blocks.items() for r in block.writes}
        self.home: dict[str, int] = {}
        self.found: list[TiledGroup] = []

    def run(self) -> list[TiledGroup]:
        for name in self.blocks:
            self._place(name)
        return self.found

    def _place(self, name: str) -> None:
        for k in self._candidates(name):
            fusion = self.found[k]
            domain = shared_domain({n: self.blocks[n] for n in (*fusion.names, name)})
            if domain is not None:
                fusion.names.append(name)
                fusion.domain = domain
                self.home[name] = k
                return
        self.home[name] = len(self.found)
        self.found.append(TiledGroup([name], domain_of([self.blocks[name]])))

    def _candidates(self, name: str) -> list[int]:
        """Groups that run no earlier than what the block needs: with what it reads, first."""
        block = self.blocks[name]
        read = {region.buffer for region in block.reads}
        needed = {self.home[self.writers[b]] for b in read if self.writers.get(b, name) != name}
        first = max(needed, default=0)
        alike = [
            k
            for k in reversed(range(first, len(self.found)))
            if read & {r.buffer for n in self.found[k].names for r in self.blocks[n].reads}
        ]
        return [k for k in dict.fromkeys((*needed, *alike)) if k >= first]


def shared_domain(blocks: Mapping[str, Block]) -> Domain | None:
    """The domain of blocks that one kernel can make, each value in the threads that use it."""
    try:
        domain = domain_of(list(blocks.values()))
    except GroupRefused:
        return None
    if not all(map(domain.is_regular, blocks)):
        return None
    if any(is_product(block) for block in blocks.values()) and not all(
        reduces(block) or not domain.over_depth(name) for name, block in blocks.items()
    ):
        return None  # a thread reduces a product by itself, and computes nothing else of it
    written = {
        block.writes[0].buffer: axes_of_result(block, domain)
        for block in blocks.values()
        if len(block.writes) == 1
    }
    if all(_reads_its_own(block, domain, written) for block in blocks.values()):
        return domain
    return None


def axes_of_result(block: Block, domain: Domain, number: int = 0) -> list[GroupAxis | None]:
    """The axes of what a block writes, dimension by dimension.

    Args:
        number: of the buffer that is written.
    """
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    return [
        by_var.get(dim.min) if isinstance(dim.min, Var) else None
        for dim in block.writes[number].region
    ]


def _reads_its_own(
    block: Block, domain: Domain, written: Mapping[Buffer, Sequence[GroupAxis | None]]
) -> bool:
    """Whether a block reads of what others make only what stands at its own position."""
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    for buffer, indices in accesses(block):
        for index, axis, extent in zip(indices, written.get(buffer, ()), buffer.shape):
            if isinstance(extent, IntImm) and extent.value == 1:
                continue
            if axis is None or not isinstance(index, Var) or by_var.get(index) is not axis:
                return False
    return True


# ---------------------------------------------------------------------------- long rows


def blocks_alone(domain: Domain) -> int:
    """How many blocks of threads there are if each makes whole rows, or 32 columns."""
    return domain.rows if domain.reduces_innermost else -(-domain.rows // 32)


def is_long(domain: Domain, target: Target) -> bool:
    """Whether rows are so few and so long that all of the GPU should reduce each."""
    least = LONG if domain.reduces_innermost else DEEP
    if domain.depth < least or blocks_alone(domain) >= busy_blocks(target) // 2:
        return False
    if not (is_number(domain.rows) and is_number(domain.depth)):
        return True  # not worth kernels of its own
    return domain.rows * domain.depth >= LARGE or domain.rows <= 1


def _stages(
    blocks: Mapping[str, Block], fusion: TiledGroup, pairs: Sequence[tuple[str, str]]
) -> list[TiledGroup]:
    """A fusion of few long rows by what must be reduced before; full elementwise blocks apart.

    Of `pairs` the second is reduced with the first.
    """
    first = {later: name for name, later in pairs}
    domain = fusion.domain
    writers = {r.buffer: name for name in fusion.names for r in blocks[name].writes}
    stage: dict[str, int] = {}
    parts: dict[tuple[int, bool], list[str]] = {}
    for name in fusion.names:
        block = blocks[name]
        whole = domain.over_depth(name)
        before = {writers[r.buffer] for r in block.reads if r.buffer in writers} - {name}
        stage[name] = max(
            (stage[n] + (whole and (reduces(blocks[n]) or not domain.over_depth(n)))
             for n in before),
            default=0,
        )  # fmt: skip
        if name in first:
            stage[name] = stage[first[name]]
        parts.setdefault((stage[name], whole and not reduces(block)), []).append(name)
    found = []
    for key in sorted(parts):
        own = {name: blocks[name] for name in parts[key]}
        shared = shared_domain(own)
        if shared is not None:
            inside = [pair for pair in pairs if pair[1] in own]
            found.append(TiledGroup(list(own), shared, pairs=inside))
        else:  # rows that nothing reduces any more
            found += [TiledGroup([name], domain_of([block])) for name, block in own.items()]
    return found


def _inline_across(sch: Schedule, fusions: Sequence[TiledGroup]) -> bool:
    """Compute elementwise blocks where other fusions read them; whether there were any."""
    home = {name: fusion for fusion in fusions for name in fusion.names}
    gone = False
    for name in reversed(list(home)):
        rv = sch.get_block(name)
        if reduces(sch.get(rv)) or writes_output(sch, rv):
            continue
        users = [sch.get(user).name_hint for user in sch.get_consumers(rv)]
        apart = any(home[user] is not home[name] for user in users)
        if apart and can(sch.state, "ComputeInline", sch.get_sref(rv)):
            sch.compute_inline(rv)
            gone = True
    return gone


def _export(sch: Schedule, fusions: Sequence[TiledGroup]) -> None:
    for fusion in fusions:
        own = set(fusion.names)
        others = (b for name, b in blocks_by_name(sch).items() if name not in own)
        read = {region.buffer for block in others for region in block.reads}
        fusion.exported = {
            r.buffer for block in fusion.blocks(sch).values() for r in block.writes
        } & read
