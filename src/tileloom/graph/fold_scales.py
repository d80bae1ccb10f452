"""Scales of the channels of a convolution folded into its weight.

    (conv(X, W) + b - m) * s + t  =  conv(X, W * s) + ((b - m) * s + t)

where all but X is static. A normalization by fixed statistics then costs one addition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from .nodes import Graph, Node, Tensor
from .op import apply1
from .replace import replace_nodes

#: Narrower weights would be rounded once more.
_KINDS = frozenset({"float32", "float64"})


@dataclass
class _Chain:
    """Steps that follow a convolution: ops and their static operands, of one number a channel."""

    conv: Node
    steps: list[tuple[str, Tensor]] = field(default_factory=list)
    last: Node | None = None


def fold_scales(graph: Graph, static: Set[Tensor]) -> Graph:
    """The graph with static scales after convolutions in their weights.

    Args:
        static: tensors that are computed once for many calls.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> shapes = {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3), "s": (4, 1, 1)}
    >>> x, w, s = (Tensor(tensor_type(shape, "float32"), k) for k, shape in shapes.items())
    >>> y = ops.relu(ops.mul(ops.conv(x, w), s))
    >>> [node.op.name for node in fold_scales(Graph([x, w, s], [y]), {w, s}).nodes]
    ['reshape', 'reshape', 'mul', 'conv', 'relu']
    """
    chains = {chain.last: chain for chain in _chains(graph, static)}

    def fold(node: Node, now: Callable[[Tensor], Tensor]) -> Sequence[Tensor] | None:
        return [_folded(chains[node], now)] if node in chains else None

    return replace_nodes(graph, fold) if chains else graph


def _chains(graph: Graph, static: Set[Tensor]) -> list[_Chain]:
    readers: dict[Tensor, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for tensor in node.inputs:
            readers[tensor].append(node)
    kept = set(graph.outputs)
    found = []
    for node in graph.nodes:
        if node.op.name == "conv" and _is_foldable(node, static):
            chain = _chain(node, static, readers, kept)
            if any(op == "mul" for op, _ in chain.steps):
                found.append(chain)
    return found


def _is_foldable(conv: Node, static: Set[Tensor]) -> bool:
    weight, kind = conv.inputs[1], str(conv.outputs[0].dtype)
    return weight in static and kind in _KINDS and weight.dtype == conv.outputs[0].dtype


def _chain(
    conv: Node, static: Set[Tensor], readers: Mapping[Tensor, list[Node]], kept: Set[Tensor]
) -> _Chain:
    chain, tensor = _Chain(conv), conv.outputs[0]
    while tensor not in kept and len(readers[tensor]) == 1:
        (reader,) = readers[tensor]
        operand = _operand(reader, tensor, static)
        if operand is None:
            break
        chain.steps.append((reader.op.name, operand))
        chain.last, tensor = reader, reader.outputs[0]
    return chain


def _operand(node: Node, tensor: Tensor, static: Set[Tensor]) -> Tensor | None:
    """What a node adds, subtracts or multiplies, if that is one static number a channel."""
    if node.op.name not in ("add", "sub", "mul") or node.outputs[0].type != tensor.type:
        return None
    first, second = node.inputs
    if second is tensor and node.op.name != "sub":
        first, second = second, first
    if first is not tensor or not (second in static or second.value is not None):
        return None
    rank, channels = tensor.ndim, tensor.shape[1]
    wide = (1,) * (rank - second.ndim) + second.shape
    fits = all(n == 1 or (k == 1 and n == channels) for k, n in enumerate(wide))
    return second if fits else None


def _folded(chain: _Chain, now: Callable[[Tensor], Tensor]) -> Tensor:
    """What stands for the end of a chain."""
    conv, scale, shift = chain.conv, None, None
    for op, operand in chain.steps:
        given = now(operand)
        vector = apply1("reshape", [given], shape=(given.type.size,))
        if op == "mul":
            scale = vector if scale is None else apply1("mul", [scale, vector])
            shift = None if shift is None else apply1("mul", [shift, vector])
        elif shift is None:
            shift = vector if op == "add" else apply1("neg", [vector])
        else:
            shift = apply1(op, [shift, vector])
    source, weight = map(now, conv.inputs)
    result = apply1("conv", [source, _times(weight, scale)], **conv.attrs)
    if shift is None:
        return result
    shape = (shift.type.size, *(1,) * (result.ndim - 2))
    return apply1("add", [result, apply1("reshape", [shift], shape=shape)])


def _times(weight: Tensor, scale: Tensor | None) -> Tensor:
    """A weight with its output channels scaled."""
    if scale is None:
        return weight
    shape = (scale.type.size, *(1,) * (weight.ndim - 1))
    return apply1("mul", [weight, apply1("reshape", [scale], shape=shape)])
