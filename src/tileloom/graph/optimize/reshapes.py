"""Reshapes and transposes: pairs merged, those that do nothing or little dropped.

Contract: values keep their order in memory or not exactly as before; nothing is computed. What is
left is at most one reshape or transpose after another, and no transpose that moves only unit
dimensions.
"""

from __future__ import annotations

from ..nodes import Node, Tensor
from .coded import coded
from .rewriter import Rewriter
from .rule import Rule

_FAMILY = "reshapes"


def source_of(node: Node) -> Tensor:
    """The first input of the node that makes the first input."""
    below = node.inputs[0].node
    return node.inputs[0] if below is None else below.inputs[0]


def to_shape(x: Tensor, shape: tuple[int, ...], rewriter: Rewriter) -> Tensor:
    """A reshape, where one is needed."""
    return x if x.shape == shape else rewriter.make("reshape", (x,), shape=shape)


def to_order(x: Tensor, perm: tuple[int, ...], rewriter: Rewriter) -> Tensor:
    """A transpose, where one is needed."""
    if perm == tuple(range(x.ndim)):
        return x
    return rewriter.make("transpose", (x,), perm=perm)


@coded("reshape-to-same", _FAMILY, "reshape(A, shape of A) = A", "reshape")
def reshape_to_same(node: Node, rewriter: Rewriter) -> Tensor | None:
    x = node.inputs[0]
    return x if x.shape == node.outputs[0].shape else None


@coded("reshape-of-reshape", _FAMILY, "reshape(reshape(A)) = reshape(A)", ("reshape", "reshape"),
       source=66)  # fmt: skip
def reshape_of_reshape(node: Node, rewriter: Rewriter) -> Tensor | None:
    return to_shape(source_of(node), node.outputs[0].shape, rewriter)


@coded("transpose-to-same", _FAMILY, "transpose(A, axes in order) = A", "transpose")
def transpose_to_same(node: Node, rewriter: Rewriter) -> Tensor | None:
    x = node.inputs[0]
    return x if tuple(node.attrs["perm"]) == tuple(range(x.ndim)) else None


@coded("transpose-of-transpose", _FAMILY, "transpose(transpose(A, p), q) = transpose(A, p[q])",
       ("transpose", "transpose"), source=64,
       note="63 of the source, a pair that cancels, is the case p[q] = axes in order")  # fmt: skip
def transpose_of_transpose(node: Node, rewriter: Rewriter) -> Tensor | None:
    below = node.inputs[0].node
    if below is None:
        return None
    inner = below.attrs["perm"]
    return to_order(below.inputs[0], tuple(inner[k] for k in node.attrs["perm"]), rewriter)


@coded("transpose-of-unit-axes", _FAMILY, "transpose(A, p) = reshape(A)", "transpose", source=65,
       note="where the axes longer than 1 stay in order")  # fmt: skip
def transpose_of_unit_axes(node: Node, rewriter: Rewriter) -> Tensor | None:
    x = node.inputs[0]
    long = [axis for axis in node.attrs["perm"] if x.shape[axis] != 1]
    if long != sorted(long):
        return None
    return to_shape(x, node.outputs[0].shape, rewriter)


@coded("transpose-of-reshape", _FAMILY, "transpose(reshape(A)) = reshape(transpose(A))",
       ("transpose", "reshape"),
       note="where the reshape only adds or drops unit dimensions of a transpose")  # fmt: skip
def transpose_of_reshape(node: Node, rewriter: Rewriter) -> Tensor | None:
    middle, x = node.inputs[0], source_of(node)
    if x.node is None or x.node.op.name != "transpose":
        return None
    mine = [k for k, extent in enumerate(middle.shape) if extent != 1]
    below = [k for k, extent in enumerate(x.shape) if extent != 1]
    if [middle.shape[k] for k in mine] != [x.shape[k] for k in below]:
        return None
    place = dict(zip(mine, below, strict=True))
    long = [place[axis] for axis in node.attrs["perm"] if axis in place]
    unit = [k for k in range(x.ndim) if k not in below]
    return to_shape(to_order(x, (*unit, *long), rewriter), node.outputs[0].shape, rewriter)


RESHAPES: tuple[Rule, ...] = (
    reshape_to_same, reshape_of_reshape, transpose_to_same, transpose_of_transpose,
    transpose_of_unit_axes, transpose_of_reshape,
)  # fmt: skip
