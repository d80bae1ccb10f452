"""Which buffers of shared memory a view may be of.

A buffer is the result of a `ttg.local_alloc`. Views of it are made by subviews and transposes, and
handed on by loops, branches and the arguments of blocks: a value may then be a view of several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..dialects.scf import ForLoop
from ..ir.core import Operation, Value
from ..ir.types import MemDescType, SharedMemory
from .control_flow import FlowGraph, directs_flow

UNKNOWN = 1  # the bit for memory that is not of this function's buffers


def is_view(value: Value) -> bool:
    """Whether a value is a view of shared memory."""
    type = value.type
    return isinstance(type, MemDescType) and isinstance(type.memory, SharedMemory)


def has_views(op: Operation) -> bool:
    """Whether an operation has a view of shared memory as operand or result."""
    return any(map(is_view, op.operands)) or any(map(is_view, op.results))


def is_allocation(op: Operation) -> bool:
    """Whether an operation makes a buffer of shared memory."""
    return op.name == "ttg.local_alloc" and is_view(op.results[0])


class SharedAliases:
    """What the views in a function may be views of.

    Fields:
        buffers: the operations that make buffers, in program order; buffer `i` has the bit
            `2 << i` in sets.
    """

    def __init__(self, function: Operation, graph: FlowGraph | None = None) -> None:
        graph = graph if graph is not None else FlowGraph(function, has_views)
        ops = [op for op in graph.ops if op is not None and not directs_flow(op)]
        self.buffers: Sequence[Operation] = [op for op in ops if is_allocation(op)]
        self._sets: dict[Value, int] = {
            op.results[0]: 2 << index for index, op in enumerate(self.buffers)
        }
        for region in function.regions:
            for argument in region.blocks[0].arguments if region.blocks else ():
                if is_view(argument):
                    self._sets[argument] = UNKNOWN
        self._solve(ops, [pair for pair in graph.bindings() if is_view(pair[0])])

    def _solve(self, ops: Sequence[Operation], bound: Sequence[tuple[Value, Value]]) -> None:
        sets = self._sets
        transfers = list(bound)
        for op in ops:
            transfers += _handed_on(op)
            sets.update((r, UNKNOWN) for r in op.results if is_view(r) and _from_nowhere(op))
        changed = True
        while changed:
            changed = False
            for target, source in transfers:
                known = sets.get(target, 0)
                joined = known | sets.get(source, 0)
                if joined != known:
                    sets[target] = joined
                    changed = True

    def mask(self, value: Value) -> int:
        """The set of buffers as bits; `UNKNOWN` among them stands for other memory."""
        return self._sets.get(value, 0)

    def of(self, value: Value) -> Sequence[Operation]:
        """The operations that made the buffers that a value may be a view of."""
        mask = self.mask(value)
        return [op for index, op in enumerate(self.buffers) if mask >> index & 2]


def _from_nowhere(op: Operation) -> bool:
    """Whether views that an operation gives are of memory that is not known."""
    return not is_allocation(op) and not any(map(is_view, op.operands))


def _handed_on(op: Operation) -> Iterator[tuple[Value, Value]]:
    """The views that an operation gives, with those that they may be views of: a wait hands each
    operand on, all others give views of any operand."""
    if is_allocation(op):
        return
    one_to_one = op.name == "ttng.warp_group_dot_wait"
    for result in op.results:
        if is_view(result):
            sources = (op.operands[result.index],) if one_to_one else op.operands
            yield from ((result, source) for source in sources if is_view(source))


def alias_pairs(function: Operation) -> Iterator[tuple[Value, Sequence[Operation]]]:
    """The values of a function that are views, in the order in which `test-print-alias` has them,
    each with the operations that made its buffers. Of what a loop carries, the first value of each
    argument counts."""
    aliases = SharedAliases(function)
    for op in function.walk():
        if op.name in ("cf.br", "cf.cond_br"):
            arguments = op.block_of().arguments
            yield from ((argument, aliases.of(argument)) for argument in arguments)
        if op.name == "scf.for":
            loop = ForLoop(op)
            yield from ((arg, aliases.of(loop.init_of(arg))) for arg in loop.iter_args)
        yield from ((result, aliases.of(result)) for result in op.results)
