"""What fusing is worth: a small model of a machine.

    seconds = bytes / bandwidth + operations / rate + launches * launch

A fusion saves the bytes of tensors that need not go through memory, or are read once instead of
twice, and a launch. It may cost operations that are done again. Two nests in one kernel, one after
the other, save only the launch: they are put together where what passes between them stays in the
caches. Kernels that do not depend on each other share a launch where that is a good part of what
they take, or where nothing else in the graph waits for one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..nodes import Node, Tensor
from ..symbols import hint
from ..to_tir.fits import work_of
from ..variants import MOST_VARIANTS


@dataclass(frozen=True)
class DeviceCosts:
    """The numbers of a machine that fusion goes by.

    Attributes:
        bandwidth: bytes per second from and to memory, all workers together.
        rate: simple operations per second on elements, all workers together.
        launch: seconds to start a kernel and wait for its workers.
        near: bytes that stay in a cache from one nest of a kernel to the next.
        short: bytes; a kernel that moves less is over almost as soon as it is launched.
        has_entries: whether a native function calls kernels that follow each other, and the nests
            of one run in their order; else kernels are launched one by one, by threads that do not
            wait for each other.
        most_variants: so many ways to plan a group of unknown sizes are followed.
        most_elements: of an array of unknown sizes.
    """

    bandwidth: float = 1.5e10
    rate: float = 4e10
    launch: float = 4e-6
    near: int = 1 << 16
    short: int = 1 << 20
    has_entries: bool = True
    most_variants: int = MOST_VARIANTS
    most_elements: int = (1 << 31) - 1

    @staticmethod
    def of(workers: int) -> DeviceCosts:
        """A CPU of this many workers; few are enough to keep the memory busy.

        >>> DeviceCosts.of(2) == DeviceCosts()
        True
        """
        return DeviceCosts(bandwidth=7.5e9 * min(workers, 8), rate=2e10 * workers)

    @staticmethod
    def gpu() -> DeviceCosts:
        """A GPU. Nests follow each other in other kernels: nothing stays near from one to the
        next, and all of a GPU waits between them. Blocks of threads number elements, the last of
        which goes beyond an array."""
        most = (1 << 31) - (1 << 17)
        speed = DeviceCosts(bandwidth=1.5e12, rate=1e13, launch=3e-6, near=0, short=0)
        return replace(
            speed, has_entries=False, most_variants=2 * MOST_VARIANTS, most_elements=most
        )

    def seconds(self, bytes_: float, operations: float = 0, launches: int = 0) -> float:
        """How long it takes."""
        return bytes_ / self.bandwidth + operations / self.rate + launches * self.launch


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
    again = times * sum(work_of(n) * hint(n.outputs[0].type.size) for n in nodes)
    return device.seconds(moved, -again)


def may_follow(device: DeviceCosts, between: Iterable[Tensor], moved: int) -> bool:
    """Whether a nest may follow another in one kernel, `moved` bytes being read and written."""
    passed = bytes_of(between)
    return passed <= device.near and (4 * passed <= moved or moved <= 4 * device.near)
