"""What fusing is worth, by the costs of a device.

A fusion saves the bytes of tensors that need not go through memory, or are read once instead of
twice, and a launch. It may cost operations that are done again. Two nests in one kernel, one after
the other, save only the launch: they are put together where what passes between them stays in the
caches. Kernels that do not depend on each other share a launch where that is a good part of what
they take, or where nothing else in the graph waits for one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...target.cost import DeviceCosts, work_of
from ..nodes import Node, Tensor
from ..symbols import hint


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """The memory of tensors; single numbers of constants are part of the code."""
    return sum(hint(t.type.nbytes) for t in tensors if t.value is None or t.type.size > 1)


def saved_by_joining(
    device: DeviceCosts,
    between: Sequence[Tensor],
    still_materialized: Iterable[Tensor],
    shared: Iterable[Tensor],
) -> float:
    """Seconds that a producer and its consumer, or two readers of the same, save as one nest.

    Args:
        between: what the one makes and the other reads.
        still_materialized: of these, what must be written nevertheless.
        shared: what both read.
    """
    moved = 2 * bytes_of(between) - bytes_of(still_materialized) + bytes_of(shared)
    return device.seconds(moved, launches=1)


def saved_by_copying(
    device: DeviceCosts, tensor: Tensor, nodes: Sequence[Node], read: Iterable[Tensor], times: int
) -> float:
    """Seconds saved where each of `times` readers computes a tensor again instead of reading it.

    Args:
        nodes: what computes it.
        read: what readers must read for that and do not yet, for each of them.
    """
    moved = (1 + times) * bytes_of([tensor]) - bytes_of(read)
    again = times * sum(work_of(n.op.name) * hint(n.outputs[0].type.size) for n in nodes)
    return device.seconds(moved, -again)


def may_follow(device: DeviceCosts, between: Iterable[Tensor], moved: int) -> bool:
    """Whether a nest may follow another in one kernel, `moved` bytes being read and written."""
    passed = bytes_of(between)
    return passed <= device.near and (4 * passed <= moved or moved <= 4 * device.near)
