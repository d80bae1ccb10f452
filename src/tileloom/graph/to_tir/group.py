"""A product of packed panels with its prologues and epilogues to a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ... import compute as te
from ...base.errors import InternalError
from ...base.sums import COMPENSATED
from ...expr import Var, const
from ...tir import Buffer, PrimFunc, make_buffer
from ..nodes import Node, Tensor
from ..partition.contraction import result_layouts
from ..partition.group import Group
from .machine import Machine
from .products import Anchored, anchored_kernel


def group_kernel(group: Group, name: str, machine: Machine) -> tuple[PrimFunc, list[Tensor]]:
    """The kernel of a group around a matrix product or convolution that `suits_panels`.

    Constants of one element are written into the formulas and are not among the parameters, but
    for the group's `operands`.

    Returns:
        The kernel, and the tensors that its parameters are: inputs, then outputs.
    """
    tensors = [t for t in group.inputs if not _is_literal(t, group)]
    operands = [*tensors, *group.outputs]
    memory = {t: _row(t, f"in{k}") for k, t in enumerate(tensors)}
    memory |= {t: _row(t, f"out{k}") for k, t in enumerate(group.outputs)}
    buffers: dict[te.Tensor, Buffer] = {}
    made: dict[Tensor, te.Tensor] = {}
    for tensor in group.inputs:
        if tensor not in memory:
            made[tensor] = _literal(tensor)
        else:
            made[tensor] = te.placeholder(tensor.shape, tensor.dtype, memory[tensor].name)
            buffers[made[tensor]] = memory[tensor]
    product = group.anchor.outputs[0]
    for node in group.nodes:
        if node is group.anchor:
            made[product] = te.placeholder(product.shape, product.dtype, "product")
        else:
            made.update(zip(node.outputs, _formulas(node, made), strict=True))
    outputs = []
    for k, tensor in enumerate(group.outputs):
        output = made[tensor] if tensor is product else _named(made[tensor], tensor, k)
        outputs.append(output)
        buffers[output] = memory[tensor]
    by_tensor = result_layouts(group.nodes, group.outputs, group.anchor)
    if isinstance(by_tensor, str):
        raise InternalError(by_tensor)
    layouts = {
        output: by_tensor[tensor]
        for output, tensor in zip(outputs, group.outputs, strict=True)
        if tensor is not product
    }
    factors = [made[t] for t in group.anchor.inputs]
    kernel = Anchored(group.anchor, factors, made[product], buffers, outputs, layouts)
    rows = [memory[tensor] for tensor in operands]
    params = [Var(buffer.name, "handle") for buffer in rows]
    attrs: dict[str, object] = {
        "global_symbol": name,
        "tir.noalias": True,
        "outputs": len(group.outputs),
    }
    attrs[COMPENSATED] = True
    body = anchored_kernel(kernel, machine)
    return PrimFunc(tuple(params), body, dict(zip(params, rows, strict=True)), attrs), operands


def _is_literal(tensor: Tensor, group: Group) -> bool:
    """Whether a tensor is a number that is written into the code."""
    value = tensor.value
    if value is None or value.size != 1 or tensor in group.operands:
        return False
    return tensor not in group.anchor.inputs


def _row(tensor: Tensor, name: str) -> Buffer:
    return make_buffer((tensor.type.size,), tensor.dtype, name)


def _formulas(node: Node, made: dict[Tensor, te.Tensor]) -> Sequence[te.Tensor]:
    if node.op.compute is None:
        raise InternalError(f"{node.op.name} has no compute rule")
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
