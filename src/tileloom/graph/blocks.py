"""A group of graph nodes as blocks, one for each op: what schedules start from."""

from __future__ import annotations

from collections.abc import Sequence

from .. import compute as te
from ..base import DType
from ..base.errors import InternalError
from ..base.sums import COMPENSATED
from ..expr import Expr, ExprLike, Var, cast, const
from ..tir import PrimFunc
from .contractions import accumulator_of
from .nodes import Node, Tensor, TensorType
from .partition.group import Group, by_serial
from .words import Words, word_product


def block_function(
    group: Group,
    name: str = "main",
    sizes: Sequence[Var] = (),
    *,
    widens: bool = False,
    words: Words | None = None,
) -> tuple[PrimFunc, list[Tensor]]:
    """The function of a group, op by op, with the loops and blocks of their compute rules.

    With `widens` the operands of products are converted to the type of the sums before they are
    multiplied, in blocks of their own; or, given `words`, they are put into words.

    Constants of one element are written into the code, but for the group's `operands`;
    everything else that the group reads is a parameter, inputs before outputs, and then `sizes`.

    Returns:
        The function, and the tensors that its parameters are.
    """
    made: dict[Tensor, te.Tensor] = {}
    inputs: list[Tensor] = []
    for tensor in group.inputs:
        if tensor.value is not None and tensor.value.size == 1 and tensor not in group.operands:
            made[tensor] = _number(tensor)
        else:
            made[tensor] = te.placeholder(
                tensor.shape, tensor.dtype, tensor.name or f"in{len(inputs)}"
            )
            inputs.append(tensor)
    for node in by_serial(node for part in group.parts for node in part.nodes):
        operands = [made[tensor] for tensor in node.inputs]
        if widens and node.op.kind in ("matmul", "conv"):
            made[node.outputs[0]] = _product(node, operands, words)
            continue
        made.update(zip(node.outputs, _computed(node, operands), strict=True))
    outputs = [_own(made[tensor], tensor, k) for k, tensor in enumerate(group.outputs)]
    func = te.create_prim_func([*(made[tensor] for tensor in inputs), *outputs])
    attrs: dict[str, object] = {"global_symbol": name}
    if all(part.kind not in ("matmul", "conv") for part in group.parts):
        attrs[COMPENSATED] = True
    func = func.replace(params=(*func.params, *sizes)).with_attr(attrs)
    return func, [*inputs, *group.outputs]


def _computed(node: Node, inputs: Sequence[te.Tensor]) -> Sequence[te.Tensor]:
    if node.op.compute is None:
        raise InternalError(f"{node.op.name} has no compute rule")
    return node.op.compute(inputs, node.attrs, [tensor.type for tensor in node.outputs])


def _product(node: Node, operands: Sequence[te.Tensor], words: Words | None) -> te.Tensor:
    """A product of wide operands or of words; of whole panels, where the last is not full."""
    columns, result = node.attrs.get("columns"), node.outputs[0].type
    if columns is not None and columns % node.inputs[1].shape[2]:
        count, _, width = node.inputs[1].shape
        attrs = {**node.attrs, "columns": count * width}
        whole = TensorType((*result.shape[:-1], count * width), result.dtype)
        product = _product(Node(node.op, node.inputs, attrs, [whole]), operands, words)
        cut: te.Tensor = te.compute(result.shape, lambda *at: product(*at), name="cut")
        return cut
    if words is not None:
        return word_product(node, operands, words, accumulator_of(node))
    wide = [_widened(tensor, accumulator_of(node)) for tensor in operands]
    if wide[0] is wide[1]:  # tiles of rows and of columns are copied in different ways
        wide[1] = te.compute(wide[0].shape, lambda *at: wide[0](*at), name=f"{wide[0].name}_again")
    (found,) = _computed(node, wide)
    return found


def _widened(tensor: te.Tensor, kind: DType) -> te.Tensor:
    if tensor.dtype is kind:
        return tensor
    name = f"{tensor.name}_wide"
    wide: te.Tensor = te.compute(tensor.shape, lambda *at: cast(kind, tensor(*at)), name=name)
    return wide


class _Number(te.Tensor):
    """A constant whose elements are all one number, which expressions take instead of a load."""

    __slots__ = ("number",)
    number: Expr

    def __call__(self, *indices: ExprLike) -> Expr:
        return self.number


def _number(tensor: Tensor) -> te.Tensor:
    value = tensor.value.reshape(-1)[0].item()  # type: ignore[union-attr]
    like = te.placeholder(tensor.shape, tensor.dtype, "number")
    result = _Number(like.op, 0, like.shape, like.dtype, like.name)
    result.number = const(value, tensor.dtype)
    return result


def _own(result: te.Tensor, tensor: Tensor, k: int) -> te.Tensor:
    """An output; a copy of an input that is handed on as it stands."""
    if isinstance(result.op, te.ComputeOp):
        return result
    copy: te.Tensor = te.compute(tensor.shape, lambda *i: result(*i), name=f"out{k}")
    return copy
