"""What a partition consists of: groups of nodes, each one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..nodes import Node, Tensor
from ..ops.common import normalize_axes

#: elementwise: elements by themselves, injective ops too; reductions: one or several over one
#: domain, with elementwise ops; matmul, conv, windows: a product, or a pooling, with its epilogue;
#: alone: a node by itself; several: loop nests in one kernel, one after another or independent.
GroupKind = Literal["elementwise", "reductions", "matmul", "conv", "windows", "alone", "several"]

#: Kinds of groups around one node, which an epilogue may follow.
ANCHORED: tuple[GroupKind, ...] = ("matmul", "conv", "windows")

#: The shape that reductions reduce and the axes that they reduce over, extents of 1 left out.
Domain = tuple[tuple[int, ...], tuple[int, ...]]

#: More nodes or operands than this in a kernel cost compile time and registers for little gain.
MAX_NODES = 64
MAX_OPERANDS = 32

_WINDOWS = {"max_pool", "sum_pool"}


@dataclass(eq=False)
class Group:
    """Nodes that become one kernel (or one call of a NumPy reference, for `alone`).

    Attributes:
        nodes: producers first. Cheap ones may be in several groups, each of which computes them.
        domain: of reductions.
        inputs, outputs: what the kernel reads and writes.
        phases: of `several`: what runs one after another; the parts of a phase are independent
            of each other and share the workers.
        operands: constants of one element that the kernel reads from memory, so that several
            groups share its code; all others are written into the code.
    """

    kind: GroupKind
    nodes: list[Node]
    domain: Domain | None = None
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    phases: tuple[tuple[Group, ...], ...] = ()
    operands: frozenset[Tensor] = frozenset()

    @property
    def anchor(self) -> Node:
        """The matrix product, the convolution, the pooling, or the first node."""
        if self.kind in ANCHORED:
            return next(node for node in self.nodes if kind_of(node) == self.kind)
        return self.nodes[0]

    @property
    def is_view(self) -> bool:
        """Whether nothing is computed: the elements stay where they are."""
        return all(node.op.name == "reshape" for node in self.nodes)

    @property
    def parts(self) -> tuple[Group, ...]:
        """The loop nests that the kernel consists of; mostly the group itself."""
        return tuple(part for phase in self.phases for part in phase) or (self,)

    @property
    def label(self) -> str:
        """A short name that says what is computed."""
        names = dict.fromkeys(node.op.name.removeprefix("reduce_") for node in self.nodes)
        return "_".join(list(names)[:6])

    def __repr__(self) -> str:
        return f"Group({self.kind}: {' '.join(node.op.name for node in self.nodes)})"


def kind_of(node: Node) -> GroupKind:
    """The kind of the group that a node makes by itself."""
    if node.op.compute is None:
        return "alone"
    match node.op.kind:
        case "elementwise" | "injective":
            return "elementwise"
        case "reduction":
            if node.op.name in _WINDOWS:
                return "windows"
            return "reductions" if domain_of(node) is not None else "alone"
        case "matmul":
            return "matmul"
        case "conv":
            return "conv"
        case _:
            return "alone"


def domain_of(node: Node) -> Domain | None:
    """The shape that a plain reduction reduces and its axes, extents of 1 left out."""
    if node.op.kind != "reduction" or node.op.name in {*_WINDOWS, "max_pool_with_indices"}:
        return None
    shape, reduced = node.inputs[0].shape, reduced_axes(node)
    live = [k for k, extent in enumerate(shape) if extent != 1]
    return (
        tuple(shape[k] for k in live),
        tuple(position for position, k in enumerate(live) if k in reduced),
    )


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduction reduces, sorted and not negative."""
    rank = node.inputs[0].ndim
    return normalize_axes(node.attrs.get("axis"), rank) if rank else ()


def outside(nodes: Sequence[Node]) -> dict[Tensor, None]:
    """What the nodes read and do not make, in order."""
    inside = set(nodes)
    return {t: None for node in nodes for t in node.inputs if t.node not in inside}


def operands(nodes: Sequence[Node]) -> int:
    """How many arrays a kernel of these nodes reads; single numbers are written into its code."""
    return sum(t.value is None or t.type.size > 1 for t in outside(nodes))


def by_serial(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in order of creation, each once: producers first."""
    return sorted(set(nodes), key=lambda node: node.serial)
