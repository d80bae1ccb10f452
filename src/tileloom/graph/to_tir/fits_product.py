"""Whether formulas fit behind a matrix product or convolution."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...target.cost import is_costly, work_of
from ..nodes import Node, Tensor
from .fits import Nest, maker_name
from .layouts import PIECE, Layout, is_plain, layout_after, plain_layout, size_of, together


def product_fit(
    nodes: Sequence[Node], kept: Collection[Tensor], anchor: Node, *, panels: bool
) -> tuple[dict[Tensor, Layout], str | None]:
    """Whether formulas fit behind a product; and how what they make lies in its result.

    They work on the product's elements one by one, and store them in its order, or in another
    one that keeps pieces of the rows together, if the product is made by panels.
    """
    before, reason = _prologue(nodes, kept, anchor, panels)
    if reason:
        return {}, reason
    product = anchor.outputs[0]
    layouts: dict[Tensor, Layout] = {product: plain_layout(product.shape)}
    nest = Nest(product.shape, None)  # of formulas of other tensors
    for node in nodes:
        if node is anchor or node in before:
            continue
        bound = [t for t in node.inputs if t in layouts]
        if not bound:
            if any(t in kept for t in node.outputs):
                return layouts, f"{node.op.name} does not depend on {anchor.op.name}"
            reason = nest.fit([node], ())
            if reason:
                return layouts, reason
            continue
        out = node.outputs[0]
        layout = layout_after(node, [layouts[t] for t in bound])
        if layout is None:
            return layouts, f"{node.op.name} wants the elements of {anchor.op.name} elsewhere"
        for tensor in node.inputs:
            if tensor in nest.work and nest.repeats(tensor, out, node.op.name):
                return layouts, f"{node.op.name} would compute {maker_name(tensor)} again"
        layouts[out] = layout
        if out in kept and not (_in_pieces(layout, anchor) if panels else is_plain(layout)):
            return layouts, f"{node.op.name} takes the rows of {anchor.op.name} apart"
    return layouts, None


def _prologue(
    nodes: Sequence[Node], kept: Collection[Tensor], anchor: Node, panels: bool
) -> tuple[set[Node], str | None]:
    """The nodes that make operands, and why they cannot do so inside the product.

    They can where each element of the operand is read once, when its panel is packed.
    """
    found: set[Node] = set()
    for k, operand in enumerate(anchor.inputs):
        if operand.node not in nodes:
            continue
        made_of = _behind(operand, nodes)
        name = operand.node.op.name if operand.node is not None else ""
        if not panels or not _is_packed_once(anchor, k):
            return found, f"{name} makes an operand of {anchor.op.name}, which is read many times"
        work = sum(work_of(n.op.name) for n in made_of)
        if any(n.op.kind != "elementwise" for n in made_of) or is_costly(work):
            return found, f"{name} makes an operand of {anchor.op.name}, and not cheaply"
        found |= made_of
    made = {tensor for node in found for tensor in node.outputs}
    others = (n for n in nodes if n not in found and n is not anchor)
    if not made.isdisjoint(kept) or any(t in made for n in others for t in n.inputs):
        return found, f"an operand of {anchor.op.name} is needed in memory"
    return found, None


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
    if anchor.op.name == "conv":
        return number == 0 and reads_points(anchor)
    return False


def reads_points(conv: Node) -> bool:
    """Whether the window of a convolution is a point, which steps by ones over all of them."""
    window, attrs = conv.inputs[1].shape[2:], conv.attrs
    return all(v == 1 for v in (*window, *attrs["strides"])) and not any(attrs["pads"])


def _in_pieces(layout: Layout, anchor: Node) -> bool:
    """Whether the rows of a product, or whole pieces of them, stay together and in order."""
    if is_plain(layout):
        return True
    extent = together(layout)
    shape = anchor.outputs[0].shape
    row = size_of(shape[2:]) if anchor.op.kind == "conv" else shape[-1]
    return extent % row == 0 or (anchor.op.kind == "matmul" and extent % PIECE == 0)
