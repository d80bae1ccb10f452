"""What an operation is computed from, and what is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.core import Operation, Value

Filter = Callable[[Operation], bool]


def everything(_op: Operation) -> bool:
    """A filter that lets all operations through."""
    return True


def backward_operations(roots: Iterable[Value], through: Filter = everything) -> list[Operation]:
    """The operations that values are computed from, nearest first; not through arguments of
    blocks, and only through operations that a filter lets through."""
    found: dict[Operation, None] = {}
    waiting = [value.defining_op for value in roots]
    while waiting:
        op = waiting.pop(0)
        if op is None or op in found or not through(op):
            continue
        found[op] = None
        waiting += [operand.defining_op for operand in op.operands]
    return list(found)


def forward_operations(roots: Iterable[Value], through: Filter = everything) -> list[Operation]:
    """The operations that are computed from values, by users, and by users of the arguments in
    the regions of users."""
    found: dict[Operation, None] = {}
    waiting = [user for value in roots for user in value.users]
    while waiting:
        op = waiting.pop(0)
        if op in found or not through(op):
            continue
        found[op] = None
        waiting += [user for result in op.results for user in result.users]
        for region in op.regions:
            for block in region.blocks:
                waiting += [user for argument in block.arguments for user in argument.users]
    return list(found)


def related_operations(op: Operation, through: Filter = everything) -> list[Operation]:
    """The operation, and all that can be reached from it by definitions and users in turn."""
    found: dict[Operation, None] = {op: None}
    waiting = [op]
    while waiting:
        current = waiting.pop(0)
        near = [operand.defining_op for operand in current.operands]
        near += [user for result in current.results for user in result.users]
        for region in current.regions:
            for block in region.blocks:
                near += [user for argument in block.arguments for user in argument.users]
        for other in near:
            if other is not None and other not in found and through(other):
                found[other] = None
                waiting.append(other)
    return list(found)
