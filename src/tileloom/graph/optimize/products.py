"""Matrix products that read transposed operands as they are stored, and results nobody reads.

Contract: no transpose that moves the last dimension up by one stands before a matrix product.
"""

from __future__ import annotations

from ..nodes import Node, Tensor
from .coded import coded
from .reshapes import to_order, to_shape
from .rewriter import Rewriter
from .rule import Rule


def _swaps_last_two(node: Node | None) -> bool:
    if node is None or node.op.name != "transpose":
        return False
    rank = len(node.attrs["perm"])
    return rank >= 2 and tuple(node.attrs["perm"]) == (*range(rank - 2), rank - 1, rank - 2)


@coded("product-of-transposed", "products", "matmul(transpose(A), B) = matmul(A, B, transpose_a)",
       ("matmul", "transpose", None), ("matmul", None, "transpose"),
       ("matmul", "reshape", None), ("matmul", None, "reshape"),
       note="where A's last axis is the last but one of the transpose; other axes may be moved "
       "still, and regrouped by a reshape between the two; for B likewise")  # fmt: skip
def product_of_transposed(node: Node, rewriter: Rewriter) -> Tensor | None:
    inputs, attrs = list(node.inputs), dict(node.attrs)
    for k, name in enumerate(("transpose_a", "transpose_b")):
        straight = _with_last_two_exchanged(inputs[k], rewriter)
        if straight is not None:
            inputs[k] = straight
            attrs[name] = not attrs[name]
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return None
    return rewriter.make("matmul", inputs, **attrs)


def _with_last_two_exchanged(operand: Tensor, rewriter: Rewriter) -> Tensor | None:
    """The operand with its last two dimensions exchanged, if that makes its transpose smaller."""
    below = operand.node
    if below is not None and below.op.name == "reshape":
        source = below.inputs[0]
        if source.ndim < 2 or source.shape[-2:] != operand.shape[-2:]:
            return None
        below = source.node
    if below is None or below.op.name != "transpose":
        return None
    *batch, row, column = below.attrs["perm"]
    if row != below.inputs[0].ndim - 1:
        return None
    straight = to_order(below.inputs[0], (*batch, column, row), rewriter)
    return to_shape(straight, (*operand.shape[:-2], *straight.shape[-2:]), rewriter)


@coded("transposed-product", "products", "transpose(matmul(A, B)) = matmul(B, A) of transposed",
       ("transpose", "matmul"),
       note="where the last two dimensions are exchanged, and nobody else reads it")  # fmt: skip
def transposed_product(node: Node, rewriter: Rewriter) -> Tensor | None:
    product = node.inputs[0].node
    if product is None or not _swaps_last_two(node) or not rewriter.may_replace(node.inputs[0]):
        return None
    a, b = product.inputs
    attrs = {
        **product.attrs,
        "transpose_a": not product.attrs["transpose_b"],
        "transpose_b": not product.attrs["transpose_a"],
    }
    return rewriter.make("matmul", (b, a), **attrs)


@coded("product-of-widened-bytes", "products",
       "matmul(cast(A), cast(B)) = matmul(A, B) summed in the wider type",
       ("matmul", "cast", "cast"),
       note="for bytes cast to int32: machines multiply bytes as such")  # fmt: skip
def product_of_widened_bytes(node: Node, rewriter: Rewriter) -> Tensor | None:
    casts = [tensor.node for tensor in node.inputs]
    sources = [below.inputs[0] for below in casts if below is not None]
    if str(node.outputs[0].dtype) != "int32" or not all(map(_is_of_bytes, sources)):
        return None
    attrs = {**node.attrs, "out_dtype": node.outputs[0].dtype}
    return rewriter.make("matmul", sources, **attrs)


def _is_of_bytes(tensor: Tensor) -> bool:
    return tensor.dtype.is_int and tensor.dtype.bits == 8


@coded("unread-indices", "products", "max_pool_with_indices(A), indices unread = max_pool(A)",
       "max_pool_with_indices")  # fmt: skip
def unread_indices(node: Node, rewriter: Rewriter) -> Tensor | None:
    if rewriter.uses[node.outputs[1]]:
        return None
    return rewriter.make("max_pool", node.inputs, **node.attrs)


PRODUCTS: tuple[Rule, ...] = (
    product_of_transposed,
    transposed_product,
    product_of_widened_bytes,
    unread_indices,
)
