"""Groups that compute the same, or the same but for numbers, share the code of one kernel.

Numbers are written into the code of kernels. Where many groups differ in nothing else (layers with
a number of their own, terms of a long sum), most of the time goes into compiling the same again.
Then what differs becomes an operand. A number at which code could be better than for any number,
such as an exponent or an integer divisor, stays where it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .nodes import Tensor
from .optimize import freeze
from .partition.group import Group

#: So many groups have to differ in numbers alone: a few kernels more cost little.
FEWEST = 3
#: Whose code is the same for every number.
_FLOATS = frozenset({"add", "sub", "mul", "div", "maximum", "minimum"})
_INTEGERS = frozenset({"add", "sub", "maximum", "minimum"})


def share_code(groups: Iterable[Group]) -> None:
    """Make operands of the numbers in which groups differ, where they differ in nothing else."""
    alike: dict[Any, list[tuple[Group, list[Tensor]]]] = defaultdict(list)
    for group in groups:
        numbers = [] if group.kind == "alone" else _free_numbers(group)
        if numbers:
            free = frozenset(numbers)
            alike[signature(group, free)[0]].append((group, numbers))
    for members in alike.values():
        values = [tuple(_bytes(tensor) for tensor in numbers) for _, numbers in members]
        if len(set(values)) < FEWEST:
            continue
        differ = [k for k, found in enumerate(zip(*values, strict=True)) if len(set(found)) > 1]
        for group, numbers in members:
            group.operands = frozenset(numbers[k] for k in differ)


def _free_numbers(group: Group) -> list[Tensor]:
    """Constants of one element, in order, whose readers have the same code for every number."""
    readers: dict[Tensor, set[str]] = defaultdict(set)
    for part in group.parts:
        for node in part.nodes:
            for tensor in node.inputs:
                readers[tensor].add(node.op.name)
    found = []
    for tensor in group.inputs:
        value = tensor.value
        if value is None or value.size != 1 or tensor.dtype.is_bool:
            continue
        if readers[tensor] <= (_FLOATS if tensor.dtype.is_float else _INTEGERS):
            found.append(tensor)
    return found


def _bytes(tensor: Tensor) -> bytes:
    return b"" if tensor.value is None else tensor.value.tobytes()


def signature(group: Group, free: frozenset[Tensor] | None = None) -> tuple[Any, list[Tensor]]:
    """What a group computes, apart from which tensors it computes it on; and those tensors.

    Args:
        free: constants of one element whose values do not matter, where these are not the group's
            operands.
    """
    free = group.operands if free is None else free
    numbers = {tensor: k for k, tensor in enumerate(group.inputs)}
    inputs = []
    for tensor in group.inputs:
        value = tensor.value
        is_literal = value is not None and value.size == 1 and tensor not in free
        literal = value.tobytes() if value is not None and is_literal else None
        inputs.append((tensor.type, literal))
    phases = tuple(
        tuple(_signature(part, numbers) for part in phase) for phase in group.phases or ((group,),)
    )
    outputs = tuple(numbers[t] for t in group.outputs)
    return (tuple(inputs), phases, outputs), [*group.inputs, *group.outputs]


def _signature(part: Group, numbers: dict[Tensor, int]) -> Any:
    nodes = []
    own = dict(numbers)
    for node in part.nodes:
        wiring = tuple(own[t] for t in node.inputs)
        for tensor in node.outputs:
            own[tensor] = len(own)
        types = tuple(t.type for t in node.outputs)
        nodes.append((node.op.name, wiring, types, freeze(node.attrs)))
    outputs = tuple(own[t] for t in part.outputs)
    for tensor in part.outputs:
        numbers[tensor] = len(numbers)
    return (part.kind, tuple(nodes), outputs)
