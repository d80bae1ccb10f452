"""Whether formulas fit behind a matrix product or convolution."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
    product = anchor.outputs[0]
    layouts: dict[Tensor, Layout] = {product: plain_layout(product.shape)}
    nest = Nest(product.shape, None)  # of formulas of other tensors
    for node in nodes:
        if node is anchor:
            continue
        if any(tensor.node is node for tensor in anchor.inputs):
            return layouts, f"{node.op.name} makes an operand of {anchor.op.name}"
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


def _in_pieces(layout: Layout, anchor: Node) -> bool:
    """Whether the rows of a product, or whole pieces of them, stay together and in order."""
    if is_plain(layout):
        return True
    extent = together(layout)
    shape = anchor.outputs[0].shape
    row = size_of(shape[2:]) if anchor.op.kind == "conv" else shape[-1]
    return extent % row == 0 or (anchor.op.kind == "matmul" and extent % PIECE == 0)
