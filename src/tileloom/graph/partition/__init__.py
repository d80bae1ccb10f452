"""Which nodes share a kernel.

`partition` puts the nodes of a graph into groups: first into loop nests, by the `steps` and the
rules of `fuse`, as far as they share an iteration `domain` or the kernel of a `contraction` holds
them; then nests into kernels. `cost` says what pays. Groups never depend on each other in a circle,
and the same graph gives the same groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from ...base.cached import cached_property
from ...target.cost import DeviceCosts
from ..nodes import Graph, Tensor
from . import steps
from .contraction import ChooseContraction, ContractionTactic, contraction_on_cpu
from .fuse import Fuser, Why
from .group import MAX_NODES, MAX_OPERANDS, Domain, Group, GroupKind, domain_of
from .node_groups import NodeGroup, NodeGroups

__all__ = [
    "MAX_NODES", "MAX_OPERANDS", "ChooseContraction", "ContractionTactic", "Domain", "Group",
    "GroupKind", "Partition", "Refusal", "contraction_on_cpu", "domain_of", "partition",
]  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    """Two kernels, one reading what the other makes, and why they are not one."""

    producer: str
    consumer: str
    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}: {self.reason} [{self.rule}]"


class Partition(Sequence[Group]):
    """The groups of a graph in an order in which they can run, and why there are not fewer."""

    def __init__(self, fuser: Fuser) -> None:
        self._fuser = fuser
        # What every reader computes for itself leaves a group that makes nothing.
        self._made_of = [
            group for group in _in_order(fuser.groups) if fuser.groups.materialized(group)
        ]
        self.groups = [_group(fuser.groups, group) for group in self._made_of]

    @overload
    def __getitem__(self, index: int) -> Group: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Group]: ...
    def __getitem__(self, index: int | slice) -> Group | Sequence[Group]:
        return self.groups[index]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    @cached_property
    def refusals(self) -> list[Refusal]:
        """Each producer and consumer that were not fused, and the first rule in the way."""
        labels = {id(c): g.label for c, g in zip(self._made_of, self.groups, strict=True)}
        found = []
        for consumer in self._made_of:
            for producer in reversed(self._fuser.groups.producers(consumer)):
                why = _why(self._fuser, producer, consumer)
                found.append(Refusal(labels[id(producer)], labels[id(consumer)], *why))
        return found


def partition(
    graph: Graph,
    device: DeviceCosts | None = None,
    contraction: ChooseContraction = contraction_on_cpu,
) -> Partition:
    """The groups of a graph without composite ops, for a CPU unless something else is said.

    Args:
        device: what it costs to move and compute there.
        contraction: its tactic for a matrix product or a convolution.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2, 8), "float32"), "x")
    >>> total = ops.sum(ops.exp(x), 1, True)
    >>> [group.kind for group in partition(Graph([x], [ops.div(ops.exp(x), total)]))]
    ['reductions']
    """
    fuser = Fuser(graph, device or DeviceCosts(), contraction)
    steps.run(fuser)
    return Partition(fuser)


def _why(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> Why:
    if a.phases or b.phases:
        return fuser.may_follow(a, b) or Why("limits", "the kernel is large enough")
    joined = fuser.joined(a, b)
    return joined if isinstance(joined, Why) else Why("order", "each is with others already")


def _in_order(groups: NodeGroups) -> list[NodeGroup]:
    """Groups after those that they need; else by their first node."""
    waiting = sorted(
        groups, key=lambda c: min(n.serial for n in c.nodes if groups.home.get(n) is c)
    )
    done, order = 0, []
    everything = 0
    for group in waiting:
        everything |= group.bits
    while waiting:
        ready = next(c for c in waiting if not c.before & ~c.bits & everything & ~done)
        waiting.remove(ready)
        order.append(ready)
        done |= ready.bits
    return order


def _group(groups: NodeGroups, group: NodeGroup) -> Group:
    outputs = groups.materialized(group)
    result = _plain(group, outputs)
    if group.phases:
        read = {t for phase in group.phases for part in phase for t in part.inputs}
        needed = read | set(outputs)
        result.phases = tuple(
            tuple(_plain(part, _makes(groups, group, part, needed)) for part in phase)
            for phase in group.phases
        )
    return result


def _makes(
    groups: NodeGroups, whole: NodeGroup, part: NodeGroup, needed: set[Tensor]
) -> list[Tensor]:
    own = (node for node in part.nodes if groups.home.get(node) is whole)
    return [t for node in own for t in node.outputs if t in needed]


def _plain(group: NodeGroup, outputs: Sequence[Tensor]) -> Group:
    nodes = list(group.nodes)
    return Group(group.kind, nodes, group.domain, tuple(group.inputs), tuple(outputs))
