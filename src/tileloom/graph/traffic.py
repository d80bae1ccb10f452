"""How many bytes the kernels of a graph read and write.

Counted are arrays as kernels see them, each once for each loop nest that reads or writes it: what a
nest reads twice comes from the caches the second time, and single numbers of constants are part of
the code. Of what is only picked from (by `gather` or `slice`) the picked part counts. Reshapes and
broadcasts are no kernels: whoever reads them reads what they are made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .nodes import Graph, Node, Tensor
from .partition import Group
from .partition.group import kind_of

_FREE = {"constant", "reshape", "broadcast_to", "iota"}
_PICKING = {"gather", "gather_elements", "gather_nd", "slice"}


@dataclass(frozen=True)
class KernelTraffic:
    """The bytes that one kernel reads and writes."""

    read: int
    written: int


@dataclass(frozen=True)
class Traffic:
    """The bytes that kernels read and write in one run, each kernel by itself and in total."""

    kernels: tuple[KernelTraffic, ...]

    @property
    def read(self) -> int:
        """All that is read."""
        return sum(kernel.read for kernel in self.kernels)

    @property
    def written(self) -> int:
        """All that is written."""
        return sum(kernel.written for kernel in self.kernels)

    @property
    def total(self) -> int:
        """All that moves."""
        return self.read + self.written

    def __str__(self) -> str:
        return f"{len(self.kernels)} kernels, {self.read} bytes read, {self.written} written"


def traffic_of(groups: Iterable[Group]) -> Traffic:
    """What the kernels of groups move; views and steps on the host move nothing.

    >>> from .nodes import tensor_type
    >>> from .partition import partition
    >>> from . import ops
    >>> x = Tensor(tensor_type((8, 8), "float32"), "x")
    >>> graph = Graph([x], [ops.neg(ops.exp(x))])
    >>> print(traffic_of(partition(graph)))
    1 kernels, 256 bytes read, 256 written
    >>> print(traffic_unfused(graph))
    2 kernels, 512 bytes read, 512 written
    """
    return Traffic(
        tuple(
            KernelTraffic(
                sum(_bytes_read(part.inputs, part.nodes) for part in group.parts),
                sum(t.type.nbytes for part in group.parts for t in part.outputs),
            )
            for group in groups
            if not group.is_view and (group.kind != "alone" or group.anchor.op.compute is not None)
        )
    )


def traffic_unfused(graph: Graph) -> Traffic:
    """What would move if each op were a kernel."""
    kernels = []
    for node in graph.nodes:
        if node.op.name in _FREE or (kind_of(node) == "alone" and node.op.compute is None):
            continue
        sources = {_source(tensor) for tensor in node.inputs}
        written = sum(tensor.type.nbytes for tensor in node.outputs)
        kernels.append(KernelTraffic(_bytes_read(sources, [node]), written))
    return Traffic(tuple(kernels))


def _source(tensor: Tensor) -> Tensor:
    """What is in memory of a tensor."""
    while tensor.node is not None and tensor.node.op.name in ("reshape", "broadcast_to"):
        tensor = tensor.node.inputs[0]
    return tensor


def _bytes_read(tensors: Iterable[Tensor], nodes: Sequence[Node]) -> int:
    return sum(
        _accessed(t, nodes)
        for t in tensors
        if t.type.size > 1 or (t.value is None and (t.node is None or t.node.op.name != "iota"))
    )


def _accessed(tensor: Tensor, nodes: Sequence[Node]) -> int:
    """All of a tensor, or what is picked from it."""
    picked = 0
    for node in nodes:
        for k, source in enumerate(node.inputs):
            if _source(source) is not tensor and source is not tensor:
                continue
            if node.op.name in _FREE and len(nodes) > 1:
                continue
            if k > 0 or node.op.name not in _PICKING:
                return tensor.type.nbytes
            picked += node.outputs[0].type.nbytes
    return min(tensor.type.nbytes, picked) if picked else tensor.type.nbytes
