"""A group of graph nodes to a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import compute as te
from ...base.sums import COMPENSATED
from ...expr import Var, const
from ...tir import Buffer, PrimFunc, Stmt, make_buffer, seq
from ..nodes import Node, Tensor
from ..partition.group import Group
from .fits import turned_results
from .fits_product import product_fit
from .kernel import Body, Machine, plain_body, product_body
from .products import is_thin, suits_panels
from .reducing import allocate
from .share import side_by_side


def group_kernel(group: Group, name: str, machine: Machine) -> tuple[PrimFunc, list[Tensor]]:
    """The kernel of a group, and the tensors that its parameters are: inputs, then outputs.

    Constants of one element are written into the formulas and are not among the parameters, but
    for the group's `operands`.
    """
    tensors = [t for t in group.inputs if not _is_literal(t, group)]
    memory = {t: _row(t, f"in{k}") for k, t in enumerate(tensors)}
    memory |= {t: _row(t, f"out{k}") for k, t in enumerate(group.outputs)}
    own = [t for part in group.parts for t in part.outputs if t not in memory]
    memory |= {t: _row(t, f"kept{k}") for k, t in enumerate(own)}
    body = seq(*(_phase(phase, memory, machine) for phase in group.phases or ((group,),)))
    for tensor in reversed(own):
        body = allocate(memory[tensor], body)
    operands = [*tensors, *group.outputs]
    buffers = [memory[tensor] for tensor in operands]
    params = [Var(buffer.name, "handle") for buffer in buffers]
    attrs = {"global_symbol": name, "tir.noalias": True, "outputs": len(group.outputs)}
    attrs |= {COMPENSATED: True}
    func = PrimFunc(tuple(params), body, dict(zip(params, buffers, strict=True)), attrs)
    return func, operands


def _phase(parts: Sequence[Group], memory: Mapping[Tensor, Buffer], machine: Machine) -> Stmt:
    if len(parts) == 1:
        return part_body(parts[0], memory, machine).stmt
    return side_by_side(lambda how: [part_body(p, memory, how) for p in parts], machine)


def part_body(part: Group, memory: Mapping[Tensor, Buffer], machine: Machine) -> Body:
    """The loops of a part over the memory of its tensors."""
    made: dict[Tensor, te.Tensor] = {}
    buffers: dict[te.Tensor, Buffer] = {}
    for tensor in part.inputs:
        if tensor not in memory:
            made[tensor] = _literal(tensor)
        else:
            made[tensor] = te.placeholder(tensor.shape, tensor.dtype, memory[tensor].name)
            buffers[made[tensor]] = memory[tensor]
    has_product = part.kind in ("matmul", "conv")
    panels = has_product and suits_panels(part.anchor)
    anchor = part.anchor if panels or (has_product and _is_thin(part)) else None
    for node in part.nodes:
        if node is anchor:
            tensor = node.outputs[0]
            made[tensor] = te.placeholder(tensor.shape, tensor.dtype, "product")
        else:
            made.update(zip(node.outputs, _formulas(node, made), strict=True))
    result = None if anchor is None else made[anchor.outputs[0]]
    outputs = []
    for k, tensor in enumerate(part.outputs):
        output = made[tensor]
        if output is not result:
            output = _named(output, tensor, k)
        outputs.append(output)
        buffers[output] = memory[tensor]
    if anchor is None or result is None:
        turned = turned_results(part.nodes, part.outputs, part.domain)
        pairs = zip(outputs, part.outputs, strict=True)
        found = {output: turned[tensor] for output, tensor in pairs if tensor in turned}
        return plain_body(outputs, buffers, machine, found)
    operands = [made[t] for t in anchor.inputs]
    by_tensor, _ = product_fit(part.nodes, part.outputs, anchor, panels=panels)
    layouts = {
        output: by_tensor[tensor]
        for output, tensor in zip(outputs, part.outputs, strict=True)
        if output is not result
    }
    return product_body(anchor, layouts, operands, result, outputs, buffers, machine)


def _is_thin(part: Group) -> bool:
    """Whether a part is a product with a vector and what is made of its result, one by one."""
    product = part.anchor.outputs[0]
    plain = all(t in part.inputs for t in part.anchor.inputs)
    return (
        plain
        and is_thin(part.anchor)
        and all(t.type.size == product.type.size for t in part.outputs)
    )


def _is_literal(tensor: Tensor, group: Group) -> bool:
    """Whether a tensor is a number that is written into the code."""
    value = tensor.value
    if value is None or value.size != 1 or tensor in group.operands:
        return False
    products = [p.anchor for p in group.parts if p.kind in ("matmul", "conv")]
    return not any(tensor in product.inputs for product in products)


def _row(tensor: Tensor, name: str) -> Buffer:
    return make_buffer((tensor.type.size,), tensor.dtype, name)


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
