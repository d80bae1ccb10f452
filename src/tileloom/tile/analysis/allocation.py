"""Places in shared memory for buffers, for what operations need while they run, and for calls.

A function's memory starts at 0; a call has a place for all of the memory of the function that it
calls. Buffers that are never live at one time share places (see `liveness.py`, `packing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...base.errors import UserError
from ..dialects.functions import callee_of, symbol_name
from ..ir.attributes import IntegerAttr, integer_value
from ..ir.core import Operation
from ..ir.types import I32, MemDescType, element_bits
from ..layouts.encodings import SharedEncoding
from ..layouts.properties import shape_per_cta
from .alias import SharedAliases, has_views
from .control_flow import FlowGraph
from .liveness import buffer_ranges
from .packing import PackedBuffer, pack
from .scratch import RULES, scratch_size

OFFSET = "allocation.offset"
SCRATCH_ALIGNMENT = 128
SWIZZLE_ALIGNMENT = 1024  # the hardware's swizzles exchange parts of addresses below this
SMALL = 256  # bytes up to which a buffer is not swizzled
LEAST_ALIGNMENT, VECTOR = 8, 16  # of a barrier, and of the widest access


@dataclass
class SharedBuffer:
    """A part of shared memory.

    Fields:
        op: makes the buffer, needs it while it runs (`is_scratch`), or calls what needs it.
        live: the nodes of the function's graph at which it is in use, as bits.
    """

    op: Operation
    size: int
    alignment: int
    live: int
    is_scratch: bool
    offset: int = 0

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.size


@dataclass(frozen=True)
class FunctionAllocation:
    """The shared memory of a function."""

    buffers: Mapping[Operation, SharedBuffer]
    size: int
    graph: FlowGraph
    aliases: SharedAliases


def buffer_size(type: MemDescType) -> int:
    """The bytes of a buffer that one thread block has."""
    shape = type.shape
    if isinstance(type.encoding, SharedEncoding):
        shape = shape_per_cta(shape, type.encoding.cta)
    return -(-prod(shape) * element_bits(type) // 8)


def buffer_alignment(op: Operation, size: int) -> int:
    """The alignment of the buffer that an operation makes: its own, or that of its size."""
    own = integer_value(op.attributes.get("alignment"))
    if own is not None:
        return own
    if size > SMALL:
        return SWIZZLE_ALIGNMENT
    return VECTOR if size >= VECTOR else LEAST_ALIGNMENT


def is_shared_memory_op(op: Operation) -> bool:
    """Whether an operation needs, makes, accesses or orders shared memory."""
    return op.name in ORDERS or op.name in RULES or has_views(op)


CALLS = frozenset({"tt.call", "func.call"})
ORDERS = CALLS | {
    *("gpu.barrier", "ttg.async_wait", "ttg.async_commit_group"),
    *("ttng.async_tma_store_wait", "ttng.warp_group_dot_wait"),
}


class ModuleAllocation:
    """The shared memory of the functions of a module, those first that others call.

    Fields:
        functions: by their names.
    """

    def __init__(self, module: Operation, keep_offsets: bool = False) -> None:
        """Finds places.

        Args:
            keep_offsets: takes those that operations have already.

        Raises:
            UserError: if a function calls itself.
        """
        self.definitions = {
            symbol_name(op): op for op in module.body if op.name in ("tt.func", "func.func")
        }
        self.functions: dict[str, FunctionAllocation] = {}
        self._keep_offsets = keep_offsets
        for name in self.definitions:
            self._visit(name, ())

    @property
    def size(self) -> int:
        """The bytes that the module needs: what the largest of its functions does."""
        return max((each.size for each in self.functions.values()), default=0)

    def _visit(self, name: str, callers: tuple[str, ...]) -> None:
        if name in self.functions:
            return
        if name in callers:
            raise UserError(f"@{name} calls itself: the size of its shared memory is not known")
        function = self.definitions[name]
        for op in function.walk():
            if op.name in CALLS and callee_of(op) in self.definitions:
                self._visit(callee_of(op), (*callers, name))
        self.functions[name] = self._allocate(function)

    def _allocate(self, function: Operation) -> FunctionAllocation:
        graph = FlowGraph(function, is_shared_memory_op)
        aliases = SharedAliases(function, graph)
        made = [*_explicit(graph, aliases), *self._temporary(graph)]
        if not self._keep_offsets or not _read_offsets(made):
            wanted = [PackedBuffer(each.size, each.alignment, each.live) for each in made]
            for buffer, offset in zip(made, pack(wanted)[0], strict=True):
                buffer.offset = offset
        size = max((each.end for each in made), default=0)
        return FunctionAllocation({each.op: each for each in made}, size, graph, aliases)

    def _temporary(self, graph: FlowGraph) -> Iterator[SharedBuffer]:
        for node, op in enumerate(graph.ops):
            if op is None:
                continue
            if op.name in CALLS:
                called = self.functions.get(callee_of(op))
                size = called.size if called is not None else 0
            else:
                size = scratch_size(op)
            if size:
                yield SharedBuffer(op, size, SCRATCH_ALIGNMENT, 1 << node, True)


def _explicit(graph: FlowGraph, aliases: SharedAliases) -> Iterator[SharedBuffer]:
    ranges = buffer_ranges(graph, aliases)
    for op, live in zip(aliases.buffers, ranges, strict=True):
        type = op.results[0].type
        size = buffer_size(type)  # type: ignore[arg-type]
        yield SharedBuffer(op, size, buffer_alignment(op, size), live, False)


def _read_offsets(buffers: Sequence[SharedBuffer]) -> bool:
    """Takes the offsets that operations have; whether all have one."""
    for buffer in buffers:
        offset = integer_value(buffer.op.attributes.get(OFFSET))
        if offset is None:
            return False
        buffer.offset = offset
    return True


def write_offsets(allocation: ModuleAllocation) -> None:
    """Writes the offsets on operations."""
    for function in allocation.functions.values():
        for op, buffer in function.buffers.items():
            op.attributes[OFFSET] = IntegerAttr(buffer.offset, I32)


def allocation_lines(module: Operation) -> Iterator[str]:
    """The lines of `test-print-allocation`: for each function its name, its buffers, its size."""
    allocation = ModuleAllocation(module)
    for name, function in allocation.definitions.items():
        yield name
        made = allocation.functions[name]
        for op in function.walk_inner_first():
            buffer = made.buffers.get(op)
            if buffer is not None:
                kind = "scratch offset" if buffer.is_scratch else "offset"
                yield f"{kind} = {buffer.offset}, size = {buffer.size}"
        yield f"size = {made.size}"
