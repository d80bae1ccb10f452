"""What operations do to shared memory: the bytes that they read and write, now or until a wait.

local_alloc %x, local_store      write
local_load, warp_group_dot       read
async copies                     write until `async_wait`
asynchronous products            read until `warp_group_dot_wait`
tensor copies to global memory   read until `async_tma_store_wait`
barriers in memory               see `RULES`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..ir.attributes import integer_value
from ..ir.core import Operation, Value
from ..ir.definitions import Effect
from ..ir.rewriter import constant_of
from ..ir.types import MemDescType
from .alias import UNKNOWN, SharedAliases, is_allocation, is_view
from .allocation import FunctionAllocation, SharedBuffer, buffer_size

FAR = 1 << 60  # beyond any memory


@dataclass(frozen=True)
class ByteAccess:
    """An access of bytes `start` to `end` by all threads of a block.

    Fields:
        issuer: names the threads that do it, if that is not all: accesses with the same issuer are
            done in order without a barrier. Empty for all threads.
        queue: of which kind of waits it is done, if it is not done at once.
    """

    start: int
    end: int
    writes: bool
    issuer: str = ""
    queue: str = ""

    def conflicts(self, other: ByteAccess) -> bool:
        """Whether two accesses by different threads need an order."""
        return (
            (self.writes or other.writes)
            and self.start < other.end
            and other.start < self.end
            and not (self.issuer and self.issuer == other.issuer)
        )

    def moved(self, offset: int) -> ByteAccess:
        """The access of a function that is called, as one of the caller."""
        if self.end >= FAR:
            return self
        start, end = self.start + offset, self.end + offset
        return ByteAccess(start, end, self.writes, self.issuer, self.queue)


COPIES, PRODUCTS, STORES = "copies", "products", "stores"

# The operations that wait, what they wait for, and the attribute that says how many may be left.
WAITS = {
    "ttg.async_wait": (COPIES, "num"),
    "ttng.warp_group_dot_wait": (PRODUCTS, "pendings"),
    "ttng.async_tma_store_wait": (STORES, "pendings"),
}
# The operations that end a group of what is waited for; other queues have a group an operation.
COMMITS = {"ttg.async_commit_group": COPIES}

# Slots of operands, whether they are written, and issuers or queues. Of barriers in memory a
# single thread starts the phases, all threads wait; the first and the last write of several
# barriers, and what one thread expects and copies, are in order.
Rule = Sequence[tuple[str, bool, str, str]]
RULES: dict[str, Rule] = {
    "ttg.local_load": (("src", False, "", ""),),
    "ttg.local_store": (("dst", True, "", ""),),
    "ttg.local_dealloc": (),
    "ttg.async_copy_global_to_local": (("result", True, "", COPIES),),
    "ttng.init_barrier": (("alloc", True, "init", ""),),
    "ttng.inval_barrier": (("alloc", True, "inval", ""),),
    "ttng.barrier_expect": (("alloc", True, "expect", ""),),
    "ttng.wait_barrier": (("alloc", False, "", ""), ("alloc", True, "", "")),
    "ttng.async_tma_copy_global_to_local": (
        ("barrier", True, "expect", ""),
        ("result", True, "expect", ""),
    ),
    "ttng.async_tma_copy_local_to_global": (("src", False, "", STORES),),
    "ttng.warp_group_dot_wait": (),
}


class ByteAccesses:
    """The accesses of the operations of a function whose buffers have places."""

    def __init__(self, allocation: FunctionAllocation) -> None:
        self.aliases: SharedAliases = allocation.aliases
        self.buffers = allocation.buffers

    def accesses(self, op: Operation) -> list[ByteAccess]:
        """What an operation accesses by its operands and results, but its scratch memory."""
        return list(self._accesses(op))

    def _accesses(self, op: Operation) -> Iterator[ByteAccess]:
        rule = RULES.get(op.name)
        if is_allocation(op):
            if op.operands:
                yield from self.access(op.results[0], True)
        elif op.name == "ttng.warp_group_dot":
            queue = PRODUCTS if integer_value(op.attributes.get("isAsync")) else ""
            for value in filter(is_view, op.operands):
                yield from self.access(value, False, queue=queue)
        elif rule is not None:
            for slot, writes, issuer, queue in rule:
                for value in op.operand_group(slot):
                    yield from self.access(value, writes, issuer, queue)
        elif not op.definition.is_pure:
            yield from self._by_effects(op)

    def _by_effects(self, op: Operation) -> Iterator[ByteAccess]:
        """Of an operation that has no rule: whatever its effects allow."""
        effects = op.definition.effects
        unknown = not op.definition.registered
        for value in filter(is_view, op.operands):
            if unknown or Effect.READ_SHARED in effects:
                yield from self.access(value, False)
            if unknown or Effect.WRITE_SHARED in effects:
                yield from self.access(value, True)

    def access(
        self, value: Value, writes: bool, issuer: str = "", queue: str = ""
    ) -> Iterator[ByteAccess]:
        """Accesses of all that a value may be a view of."""
        if self.aliases.mask(value) & UNKNOWN:
            yield ByteAccess(-FAR, FAR, writes, issuer, queue)
        owners = self.aliases.of(value)
        for op in owners:
            start, end = self.buffers[op].offset, self.buffers[op].end
            if len(owners) == 1:
                start, end = part_of(value, self.buffers[op])
            yield ByteAccess(start, end, writes, issuer, queue)


def part_of(value: Value, buffer: SharedBuffer) -> tuple[int, int]:
    """The bytes of a buffer that a view is of: one of several tensors, if it is known which."""
    op = value.defining_op
    if op is None or is_allocation(op) or not op.operands:
        return buffer.offset, buffer.end
    start, end = part_of(op.operands[0], buffer)
    index = SELECTIONS.get(op.name, _whole)(op)
    source, target = op.operands[0].type, value.type
    if index is None or not isinstance(source, MemDescType) or not isinstance(target, MemDescType):
        return start, end
    size = buffer_size(source)
    if target.rank != source.rank - 1 or end - start != size or size % source.shape[0]:
        return start, end
    each = size // source.shape[0]
    if each * source.shape[0] != size or prod(source.shape[1:]) != prod(target.shape):
        return start, end
    return start + index * each, start + (index + 1) * each


def _whole(_op: Operation) -> int | None:
    return None


def _first_offset(op: Operation) -> int | None:
    """The constant index of the tensor that is selected of several."""
    found = constant_of(op.operands[1]) if len(op.operands) > 1 else None
    return integer_value(found)


SELECTIONS: dict[str, Callable[[Operation], int | None]] = {
    "ttg.memdesc_subview": _first_offset,
    "ttg.memdesc_index": _first_offset,
}
