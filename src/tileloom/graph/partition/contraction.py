"""What the kernel of a matrix product or convolution can hold besides: prologues and epilogues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ...target.cost import is_costly, work_of
from ..contractions import reads_points, suits_panels
from ..nodes import Node, Tensor
from .domain import IterationDomain, maker_name
from .layouts import PIECE, Layout, is_plain, layout_after, plain_layout, size_of, together


@dataclass(frozen=True)
class ContractionTactic:
    """A way to make the kernel of a product, and what such a kernel can hold besides.

    Attributes:
        prologue: whether operands may be computed where they are read, if that is once.
        piece: elements of a row of the result that must stay together where it is stored in another
            order; 0 if it is stored as it lies.
        results: how many results it stores; 0 for any number.
    """

    prologue: bool
    piece: int
    results: int = 0

    def obstacle(
        self, nodes: Sequence[Node], materialized: Collection[Tensor], anchor: Node
    ) -> str | None:
        """Why nodes are not computed in the kernel of a product; None if they are."""
        reason = _prologue_obstacle(nodes, materialized, anchor, self.prologue)
        if reason:
            return reason
        stored = sum(t in materialized for node in nodes for t in node.outputs)
        if self.results and stored > self.results:
            return f"the kernel of {anchor.op.name} stores {self.results} result"
        layouts = result_layouts(nodes, materialized, anchor)
        if isinstance(layouts, str):
            return layouts
        for tensor, layout in layouts.items():
            if tensor in materialized and not self._stores(layout, anchor):
                return f"{maker_name(tensor)} takes the rows of {anchor.op.name} apart"
        return None

    def _stores(self, layout: Layout, anchor: Node) -> bool:
        """Whether rows of the result, or whole pieces of them, stay together and in order."""
        if is_plain(layout) or not self.piece:
            return is_plain(layout)
        extent = together(layout)
        shape = anchor.outputs[0].shape
        row = size_of(shape[2:]) if anchor.op.kind == "conv" else shape[-1]
        return extent % row == 0 or (anchor.op.kind == "matmul" and extent % self.piece == 0)


#: The tactic that a device has for a product.
ChooseContraction = Callable[[Node], ContractionTactic]

#: Tiles of packed panels; loops over memory as it lies.
PANELS, LOOPS = ContractionTactic(True, PIECE), ContractionTactic(False, 0)


def contraction_on_cpu(node: Node) -> ContractionTactic:
    """The tactic of CPUs for a product or a pooling."""
    return PANELS if suits_panels(node) else LOOPS


def result_layouts(
    nodes: Sequence[Node], materialized: Collection[Tensor], anchor: Node
) -> dict[Tensor, Layout] | str:
    """How what an epilogue makes lies in the product's result; or why it is no epilogue.

    It works on the product's elements one by one.

    Args:
        nodes: of the kernel; those that make operands are left out.
    """
    product, before = anchor.outputs[0], _makers(nodes, anchor)
    layouts: dict[Tensor, Layout] = {product: plain_layout(product.shape)}
    others = IterationDomain(product.shape, None)  # elementwise ops on other tensors
    for node in nodes:
        if node is anchor or node in before:
            continue
        bound = [t for t in node.inputs if t in layouts]
        if not bound:
            if any(t in materialized for t in node.outputs):
                return f"{node.op.name} does not depend on {anchor.op.name}"
            reason = others.obstacle([node], ())
            if reason:
                return reason
            continue
        out = node.outputs[0]
        layout = layout_after(node, [layouts[t] for t in bound])
        if layout is None:
            return f"{node.op.name} wants the elements of {anchor.op.name} elsewhere"
        for tensor in node.inputs:
            if tensor in others.work and others.repeats(tensor, out, node.op.name):
                return f"{node.op.name} would compute {maker_name(tensor)} again"
        layouts[out] = layout
    return layouts


def _prologue_obstacle(
    nodes: Sequence[Node], materialized: Collection[Tensor], anchor: Node, allowed: bool
) -> str | None:
    """Why the nodes that make operands cannot do so inside the product; None if they can.

    They can where each element of the operand is read once, when its panel is packed.
    """
    for k, operand in enumerate(anchor.inputs):
        if operand.node not in nodes:
            continue
        made_of = _behind(operand, nodes)
        what = f"{maker_name(operand)} makes an operand of {anchor.op.name}"
        if not allowed or not _is_packed_once(anchor, k):
            return f"{what}, which is read many times"
        work = sum(work_of(n.op.name) for n in made_of)
        if any(n.op.kind != "elementwise" for n in made_of) or is_costly(work):
            return f"{what}, and not cheaply"
    before = _makers(nodes, anchor)
    made = {tensor for node in before for tensor in node.outputs}
    others = (n for n in nodes if n not in before and n is not anchor)
    if not made.isdisjoint(materialized) or any(t in made for n in others for t in n.inputs):
        return f"an operand of {anchor.op.name} is needed in memory"
    return None


def _makers(nodes: Collection[Node], anchor: Node) -> set[Node]:
    """The nodes of a kernel that make the operands of its product."""
    return {node for operand in anchor.inputs for node in _behind(operand, nodes)}


def _behind(tensor: Tensor, nodes: Collection[Node]) -> set[Node]:
    found: set[Node] = set()
    stack = [tensor]
    while stack:
        node = stack.pop().node
        if node is not None and node in nodes and node not in found:
            found.add(node)
            stack += node.inputs
    return found


def _is_packed_once(anchor: Node, number: int) -> bool:
    """Whether a product reads each element of an operand once, when it packs it."""
    if anchor.op.name == "matmul":
        right, result = anchor.inputs[1].shape, anchor.outputs[0].shape
        return number == 1 and size_of(right[:-2]) == size_of(result[:-2])
    if anchor.op.kind == "conv":
        return number == 0 and reads_points(anchor)
    return False
