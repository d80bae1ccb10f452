"""Which definitions reach which uses."""

from __future__ import annotations

from ...base.errors import InternalError
from .core import Block, Operation, OpResult, Region, Value
from .definitions import Trait


class Dominance:
    """Dominance between blocks, operations and values, as of when it was made; operations may be
    inserted and removed since, blocks may not."""

    def __init__(self) -> None:
        self._immediate: dict[Region, dict[Block, Block | None]] = {}

    def immediate_dominators(self, region: Region) -> dict[Block, Block | None]:
        """The immediate dominator of each block of a region that can be reached."""
        known = self._immediate.get(region)
        if known is None:
            known = self._immediate[region] = _immediate_dominators(region)
        return known

    def block_dominates(self, first: Block, second: Block) -> bool:
        """Whether every path to the second block of a region goes through the first."""
        if first is second:
            return True
        parents = self.immediate_dominators(region_of(first))
        block: Block | None = second
        while block is not None and block is not first:
            block = parents.get(block)
        return block is first

    def properly_dominates(self, first: Operation, second: Operation) -> bool:
        """Whether the first operation comes before the second on every path, and is not around
        it."""
        if first is second:
            return False
        around = _in_region_of(second, first)
        if around is None or around is first:
            return False
        if around.block is first.block:
            return first.is_before(around)
        return self.block_dominates(first.block_of(), around.block_of())

    def value_dominates(self, value: Value, user: Operation) -> bool:
        """Whether a value is known where an operation uses it."""
        if isinstance(value, OpResult):
            return self.properly_dominates(value.owner, user)
        block = value.block
        if block is None or block.region is None:
            return False
        for op in user.ancestors():
            if op.block is not None and op.block.region is block.region:
                return self.block_dominates(block, op.block)
        return False


def _in_region_of(op: Operation, other: Operation) -> Operation | None:
    """The operation that is or holds `op`, in the region that `other` is in."""
    region = other.block_of().region
    for around in op.ancestors():
        if around.block is not None and around.block.region is region:
            return around
    return None


def region_of(block: Block) -> Region:
    """The region that a block is in."""
    if block.region is None:
        raise InternalError("the block is in no region")
    return block.region


def _immediate_dominators(region: Region) -> dict[Block, Block | None]:
    """Cooper, Harvey and Kennedy's iteration over the blocks in reverse post-order."""
    if not region.blocks:
        return {}
    entry = region.blocks[0]
    if len(region.blocks) == 1:
        return {entry: None}
    order = _post_order(entry)
    number = {block: i for i, block in enumerate(order)}
    parents: dict[Block, Block | None] = {entry: None}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in block.successors:
            predecessors[successor].append(block)

    def common(first: Block, second: Block) -> Block:
        while first is not second:
            if number[first] < number[second]:
                first = parents[first] or entry
            else:
                second = parents[second] or entry
        return first

    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [p for p in predecessors[block] if p in parents]
            made = known[0]
            for other in known[1:]:
                made = common(made, other)
            if parents.get(block) is not made:
                parents[block] = made
                changed = True
    return parents


def _post_order(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(entry.successors))]
    while stack:
        block, left = stack[-1]
        following = next((b for b in left if b not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(following.successors)))
    return order


def is_isolated(op: Operation) -> bool:
    """Whether what is in the operation uses nothing from outside."""
    return Trait.ISOLATED in op.definition.traits
