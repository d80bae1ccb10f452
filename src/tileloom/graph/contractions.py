"""What there is to know of matrix products and convolutions: contractions of two operands."""

from __future__ import annotations

from typing import Any

from .. import compute as te
from ..base import DType, dtype
from .nodes import Node
from .ops.common import product
from .symbols import hint


def accumulator_of(node: Node) -> Any:
    """The type that a product sums in: 32 bits at least, as sums of integers wrap around."""
    kind = node.outputs[0].dtype
    return dtype("int32") if kind.is_int and kind.bits < 32 else te.accumulator(kind)


def matmul_extents(node: Node) -> tuple[int, int, int]:
    """Rows, depth and columns."""
    a = node.inputs[0].shape
    rows, depth = (a[-1], a[-2]) if node.attrs["transpose_a"] else (a[-2], a[-1])
    return rows, depth, node.outputs[0].shape[-1]


def product_extents(node: Node) -> tuple[int, int, int] | None:
    """Rows, depth and columns of the matrices that a contraction multiplies; None for others.

    A convolution in groups of channels is none, and no pooling is.
    """
    if node.op.kind == "matmul":
        return matmul_extents(node)
    if node.op.kind != "conv" or node.attrs["groups"] != 1:
        return None
    (count, _, *pixels), (channels, *window) = node.outputs[0].shape, node.inputs[1].shape
    return channels, product(window), count * product(pixels)


def reads_points(conv: Node) -> bool:
    """Whether the window of a convolution is a point, which steps by ones over all of them."""
    window, attrs = conv.inputs[1].shape[2:], conv.attrs
    return all(v == 1 for v in (*window, *attrs["strides"])) and not any(attrs["pads"])


def panel_width(columns: int, vector_bits: int, total: DType) -> int:
    """The columns of a panel: two vectors of accumulators, or one when that is enough."""
    lanes = max(1, vector_bits // total.bits)
    return lanes if columns <= lanes else 2 * lanes


def suits_panels(node: Node) -> bool:
    """Whether packed panels are the right way for a product on a CPU; else plain loops are."""
    if node.op.kind not in ("matmul", "conv"):
        return False
    if node.outputs[0].type.size == 0:
        return False
    if node.op.kind == "matmul":
        rows, depth, columns = map(hint, matmul_extents(node))
        # Two rows times columns that lie in one piece are as fast without packing these.
        in_pieces = node.attrs.get("transpose_b", False) and _multiplies_as_is(node)
        return rows >= (3 if in_pieces else 2) and columns >= 8 and depth >= 2
    (count, _, *pixels), weight = node.outputs[0].shape, node.inputs[1].shape
    if hint(count * product(pixels)) < 2 or product(weight[1:]) < 2:
        return False  # a matrix times a vector, or an outer product
    return weight[0] // node.attrs["groups"] >= 4 and len(weight) in (3, 4, 5)


def _multiplies_as_is(node: Node) -> bool:
    """Whether the operands are of the type that is summed in."""
    return all(tensor.dtype is accumulator_of(node) for tensor in node.inputs)
