"""Broadcasts: dropped where the consumer repeats values by itself, else moved behind the work.

Contract: elementwise ops read operands as small as they are, and compute each value once. What is
left of `broadcast_to` stands before ops that do not broadcast, and at outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nodes import Node, Tensor, TensorType
from ..ops.common import broadcast_shapes
from .coded import coded
from .reshapes import source_of, to_shape
from .rewriter import Rewriter
from .rule import Key, Rule

_FAMILY = "broadcasts"
_REPEATED: tuple[Key, ...] = (
    ("@elementwise", "broadcast_to", None),
    ("@elementwise", None, "broadcast_to"),
    ("where", None, None),
)


def _bare(tensor: Tensor) -> Tensor:
    node = tensor.node
    return node.inputs[0] if node is not None and node.op.name == "broadcast_to" else tensor


@coded("drop-broadcast", _FAMILY, "op(broadcast_to(A), B) = op(A, B)", *_REPEATED,
       note="where B gives the result its shape")  # fmt: skip
def drop_broadcast(node: Node, rewriter: Rewriter) -> Tensor | None:
    shape = node.outputs[0].shape
    inputs = list(node.inputs)
    for k, tensor in enumerate(node.inputs):
        inputs[k] = _bare(tensor)
        if inputs[k] is not tensor and broadcast_shapes(*(t.shape for t in inputs)) != shape:
            inputs[k] = tensor
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return None
    return rewriter.make(node.op.name, inputs, **node.attrs)


@coded("sink-broadcast", _FAMILY, "op(broadcast_to(A), ...) = broadcast_to(op(A, ...))",
       *_REPEATED, note="where all operands are repeated")  # fmt: skip
def sink_broadcast(node: Node, rewriter: Rewriter) -> Tensor | None:
    bare = [_bare(tensor) for tensor in node.inputs]
    shape = node.outputs[0].shape
    if all(a is b for a, b in zip(bare, node.inputs, strict=True)):
        return None
    small = broadcast_shapes(*(tensor.shape for tensor in bare))
    if small == shape:
        return None
    made = rewriter.make(node.op.name, bare, **node.attrs)
    return rewriter.make("broadcast_to", (made,), shape=shape)


@coded("one-value", _FAMILY, "op(A, array of one value) = op(A, value)", "@elementwise",
       note="where A gives the result its shape")  # fmt: skip
def one_value(node: Node, rewriter: Rewriter) -> Tensor | None:
    inputs = list(node.inputs)
    changed = False
    for k, tensor in enumerate(inputs):
        value = tensor.value
        if value is None or value.ndim == 0 or value.size == 0:
            continue
        others = [t.shape for t in inputs[:k] + inputs[k + 1 :]]
        if not others or broadcast_shapes(*others) != node.outputs[0].shape:
            continue
        if value.size == 1 or _is_uniform(value):
            scalar = value.reshape(-1)[:1].reshape(())
            inputs[k] = rewriter.constant(scalar, TensorType((), tensor.dtype))
            changed = True
    return rewriter.make(node.op.name, inputs, **node.attrs) if changed else None


def _is_uniform(value: np.ndarray[Any, Any]) -> bool:
    """Whether all elements have the same bits; most arrays differ early."""
    flat = np.ascontiguousarray(value).reshape(-1)
    if flat[0] != flat[-1] or flat[0] != flat[flat.size // 2]:
        return False
    bits = flat.view(np.dtype(f"u{flat.itemsize}"))
    return bool((bits == bits[0]).all())


@coded("broadcast-to-same", _FAMILY, "broadcast_to(A, shape of A) = A", "broadcast_to")
def broadcast_to_same(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, shape = node.inputs[0], node.outputs[0].shape
    return to_shape(x, shape, rewriter) if x.type.size == node.outputs[0].type.size else None


@coded("broadcast-of-broadcast", _FAMILY, "broadcast_to(broadcast_to(A)) = broadcast_to(A)",
       ("broadcast_to", "broadcast_to"))  # fmt: skip
def broadcast_of_broadcast(node: Node, rewriter: Rewriter) -> Tensor | None:
    return rewriter.make("broadcast_to", (source_of(node),), **node.attrs)


@coded("broadcast-of-reshape", _FAMILY, "broadcast_to(reshape(A)) = broadcast_to(A)",
       ("broadcast_to", "reshape"), note="where unit dimensions are added in front")  # fmt: skip
def broadcast_of_reshape(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, middle = source_of(node), node.inputs[0]
    added = middle.ndim - x.ndim
    if added <= 0 or middle.shape != (1,) * added + x.shape:
        return None
    return rewriter.make("broadcast_to", (x,), **node.attrs)


BROADCASTS: tuple[Rule, ...] = (
    drop_broadcast, sink_broadcast, one_value, broadcast_to_same, broadcast_of_broadcast,
    broadcast_of_reshape,
)  # fmt: skip
