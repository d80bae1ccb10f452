"""A group of graph nodes to a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ... import compute as te
from ...expr import const
from ...tir import PrimFunc
from ..nodes import Node, Tensor
from ..partition import Group
from .kernel import Machine, make_kernel, make_product_kernel
from .products import suits_panels


def group_kernel(group: Group, name: str, machine: Machine) -> tuple[PrimFunc, list[Tensor]]:
    """The kernel of a group, and the tensors that its parameters are: inputs, then outputs.

    Constants of one element are written into the formulas and are not among the parameters.
    """
    made: dict[Tensor, te.Tensor] = {}
    inputs: list[Tensor] = []
    for tensor in group.inputs:
        value = tensor.value
        if value is not None and value.size == 1 and tensor not in group.anchor.inputs:
            made[tensor] = _literal(tensor)
        else:
            made[tensor] = te.placeholder(tensor.shape, tensor.dtype, f"in{len(inputs)}")
            inputs.append(tensor)
    anchor = group.anchor if suits_panels(group.anchor) else None
    for node in group.nodes:
        if node is anchor:
            tensor = node.outputs[0]
            made[tensor] = te.placeholder(tensor.shape, tensor.dtype, "product")
        else:
            made.update(zip(node.outputs, _formulas(node, made), strict=True))
    result = None if anchor is None else made[anchor.outputs[0]]
    outputs = [
        made[t] if made[t] is result else _named(made[t], t, k) for k, t in enumerate(group.outputs)
    ]
    sources = [made[t] for t in inputs]
    if anchor is None or result is None:
        func = make_kernel(sources, outputs, name, machine)
    else:
        operands = [made[t] for t in anchor.inputs]
        func = make_product_kernel(anchor, operands, result, sources, outputs, name, machine)
    return func, [*inputs, *group.outputs]


def _formulas(node: Node, made: dict[Tensor, te.Tensor]) -> Sequence[te.Tensor]:
    if node.op.compute is None:
        raise TypeError(f"{node.op.name} has no formula")
    types = [tensor.type for tensor in node.outputs]
    return node.op.compute([made[t] for t in node.inputs], node.attrs, types)


def _literal(tensor: Tensor) -> te.Tensor:
    value = tensor.value.reshape(-1)[0].item()  # type: ignore[union-attr]
    number = const(value, tensor.dtype)
    result: te.Tensor = te.compute(tensor.shape, lambda *_: number, name="literal")
    return result


def _named(result: te.Tensor, tensor: Tensor, k: int) -> te.Tensor:
    """An output of the kernel; a copy when it is an input as it stands, or made twice."""
    if isinstance(result.op, te.ComputeOp):
        return result
    copy: te.Tensor = te.compute(tensor.shape, lambda *i: result(*i), name=f"out{k}")
    return copy


__all__ = ["group_kernel"]
